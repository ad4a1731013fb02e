"""`Terminated`: ends that an environment does not have itself."""

import numpy as np
import pytest
from small_models import Walk

import envoi
from envoi import EpisodeError, Terminated
from envoi.models import Catch, Nim, Pendulum, RockPaperScissors


def fast(state, action, next_state):
    return np.abs(next_state.motion[..., 1]) > 1.5


def late(state, action, next_state):
    return next_state.row >= 4


def test_an_episode_ends_where_the_termination_says_so():
    env = Terminated(Catch(), late)
    for seed in range(2):
        env.reset(seed=seed)
        steps = [env.step(env.sample_action()) for _ in range(4)]
        assert [step.terminated for step in steps] == [False, False, False, True]
        assert [step.discount for step in steps] == [1, 1, 1, 0]
        with pytest.raises(EpisodeError, match="has ended"):
            env.step(env.sample_action())


@pytest.mark.parametrize(
    "make", [lambda: envoi.batch(Pendulum(), 5), lambda: envoi.Lanes([Pendulum() for _ in range(5)])]
)
def test_lanes_end_each_by_itself(make):
    env = Terminated(make(), fast)
    env.reset(seed=1)
    over, seen = np.zeros(5, bool), 0
    for _ in range(30):
        step = env.step(np.full((5, 1), 2.0, np.float32), over)
        states = env.state if isinstance(env.state, list | tuple) and not hasattr(env.state, "_fields") else None
        speeds = [s.motion[1] for s in states] if states else env.state.motion[:, 1]
        expected = (np.abs(speeds) > 1.5) & ~over
        assert step.terminated.tolist() == expected.tolist()
        assert step.discount.tolist() == (~expected).astype(float).tolist()
        if expected.any():
            with pytest.raises(EpisodeError, match=rf"in lanes \[{int(np.flatnonzero(expected)[0])}"):
                env.step(np.zeros((5, 1), np.float32))
        over, seen = step.terminated, seen + expected.sum()
    assert seen > 5


@pytest.mark.parametrize("lanes", [envoi.batch, lambda env, n: envoi.Lanes([env] + [Pendulum() for _ in range(n - 1)])])
def test_lanes_end_too_where_only_some_of_them_act(lanes):
    def very_fast(state, action, next_state):
        return np.abs(next_state.motion[..., 1]) > 2.5

    env = Terminated(lanes(Pendulum(), 4), very_fast)
    env.reset(seed=3)
    over = np.zeros(4, bool)
    for turn in range(40):
        acting = (np.arange(4) % 2 == turn % 2) & ~over
        step = env.step(np.full((4, 1), 2.0, np.float32), hold=~acting)
        speeds = np.abs(np.asarray(env.observation)[:, 2])
        assert step.terminated.tolist() == (acting & (speeds > 2.5)).tolist()
        assert step.discount.tolist() == (~step.terminated).astype(float).tolist()
        over |= step.terminated
        if over.any():
            with pytest.raises(EpisodeError, match="has ended"):
                env.step(np.zeros((4, 1), np.float32), hold=~over)
    assert over.any()


@pytest.mark.parametrize("make", [Nim, RockPaperScissors])
def test_several_agents_end_together(make):
    env = Terminated(make(), lambda state, actions, next_state: True)
    for _ in range(2):
        observations, _ = env.reset(seed=0)
        step = env.step(env.sample_actions())
        assert step.terminated == dict.fromkeys(env.possible_agents, True)
        assert set(step.observations) == set(env.possible_agents)
        assert set(step.discounts.values()) == {0.0}
        assert env.agents == ()
        with pytest.raises(EpisodeError):
            env.step({})
        assert observations


def test_terminations_compose_and_use_the_seeded_stream_without_touching_the_dynamics():
    def sometimes(state, action, next_state, *, rng):
        return rng.random() < 0.2

    def run(env, seed):
        env.reset(seed=seed)
        found = []
        while not found or not found[-1][1]:
            step = env.step(env.sample_action())
            found.append((step.observation["position"].tolist(), step.terminated or step.truncated))
        return found

    env = Terminated(Walk(), envoi.FunctionTermination(sometimes))
    runs = [run(env, seed) for seed in (1, 1, 2, 3, 4, 5)]
    assert runs[0] == runs[1]
    assert len({len(one) for one in runs}) > 1
    plain = run(Walk(), 1)
    assert [seen for seen, _ in plain][: len(runs[0])] == [seen for seen, _ in runs[0]]


def test_what_is_no_termination_is_refused():
    with pytest.raises(envoi.SpecError, match="expected a Termination or a function"):
        Terminated(Walk(), "late")
