"""`Terminated`: ends that an environment does not have itself."""

import numpy as np
import pytest
from small_models import Sums, Walk

import envoi
from envoi import EpisodeError, Terminated
from envoi.models import Catch, Nim, Pendulum, RockPaperScissors


def fast(state, action, next_state):
    return abs(getattr(next_state, "speed", next_state)) > 1.5


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


@pytest.mark.parametrize(("model", "action"), [(Sums, np.ones(5)), (Pendulum, np.full((5, 1), 2.0, np.float32))])
def test_lanes_end_each_by_itself_also_where_others_pause(model, action):
    env = Terminated(envoi.batch(model(), 5), fast)
    env.reset(seed=1)
    over, seen = np.zeros(5, bool), 0
    for turn in range(60):
        restart = over & (turn % 3 == 0)
        hold = ~restart & (over | (np.arange(5) % 2 == turn % 2))
        step = env.step(action, restart, hold)
        ended = ~(restart | hold) & (np.abs(np.asarray(env.observation).reshape(5, -1)[:, -1]) > 1.5)
        assert step.terminated.tolist() == ended.tolist()
        assert step.discount.tolist() == (~ended).astype(float).tolist()
        over, seen = (over & ~restart) | ended, seen + ended.sum()
        if over.any():
            with pytest.raises(EpisodeError, match=rf"in lanes \[{int(np.flatnonzero(over)[0])}"):
                env.step(action)
    assert seen > 5


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
