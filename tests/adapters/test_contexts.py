"""The contexts of imported environments: one protocol, the same as a model's."""

import copy
import subprocess
import sys
from types import SimpleNamespace

import forms
import gymnasium
import numpy as np
import pytest
from absent import optional
from context_features import actions_of, alone, imported, trajectory
from dm_env import specs
from dm_sources import Seeing
from scripted import Returning
from traces import COPIES, exact

import envoi
from envoi import ContextError, ContextSpace, UniformFloat
from envoi.adapters import load
from envoi.adapters.dm_env import from_dm_env, to_dm_env
from envoi.adapters.gymnasium import from_gymnasium, to_gymnasium
from envoi.adapters.shared import contexts
from envoi.adapters.shared.contexts import Bindable

to_sb3 = optional("envoi.adapters", "to_sb3")

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")

NAME = "Pendulum-v1"
ACTIONS = actions_of(NAME, 30)


def pendulum(**context):
    env = load(f"gymnasium:{NAME}")
    if context:
        env.context = context
    return env


def test_reading_gives_the_full_context_in_the_order_of_the_features():
    env = pendulum(m=2.0, g=3.7)
    assert list(env.context) == list(env.context_space.features)
    assert env.context == {**env.context_space.defaults, "m": 2.0, "g": 3.7}
    env.context["g"] = 0
    assert env.context["g"] == 3.7
    env.context = {"l": 0.5}  # which replaces the whole
    assert env.context == {**env.context_space.defaults, "l": 0.5}


def test_a_context_begins_with_the_next_reset_and_not_before():
    env, plain = pendulum(), pendulum()
    env.reset(seed=0)
    plain.reset(seed=0)
    env.context = {"g": 3.7, "initial_velocity_max": 4.0}
    for action in ACTIONS:
        assert exact(env.step(action)) == exact(plain.step(action))
    first, _ = env.reset(seed=0)
    assert env.unwrapped.g == 3.7
    assert first.tolist() == pendulum(initial_velocity_max=4.0).reset(seed=0).observation.tolist()
    assert first.tolist() != plain.reset(seed=0).observation.tolist()


@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"mas": 1}, r"context\['mas'\]: no such feature; did you mean .*'m'"),
        ({"max_sped": 1}, r"context\['max_sped'\]: no such feature; did you mean 'max_speed'"),
        ({"m": -1}, r"context\['m'\]: expected a .*number of at least 1e-06, got -1"),
        ({"m": "heavy"}, r"context\['m'\]: expected a .*number.*, got 'heavy'"),
        ({"g": float("inf")}, r"context\['g'\]: expected a finite number.*, got inf"),
    ],
)
def test_what_is_no_context_is_refused_and_changes_nothing(context, message):
    env = pendulum(l=0.5)
    before = env.context
    with pytest.raises(ContextError, match=message):
        env.context = context
    with pytest.raises(ContextError, match=message):
        env.spec_under([context])
    assert env.context == before


@pytest.mark.parametrize("number", [np.float32(0.5), np.float64(0.5), np.int64(2)])
def test_numbers_of_numpy_do_not_change_the_precision_of_the_source(number):
    env = pendulum(l=number)
    assert type(env.context["l"]) is float
    assert trajectory(env, ACTIONS) == trajectory(pendulum(l=float(number)), ACTIONS)


def test_an_environment_without_a_context_is_left_alone():
    env, source = load(f"gymnasium:{NAME}"), gymnasium.make(NAME)
    env.reset(seed=0)
    source.reset(seed=0)
    assert env.context["g"] == 10.0
    env.reset(seed=1)
    assert sorted(vars(env.unwrapped)) == sorted(vars(source.unwrapped))
    assert trajectory(env, ACTIONS) == alone(NAME, ACTIONS)


@pytest.fixture
def applied(monkeypatch):
    """The contexts applied to the source, one by one."""
    seen = []

    def counted(source):
        space = ContextSpace([UniformFloat("g", 0, 20, 10.0)])
        return Bindable(space, lambda context: seen.append(dict(context)))

    monkeypatch.setattr(contexts, "bindable", counted)
    return seen


