"""A context that is set on a form reaches the dynamics of the environment inside, or is refused."""

import gymnasium
import numpy as np
import pytest
from absent import optional

import envoi
from envoi import ContextError
from envoi.adapters import (
    from_gymnasium,
    load,
    to_dm_env,
    to_gymnasium,
    to_gymnasium_vector,
    to_pettingzoo,
    to_pettingzoo_aec,
    to_tf_agents,
)

to_rllib = optional("envoi.adapters", "to_rllib")
to_sb3 = optional("envoi.adapters", "to_sb3")

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")

HEAVY = {"m": 3.0}
ACTION = np.array([1.0], np.float32)

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


def play_gymnasium(form):
    form.reset(seed=3)
    return [form.step(ACTION)[:2] for _ in range(4)]


def play_time_steps(form):
    form.seed(3)
    form.reset()
    return [(step.observation, step.reward) for step in (form.step(ACTION) for _ in range(4))]


def play_agent(form):
    form.reset(seed=3)
    (agent,) = form.possible_agents
    return [tuple(values[agent] for values in form.step({agent: ACTION})[:2]) for _ in range(4)]


def play_turns(form):
    form.reset(seed=3)
    steps = []
    for _ in range(4):
        form.step(ACTION)
        steps.append(form.last()[:2])
    return steps


def rllib_form(env):
    return to_rllib(env)({})


FORMS = {
    "gymnasium": (to_gymnasium, set_attribute, play_gymnasium),
    "gymnasium wrapper": (to_gymnasium, set_through_wrappers, play_gymnasium),
    "dm_env": (to_dm_env, set_attribute, play_time_steps),
    "pettingzoo": (to_pettingzoo, set_attribute, play_agent),
    "pettingzoo_aec": (to_pettingzoo_aec, set_attribute, play_turns),
    "tf_agents": (to_tf_agents, set_attribute, play_time_steps),
    "rllib": (rllib_form, set_attribute, play_gymnasium),
}


# The gymnasium form of an import is its source, which is not ours.
PAIRS = [(env, form) for env in SINGLE for form in FORMS if env != "import" or not form.startswith("gymnasium")]


def play_vector(form):
    form.reset(seed=[3, 4])
    return [form.step(np.array([ACTION, ACTION]))[:2] for _ in range(4)]


def play_sb3(form):
    form.seed(3)
    form.reset()
    return [form.step(np.array([ACTION, ACTION]))[:2] for _ in range(4)]


def set_in_lanes(form, context):
    form.set_attr("context", context)


def set_each_lane(form, context):
    for lane in range(2):
        form.set_attr("context", context, [lane])


LANE_FORMS = {
    "vector": (to_gymnasium_vector, set_in_lanes, play_vector),
    "vector attribute": (to_gymnasium_vector, set_attribute, play_vector),
    "sb3": (to_sb3, set_in_lanes, play_sb3),
    "sb3 by lane": (to_sb3, set_each_lane, play_sb3),
}


def same(one, other):
    pairs = [pair for steps in zip(one, other, strict=True) for pair in zip(*steps, strict=True)]
    return all(np.array_equal(*pair) for pair in pairs)


def check(make, to_form, put, play):
    plain, changed, heavy = make(), make(), make()
    heavy.context = HEAVY
    form = to_form(changed)
    put(form, HEAVY)
    trace, expected = play(form), play(to_form(heavy))
    assert same(trace, expected)
    assert not same(trace, play(to_form(plain)))
    for env in (plain, changed, heavy):
        env.close()


@pytest.mark.parametrize(("env", "form"), PAIRS)
def test_a_context_reaches_the_dynamics(env, form):
    check(SINGLE[env], *FORMS[form])


@pytest.mark.parametrize("form", LANE_FORMS)
@pytest.mark.parametrize("batch", BATCHES)
def test_a_context_reaches_the_dynamics_of_lanes(batch, form):
    check(BATCHES[batch], *LANE_FORMS[form])


@pytest.mark.parametrize(
    ("make", "form"),
    [
        *((SINGLE[env], FORMS[form]) for env, form in PAIRS),
        *((make, form) for make in BATCHES.values() for form in LANE_FORMS.values()),
    ],
)
def test_a_misspelt_feature_is_refused(make, form):
    to_form, put, _ = form
    env = make()
    with pytest.raises(ContextError, match="mas"):
        put(to_form(env), {"mas": 3.0})
    env.close()


@pytest.mark.parametrize("form", FORMS)
def test_an_environment_without_contexts_refuses_them(form):
    to_form, put, _ = FORMS[form]
    with pytest.raises(ContextError, match=r"bind=|no features|no catalogue"):
        put(to_form(envoi.TimeLimit(load("gymnasium:FrozenLake-v1"), 9)), HEAVY)


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
