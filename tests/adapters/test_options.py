"""Options of a reset that a source has no place for: a warning, a line of `losses`, an error under `validate=True`."""

import forms
import gridverse_like
import gymnasium
import pytest
from absent import optional
from dm_env import StepType
from dm_sources import Playing, Wrapping
from pettingzoo.utils import BaseParallelWrapper
from scripted import Returning, Scripted
from traces import exact

import envoi
from envoi import SpecError
from envoi.adapters import TARGETS, convert, from_env, from_gridverse, load, losses
from envoi.adapters.dm_env import from_dm_env, to_dm_env
from envoi.adapters.gymnasium import from_gymnasium, to_gymnasium
from envoi.adapters.shared.loss import DroppedOptionsWarning

to_rllib = optional("envoi.adapters", "to_rllib")

MIDDLE = (StepType.MID, 0.0, 1.0)
LINES = [MIDDLE] * 90 + [(StepType.LAST, 1.0, 0.0)]


def played():
    return from_dm_env(Playing(*LINES))


SOURCES = {
    "dm_env": played,
    "gridverse": lambda: from_gridverse(gridverse_like.make()),
    "wrapped": lambda: envoi.TimeLimit(played(), 9),
    "as one of several": lambda: envoi.as_multi(played()),
    "and back": lambda: envoi.as_single(envoi.TimeLimit(envoi.as_multi(played()), 9)),
    "behind our form and a wrapper": lambda: from_dm_env(Wrapping(to_dm_env(from_gridverse(gridverse_like.make())))),
    "behind gymnasium's wrapper": lambda: from_gymnasium(gymnasium.Wrapper(to_gymnasium(played()))),
}
every_source = pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)


@every_source
def test_options_without_a_place_are_a_warning_once_and_change_nothing(make):
    plain, env, options = make(), make(), {"difficulty": 3}
    for nothing in (None, {}):
        env.reset(seed=1, options=nothing)
    with pytest.warns(DroppedOptionsWarning, match=r"options: .* takes? no options.*'difficulty'") as caught:
        env.reset(seed=1, options=options)
    assert len(caught) == 1
    env.reset(seed=1, options=options)
    env.reset(seed=1, options={"another": 1})
    assert options == {"difficulty": 3}
    plain.reset(seed=1)
    observe = (lambda one: one.observation("agent")) if isinstance(env, envoi.MultiEnv) else lambda one: one.observation
    assert repr(observe(env)) == repr(observe(plain))


@every_source
def test_a_warning_made_an_error_leaves_the_episode_as_it_was_and_comes_again(make):
    env = make()
    env.reset(seed=3)
    before = repr(env.state)
    for _ in range(2):
        with pytest.raises(DroppedOptionsWarning):  # which the tests' settings make of a warning
            env.reset(seed=4, options={"difficulty": 3})
        assert repr(env.state) == before


@every_source
def test_losses_list_options_without_a_place_for_every_target(make):
    for target in TARGETS:
        (loss,) = [loss for loss in losses(make(), target) if loss.path == "options"]
        assert not loss.refused
        assert loss.field == "reach"
        assert "validate=True" in loss.hint
        assert str(loss).startswith("options: reach lost")


@pytest.mark.parametrize("name", ["envoi:catch", "envoi:pursuit", "gymnasium:CartPole-v1", "pettingzoo:classic/rps_v2"])
def test_losses_list_no_options_where_they_reach_the_source(name):
    env = load(name)
    assert env.takes_options
    assert env.untaken({"a": 1}) == {}
    assert not [loss for target in TARGETS for loss in losses(env, target) if loss.path == "options"]


BEGIN = {name: forms.FORMS[name].begin for name in ("dm_env", "tf_agents", "pettingzoo_aec", "sb3")}


@pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")
@pytest.mark.parametrize("name", TARGETS)
def test_validation_makes_them_an_error_before_anything_happens(name):
    source = Playing(*LINES)
    form = convert(from_dm_env(source), name, validate=True)
    form, begin = form({}) if name == "rllib" else form, BEGIN.get(name, forms.begin_gym)
    before = source.resets
    with pytest.raises(SpecError, match=r"options\['difficulty'\]: expected no options.*takes none, got 3"):
        begin(form, None, {"difficulty": 3})
    assert source.resets == before
    begin(form, None, {})
    begin(form)


def test_validation_lets_through_what_core_models_are_given():
    env = envoi.Validated(Scripted())
    env.reset(options={"difficulty": 3})
    assert env.unwrapped.seen == [{"difficulty": 3}]
    envoi.ValidatedMulti(load("envoi:nim")).reset(options={"anything": 3})


def test_a_wrapper_may_take_options_of_its_own_before_a_source_that_takes_none():
    class Skipping(envoi.Wrapper):
        def untaken(self, options):
            return super().untaken({name: value for name, value in options.items() if name != "skip"})

        def reset(self, *, seed=None, options=None, mask=None):
            rest = {name: value for name, value in (options or {}).items() if name != "skip"}
            return super().reset(seed=seed, options=rest, mask=mask)

    env = envoi.Validated(Skipping(played()))
    env.reset(options={"skip": 2})
    with pytest.raises(SpecError, match="'difficulty'"):
        env.reset(options={"skip": 2, "difficulty": 1})


def test_contextual_takes_its_own_options_and_passes_on_the_rest():
    make = lambda: envoi.Contextual(played(), {"a": {"at": 0}, "b": {"at": 0}}, hide_context=True)  # noqa: E731
    env = make()
    assert env.reset(options={"context_id": "b"}).info["context_id"] == "b"
    env.reset(options={"at": 0, "context": {}})
    with pytest.warns(DroppedOptionsWarning, match="'difficulty'"):
        env.reset(options={"context_id": "b", "difficulty": 3})
    checked = envoi.Validated(make())
    assert checked.reset(options={"context_id": "b"}).info["context_id"] == "b"
    with pytest.raises(SpecError, match=r"options\['difficulty'\]"):
        checked.reset(options={"context_id": "b", "difficulty": 3})
    assert [loss.path for loss in losses(env, "gymnasium")].count("options") == 1


def test_the_lanes_of_a_batch_say_it_in_the_same_words_so_that_python_shows_it_once(capsys):
    env = envoi.batch(load("bsuite:catch/0"), 3)
    assert not env.takes_options
    assert env.untaken({"a": 1}) == {"a": 1}
    with pytest.warns(DroppedOptionsWarning) as caught:
        env.reset(options={"difficulty": 3})
    assert len({(str(one.message), one.filename, one.lineno) for one in caught}) == 1


# Sources whose own `reset` has no parameter for options.


class SeedOnly(Returning):
    def __init__(self):
        super().__init__(gymnasium.spaces.Discrete(99), lambda env: int(env.np_random.integers(99)))

    def reset(self, seed=None):
        return super().reset(seed=seed)


class ZooSeedOnly(BaseParallelWrapper):
    def reset(self, seed=None):
        return super().reset(seed)


@pytest.mark.parametrize("source", [SeedOnly, lambda: ZooSeedOnly(load("pettingzoo:mpe/simple_spread_v3").source)])
def test_a_reset_without_options_runs(source):
    env = from_env(source())
    assert exact(env.reset(seed=4)[0]) == exact(env.reset(seed=4)[0]) != exact(env.reset()[0])
    assert any(loss.path == "options" for loss in losses(env, "rllib"))
    with pytest.warns(DroppedOptionsWarning, match=r"takes no options, so 'size'"):
        env.reset(options={"size": 3})
    with pytest.raises(SpecError, match=r"options\['size'\]"):
        envoi.Validated(env).reset(options={"size": 3})
