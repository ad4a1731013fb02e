"""PettingZoo's Parallel API, both ways."""

import copy
import importlib
import os
import pickle
import sys
import warnings

import cloudpickle
import numpy as np
import pytest
from depth import examples
from hypothesis import given
from nested import numeric_specs
from pettingzoo import ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec, turn_based_aec_to_parallel
from pettingzoo.utils.wrappers import BaseParallelWrapper, OrderEnforcingWrapper
from scripted_games import (
    AGENTS,
    PLAY,
    TURNS,
    AECSource,
    ParallelSource,
    Scene,
    ScriptedGame,
    TurnGame,
    mask,
    played,
)
from traces import exact

import envoi
from envoi import (
    Array,
    Discrete,
    EpisodeError,
    LossyConversion,
    MissingBackend,
    MultiBinary,
    MultiModel,
    SnapshotUnsupported,
    SpecError,
    UnknownName,
    as_multi,
    spec_equal,
)
from envoi.adapters import (
    convert,
    from_env,
    from_pettingzoo,
    from_pettingzoo_aec,
    load,
    losses,
    to_pettingzoo,
    to_pettingzoo_aec,
)
from envoi.adapters.gymnasium.specs import encoder, from_space
from envoi.adapters.pettingzoo import FromPettingZoo, ToPettingZoo
from envoi.adapters.pettingzoo_aec import FromPettingZooAEC, ToPettingZooAEC

os.environ.setdefault("SDL_VIDEODRIVER", "dummy")  # for the butterfly family's pygame

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # the suites load environments in a way that is deprecated
    suites = importlib.import_module("pettingzoo.test")

OURS = ("nim", "rps", "pursuit", "catch")
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


def both(*scenes):
    """A scripted core environment, and the same through the form and the importer."""
    kind = TurnGame if any(scene.turn is not None for scene in scenes) else ScriptedGame
    return kind(*scenes), FromPettingZoo(ToPettingZoo(kind(*scenes)))


# The same six values, both ways.


@pytest.mark.parametrize("scenes", [PLAY, TURNS], ids=["at once", "turns"])
def test_what_goes_out_and_comes_back_says_the_same(scenes):
    core, back = both(*scenes)
    kind = type(core)
    assert played(core) == played(back)
    assert played(kind()) == played(FromPettingZooAEC(ToPettingZooAEC(kind()), simultaneous=scenes is PLAY))
    assert spec_equal(core.observation_spec, back.observation_spec)
    assert spec_equal(core.action_spec, back.action_spec)
    assert spec_equal(core.state_spec, back.state_spec)
    assert back.possible_agents == core.possible_agents


@pytest.mark.parametrize("name", [*OURS, "cartpole"])
def test_bundled_models_come_back_the_same(name):
    model = load(f"envoi:{name}")
    core = model if isinstance(model, envoi.MultiEnv) else as_multi(model, "agent_0")
    said = played(core, most=60)
    assert said == played(FromPettingZoo(ToPettingZoo(load(f"envoi:{name}"))), most=60)
    aec = FromPettingZooAEC(ToPettingZooAEC(load(f"envoi:{name}")), simultaneous=name != "nim")
    assert said == played(aec, most=60)


def test_turns_of_several_among_many_come_back():
    scenes = (
        Scene(("zoe", "adam", "mia"), ("adam", "mia")),
        Scene(("zoe", "adam", "mia"), ("zoe",)),
        Scene(("zoe", "adam", "mia"), ("zoe", "mia")),
        Scene((), (), terminated=AGENTS),
    )
    core, back = both(*scenes)
    assert played(core) == played(back)
    form = to_pettingzoo(TurnGame(*scenes))
    assert form.reset()[1]["zoe"]["active_agents"] == ("adam", "mia")


@pytest.mark.parametrize("discount", [0, 0.0, 0.5, 0.99, 1.0, np.float32(0.3), np.array([0.0, 1.0])])
@pytest.mark.parametrize("ends", [{}, {"terminated": ("zoe",)}, {"truncated": ("zoe",)}])
def test_discounts_survive_bit_for_bit(discount, ends):
    live = () if ends else ("zoe",)
    game = ScriptedGame(Scene(("zoe",)), Scene(live, discounts={"zoe": discount}, **ends))
    game.discount_spec = dict.fromkeys(AGENTS, Array(np.shape(discount), "float64"))
    back = FromPettingZoo(ToPettingZoo(game))
    back.reset()
    assert exact(np.asarray(back.step({"zoe": 5}).discounts["zoe"], np.float64)) == exact(
        np.asarray(discount, np.float64)
    )