def test_a_context_is_put_in_force_only_when_it_is_another(applied):
    env = pendulum()
    env.reset(seed=0)
    env.reset()
    assert applied == []
    env.context = {}
    env.reset()
    assert applied == []
    env.context = {"g": 3.0}
    env.context = {"g": 5.0}
    assert applied == []
    env.reset()
    env.reset(seed=1)
    env.context = {"g": 5}
    env.reset()
    assert applied == [{"g": 5.0}]
    env.context = {}
    env.reset()
    assert applied == [{"g": 5.0}, {"g": 10.0}]


def test_a_source_that_a_factory_replaces_gets_the_context_again(monkeypatch):
    def sink(seed):
        source = Seeing(specs.Array((1,), np.float64), lambda source: np.array([source.depth]))
        source.depth = 1.0
        return source

    def known(source):
        return Bindable(ContextSpace([UniformFloat("depth", 0, 9, 1.0)]), lambda context: vars(source).update(context))

    monkeypatch.setattr(contexts, "bindable", known)
    env = from_dm_env(sink)
    env.context = {"depth": 3.0}
    assert [env.reset(seed=seed).observation.tolist() for seed in (None, 0, 1, None)] == [[3.0]] * 4
    assert to_dm_env(env) is not env.source  # whose resets know nothing of contexts


def test_what_no_catalogue_has_takes_no_contexts():
    env = load("gymnasium:FrozenLake-v1")
    assert env.context_space is None
    assert env.context == {}
    env.context = {}
    assert env.spec_under([{}]) is env.observation_spec
    with pytest.raises(ContextError, match=r"context\['slippery'\]: .*no catalogue.*bind="):
        env.context = {"slippery": 1}


# Observations and their spec.


def test_a_context_that_moves_the_bounds_must_be_declared():
    env = pendulum()
    with pytest.raises(ContextError, match=r"context\['max_speed'\]: with 16 an .*Contextual\(env, contexts"):
        env.context = {"g": 3.0, "max_speed": 16}
    with pytest.raises(ContextError, match="initial_velocity_max"):
        env.context = {"initial_velocity_max": 9.0}
    assert env.context == env.context_space.defaults
    spec = env.spec_under([{"max_speed": 16}])
    assert spec.high.tolist() == [1, 1, 16]
    env.context = {"max_speed": 12.0}
    with pytest.raises(ContextError, match="max_speed"):
        env.context = {"max_speed": 17}
    assert env.observation_spec.high.tolist() == [1, 1, 8]
    # The present one counts, too.
    assert env.spec_under([]).high.tolist() == [1, 1, 12]
    assert env.spec_under([{"g": 3.0}]).high.tolist() == [1, 1, 12]


def test_wrappers_of_the_source_that_change_observations_leave_the_bounds_unknown():
    source = gymnasium.wrappers.RescaleObservation(gymnasium.make(NAME), np.float32(0), np.float32(1))
    env = from_gymnasium(source)
    assert env.spec_under([{"g": 3.0}]) is env.observation_spec
    env.context = {"g": 3.0, "max_speed": 4.0}
    with pytest.raises(ContextError, match="wrap it in envoi's wrappers"):
        env.spec_under([{"max_speed": 16}])
    with pytest.raises(ContextError, match="max_speed"):
        env.context = {"max_speed": 16}


# Copies and snapshots.

CONTEXTS = {
    "Pendulum-v1": {"g": 3.7, "initial_velocity_max": 4.0},
    "CartPole-v1": {"length": 1.0, "initial_state_upper": 0.1},
    "Acrobot-v1": {"LINK_MASS_1": 2.0, "INITIAL_ANGLE_UPPER": 1.0},
    "MountainCar-v0": {"force": 0.002, "min_position_start": -0.7},
    "MountainCarContinuous-v0": {"power": 0.003, "max_position_start": -0.3},
}
REBUILT = {
    "Hopper-v5": {"mass_torso": 1.0, "gravity": -5.0},
    "LunarLander-v3": {"FPS": 60},
    "BipedalWalker-v3": {"FPS": 60},
}
"""Of these, gymnasium makes a new copy, in no episode."""


