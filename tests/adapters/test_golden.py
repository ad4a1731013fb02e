"""The golden traces: played through every form, through all ordered pairs of them, and through chains of three.

The classes that import are given our own forms directly, so that every conversion really runs: the functions
`from_…` would hand back the core environment inside.
"""

import itertools
from functools import cache

import golden
import pytest
import scripted_games
from absent import optional

import envoi
from envoi.adapters import FRAMEWORKS, TARGETS, to_gymnasium_vector
from envoi.adapters.gymnasium_vector import FromGymnasiumVector
from envoi.adapters.pettingzoo import FromPettingZoo, ToPettingZoo
from envoi.adapters.pettingzoo_aec import FromPettingZooAEC, ToPettingZooAEC
from envoi.adapters.rllib import WorkerSeeds

RLlibMultiEnv = optional("envoi.adapters.rllib.multi_form", "RLlibMultiEnv")
FromRLlibMulti = optional("envoi.adapters.rllib.multi_source", "FromRLlibMulti")
to_sb3, FromSB3 = (optional("envoi.adapters.sb3", name) for name in ("to_sb3", "FromSB3"))

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")


def through_vector(env):
    """One lane that the auto-reset never touches."""
    return golden.OneLane(FromGymnasiumVector(to_gymnasium_vector(env, 1, autoreset_mode="Disabled")))


def through_sb3(env):
    """One lane of what Stable-Baselines3 has no nesting for; the specs on either side of it are compared as well."""
    there = golden.Shallow(env)
    back = golden.OneLane(FromSB3(to_sb3(there, 1)))
    assert envoi.spec_equal(back.observation_spec, there.observation_spec)
    assert envoi.spec_equal(back.action_spec, there.action_spec)
    return golden.Deep(back, env.observation_spec, env.action_spec)


def through_parallel(env):
    return envoi.as_single(FromPettingZoo(ToPettingZoo(env)))


def through_aec(env):
    return envoi.as_single(FromPettingZooAEC(ToPettingZooAEC(env)))


def through_rllib(env):
    form = RLlibMultiEnv(envoi.as_multi(env), canonical=False, in_evaluation=True)
    return envoi.as_single(FromRLlibMulti(form))


def through(name):
    """There and back through a framework of environments of one agent."""
    package = FRAMEWORKS[name].load()
    return lambda env: package.IMPORTER(package.FORM(env))


OTHER_SHAPES = {
    "gymnasium_vector": through_vector,
    "pettingzoo": through_parallel,
    "pettingzoo_aec": through_aec,
    "rllib": through_rllib,
    "sb3": through_sb3,
}
"""There and back, by framework: those whose environments have several agents or lanes."""

SINGLE = {name: OTHER_SHAPES.get(name) or through(name) for name in TARGETS}
"""There and back, by framework: an environment of one agent."""

GAMES = {"at once": scripted_games.ScriptedGame, "in turns": scripted_games.TurnGame}


def several(game):
    """There and back, by framework: an environment of several agents."""
    # All that act at once do so in a cycle there, which only who knows of it can read as one step.
    at_once = game == "at once"
    return {
        "pettingzoo": lambda env: FromPettingZoo(ToPettingZoo(env)),
        "pettingzoo_aec": lambda env: FromPettingZooAEC(ToPettingZooAEC(env), simultaneous=at_once),
        "rllib": lambda env: FromRLlibMulti(RLlibMultiEnv(env, canonical=False, in_evaluation=True)),
    }


SEVERAL = several("at once")


def chains(ways, length):
    """All ordered pairs, or chains of three, as parameters."""
    return [pytest.param(names, id=" → ".join(names)) for names in itertools.product(ways, repeat=length)]


def arriving(seeds, names):
    """The seeds that reach the environment inside: RLlib's form makes one of its own of each."""
    for _ in range(names.count("rllib")):
        seeds = [None if seed is None else WorkerSeeds(in_evaluation=True).core_seed(seed) for seed in seeds]
    return tuple(seeds)


def sent(env, ways, names):
    for name in names:
        env = ways[name](env)
    return env


def test_every_framework_is_a_form_here():
    assert set(SINGLE) == set(TARGETS)


SEEDS = (0, None, None, 1, 0, None, None, None, 5)


@cache
def alone(seeds, episode=None):
    return golden.played(golden.Golden(), seeds, None if episode is None else {"episode": episode})


@pytest.mark.parametrize("names", [*chains(SINGLE, 1), *chains(SINGLE, 2), *chains(SINGLE, 3)])
def test_the_golden_trace_of_one_agent(names):
    came = sent(golden.Golden(), SINGLE, names)
    assert golden.played(came, SEEDS) == alone(arriving(SEEDS, names))
    for what in ("observation_spec", "action_spec", "reward_spec", "discount_spec"):
        assert envoi.spec_equal(getattr(came, what), getattr(golden.Golden, what)), what


@pytest.mark.parametrize("episode", range(len(golden.EPISODES)))
@pytest.mark.parametrize("names", [*chains(SINGLE, 1), *chains(SINGLE, 2)])
def test_every_row_of_the_steps_and_options_that_choose_it(names, episode):
    options = {"episode": episode}
    # Stable-Baselines3 has begun the next episode, without options, before a caller can choose another.
    seeds = (3, 4 if "sb3" in names else None)
    played = golden.played(sent(golden.Golden(), SINGLE, names), seeds, options)
    assert played == alone(arriving(seeds, names), episode)
    assert options == {"episode": episode}
    assert sum(len(lines) for lines in golden.EPISODES) + len(golden.EPISODES) == 19  # one reset an episode


# Several agents.


@pytest.mark.parametrize("game", GAMES)
@pytest.mark.parametrize("names", [*chains(SEVERAL, 1), *chains(SEVERAL, 2), *chains(SEVERAL, 3)])
def test_the_golden_trace_of_several_agents(names, game):
    came = sent(GAMES[game](), several(game), names)
    seeds = (0, None, 1, None, 0)
    assert scripted_games.played(came, seeds) == scripted_games.played(GAMES[game](), arriving(seeds, names))
    assert tuple(came.possible_agents) == GAMES[game].possible_agents
    for what in ("observation_spec", "action_spec", "state_spec"):
        assert envoi.spec_equal(getattr(came, what), getattr(GAMES[game], what)), what
