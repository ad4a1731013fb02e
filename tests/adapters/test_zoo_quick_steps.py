"""RLlib's form and agents as lanes step PettingZoo's environments by quick ways, which say what the plain one says."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from pettingzoo import ParallelEnv

import envoi
from envoi import EpisodeError
from envoi.adapters import to_gymnasium_vector
from envoi.adapters.pettingzoo import FromPettingZoo, from_pettingzoo
from envoi.batching.agents_as_lanes import WAITING
from envoi.lane_values import lane
from envoi.protocol.fast_steps import fast_step
from envoi.protocol.multi_env import SYNTHETIC

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


TOLD = st.sampled_from([{}, {}, {"speed": 3}, {"discount": 0.5}, {"discount": "none"}])
games = st.fixed_dictionaries(
    {
        "ways": st.lists(st.sampled_from(sorted(WAYS)), min_size=2, max_size=6),
        **dict.fromkeys(("backwards", "holds", "numpy"), st.booleans()),
        "infos": st.dictionaries(st.tuples(st.integers(1, 4), st.sampled_from(AGENTS)), TOLD, max_size=2),
        "ends": st.dictionaries(st.sampled_from(AGENTS), st.integers(1, 4), max_size=1),
        "blind": st.lists(st.sampled_from(AGENTS), max_size=1),
    }
)


@pytest.mark.parametrize("make", [rllib, to_gymnasium_vector])
@given(game=games)
def test_quick_steps_say_what_plain_ones_say_whatever_the_source_does(make, game):
    traces = []
    for is_quick in (True, False):
        source = Parallel(**game)
        form = make(from_pettingzoo(source))
        if not is_quick:  # with a rewarder every step is a plain one
            form.core.rewarder = 1.0 * form.core.rewarder
        trace, sent = [form.reset()[0]], []
        for _ in range(len(game["ways"]) + 2):  # lanes begin again
            one = make is rllib
            step = form.step(dict.fromkeys(form.core.acting, 1) if one else np.array([2, 0, 1]))
            sent.append({**source.actions})
            if one:
                assert step[2] is not step[3]
                look = {agent: form.core.observation(agent) for agent in AGENTS}
            else:
                look = form.core.observation
            trace.append((*step, look))
            if one and not form.core.agents:
                break
        traces.append((trace, sent, [list(actions) for actions in sent]))
    # Compared when all is over: what was handed out must not have changed since.
    np.testing.assert_equal(traces[0], traces[1])
    for observations, *_ in traces[0][0][1:]:
        for seen in observations.values() if make is rllib else [observations]:
            assert seen.dtype == np.float32


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


def test_lanes_are_gone_back_to():
    lanes = envoi.AgentLanes(from_pettingzoo(Parallel()))
    lanes.reset()
    fast_step(lanes)(np.ones(3, int))
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
    for step in (lambda core: core.step_rows([1, 1, 1]), lambda core: core.source_step(ACTIONS)):
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
