"""RLlib's form and agents as lanes step PettingZoo's environments by quick ways, which say what the plain one says."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from pettingzoo import ParallelEnv

import envoi
from envoi import EpisodeError
from envoi.adapters import to_gymnasium_vector, to_rllib
from envoi.adapters.pettingzoo import FromPettingZoo, from_pettingzoo
from envoi.batching.agents_as_lanes import WAITING
from envoi.lane_values import lane
from envoi.protocol.multi_env import SYNTHETIC, full_multi_step

pytest.importorskip("ray.rllib")

from envoi.adapters.rllib.multi_form import RLlibMultiEnv

AGENTS = ["b", "a", "c"]
ACTIONS = dict.fromkeys(AGENTS, 1)
BOX, CHOICE = spaces.Box(-1000, 1000, (2,), np.float32), spaces.Discrete(3)


def numbers(time, agent):
    return [10.0 * time, AGENTS.index(agent)]


WAYS = {
    "new arrays": lambda source, agent, value: np.array(value, np.float32),
    "its own buffer": lambda source, agent, value: source.written(agent, value),
    "a view of its buffer": lambda source, agent, value: source.written(agent, value)[:],
    "another width": lambda source, agent, value: np.array(value, np.float64),
    "lists": lambda source, agent, value: value,
    "another width for one": lambda source, agent, value: np.array(value, np.float64 if agent == "a" else np.float32),
}


class Parallel(ParallelEnv):
    """Its observations tell the time and the agent, in one way a step; `ends` says who ends when."""

    metadata = {"name": "ways"}
    possible_agents = AGENTS
    render_mode = None

    infos, ends, blind = {}, {}, ()

    def __init__(self, ways=("new arrays",) * 6, backwards=False, holds=False, numpy=False, **script):
        self.ways, self.backwards, self.holds = ways, backwards, holds
        self.number, self.flag = (np.float32, np.bool_) if numpy else (float, bool)
        self.buffers = {agent: np.zeros(2, np.float32) for agent in AGENTS}
        vars(self).update(script)

    def observation_space(self, agent):
        return BOX

    def action_space(self, agent):
        return CHOICE

    def written(self, agent, value):
        self.buffers[agent][:] = value
        return self.buffers[agent]

    def seen(self, way):
        return {agent: WAYS[way](self, agent, numbers(self.time, agent)) for agent in self.playing}

    def reset(self, seed=None, options=None):
        self.time, self.agents = 0, AGENTS[:]
        self.playing = AGENTS[::-1] if self.backwards else AGENTS[:]
        return self.seen(self.ways[0]), {agent: {} for agent in self.playing}

    def step(self, actions):
        self.actions, self.time = actions, self.time + 1
        over = self.time == len(self.ways)
        ended = {agent: self.flag(over or self.ends.get(agent) == self.time) for agent in self.playing}
        seen = self.seen(self.ways[self.time - 1])
        told = (
            {agent: one for agent, one in seen.items() if agent not in self.blind or not ended[agent]},
            {agent: self.number(self.time) for agent in self.playing},
            ended,
            dict.fromkeys(self.playing, self.flag(False)),
            {agent: dict(self.infos.get((self.time, agent), {})) for agent in self.playing},
        )
        self.playing = [agent for agent in self.playing if not ended[agent]]
        self.agents = [agent for agent in AGENTS if agent in self.playing]
        if self.holds:
            self.held = told
        return told


def rllib(core):
    return RLlibMultiEnv(core, canonical=False)


def games():
    return st.builds(
        Parallel,
        st.lists(st.sampled_from(sorted(WAYS)), min_size=2, max_size=6),
        backwards=st.booleans(),
        holds=st.booleans(),
        numpy=st.booleans(),
    )


@given(games())
def test_rllib_gets_what_the_source_tells_in_whatever_way(source):
    form = rllib(from_pettingzoo(source))
    seen = [form.reset()[0]]
    for time in range(1, len(source.ways)):
        observations, rewards, terminateds, truncateds, infos = form.step(ACTIONS)
        seen.append(observations)
        assert list(observations) == list(rewards) == list(infos) == list(source.actions) == AGENTS
        assert rewards == dict.fromkeys(AGENTS, float(time))
        assert terminateds == truncateds == {**dict.fromkeys(AGENTS, False), "__all__": False}
        assert terminateds is not truncateds
        assert infos == {agent: {} for agent in AGENTS}
        assert form.last == full_multi_step((observations, rewards, None, None, None, infos))
        for agent in AGENTS:
            assert form.core.observation(agent).tolist() == numbers(time, agent)
    seen.append(form.step(ACTIONS)[0])
    for time, observations in enumerate(seen):
        for agent, one in observations.items():
            assert one.dtype == np.float32
            assert one.tolist() == numbers(time, agent)


@given(games())
def test_lanes_get_what_the_source_tells_in_whatever_way(source):
    form = to_gymnasium_vector(from_pettingzoo(source))
    seen = [form.reset()[0]]
    for time in range(1, len(source.ways) + 1):
        observation, reward, terminated, truncated, infos = form.step(np.array([2, 0, 1]))
        seen.append(observation)
        assert source.actions == {"b": 2, "a": 0, "c": 1}
        assert list(source.actions) == AGENTS
        assert reward.dtype == np.float64
        assert reward.tolist() == [time] * 3
        assert terminated.tolist() == [time == len(source.ways)] * 3
        assert not truncated.any()
        assert infos == {}
    for time, observation in enumerate(seen):
        assert observation.dtype == np.float32
        assert observation.tolist() == [numbers(time, agent) for agent in AGENTS]


SEEN = {
    "integers": (spaces.Discrete(9), lambda time, one: time + one),
    "narrow integers": (spaces.Discrete(9, dtype=np.int32), lambda time, one: np.int64(time + one)),
    "several integers": (spaces.MultiDiscrete([9, 9]), lambda time, one: np.array([time, one])),
    "one number": (spaces.Box(0, 9, (), np.float32), lambda time, one: float(time + one)),
    "nested": (
        spaces.Dict({"n": spaces.Discrete(9), "x": spaces.Box(0, 9, (2,), np.float32)}),
        lambda time, one: {"n": time, "x": np.array([time, one])},
    ),
}


@pytest.mark.parametrize("kind", SEEN)
def test_lanes_see_every_kind_of_observation(kind):
    space, value = SEEN[kind]

    class Seen(Parallel):
        def observation_space(self, agent):
            return space

        def action_space(self, agent):
            return spaces.Discrete(3, dtype=np.int32)

        def seen(self, way):
            return {agent: value(self.time, AGENTS.index(agent)) for agent in self.playing}

    form = to_gymnasium_vector(Seen())
    form.reset()
    for time, actions in enumerate((np.ones(3, int), [1, 2, 0]), 1):
        observation = form.step(actions)[0]
        assert observation in form.observation_space
        for place, agent in enumerate(AGENTS):
            expected = value(time, place)
            for one in (lane(form.core.observation_spec, observation, place), form.core.env.observation(agent)):
                assert np.array_equal(*(x["x"] if kind == "nested" else x for x in (one, expected)))
        assert [type(action) for action in form.core.env.source.actions.values()] == [np.int32] * 3
    assert form.core.env.source.actions == {"b": 1, "a": 2, "c": 0}


@pytest.mark.parametrize("numpy", [False, True])
def test_steps_stay_quick_after_an_automatic_reset(numpy):
    lanes = envoi.AgentLanes(from_pettingzoo(Parallel(numpy=numpy)))
    lanes.reset()
    over = None
    for time in [1, 2, 3, 4, 5, 6, 0, 1, 2]:
        observation, reward, terminated, truncated, discount, _ = lanes.step_values(np.ones(3, int), over)
        assert observation[:, 0].tolist() == [10 * time] * 3
        assert reward.tolist() == [time] * 3
        # A quiet step leaves these out, also where a mask restarts none.
        assert (terminated is truncated is discount is None) is (time < 6)
        over = np.full(3, time == 6)


def test_who_writes_into_what_lanes_returned_changes_nothing_else():
    form = to_gymnasium_vector(from_pettingzoo(Parallel(ends={"a": 3}, blind=["a"])))
    form.reset()
    for time in (1, 2):
        for array in form.step(np.ones(3, int))[:4]:
            array[...] = 1  # flags too: were they shared, the lanes would seem to have ended
        assert form.core.observation.tolist() == [numbers(time, agent) for agent in AGENTS]
        assert form.core.env.observation("a").tolist() == numbers(time, "a")
    observation, _, terminated, _, infos = form.step(np.ones(3, int))
    assert observation.tolist() == [numbers(3, "b"), numbers(2, "a"), numbers(3, "c")]
    assert terminated.tolist() == [False, True, False]
    assert infos["_" + SYNTHETIC].tolist() == [False, True, False]
    observation, *_, infos = form.step(np.ones(3, int))
    assert observation.tolist() == [numbers(4, "b"), numbers(2, "a"), numbers(4, "c")]
    assert infos["_" + WAITING].tolist() == [False, True, False]


def test_lanes_get_infos_and_discounts():
    infos = {(1, "a"): {"speed": 3}, (2, "c"): {"discount": 0.5, "speed": 4}}
    form = to_gymnasium_vector(from_pettingzoo(Parallel(infos=infos)))
    form.reset()
    said = form.step(np.ones(3, int))[4]
    assert said["speed"].tolist() == [0, 3, 0]
    assert said["_speed"].tolist() == [False, True, False]
    said = form.step(np.ones(3, int))[4]
    assert said["speed"].tolist() == [0, 0, 4]
    assert said["discount"].tolist() == [0, 0, 0.5]
    assert form.last.discount.tolist() == [1, 1, 0.5]
    assert form.step(np.ones(3, int))[4] == {} == form.returned_infos()


def test_a_form_honours_a_subclass_with_a_step_of_its_own():
    class Doubled(FromPettingZoo):
        def step(self, actions):
            step = super().step(actions)
            return step._replace(rewards={agent: 2 * reward for agent, reward in step.rewards.items()})

    form = rllib(Doubled(Parallel()))
    form.reset()
    for time in (1, 2, 3):
        assert form.step(ACTIONS)[1] == dict.fromkeys(AGENTS, 2.0 * time)
    lanes = to_gymnasium_vector(Doubled(Parallel()))
    lanes.reset()
    assert lanes.step(np.ones(3, int))[1].tolist() == [2, 2, 2]


def test_a_form_honours_a_rewarder_that_is_set_in_the_midst_of_an_episode():
    form, lanes = to_rllib(Parallel, canonical=False)({}), to_gymnasium_vector(from_pettingzoo(Parallel()))
    form.reset()
    lanes.reset()
    form.step(ACTIONS)
    lanes.step(np.ones(3, int))
    form.core.rewarder = lanes.core.rewarder = lambda state, actions, following: dict.fromkeys(AGENTS, 7.0)
    assert form.step(ACTIONS)[1] == dict.fromkeys(AGENTS, 7.0)
    assert lanes.step(np.ones(3, int))[1].tolist() == [7, 7, 7]


def test_lanes_are_gone_back_to():
    lanes = envoi.AgentLanes(from_pettingzoo(Parallel()))
    lanes.reset()
    lanes.step_values(np.ones(3, int))
    snapshot, before = lanes.snapshot(), lanes.observation.tolist()
    after = lanes.step(np.ones(3, int)).observation.tolist()
    lanes.restore(snapshot)
    assert lanes.observation.tolist() == before != after
    assert lanes.step(np.ones(3, int)).observation.tolist() == after


@pytest.mark.parametrize("given_to", [[], ["b", "x"], ["x"], [*AGENTS, "x"]])
def test_quick_steps_refuse_actions_of_others(given_to):
    form = rllib(from_pettingzoo(Parallel()))
    form.reset()
    form.step(ACTIONS)
    with pytest.raises(EpisodeError, match="expected an action for each"):
        form.step(dict.fromkeys(given_to, 1))
    while form.core.agents:
        form.step(dict.fromkeys(form.core.acting, 1))
    with pytest.raises(EpisodeError, match="has ended"):
        form.step({})


def test_what_agents_saw_last_is_known_after_the_source_was_refused():
    for step in (lambda core: core.step_rows([1, 1, 1]), lambda core: core.step_values(ACTIONS)):
        core = from_pettingzoo(Parallel())
        core.reset()
        step(core)
        step(core)
        core.source.agents = core.source.playing = ["b"]  # two have gone without a word
        with pytest.raises(EpisodeError, match="left"):
            step(core)
        assert [core.observation(agent).tolist() for agent in AGENTS] == [numbers(2, agent) for agent in AGENTS]


def test_lanes_count_the_actions():
    lanes = envoi.AgentLanes(from_pettingzoo(Parallel()))
    lanes.reset()
    with pytest.raises(envoi.SpecError, match="one for each of 3 lanes"):
        lanes.step(np.ones(4, int))