# A source alone and through the core.


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
            step = env.step({a: space_sample(env.action_space(a), actions) for a in agents})
            said.append((*plain(order, *step), sorted(env.agents)))
    return said


def space_sample(space, rng):
    """The action that `envoi.sample` returns for the same spec."""
    return envoi.sample(from_space(space), rng)


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

    assert played(from_pettingzoo(InPlace())) == played(from_pettingzoo(ParallelSource()))
    joining = (Scene(("zoe",)), Scene(("zoe", "adam")), Scene((), terminated=AGENTS))
    assert played(from_pettingzoo(InPlace(*joining))) == played(from_pettingzoo(ParallelSource(*joining)))


def test_an_agent_that_comes_back_is_refused_by_name():
    scenes = (Scene(("zoe", "adam")), Scene(("zoe",), terminated=("adam",)), Scene(("zoe", "adam")), Scene())
    core = from_pettingzoo(ParallelSource(*scenes))
    core.reset()
    core.step({"zoe": 5, "adam": 5})
    with pytest.raises(EpisodeError, match=r"\['adam'\] ended before .*cannot come back"):
        core.step({"zoe": 5})
    with pytest.raises(EpisodeError, match=r"reset\(\)"):
        core.step({"zoe": 5})


def test_an_agent_that_leaves_without_a_flag_is_refused_by_name():
    core = from_pettingzoo(ParallelSource(Scene(("zoe", "adam")), Scene(("zoe",)), Scene()))
    core.reset()
    with pytest.raises(EpisodeError, match=r"\['adam'\] left .*without being terminated or truncated"):
        core.step({"zoe": 5, "adam": 5})


def test_a_missing_observation_is_refused_by_name():
    scenes = (Scene(("zoe", "adam")), Scene(("zoe", "adam"), unseen=("adam",)), Scene())
    core = from_pettingzoo(ParallelSource(*scenes))
    core.reset()
    with pytest.raises(SpecError, match=r"got none of \['adam'\]"):
        core.step({"zoe": 5, "adam": 5})


def test_an_unknown_agent_is_refused_by_name():
    source = ParallelSource(Scene(("zoe", "adam")), Scene())
    source.possible_agents.remove("adam")
    with pytest.raises(SpecError, match=r"got \['adam'\]"):
        from_pettingzoo(source).reset()


def test_a_source_that_does_not_list_its_agents_is_refused():
    from pettingzoo.test.example_envs import generated_agents_env_v0, generated_agents_parallel_v0

    with pytest.raises(LossyConversion, match="possible_agents"):
        from_pettingzoo(generated_agents_parallel_v0.parallel_env())
    with pytest.raises(LossyConversion, match="possible_agents"):
        from_pettingzoo_aec(generated_agents_env_v0.env())


def test_info_of_no_specific_agent_is_common():
    class Source(ParallelSource):
        def reset(self, seed=None, options=None):
            observations, infos = super().reset(seed, options)
            return observations, {**infos, "common": {"weather": "fine"}}

    infos = from_pettingzoo(Source()).reset().infos
    assert infos["__common__"] == {"round": 0, "common": {"weather": "fine"}}
    form = to_pettingzoo(ScriptedGame())
    _, infos = form.reset()
    assert set(infos) == set(form.agents)
    assert [info["__common__"] for info in infos.values()] == [{"round": 0}] * 2
    assert infos["zoe"]["__common__"] is not infos["adam"]["__common__"]


# Turns and masks.


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


# The conformance suites.


def quietly(test, *arguments):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # they have opinions on names and sizes
        test(*arguments)


@pytest.mark.parametrize("name", OURS)
def test_ours_pass_the_suite(name):
    quietly(suites.parallel_api_test, to_pettingzoo(load(f"envoi:{name}")), 120)
    quietly(suites.parallel_seed_test, lambda: to_pettingzoo(load(f"envoi:{name}")), 20)


@pytest.mark.parametrize("scenes", [PLAY, TURNS], ids=["at once", "turns"])
def test_scripted_games_pass_the_suite(scenes):
    kind = ScriptedGame if scenes is PLAY else TurnGame
    quietly(suites.parallel_api_test, to_pettingzoo(kind()), 20)


