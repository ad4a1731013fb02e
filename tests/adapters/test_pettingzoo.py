"""PettingZoo's Parallel API, both ways."""

import copy
import os
import sys

import numpy as np
import pytest
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec, turn_based_aec_to_parallel
from scripted_games import AGENTS, PLAY, AECSource, ParallelSource, Scene, ScriptedGame, TurnGame, mask, played
from traces import exact

import envoi
from envoi import EpisodeError, LossyConversion, MissingBackend, SpecError
from envoi.adapters import from_pettingzoo, from_pettingzoo_aec, load, to_pettingzoo
from envoi.adapters.gymnasium.specs import from_space
from envoi.adapters.pettingzoo import FromPettingZoo, ToPettingZoo
from envoi.adapters.pettingzoo_aec import FromPettingZooAEC, ToPettingZooAEC

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # for the butterfly family's pygame

THEIRS = {
    "mpe/simple_spread_v3": {"max_cycles": 12},
    "mpe/simple_speaker_listener_v4": {"max_cycles": 12},
    "classic/rps_v2": {"max_cycles": 12},
    "butterfly/knights_archers_zombies_v11": {"max_cycles": 150, "spawn_delay": 4, "line_death": True},
    "butterfly/cooperative_pong_v6": {"max_cycles": 15},
}
"""Parallel environments of PettingZoo; the knights and archers die one by one."""


def make(name):
    return load(f"pettingzoo:{name}", **THEIRS[name])


def test_copies_without_their_episode_must_be_reset():
    env = make("mpe/simple_spread_v3")  # which holds a font, and packs only its arguments
    actions = env.sample_actions(env.reset(seed=0).infos)
    twin = copy.deepcopy(env)
    with pytest.raises(EpisodeError, match="has not begun; call reset"):
        twin.step(actions)
    twin.reset(seed=0)
    assert exact(twin.step(actions)) == exact(env.step(actions))


def test_turns_of_several_among_many_come_back():
    scenes = (
        Scene(("zoe", "adam", "mia"), ("adam", "mia")),
        Scene(("zoe", "adam", "mia"), ("zoe",)),
        Scene(("zoe", "adam", "mia"), ("zoe", "mia")),
        Scene((), (), terminated=AGENTS),
    )
    form = ToPettingZoo(TurnGame(*scenes))
    assert played(TurnGame(*scenes)) == played(FromPettingZoo(form))
    assert form.reset()[1]["zoe"]["active_agents"] == ("adam", "mia")


def alone(env, seeds, rng=0, most=200):
    """The trace of a Parallel environment by itself."""
    actions, said = np.random.default_rng(rng), []
    order = list(env.possible_agents)
    for seed in seeds:
        observations, infos = env.reset(seed=seed)
        said.append(plain(order, observations, infos))
        for _ in range(most):
            if not env.agents:
                break
            agents = [agent for agent in order if agent in env.agents]
            step = env.step({a: envoi.sample(from_space(env.action_space(a)), actions) for a in agents})
            said.append((*plain(order, *step), sorted(env.agents)))
    return said


def plain(order, *parts):
    """The dicts of a step, the agents in order; numpy's booleans as Python's, and arrays of shape () as numbers."""
    return [[(agent, exact(number(part[agent]))) for agent in order if agent in part] for part in parts]


def number(value):
    if isinstance(value, np.bool_):
        return bool(value)
    return value[()] if isinstance(value, np.ndarray) and value.shape == () else value


@pytest.mark.filterwarnings("ignore:.*calling render method")  # the pong's own resets do
@pytest.mark.parametrize("name", THEIRS)
def test_sources_go_through_the_core_unchanged(name):
    seeds, source = (3, None, 0), make(name).source
    said = alone(source, seeds)
    through = alone(ToPettingZoo(make(name)), seeds)
    assert said == through
    assert len(said) > 30
    if "knights" in name:
        assert any(0 < len(step[-1]) < 4 for step in said if len(step) == 6), "no agent ended before the others"


def test_a_scripted_source_goes_through_the_core_unchanged():
    core = from_pettingzoo(ParallelSource())
    game = ScriptedGame()
    # Everything but the random numbers.
    for (_, agents, seen, infos), (_, others, looks, told) in zip(played(core)[::6], played(game)[::6], strict=True):
        assert agents == others
        assert infos == told
        assert [agent for agent, _ in seen] == [agent for agent, _ in looks]
    for mine, theirs in zip(played(core), played(game), strict=True):
        if len(mine) == 4 and isinstance(mine[3], list) and len(mine[3]) == 6:
            assert mine[:3] == theirs[:3]
            assert mine[3][1:] == theirs[3][1:]
            assert [agent for agent, _ in mine[3][0]] == [agent for agent, _ in theirs[3][0]]


