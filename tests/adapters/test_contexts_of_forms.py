"""A context that is set on a form reaches the dynamics of the environment inside, or is refused."""

import forms
import gymnasium
import numpy as np
import pytest
from absent import optional
from traces import exact

import envoi
from envoi import ContextError
from envoi.adapters import from_gymnasium, load, to_gymnasium

to_rllib = optional("envoi.adapters", "to_rllib")
to_sb3 = optional("envoi.adapters", "to_sb3")

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")

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


class Contexts(gymnasium.Env):
    """A source with an attribute `context` of its own."""

    observation_space, action_space = gymnasium.spaces.Discrete(9), gymnasium.spaces.Discrete(2)
    context = 1

    def reset(self, *, seed=None, options=None):
        return self.context, {}

    def step(self, action):
        return self.context, 0.0, False, False, {}


def test_a_context_of_the_source_itself_is_set_there():
    form = to_gymnasium(from_gymnasium(Contexts()))
    form.context = 4
    assert form.context == form.reset()[0] == 4