@pytest.mark.parametrize(
    "name", [*THEIRS, "classic/tictactoe_v3", "classic/connect_four_v3", "classic/leduc_holdem_v4"]
)
def test_theirs_pass_the_suite_through_the_core(name):
    def anew():
        return ToPettingZoo(load(f"pettingzoo:{name}", **THEIRS.get(name, {})))

    if anew().multi.at_once:  # the suite samples actions without masks
        quietly(suites.parallel_seed_test, anew, 20)
        quietly(suites.parallel_api_test, anew(), 30)
    else:
        quietly(suites.parallel_api_test, anew(), 5)


def test_the_maximum_of_cycles_is_kept():
    class Module:
        @staticmethod
        def env(**arguments):
            from envoi.adapters.pettingzoo_aec import ToPettingZooAEC

            return ToPettingZooAEC(load("pettingzoo:mpe/simple_spread_v3", **arguments))

        @staticmethod
        def parallel_env(**arguments):
            return ToPettingZoo(load("pettingzoo:mpe/simple_spread_v3", **arguments))

    quietly(suites.max_cycles_test, Module)


# Spaces.


class Shaped(MultiModel):
    """Random observations and any action of given specs, one for each of two agents."""

    possible_agents = ("b", "a")

    def __init__(self, first, second):
        self.observation_spec = {"b": first, "a": second}
        self.action_spec = {"b": second, "a": first}

    def initial(self, rng, context):
        return (0, rng.integers(2**31))

    def transition(self, state, actions, rng):
        for agent, action in actions.items():
            envoi.validate(self.action_spec[agent], action, agent)
        return (state[0] + 1, rng.integers(2**31))

    def observe(self, state, agent, rng):
        return envoi.sample(self.observation_spec[agent], np.random.default_rng(state[1]))

    def reward(self, state, actions, next_state):
        return {}

    def terminal(self, state):
        return state[0] == 2


@examples(100)
@given(numeric_specs, numeric_specs)
def test_specs_survive_and_values_lie_in_their_spaces(first, second):
    core = Shaped(first, second)
    try:
        form = to_pettingzoo(core)
    except LossyConversion:
        assert losses(core, "pettingzoo")
        return
    assert losses(core, "pettingzoo") == []
    back = FromPettingZoo(form)
    assert spec_equal(back.observation_spec, core.observation_spec)
    assert spec_equal(back.action_spec, core.action_spec)
    observations, _ = form.reset(seed=0)
    rng, actions = np.random.default_rng(0), {}
    for agent in form.agents:
        assert form.observation_space(agent).contains(observations[agent])
        encode = encoder(core.action_spec[agent]) or (lambda action: action)
        actions[agent] = encode(envoi.sample(core.action_spec[agent], rng))
        assert form.action_space(agent).contains(actions[agent])
    observations, *_ = form.step(actions)
    assert form.observation_space("a").contains(observations["a"])
    back.reset(seed=0)
    taken = back.step(back.sample_actions()).observations
    assert all(envoi.contains(core.observation_spec[agent], taken[agent]) for agent in taken)


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (Array((2,), "complex64"), "dtype"),
        (MultiBinary((2, 0)), "shape"),
        (Discrete(128, dtype="int8"), "dtype"),
    ],
)
def test_what_is_lost_is_refused_and_listed(spec, field):
    core = Shaped(Discrete(2), spec)
    with pytest.raises(LossyConversion, match=rf"\['.'\]: pettingzoo cannot express its {field}"):
        to_pettingzoo(core)
    found = losses(core, "pettingzoo")
    assert [(loss.path, loss.field, loss.refused) for loss in found] == [
        ("action['b']", field, True),
        ("observation['a']", field, True),
    ]
    assert losses(ScriptedGame(), "pettingzoo") == losses(load("envoi:catch"), "pettingzoo") == []


def test_a_batch_is_refused():
    with pytest.raises(SpecError, match="batch"):
        to_pettingzoo(envoi.batch(load("envoi:catch"), 2))


# Identity.