@pytest.mark.parametrize("twin", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("name", CONTEXTS)
def test_a_copy_continues_in_the_context_and_has_one_of_its_own(name, twin):
    env, actions = load(f"gymnasium:{name}"), actions_of(name, 10)
    env.context = CONTEXTS[name]
    coming = twin(env)
    env.reset(seed=0)
    env.step(actions[0])
    other = twin(env)
    assert other.context == env.context
    assert other.context_space == env.context_space
    for action in actions[1:]:
        assert exact(other.step(action)) == exact(env.step(action))
    assert trajectory(other, actions) == trajectory(env, actions)
    in_context = trajectory(env, actions)
    assert trajectory(coming, actions) == in_context
    other.context = {}
    assert trajectory(other, actions) == alone(name, actions)
    assert trajectory(env, actions) == in_context != alone(name, actions)


@pytest.mark.parametrize("twin", [copy.deepcopy, COPIES["pickle"]], ids=["copy", "pickle"])
@pytest.mark.parametrize("name", REBUILT)
def test_a_new_copy_has_the_context(name, twin):
    env, actions = imported(name, REBUILT[name]), actions_of(name, 15)
    before = twin(env)
    expected = trajectory(env, actions)
    other = twin(env)
    assert trajectory(before, actions) == trajectory(other, actions) == expected
    other.context = {}
    assert trajectory(other, actions) == alone(name, actions)
    assert trajectory(env, actions) == expected


@pytest.mark.parametrize("name", [*CONTEXTS, "Hopper-v5"])
def test_a_snapshot_holds_what_is_in_force_and_what_is_to_come(name):
    env, actions, context = load(f"gymnasium:{name}"), actions_of(name, 10), {**CONTEXTS, **REBUILT}[name]
    plain = trajectory(load(f"gymnasium:{name}"), actions)
    before = env.snapshot()
    env.context = context
    in_context = trajectory(env, actions)
    env.reset(seed=0)
    env.context = {}
    held = env.snapshot()
    after = [exact(env.step(action)) for action in actions]
    assert trajectory(env, actions) == plain
    for each in (env, load(f"gymnasium:{name}")):
        each.restore(held)
        assert [exact(each.step(action)) for action in actions] == after
        assert each.context == each.context_space.defaults
        assert trajectory(each, actions) == plain
    env.context = context
    assert trajectory(env, actions) == in_context
    env.restore(before)
    assert env.context == env.context_space.defaults
    assert trajectory(env, actions) == plain


def test_looking_for_a_catalogue_imports_no_framework():
    code = (
        "import sys, types, envoi.adapters.shared.contexts as c\n"
        "assert c.bindable(types.SimpleNamespace()) is None\n"
        "assert not {'gymnasium', 'mujoco', 'dm_control', 'Box2D', 'dm_env'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
    assert contexts.bindable(SimpleNamespace()) is None


# Set on a form, a context reaches the dynamics of the environment inside, or is refused.

HEAVY = {"m": 3.0}

SINGLE = {
    "import": lambda: load("gymnasium:Pendulum-v1"),
    "model": lambda: load("envoi:pendulum"),
    "wrapped": lambda: envoi.TimeLimit(load("gymnasium:Pendulum-v1"), 50),
    "contextual": lambda: envoi.Contextual(load("gymnasium:Pendulum-v1"), [{"m": 0.5}, {"m": 4.0}], hide_context=True),
    "contextual model": lambda: envoi.Contextual(load("envoi:pendulum"), [{"m": 0.5}, {"m": 4.0}], hide_context=True),
}
BATCHES = {
    "lanes": lambda: envoi.batch(lambda: load("gymnasium:Pendulum-v1"), 2),
    "batch of a model": lambda: envoi.batch(load("envoi:pendulum"), 2),
    "contextual around a batch": lambda: envoi.Contextual(envoi.batch(load("envoi:pendulum"), 2), hide_context=True),
    "contextual around lanes": lambda: envoi.Contextual(
        envoi.batch(lambda: load("gymnasium:Pendulum-v1"), 2), [{"m": 0.5}, {"m": 4.0}], hide_context=True
    ),
    "workers": lambda: envoi.batch(lambda: load("gymnasium:Pendulum-v1"), 2, workers=1),
    **{name: (lambda make=make: envoi.batch(make, 2)) for name, make in SINGLE.items() if name != "import"},
}


def set_attribute(form, context):
    form.context = context


def set_through_wrappers(form, context):
    gymnasium.Wrapper(form).set_wrapper_attr("context", context)


def set_in_lanes(form, context):
    form.set_attr("context", context)


def set_each_lane(form, context):
    for lane in range(2):
        form.set_attr("context", context, [lane])


def form_of(name, core):
    row = forms.FORMS[name]
    return row.make(envoi.as_multi(core) if row.kind == "several" else core)


def play(name, form):
    row, rng = forms.FORMS[name], np.random.default_rng(0)
    row.begin(form, 3)
    return [exact(row.step(form, rng)[:2]) for _ in range(4)]


ONE = ("gymnasium", "dm_env", "tf_agents", "rllib", "pettingzoo", "pettingzoo_aec")
WAYS = [*((name, set_attribute) for name in ONE), ("gymnasium", set_through_wrappers)]
WAYS_OF_LANES = [
    *(("vector next step", put) for put in (set_in_lanes, set_attribute)),
    *(("sb3", put) for put in (set_in_lanes, set_each_lane)),
]
CASES = [
    pytest.param(make, *way, id=f"{env}, {way[0]}, {way[1].__name__}")
    for makes, ways in ((SINGLE, WAYS), (BATCHES, WAYS_OF_LANES))
    for env, make in makes.items()
    for way in ways
]


@pytest.mark.parametrize(("make", "name", "put"), CASES)
def test_a_context_reaches_the_dynamics(make, name, put):
    plain, changed, heavy = make(), make(), make()
    heavy.context = HEAVY
    form = form_of(name, changed)
    put(form, HEAVY)
    trace = play(name, form)
    assert trace == play(name, form_of(name, heavy))
    assert trace != play(name, form_of(name, plain))
    for env in (plain, changed, heavy):
        env.close()


@pytest.mark.parametrize(("make", "name", "put"), CASES)
def test_a_misspelt_feature_is_refused(make, name, put):
    env = make()
    with pytest.raises(ContextError, match="mas"):
        put(form_of(name, env), {"mas": 3.0})
    env.close()


@pytest.mark.parametrize(("name", "put"), WAYS)
def test_an_environment_without_contexts_refuses_them(name, put):
    with pytest.raises(ContextError, match=r"bind=|no features|no catalogue"):
        put(form_of(name, envoi.TimeLimit(load("gymnasium:FrozenLake-v1"), 9)), HEAVY)


def test_lanes_have_contexts_and_ids_of_their_own():
    masses = {"a": {"m": 0.5}, "b": {"m": 4.0}}
    for make in (BATCHES["lanes"], BATCHES["batch of a model"]):
        form = to_sb3(envoi.Contextual(make(), masses))
        form.reset()
        assert form.get_attr("context_id") == ["a", "b"]
        assert [context["m"] for context in form.get_attr("context")] == [0.5, 4.0]
        assert form.get_attr("context_id", [1]) == ["b"]


def test_a_context_of_one_lane_leaves_the_others():
    form = to_sb3(BATCHES["batch of a model"]())
    form.set_attr("context", HEAVY, [1])
    assert [context["m"] for context in form.get_attr("context")] == [1.0, 3.0]


class Contexts(Returning):
    """A source with an attribute `context` of its own."""

    context = 1


def test_a_context_of_the_source_itself_is_set_there():
    form = to_gymnasium(from_gymnasium(Contexts(gymnasium.spaces.Discrete(9), lambda env: env.context)))
    form.context = 4
    assert form.context == form.reset()[0] == 4
