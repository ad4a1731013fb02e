"""PettingZoo's AEC API, both ways."""

import importlib
import itertools
import os
import warnings

import numpy as np
import pytest
from pettingzoo import AECEnv
from pettingzoo.utils.agent_selector import AgentSelector
from pettingzoo.utils.conversions import aec_to_parallel, parallel_to_aec, turn_based_aec_to_parallel
from pettingzoo.utils.wrappers import BaseWrapper, OrderEnforcingWrapper, TerminateIllegalWrapper
from scripted_games import AGENTS, PLAY, TURNS, AECSource, ParallelSource, Scene, ScriptedGame, TurnGame, legal, played
from traces import exact

import envoi
from envoi import Array, EpisodeError, SpecError
from envoi.adapters import from_env, load
from envoi.adapters.gymnasium.specs import from_space
from envoi.adapters.pettingzoo import from_pettingzoo, to_pettingzoo
from envoi.adapters.pettingzoo_aec import FromPettingZooAEC, ToPettingZooAEC, from_pettingzoo_aec, to_pettingzoo_aec

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # for the butterfly family's pygame

THEIRS = {
    "pettingzoo.classic.tictactoe.tictactoe": {},
    "pettingzoo.classic.connect_four.connect_four": {},
    "pettingzoo.classic.rlcard_envs.leduc_holdem": {},
    "pettingzoo.classic.rps.rps": {"max_cycles": 12},
    "mpe2.simple_spread_v3": {"max_cycles": 12},
    "pettingzoo.butterfly.knights_archers_zombies.knights_archers_zombies": {
        "max_cycles": 150,
        "spawn_delay": 4,
        "line_death": True,
    },
}
"""AEC environments of PettingZoo, and what they are made with."""
CYCLIC = ("pettingzoo.classic.rps.rps", "mpe2.simple_spread_v3", [*THEIRS][-1])


def make(name):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return importlib.import_module(name).env(**THEIRS[name])


def plainly(value):
    """A value that compares exactly; keys in any order, and an array of shape () as the number it is."""
    if isinstance(value, dict):
        return sorted((str(key), plainly(part)) for key, part in value.items())
    return exact(value[()] if isinstance(value, np.ndarray) and value.shape == () else value)


def alone(env, seeds=(3, None, 0), rng=0, most=400):
    """The trace of an AEC environment turn by turn; masks that are in observations are in the info too."""
    actions, said = np.random.default_rng(rng), []
    specs = {agent: from_space(env.action_space(agent)) for agent in env.possible_agents}
    for seed in seeds:
        env.reset(seed=seed)
        for agent in env.agent_iter(most):
            observation, reward, ended, cut, info = env.last()
            mask = observation.get("action_mask") if isinstance(observation, dict) else info.get("action_mask")
            told = {key: value for key, value in info.items() if key not in ("action_mask", "synthetic_observation")}
            said.append((agent, plainly(observation), float(reward), bool(ended), bool(cut), plainly(told)))
            env.step(None if ended or cut else legal(specs[agent], mask, actions))
        said.append(sorted(env.agents))
    # Sources differ in the order in which those who have died together have their last turns.
    return [turn for _, turns in itertools.groupby(said, in_death) for turn in sorted(turns, key=repr)]


def in_death(turn):
    return object() if isinstance(turn, list) or not (turn[3] or turn[4]) else True


# A source alone and through the core.


@pytest.mark.parametrize("name", THEIRS)
def test_sources_go_through_the_core_unchanged(name):
    said = alone(make(name))
    assert said == alone(ToPettingZooAEC(from_env(make(name))))
    assert len(said) > 15


@pytest.mark.parametrize("name", CYCLIC)
def test_parallelizable_sources_go_through_the_parallel_api_unchanged(name):
    from test_pettingzoo import alone as alone_at_once

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = alone_at_once(aec_to_parallel(make(name)), (3, None, 0))
    form = to_pettingzoo(make(name))
    assert form.core.at_once
    assert alone_at_once(form, (3, None, 0)) == theirs
    if "knights" not in name:  # they show each other's moves before the end of a cycle
        assert alone(ToPettingZooAEC(FromPettingZooAEC(make(name), simultaneous=True))) == alone(make(name))