@pytest.mark.parametrize(
    ("name", "to", "back", "source"),
    [
        ("pettingzoo", to_pettingzoo, from_pettingzoo, ParallelSource()),
        ("pettingzoo_aec", to_pettingzoo_aec, from_pettingzoo_aec, AECSource()),
    ],
)
def test_the_way_back_gives_the_same_object(name, to, back, source):
    for core in (ScriptedGame(), load("envoi:catch"), as_multi(load("envoi:catch"), "player")):
        form = to(core)
        assert form.core is core
        assert back(form) is from_env(form) is core
        assert convert(form, name) is form
    core = back(source)
    assert core.source is to(core) is to(source) is source
    assert to(core, validate=True) is not source
    core.rewarder = lambda state, actions, after: dict.fromkeys(AGENTS, 1.0)
    assert to(core) is not source


def test_one_agent_is_one_among_several():
    model = load("envoi:catch")
    form = to_pettingzoo(model)
    assert form.possible_agents == ["agent_0"]
    observations, _ = form.reset(seed=0)
    assert exact(observations["agent_0"]) == exact(model.observation)


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


# Aliasing and ownership.


@pytest.mark.parametrize("held", ["the array", "the dict", "nothing"])
def test_later_steps_do_not_change_what_was_seen(held):
    class Source(ParallelSource):
        def _look(self, agent):
            seen = super()._look(agent)
            return seen if held == "the array" else seen.copy()

        def step(self, actions):
            if held == "the dict":
                for seen in self.kept.values():
                    seen[:] = -1
            result = super().step(actions)
            self.kept = result[0] if held == "the dict" else None
            return result

        def reset(self, seed=None, options=None):
            self.kept, infos = super().reset(seed, options)
            return self.kept, infos

    core = from_pettingzoo(Source())
    said = [core.reset(seed=0).observations]
    copies = [copy.deepcopy(said[0])]
    while core.agents:
        said.append(core.step(dict.fromkeys(core.agents, 5)).observations)
        copies.append(copy.deepcopy(said[-1]))
    core.reset()
    assert exact(said) == exact(copies)


@pytest.mark.parametrize("kept", [[0.0], {0: 0.0}, np.zeros(1)], ids=["list", "dict", "array"])
def test_later_steps_do_not_change_what_was_earned(kept):
    kept = copy.deepcopy(kept)

    class Source(ParallelSource):
        def step(self, actions):
            seen, _, *rest = super().step(actions)
            kept[0] = float(self.at)
            return seen, dict.fromkeys(seen, kept), *rest

    core = from_pettingzoo(Source(*[Scene(("zoe", "adam"))] * 4))
    core.reset()
    said = [core.step({"zoe": 5, "adam": 5}).rewards["zoe"] for _ in range(3)]
    assert [one[0] for one in said] == [1, 2, 3]


def test_arrays_without_other_references_are_not_copied():
    made = []

    class Source(ParallelSource):
        def _look(self, agent):
            seen = super()._look(agent).copy()
            made.append(seen.__array_interface__["data"][0])
            return seen

    core = from_pettingzoo(Source())
    core.reset()
    made.clear()
    step = core.step({"zoe": 5, "adam": 5})
    assert {seen.__array_interface__["data"][0] for seen in step.observations.values()} == set(made)


def test_actions_options_and_infos_are_not_shared():
    source = ParallelSource()  # it clears the actions and writes into the options
    core = from_pettingzoo(source)
    options = {"wish": 1}
    core.reset(seed=5, options=options)
    assert options == {"wish": 1}
    assert source.resets == [(5, {"wish": 1})]
    actions = {"adam": 6, "zoe": 7}
    core.step(actions)
    assert actions == {"adam": 6, "zoe": 7}
    assert list(source.actions[0].items()) == [("zoe", 7), ("adam", 6)]  # in the core's order

    class Keeping(ScriptedGame):
        def transition(self, state, actions, rng):
            self.kept = actions
            return super().transition(state, actions, rng)

    game = Keeping()
    form = to_pettingzoo(game)
    form.reset()
    form.step(actions)
    assert game.kept is not actions
    shared = {}

    class Sharing(ParallelSource):
        def _infos(self, scene, spoken):
            return dict.fromkeys(spoken, shared)

    infos = from_pettingzoo(Sharing()).reset().infos
    infos["zoe"]["mine"] = 1
    assert shared == {}


# Seeds and lifecycle.