def test_an_unseen_death_repeats_the_last_observation_and_says_so():
    core = from_pettingzoo(ParallelSource())
    first = core.reset(seed=1)
    second = core.step(core.sample_actions(first.infos))
    third = core.step(core.sample_actions())
    assert exact(third.observations["adam"]) == exact(second.observations["adam"])
    assert third.infos["adam"] == {"synthetic_observation": True}
    assert third.terminated["adam"]
    assert "synthetic_observation" not in third.infos["zoe"]
    assert exact(core.observation("adam")) == exact(second.observations["adam"])


def test_agents_may_be_listed_after_their_end():
    class Lingering(ParallelSource):
        def step(self, actions):
            self.agents = list(self.scenes[self.at].live)
            result = super().step(actions)
            self.agents = list(AGENTS[:2])
            for flags, here in ((result[2], self.scenes[self.at].terminated), (result[3], ())):
                flags.update({agent: agent in here or flags.get(agent, False) for agent in AGENTS[:2]})
            return result

    scenes = (
        Scene(("zoe", "adam")),
        Scene(("zoe",), terminated=("adam",)),
        Scene(("zoe",), terminated=("adam",), unseen=("adam",)),
        Scene((), terminated=("zoe", "adam")),
    )
    core = from_pettingzoo(Lingering(*scenes))
    core.reset()
    core.step({"zoe": 5, "adam": 5})
    assert core.agents == ("zoe",)
    assert list(core.step({"zoe": 5}).rewards) == ["zoe"]
    core.step({"zoe": 5})
    assert core.agents == ()


def test_a_source_may_change_its_list_of_agents_in_place():
    class InPlace(ParallelSource):
        @property
        def agents(self):
            return self.__dict__.setdefault("kept", [])

        @agents.setter
        def agents(self, agents):
            self.agents[:] = agents

    joining = (Scene(("zoe",)), Scene(("zoe", "adam")), Scene((), terminated=AGENTS))
    assert played(from_pettingzoo(InPlace(*joining))) == played(from_pettingzoo(ParallelSource(*joining)))
    with pytest.raises(EpisodeError, match=r"\['adam'\] left"):
        played(from_pettingzoo(InPlace(BOTH, Scene(("zoe",)), Scene())))


BOTH = Scene(("zoe", "adam"))
ADAM_ENDS = Scene(("zoe",), terminated=("adam",))


@pytest.mark.parametrize(
    ("scenes", "error", "match"),
    [
        ((BOTH, ADAM_ENDS, BOTH, Scene()), EpisodeError, r"\['adam'\] ended before .*cannot come back"),
        ((BOTH, Scene(("zoe",)), Scene()), EpisodeError, r"\['adam'\] left .*without being terminated or truncated"),
        ((BOTH, BOTH._replace(unseen=("adam",)), Scene()), SpecError, r"got none of \['adam'\]"),
    ],
)
def test_an_impossible_step_of_a_source_is_refused_by_name(scenes, error, match):
    core = from_pettingzoo(ParallelSource(*scenes))
    with pytest.raises(error, match=match):
        played(core)
    if error is EpisodeError:
        with pytest.raises(EpisodeError, match=r"reset\(\)"):
            core.step({"zoe": 5})


def test_info_of_no_specific_agent_is_common():
    class Source(ParallelSource):
        def reset(self, seed=None, options=None):
            observations, infos = super().reset(seed, options)
            return observations, {**infos, "common": {"weather": "fine"}}

    infos = from_pettingzoo(Source()).reset().infos
    assert infos["__common__"] == {"round": 0, "common": {"weather": "fine"}}
    _, infos = to_pettingzoo(ScriptedGame()).reset()
    assert infos["zoe"]["__common__"] is not infos["adam"]["__common__"]


def test_who_acts_is_known_at_reset_and_waiting_agents_are_observed_but_not_heard():
    game = TurnGame()
    form = to_pettingzoo(game)
    observations, infos = form.reset(seed=0)
    assert list(observations) == form.agents == ["zoe", "adam"]
    assert [info["active_agent"] for info in infos.values()] == ["adam", "adam"]
    assert infos["adam"]["action_mask"].tolist() == mask("adam").tolist()
    step = form.step({"zoe": 7, "adam": 6})
    assert game.acted == [{"adam": 6}]
    assert len(step) == 5
    assert list(step[0]) == ["zoe", "adam"]
    assert step[4]["zoe"]["active_agent"] == "zoe"
    form.step({"zoe": 5})  # who waits may be left out
    with pytest.raises(EpisodeError, match=r"missing \['zoe'\]"):
        form.step({"adam": 5})
    with pytest.raises(EpisodeError, match=r"not to act now \['zoo'\]"):
        form.step({"zoe": 5, "zoo": 5})
    assert len(game.acted) == 2


def test_looking_at_waiting_agents_leaves_no_trace():
    plain_game = TurnGame(noise=True)
    form = ToPettingZoo(TurnGame(noise=True))
    plain_game.reset(seed=4)
    form.reset(seed=4)
    while form.agents:
        actions = dict.fromkeys(plain_game.acting, 5)
        step, (observations, *_) = plain_game.step(actions), form.step(actions)
        for agent, seen in step.observations.items():
            assert exact(seen) == exact(observations[agent])