@pytest.mark.parametrize("scenes", [PLAY, TURNS], ids=["at once", "turns"])
def test_scripted_sources_go_through_the_core_unchanged(scenes):
    said, through = alone(AECSource(*scenes)), alone(ToPettingZooAEC(from_pettingzoo_aec(AECSource(*scenes))))
    for mine, theirs in zip(said, through, strict=True):
        if isinstance(mine, tuple) and mine[1] == (type(None), None):  # died unseen
            assert mine[2:] == theirs[2:]
            assert theirs[1] != mine[1]
        else:
            assert mine == theirs


class Patient(AECEnv):
    """An agent that ends keeps its place in the cycle, and collects rewards, until its turn."""

    metadata = {"name": "patient_v0", "render_modes": []}
    render_mode = None

    def __init__(self):
        self.possible_agents = ["a_0", "b_0", "c_0"]
        self._spaces = [envoi.adapters.gymnasium.to_space(spec) for spec in (Array((1,)), envoi.Discrete(2))]

    def observation_space(self, agent):
        return self._spaces[0]

    def action_space(self, agent):
        return self._spaces[1]

    def observe(self, agent):
        return np.full(1, self.time, np.float32)

    def reset(self, seed=None, options=None):
        self.time, self.agents = 0, self.possible_agents[:]
        self.terminations, self.truncations = (dict.fromkeys(self.agents, False) for _ in range(2))
        self.rewards, self._cumulative_rewards = dict.fromkeys(self.agents, 0), dict.fromkeys(self.agents, 0)
        self.infos = {agent: {} for agent in self.agents}
        self._order = AgentSelector(self.agents)
        self.agent_selection = self._order.next()

    def step(self, action):
        agent = self.agent_selection
        self._skip_agent_selection = self._order.next()
        if self.terminations[agent]:
            following = self._skip_agent_selection
            self._was_dead_step(action)
            self._order = AgentSelector(self.agents)
            while self.agents and self._order.next() != following:
                pass
        else:
            self.time += 1
            self._cumulative_rewards[agent] = 0
            self.rewards = dict.fromkeys(self.agents, float(self.time))
            if self.time == 1:
                self.terminations["c_0"] = True
            if self.time == 5:
                self.terminations = dict.fromkeys(self.agents, True)
            self._accumulate_rewards()
            self.agent_selection = self._skip_agent_selection


def test_who_waits_for_its_last_turn_still_earns():
    said = {agent: sum(told[2] for told in alone(Patient(), (0,))[:-1] if told[0] == agent) for agent in ("b_0", "c_0")}
    core = from_pettingzoo_aec(Patient())
    core.reset()
    assert not core.step({"a_0": 0}).terminated["c_0"]
    assert "c_0" in core.agents
    step = core.step({"b_0": 0})
    assert step.terminated["c_0"]
    assert step.observations["c_0"].tolist() == [2]
    assert core.agents == ("a_0", "b_0")
    assert said["c_0"] == 3
    core.reset()
    earned = dict.fromkeys(core.possible_agents, 0)
    while core.agents:
        for agent, reward in core.step(dict.fromkeys(core.acting, 0)).rewards.items():
            earned[agent] += reward
    assert earned["c_0"] == 3
    assert earned["b_0"] == said["b_0"]


class Leaving(AECSource):
    def step(self, action):
        super().step(action)
        self.agents.remove("adam")


class Staying(AECSource):
    def step(self, action):
        if action is not None:
            super().step(action)


BOTH, ALONE = Scene(("zoe", "adam"), ("zoe",)), Scene(("zoe",), ("zoe",), terminated=("adam",))


@pytest.mark.parametrize(
    ("source", "match"),
    [
        (AECSource(BOTH, ALONE, BOTH, Scene((), (), terminated=AGENTS)), r"\['adam'\] ended before .*cannot come back"),
        (Leaving(BOTH, BOTH, Scene()), r"\['adam'\] left .*without being terminated or truncated"),
        (Staying(), "'adam' is still in play .*after its last turn"),
    ],
)
def test_an_impossible_step_of_a_source_is_refused_by_name(source, match):
    with pytest.raises(EpisodeError, match=match):
        played(from_pettingzoo_aec(source))


def test_a_cycle_that_is_none_is_refused_by_name():
    core = from_pettingzoo_aec(AECSource(), simultaneous=True)
    core.reset()
    core.step({"zoe": 5, "adam": 5})
    with pytest.raises(EpisodeError, match=r"one of \['adam'\].*got that of 'adam'; import it without `simultaneous`"):
        core.step({"zoe": 5, "adam": 5})  # it has died
    with pytest.raises(EpisodeError, match="has ended"):
        core.step({"zoe": 5, "adam": 5})