def test_a_generator_decides_what_follows():
    one, two = (from_pettingzoo(ParallelSource()) for _ in range(2))
    for core in (one, two):
        core.rng = np.random.default_rng(9)
    assert played(one, (None, None)) == played(two, (None, None))
    assert one.unwrapped.np_random is one.rng

    class Seeded(ParallelSource):
        @property
        def np_random(self):
            raise AttributeError

        @np_random.setter
        def np_random(self, generator):
            self.drawing = generator

        def _begin(self, seed, options):
            super()._begin(seed, options)

    source = from_pettingzoo(ParallelSource())
    del source.unwrapped.np_random
    source.rng = np.random.default_rng(9)
    source.reset()
    source.reset()
    first, second = (seed for seed, _ in source.unwrapped.resets)
    assert first is not None
    assert second is None


def test_steps_outside_of_an_episode_are_errors():
    form, core = to_pettingzoo(ScriptedGame()), from_pettingzoo(ParallelSource())
    for step in (form.step, core.step):
        for actions in ({}, {"zoe": 5}):
            with pytest.raises(EpisodeError, match="has not begun"):
                step(actions)
    form.reset()
    core.reset()
    while form.agents:
        form.step(dict.fromkeys(form.agents, 5))
        core.step(dict.fromkeys(core.agents, 5))
    for step in (form.step, core.step):
        with pytest.raises(EpisodeError, match="has ended"):
            step({})
    assert core.agents == ()
    with pytest.raises(EpisodeError, match="nobody"):
        core.observation("nobody")


def test_wrong_agents_are_refused_by_name():
    core = from_pettingzoo(ParallelSource())
    core.reset()
    with pytest.raises(EpisodeError, match=r"missing \['adam'\]"):
        core.step({"zoe": 5})
    with pytest.raises(EpisodeError, match=r"not to act now \['mia'\]"):
        core.step({"zoe": 5, "mia": 5})
    with pytest.raises(EpisodeError, match=r"not to act now \['mia'\]"):
        core.step({"zoe": 5, "adam": 5, "mia": 5})
    assert core.source.actions == []


def test_close_is_forwarded_once_and_metadata_are_a_copy():
    source = ParallelSource()
    core = from_pettingzoo(source)
    form = ToPettingZoo(core)
    form.close()
    form.close()
    core.close()
    assert source.closed == 1
    assert core.metadata == source.metadata
    assert core.metadata is not source.metadata
    assert form.metadata == {**source.metadata, "is_parallelizable": True}
    assert form.render_mode == "ansi"
    core.reset()
    assert form.render() == "scene 0"
    form.metadata["render_modes"].append("x")
    assert source.metadata["render_modes"] == ["ansi"]
    model = to_pettingzoo(load("envoi:pursuit"))
    model.reset(seed=0)
    assert model.render().dtype == np.uint8
    assert str(model) == "Pursuit"


@pytest.mark.parametrize(
    "anew",
    [
        lambda: FromPettingZoo(ParallelSource()),
        lambda: FromPettingZoo(BaseParallelWrapper(ParallelSource())),
        lambda: FromPettingZoo(ToPettingZoo(ScriptedGame(noise=True))),
        lambda: FromPettingZoo(ToPettingZoo(TurnGame(noise=True))),
        lambda: FromPettingZoo(BaseParallelWrapper(ToPettingZoo(TurnGame(noise=True), True))),
        lambda: FromPettingZooAEC(AECSource()),
        lambda: FromPettingZooAEC(OrderEnforcingWrapper(AECSource())),
        lambda: FromPettingZooAEC(AECSource(*PLAY), simultaneous=True),
        lambda: FromPettingZooAEC(ToPettingZooAEC(ScriptedGame(noise=True))),
        lambda: FromPettingZooAEC(OrderEnforcingWrapper(ToPettingZooAEC(TurnGame(noise=True), True))),
    ],
)
def test_copies_pickles_and_snapshots_go_on_in_the_same_way(anew):
    def rest(core):
        said = []
        while core.agents:
            said.append([exact(part) for part in core.step(dict.fromkeys(core.acting, 5))])
        return said, exact(core.reset()), exact(core.reset())

    assert played(copy.deepcopy(anew())) == played(anew())
    for steps in range(4):
        core = anew()
        core.reset(seed=8)
        for _ in range(steps):
            core.step(dict.fromkeys(core.acting, 5))
        others = [copy.deepcopy(core), copy.copy(core), pickle.loads(pickle.dumps(core))]
        others.append(cloudpickle.loads(cloudpickle.dumps(core)))
        space = core.source.action_space("zoe")
        snapshot = core.snapshot()
        said = rest(core)
        for other in others:
            assert rest(other) == said
        for _ in range(2):
            core.restore(snapshot)
            assert core.source.action_space("zoe") is space
            assert rest(core) == said