def test_a_mask_in_the_observation_is_in_the_info_too():
    core = load("pettingzoo:classic/tictactoe_v3")
    form = to_pettingzoo(core)
    observations, infos = form.reset()
    assert infos["player_1"]["action_mask"].dtype == np.int8
    assert infos["player_1"]["action_mask"].tolist() == observations["player_1"]["action_mask"].tolist() == [1] * 9
    infos["player_1"]["action_mask"][:] = 0
    assert core.observation("player_1")["action_mask"].tolist() == [1] * 9


def test_pettingzoos_own_turns_are_understood():
    core = from_pettingzoo(turn_based_aec_to_parallel(AECSource()))
    core.reset()
    assert core.turn is None  # that wrapper says whose turn it is in steps only
    core.step({"zoe": 5, "adam": 5})
    assert core.turn == ("zoe",)
    step = core.step({"zoe": 5})
    assert list(step.observations) == ["zoe"]


def test_an_aec_environment_comes_as_parallel():
    source = ParallelSource()
    assert to_pettingzoo(parallel_to_aec(source)) is source
    cyclic = to_pettingzoo(AECSource(*PLAY))
    assert isinstance(cyclic.core, FromPettingZooAEC)
    cyclic.reset()
    assert cyclic.core.turn is None
    turns = to_pettingzoo(AECSource())
    turns.reset()
    assert turns.core.turn == ("adam",)
    game = ScriptedGame()
    assert from_pettingzoo(ToPettingZooAEC(game)) is game


def test_infos_are_not_shared_and_actions_are_in_order():
    source = ParallelSource()
    core = from_pettingzoo(source)
    core.reset()
    core.step({"adam": 6, "zoe": 7})
    assert list(source.actions[0].items()) == [("zoe", 7), ("adam", 6)]
    shared = {}

    class Sharing(ParallelSource):
        def _infos(self, scene, spoken):
            return dict.fromkeys(spoken, shared)

    infos = from_pettingzoo(Sharing()).reset().infos
    infos["zoe"]["mine"] = 1
    assert shared == {}


def test_a_generator_decides_what_follows():
    one, two = (from_pettingzoo(ParallelSource()) for _ in range(2))
    for core in (one, two):
        core.rng = np.random.default_rng(9)
    assert played(one, (None, None)) == played(two, (None, None))
    assert one.unwrapped.np_random is one.rng
    source = from_pettingzoo(ParallelSource())
    del source.unwrapped.np_random
    source.rng = np.random.default_rng(9)
    source.reset()
    source.reset()
    first, second = (seed for seed, _ in source.unwrapped.resets)
    assert first is not None
    assert second is None


def test_agents_that_are_not_listed_are_refused():
    source = ParallelSource(Scene(("zoe", "adam")), Scene())
    source.possible_agents.remove("adam")
    with pytest.raises(SpecError, match=r"got \['adam'\]"):
        from_pettingzoo(source).reset()
    for source, read in ((ParallelSource(), from_pettingzoo), (AECSource(), from_pettingzoo_aec)):
        del source.possible_agents
        with pytest.raises(LossyConversion, match="possible_agents"):
            read(source)


def test_a_batch_and_a_state_without_a_spec_are_refused():
    with pytest.raises(SpecError, match="batch"):
        to_pettingzoo(envoi.batch(load("envoi:catch"), 2))
    nim = to_pettingzoo(load("envoi:nim"))
    nim.reset()
    assert not hasattr(nim, "state_space")
    with pytest.raises(NotImplementedError, match="state_spec"):
        nim.state()


def test_rewards_of_a_source_are_composed_with_others():
    core = from_pettingzoo(ParallelSource())
    core.rewarder = lambda state, actions, after: 1.0
    core.reset()
    with pytest.raises(SpecError, match="mapping"):
        core.step({"zoe": 5, "adam": 5})
    turns = from_pettingzoo_aec(AECSource())
    turns.rewarder = turns.rewarder + (lambda state, actions, after: dict.fromkeys(actions, 1.0))
    turns.reset()
    assert turns.step({"adam": 5}).rewards == {"zoe": 16777217.0, "adam": 2**40 + 1.0}
    assert turns.state.shape == (2,)


def test_environments_load_by_name():
    assert str(load("pettingzoo:classic/tictactoe").source) == "tictactoe_v3"
    assert isinstance(load("pettingzoo:mpe/simple_spread?N=2").source, ParallelEnv)
    assert len(load("pettingzoo:mpe/simple_spread?N=2").possible_agents) == 2
    assert len(load("pettingzoo:classic/rps_v2", num_actions=5).action_spec) == 2


def test_what_is_not_installed_is_named(monkeypatch):
    with pytest.raises(MissingBackend, match=r"pip install 'pettingzoo\[atari\]'"):
        load("pettingzoo:atari/pong_v3")
    monkeypatch.setitem(sys.modules, "mpe2", None)
    with pytest.raises(MissingBackend, match=r"pip install 'envoi\[pettingzoo\]'"):
        load("pettingzoo:mpe/simple_spread_v3")