# The form.


def test_actions_are_collected_until_all_have_acted():
    game = ScriptedGame()
    form = to_pettingzoo_aec(game)
    form.reset()
    form.step(5)
    assert game.acted == []
    assert form.rewards == {"zoe": 0, "adam": 0}
    form.step(6)
    assert game.acted == [{"zoe": 5, "adam": 6}]
    assert form.rewards == {"zoe": 16777217.0, "adam": 2**40}
    assert form.infos["zoe"]["discount"] == 0.5
    form.step(5)
    assert form.rewards == {"zoe": 0, "adam": 0}
    assert form.last()[1] == 2**40  # until it has acted
    assert form.metadata["is_parallelizable"]


def test_a_refused_action_can_be_given_again():
    form = to_pettingzoo_aec(ScriptedGame(), validate=True)
    form.reset()
    with pytest.raises(SpecError, match=r"action\['zoe'\]"):
        form.step(99)
    form.step(5)

    class Refusing(ScriptedGame):
        def transition(self, state, actions, rng):
            if actions["adam"] == 6:
                raise ValueError("not that")
            return super().transition(state, actions, rng)

    form = to_pettingzoo_aec(Refusing())
    form.reset()
    form.step(5)
    with pytest.raises(ValueError, match="not that"):
        form.step(6)
    assert form.agent_selection == "adam"
    form.step(5)
    assert form.rewards["zoe"] == 16777217.0


def test_the_dead_take_their_last_turns_first():
    form = to_pettingzoo_aec(TurnGame())
    form.reset()
    for _ in range(3):
        form.step(5)
    assert form.agents == ["zoe", "adam", "mia"]
    assert form.agent_selection == "adam"
    assert form.last()[1:4] == (2**40 + 0.1 + 0.2, True, False)
    with pytest.raises(ValueError, match="None"):
        form.step(5)
    form.step(None)
    assert form.agents == ["zoe", "mia"]
    assert form.agent_selection == "mia"
    assert set(form.terminations) == set(form.rewards) == set(form.infos) == {"zoe", "mia"}
    assert exact(form.observe("adam")) is not None  # what it saw last


def test_a_reset_in_the_middle_of_the_last_turns_is_clean():
    form = to_pettingzoo_aec(TurnGame())
    fresh = to_pettingzoo_aec(TurnGame())
    form.reset(seed=1)
    for _ in range(3):
        form.step(5)
    assert form.agent_selection == "adam"
    assert alone(form, (2, None)) == alone(fresh, (2, None))


def test_before_the_reset_and_after_the_end():
    form = to_pettingzoo_aec(TurnGame())
    for name in ("agents", "agent_selection", "rewards", "terminations", "truncations", "infos"):
        assert not hasattr(form, name)
    with pytest.raises(EpisodeError, match="step: the episode has not begun"):
        form.step(5)
    assert form.possible_agents == list(AGENTS)
    form.reset()
    for agent in form.agent_iter():
        form.step(None if form.terminations[agent] or form.truncations[agent] else 5)
    assert form.agents == []
    with pytest.raises(EpisodeError, match="has ended"):
        form.step(5)
    assert list(form.agent_iter()) == []
    form.reset()
    assert len([*zip(form.agent_iter(3), "abcdef", strict=False)]) == 3


def test_pettingzoos_wrappers_work_around_it():
    class NimInfo(BaseWrapper):
        """Nothing but a layer."""

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        form = OrderEnforcingWrapper(TerminateIllegalWrapper(to_pettingzoo_aec(load("envoi:nim")), illegal_reward=-1))
        core = from_env(NimInfo(form))
        said = played(core)
        assert said == played(FromPettingZooAEC(to_pettingzoo_aec(load("envoi:nim"))))
        core.reset(options={"sticks": 1})
        step = core.step({"first": 2})  # takes three of one
    assert step.rewards == {"first": -1.0, "second": 0}
    assert all(step.terminated.values())
    assert core.agents == ()


# Identity and losses.


def test_a_parallel_environment_comes_as_aec():
    source = AECSource(*PLAY)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert to_pettingzoo_aec(aec_to_parallel(source)) is source
        assert to_pettingzoo_aec(turn_based_aec_to_parallel(source)) is source
        assert from_pettingzoo(parallel_to_aec(ParallelSource())).source.metadata["name"] == "scripted_v0"
    game = ScriptedGame()
    assert from_pettingzoo_aec(to_pettingzoo(game)) is game
    assert not to_pettingzoo_aec(load("envoi:nim")).metadata["is_parallelizable"]
    assert to_pettingzoo_aec(load("envoi:rps")).metadata["is_parallelizable"]