def test_a_source_that_cannot_be_copied_says_so():
    source = ParallelSource()
    source.generator = (number for number in range(3))
    with pytest.raises(SnapshotUnsupported, match="cannot be copied"):
        from_pettingzoo(source).snapshot()


# State and rewards.


def test_the_state_and_its_space_reach_both_sides():
    source = ParallelSource()
    core = from_pettingzoo(source)
    form = ToPettingZoo(core)
    form.reset(seed=1)
    assert form.state_space == source.state_space
    assert exact(form.state()) == exact(core.state) == exact(source.state())
    nim = to_pettingzoo(load("envoi:nim"))
    nim.reset()
    assert not hasattr(nim, "state_space")
    with pytest.raises(NotImplementedError, match="state_spec"):
        nim.state()
    pursuit = to_pettingzoo(load("envoi:pursuit"))
    pursuit.reset(seed=0)
    assert pursuit.state_space.contains(pursuit.state())


def test_rewards_can_be_replaced_composed_and_put_back():
    core = from_pettingzoo(ParallelSource())
    native = core.rewarder

    def steps(state, actions, after):
        return {agent: float(after[0]) for agent in actions}

    core.rewarder = native + 0.5 * envoi.FunctionReward(steps)
    core.reset()
    assert core.step({"zoe": 5, "adam": 5}).rewards == {"zoe": 16777217.5, "adam": 2**40 + 0.5}
    assert core.step({"zoe": 5, "adam": 5}).rewards == {"zoe": 1.0, "adam": -1.5, "mia": 0.125}
    core.rewarder = native
    core.reset()
    assert core.step({"zoe": 5, "adam": 5}).rewards == {"zoe": 16777217.0, "adam": 2**40}
    core.rewarder = lambda state, actions, after: 1.0
    core.reset()
    with pytest.raises(SpecError, match="mapping"):
        core.step({"zoe": 5, "adam": 5})
    turns = from_pettingzoo_aec(AECSource())
    turns.rewarder = turns.rewarder + (lambda state, actions, after: dict.fromkeys(actions, 1.0))
    turns.reset()
    assert turns.step({"adam": 5}).rewards == {"zoe": 16777217.0, "adam": 2**40 + 1.0}
    assert turns.state.shape == (2,)


def test_validation_names_agent_and_leaf():
    form = to_pettingzoo(ScriptedGame(), validate=True)
    form.reset()
    with pytest.raises(SpecError, match=r"action\['adam'\]"):
        form.step({"zoe": 5, "adam": 77})
    form.step({"zoe": 5, "adam": 5})


# Names.


def test_environments_load_by_name():
    assert str(load("pettingzoo:classic/tictactoe").source) == "tictactoe_v3"
    assert isinstance(load("pettingzoo:mpe/simple_spread?N=2").source, ParallelEnv)
    assert len(load("pettingzoo:mpe/simple_spread?N=2").possible_agents) == 2
    assert len(load("pettingzoo:classic/rps_v2", num_actions=5).action_spec) == 2


def test_names_that_do_not_exist_are_refused_with_near_ones():
    with pytest.raises(UnknownName, match=r"did you mean 'pettingzoo:classic/tictactoe_v3'"):
        load("pettingzoo:classic/tictacto_v3")
    with pytest.raises(UnknownName, match="tictactoe_v3"):
        load("pettingzoo:classic/tictactoe_v1")
    with pytest.raises(UnknownName, match="no such environment"):
        load("pettingzoo:nothing")
    with pytest.raises(SpecError, match="colour"):
        load("pettingzoo:classic/tictactoe_v3?colour=1")


def test_what_is_not_installed_is_named(monkeypatch):
    with pytest.raises(MissingBackend, match=r"pip install 'pettingzoo\[atari\]'"):
        load("pettingzoo:atari/pong_v3")
    monkeypatch.setitem(sys.modules, "mpe2", None)
    with pytest.raises(MissingBackend, match=r"pip install 'envoi\[pettingzoo\]'"):
        load("pettingzoo:mpe/simple_spread_v3")
