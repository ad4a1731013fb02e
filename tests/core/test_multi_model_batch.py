"""Models of several agents with a lane axis: their functions, their batches, and their lanes as models."""

import copy

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import envoi
from envoi import EpisodeError, MultiBatchModel, MultiModelBatch, SpecError
from envoi.lane_values import take
from envoi.models import Nim, Pursuit, RockPaperScissors
from envoi.protocol.multi_env import COMMON, MASK


class Constant:
    """Random numbers that are all the same."""

    def random(self, size=None):
        return np.full(() if size is None else size, 0.3)[()]


class Race(MultiBatchModel):
    """Two runners with steps of their own; the context has the goal, and each lane a mask and infos."""

    possible_agents = ("a", "b")
    observation_spec = {"a": {"at": envoi.Array((2,), "int64")}, "b": {"at": envoi.Array((2,), "int64")}}
    action_spec = dict.fromkeys(possible_agents, envoi.Discrete(3))
    context_space = envoi.ContextSpace([envoi.UniformInteger("goal", 1, 99, default=5)])

    def initial(self, rng, context, size=None):
        lanes = () if size is None else (size,)
        return {"at": np.zeros((*lanes, 2), np.int64), "goal": np.int64(context["goal"])}

    def transition(self, state, actions, rng):
        return {**state, "at": state["at"] + np.array([actions[agent] for agent in self.possible_agents]).T}

    def observe(self, state, agent, rng):
        return {"at": state["at"][..., :: 1 if agent == "a" else -1]}

    def reward(self, state, actions, next_state):
        return {"a": 1.0 * (next_state["at"][..., 0] > next_state["at"][..., 1])}

    def terminal(self, state):
        return (state["at"] >= np.asarray(state["goal"])[..., None]).any(-1)

    def mask(self, state, agent):
        return np.ones((*np.shape(state["goal"]), 3), np.int8)

    def info(self, state):
        return {"b": {"goal": state["goal"]}, COMMON: {"sum": state["at"].sum(-1)}}


@pytest.mark.parametrize("model", [Pursuit, RockPaperScissors, Race])
@given(seed=st.integers(0, 2**32), n=st.integers(1, 5))
def test_functions_of_many_lanes_are_those_of_each_lane(model, seed, n):
    made, rng = model(), np.random.default_rng(seed)
    context = {
        name: np.array([feature.sample(rng) for _ in range(n)]) for name, feature in made.context_space.features.items()
    }
    state = made.initial(rng, context, n)
    for _ in range(5):
        actions = {agent: rng.integers(spec.n, size=n) for agent, spec in made.action_spec.items()}
        after = made.transition(state, actions, Constant())
        rewards = made.reward(state, actions, after)
        for lane in range(n):
            alone = take(state, lane)
            own = made.transition(alone, take(actions, lane), Constant())
            np.testing.assert_equal(own, take(after, lane))
            for agent, reward in made.reward(alone, take(actions, lane), own).items():
                assert reward == rewards[agent][lane]
            for agent in made.possible_agents:
                seen = made.observe(own, agent, rng)
                envoi.validate(made.observation_spec[agent], seen)
                np.testing.assert_equal(seen, take(made.observe(after, agent, rng), lane))
            for flags in (made.terminal, made.truncated):
                assert bool(flags(own)) == bool(np.broadcast_to(flags(after), n)[lane])
        state = after


def actions_of(batch, rng, n):
    return {agent: rng.integers(spec.n, size=n) for agent, spec in batch.models[0].action_spec.items()}


@given(seed=st.integers(0, 999), goals=st.lists(st.integers(1, 9), min_size=1, max_size=5))
def test_lanes_step_as_models_of_their_own(seed, goals):
    models = [Race() for _ in goals]
    for model, goal in zip(models, goals, strict=True):
        model.context = {"goal": goal}
    alone, batch, rng, n = copy.deepcopy(models), MultiModelBatch(models), np.random.default_rng(seed), len(goals)
    seen, infos = batch.reset(seed=seed)
    for lane, model in enumerate(alone):
        observations, said = model.reset()
        np.testing.assert_equal(take(seen, lane), observations)
        np.testing.assert_equal(infos[lane], said)
    for _ in range(12):
        over, actions = batch.over, actions_of(batch, rng, n)
        step = batch.step(actions, over)
        for lane, model in enumerate(alone):
            batch.show(lane)
            if over[lane]:
                observations, said = model.reset()
                assert not step.terminated[lane]
                assert [rewards[lane] for rewards in step.rewards.values()] == [0, 0]
            else:
                observations, rewards, terminated, truncated, _, said = model.step(take(actions, lane))
                assert take(step.rewards, lane) == rewards
                assert set(terminated.values()) == {bool(step.terminated[lane])}
                assert set(truncated.values()) == {bool(step.truncated[lane])}
            np.testing.assert_equal(take(step.observations, lane), observations)
            if model.agents:
                np.testing.assert_equal(step.infos[lane], said)
            np.testing.assert_equal(models[lane].state, model.state)
            assert models[lane].agents == model.agents
            np.testing.assert_equal(models[lane].observation("a"), model.observation("a"))


def test_equal_seeds_give_equal_lanes_and_lanes_differ():
    def places(seed):
        batch = MultiModelBatch([Pursuit() for _ in range(4)])
        seen, infos = batch.reset(seed=seed)
        assert infos is None
        return [batch.step(actions_of(batch, np.random.default_rng(0), 4)).observations["prey"].tolist(), seen]

    np.testing.assert_equal(places(3), places(3))
    assert len({str(lane) for lane in places(3)[0]}) == 4


def test_a_step_that_no_lane_may_take_is_refused_and_leaves_all_where_they_were():
    batch = MultiModelBatch([Race(), Race()])
    with pytest.raises(EpisodeError, match="reset"):
        batch.step({"a": np.ones(2, int), "b": np.ones(2, int)})
    batch.models[1].context = {"goal": 1}
    batch.reset()
    batch.step({"a": np.ones(2, int), "b": np.zeros(2, int)})
    assert batch.over.tolist() == [False, True]
    with pytest.raises(EpisodeError, match=r"lanes \[1\]"):
        batch.step({"a": np.ones(2, int), "b": np.ones(2, int)})
    batch.show(0)
    assert batch.models[0].state["at"].tolist() == [1, 0]
    batch.models[0].rewarder = 2 * batch.models[0].rewarder
    with pytest.raises(SpecError, match="rewarder"):
        batch.step({"a": np.ones(2, int), "b": np.ones(2, int)}, batch.over)


class Other(Race):
    def __init__(self, size=1):
        self.size = size


class Late(Race):
    def live(self, state):
        return ("a",)


@pytest.mark.parametrize(
    ("models", "message"),
    [
        ([Nim()], "MultiBatchModel"),
        ([Race(), Other()], "equal models"),
        ([Other(1), Other(2)], "equal models"),
        ([Late()], "'live'"),
    ],
)
def test_models_that_cannot_be_lanes_together_are_refused(models, message):
    with pytest.raises(SpecError, match=message):
        MultiModelBatch(models)


def test_masks_and_infos_are_those_of_each_lane():
    _, infos = MultiModelBatch([Race(), Race()]).reset()
    assert list(infos[0]) == ["a", "b", COMMON]
    assert infos[1]["a"][MASK].shape == (3,)
    assert infos[1]["b"]["goal"] == 5
    assert infos[1][COMMON] == {"sum": 0}