def test_array_rewards_are_summed():
    scenes = (
        Scene(("zoe", "adam"), ("zoe",)),
        Scene(("zoe", "adam"), ("zoe",), rewards={"adam": np.array([1.0, 0.0]), "zoe": np.array([0.0, 1.0])}),
        Scene((), (), rewards={"adam": np.array([1.0, 2.0]), "zoe": np.array([0.0, 0.0])}, terminated=AGENTS),
    )
    form = to_pettingzoo_aec(TurnGame(*scenes))
    form.reset()
    form.step(5)
    form.step(5)
    assert form._cumulative_rewards["adam"].tolist() == [2.0, 2.0]
    core = FromPettingZooAEC(to_pettingzoo_aec(TurnGame(*scenes)))
    assert played(core) == played(TurnGame(*scenes))


# Aliasing, seeds and lifecycle.


@pytest.mark.parametrize("ends", [False, True])
def test_the_rewards_of_a_cycle_are_summed_though_the_source_writes_into_them(ends):
    class Source(AECSource):
        paid = np.zeros(1)

        def step(self, action):
            dead = action is None
            super().step(action)
            self.paid[0] = 0 if dead else 1 if self.at == 0 else 10
            self.rewards = dict.fromkeys(self.agents, self.paid)
            self._cumulative_rewards = dict.fromkeys(self.agents, 0)

    last = Scene(("zoe",), terminated=("adam",)) if ends else Scene(("zoe", "adam"))
    core = from_pettingzoo_aec(Source(Scene(("zoe", "adam")), last), simultaneous=True)
    core.reset()
    assert core.step({"zoe": 5, "adam": 5}).rewards == {"zoe": 11, "adam": 11}


def test_a_waiting_agents_observation_is_of_now():
    core = from_pettingzoo_aec(AECSource(reuse=False))
    core.reset(seed=1)
    for time in range(3):
        assert core.observation("zoe")[1] == time
        assert core.observation("zoe") is core.observation("zoe")
        core.step(dict.fromkeys(core.acting, 5))
    with pytest.raises(EpisodeError, match="'bob' has not been in play"):
        core.observation("bob")


def test_steps_outside_of_an_episode_and_of_the_wrong_agents_are_errors():
    core = from_pettingzoo_aec(AECSource())
    with pytest.raises(EpisodeError, match="has not begun"):
        core.state  # noqa: B018
    core.reset()
    with pytest.raises(EpisodeError, match=r"missing \['adam'\], not to act now \['zoe'\]"):
        core.step({"zoe": 5})
    with pytest.raises(EpisodeError, match=r"not to act now \['zoe'\]"):
        core.step({"adam": 5, "zoe": 5})
    cyclic = from_pettingzoo_aec(AECSource(*PLAY), simultaneous=True)
    cyclic.reset()
    with pytest.raises(EpisodeError, match=r"missing \['adam'\], not to act now \['mia'\]"):
        cyclic.step({"zoe": 5, "mia": 5})
    assert core.source.actions == cyclic.source.actions == []
    assert cyclic.source.agent_selection == "zoe"
    while core.agents:
        core.step(dict.fromkeys(core.acting, 5))
    assert core.turn == ()


@pytest.mark.parametrize("failing", [0, 1])
def test_an_error_in_the_middle_of_a_cycle_ends_the_episode(failing):
    class Failing(AECSource):
        fails = True

        def step(self, action):
            if self.fails and self.agents.index(self.agent_selection) == failing:
                raise OSError("no answer")
            super().step(action)

    core = from_pettingzoo_aec(Failing(*PLAY), simultaneous=True)
    core.reset(seed=1)
    with pytest.raises(OSError, match="no answer"):
        core.step({"zoe": 5, "adam": 6})
    core.source.fails = False
    if failing:
        assert core.agents == core.acting == ()
        with pytest.raises(EpisodeError, match=r"has ended; call reset\(\)"):
            core.step({"zoe": 5, "adam": 6})
        assert core.source.actions == []
        core.reset(seed=1)
    core.step({"zoe": 5, "adam": 6})
    assert core.source.actions == [{"zoe": 5, "adam": 6}]
