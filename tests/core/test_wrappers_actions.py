"""Other ways to say an action."""

from functools import partial

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from small_models import Steps, Sums
from strategies import Pair, arrays, discretes, generators, multi_binaries, multi_discretes, nested

import envoi
import envoi.models
from envoi.lane_values import stack
from envoi.protocol.multi_env import MASK

WRAPPERS = {
    "clip": envoi.ActionClip,
    "discretize": lambda env: envoi.ActionDiscretize(env, 5),
    "flatten": envoi.FlattenAction,
    "offset": envoi.ActionOffset,
    "one-hot": envoi.OneHotAction,
}


class Told(Steps):
    """Observes its latest action."""

    def __init__(self, action_spec):
        self.action_spec = action_spec
        self.observation_spec = action_spec

    def initial(self, rng, context):
        return envoi.zeros(self.action_spec)

    def transition(self, state, action, rng):
        return action

    def observe(self, state, rng):
        return state


def told(wrapper, *actions):
    """The actions that an environment receives for these actions of a wrapper around it."""
    wrapper.reset()
    return [wrapper.step(action).observation for action in actions]


def test_clip_goes_into_trees_and_leaves_what_has_no_bounds():
    spec = {
        "torque": envoi.Array((), "float64", None, 2.0),
        "kind": Pair(envoi.Discrete(3, start=-1), envoi.MultiDiscrete([2, 4], [0, 1])),
        "free": envoi.Array((1,), "int8"),
        "word": envoi.Text(5),
    }
    env = envoi.ActionClip(Told(spec))
    assert env.action_spec is spec
    given_action = {"torque": 9.0, "kind": Pair(-8, np.array([-1, 9])), "free": np.int8([100]), "word": "hello"}
    (seen,) = told(env, given_action)
    assert seen["torque"] == 2
    assert seen["kind"].left == -1
    assert seen["kind"].right.tolist() == [0, 4]
    assert seen["free"] is given_action["free"]
    assert seen["word"] == "hello"


def test_clip_keeps_the_bounds_to_aim_at_unless_asked_to_drop_them():
    env = envoi.models.Pendulum()
    assert envoi.spec_equal(envoi.ActionClip(env).action_spec, env.action_spec)
    spec = envoi.ActionClip(env, unbounded=True).action_spec
    assert (spec.shape, spec.dtype, spec.low, spec.high) == ((1,), env.action_spec.dtype, None, None)


def test_offset_counts_from_zero():
    env = envoi.ActionOffset(Told(envoi.Array((), "int32", -1, 1, "move")))
    assert envoi.spec_equal(env.action_spec, envoi.Array((), "int32", 0, 2, "move"))
    assert [int(seen) for seen in told(env, 0, 1, 2)] == [-1, 0, 1]
    assert {seen.dtype for seen in told(env, 0, np.int64(1))} == {np.dtype("int32")}


def starts(spec):
    start = spec.low if isinstance(spec, envoi.Array) else getattr(spec, "start", 0)
    return np.broadcast_to(start, spec.shape)


integers = (
    discretes(("int64", "int32", "uint64")).filter(lambda spec: spec.n < 2**62 and abs(spec.start) < 2**61)
    | multi_discretes()
    | multi_binaries()
    | arrays(("int64", "uint8"), finite=True).filter(
        lambda spec: spec.shape == () or np.all(spec.high.astype(object) - spec.low < 2**60)
    )
)


@example(envoi.Discrete(2**31 + 1, -(2**31), "int32"), np.random.default_rng(0))
@given(nested(integers), generators())
def test_offset_by_the_start_lies_in_the_spec_inside(spec, rng):
    try:
        env = envoi.ActionOffset(Told(spec))
    except envoi.SpecError as error:
        assert "fit" in str(error)  # noqa: PT017 (the whole range of int64 has no such offset)
        return
    action = envoi.sample(env.action_spec, rng)
    (inside,) = told(env, action)
    envoi.validate(spec, inside)
    differences = envoi.tree.map_leaves(lambda leaf, a, b: np.asarray(a - b), spec, inside, action)
    envoi.tree.map_leaves(lambda leaf, one: np.testing.assert_array_equal(one, starts(leaf)), spec, differences)


def test_discretize_an_array_by_a_number_for_each_element():
    env = envoi.ActionDiscretize(Told(envoi.Array((2, 2), "float64", -10, [[10, 10], [0, 30]])), [[2, 5], [3, 9]])
    assert envoi.spec_equal(env.action_spec, envoi.MultiDiscrete([[2, 5], [3, 9]]))
    seen = told(env, np.array([[0, 2], [1, 8]]), np.array([[1, 4], [2, 0]]))
    assert [one.tolist() for one in seen] == [[[-10, 0], [-5, 30]], [[10, 10], [0, -10]]]


def test_discretize_a_tree_by_one_number_or_by_as_many_as_there_are_leaves():
    spec = {"a": envoi.Array((1,), "float32", 0, 1), "b": [envoi.Array((2,), "float32", -1, 1), envoi.Discrete(2)]}
    one = envoi.ActionDiscretize(Told(spec), 3)
    assert envoi.spec_equal(
        one.action_spec, {"a": envoi.Discrete(3), "b": [envoi.MultiDiscrete([3, 3]), envoi.Discrete(2)]}
    )
    (seen,) = told(one, {"a": 1, "b": [np.array([0, 2]), 1]})
    assert seen["a"].tolist() == [0.5]
    assert seen["b"][0].tolist() == [-1, 1]
    assert seen["b"][1] == 1
    each = envoi.ActionDiscretize(Told(spec), {"a": 2, "b": [[3, 4], None]})
    assert envoi.spec_equal(each.action_spec["b"][0], envoi.MultiDiscrete([3, 4]))


@given(arrays(("float16", "float32", "float64"), finite=True), st.integers(2, 9), generators())
def test_discretized_values_lie_in_the_spec_inside_and_reach_both_ends(spec, n, rng):
    env = envoi.ActionDiscretize(Told(spec), n)
    one = isinstance(env.action_spec, envoi.Discrete)
    last = n - 1 if one else env.action_spec.last
    first, middle, end = told(env, 0 * last, env.action_spec.sample(rng), last)
    for value in (first, middle, end):
        spec.validate(value)
    np.testing.assert_array_equal(first, np.broadcast_to(spec.low, spec.shape))
    np.testing.assert_array_equal(end, np.broadcast_to(spec.high, spec.shape))


@pytest.mark.parametrize("dtype", ["int8", "int32", np.uint16, np.dtype("int64")])
def test_discretized_actions_have_the_dtype_that_is_asked_for(dtype):
    env = envoi.ActionDiscretize(Told(envoi.Array((), "float32", -10, 10)), 5, dtype=dtype)
    assert envoi.spec_equal(env.action_spec, envoi.Discrete(5, dtype=dtype))
    assert [float(seen) for seen in told(env, np.dtype(dtype).type(0), np.dtype(dtype).type(4))] == [-10, 10]
    row = envoi.Array((2,), "float64", 0, 10)
    env = envoi.ActionDiscretize(Told({"a": row}), {"a": [5, 3]}, dtype=dtype)
    assert envoi.spec_equal(env.action_spec, {"a": envoi.MultiDiscrete([5, 3], dtype=dtype)})
    (seen,) = told(env, {"a": np.array([4, 1], dtype)})
    assert seen["a"].tolist() == [10, 5]


def test_one_hot_is_the_index_of_the_largest():
    env = envoi.OneHotAction(Told(envoi.Array((1,), "int32", 1, 3, "move")))
    assert envoi.spec_equal(env.action_spec, envoi.Array((1, 3), "int32", 0, 1, "move"))
    (seen,) = told(env, np.array([[0, 1, 0]], "int32"))
    assert seen.tolist() == [2]
    assert seen.dtype == np.int32


@given(nested(integers | arrays(("float32",))), generators())
def test_one_hot_vectors_mean_the_action_inside(spec, rng):
    small = all(np.prod(getattr(leaf, "n", 1)) < 50 for _, leaf in envoi.tree.leaves(spec))
    try:
        env = envoi.OneHotAction(Told(spec)) if small else None
    except envoi.SpecError:
        return
    if env is None or any(np.prod(leaf.shape) > 500 for _, leaf in envoi.tree.leaves(env.action_spec)):
        return
    inside = envoi.sample(spec, rng)

    def hot(leaf, outer, value):
        if leaf == outer:
            return value
        return (np.arange(outer.shape[-1]) == (value - starts(leaf))[..., None]).astype(outer.dtype)

    action = envoi.tree.map_leaves(hot, spec, env.action_spec, inside)
    envoi.validate(env.action_spec, action)
    (seen,) = told(env, action)
    envoi.validate(spec, seen)
    envoi.tree.map_leaves(lambda leaf, one, other: np.testing.assert_array_equal(one, other), spec, seen, inside)


@pytest.mark.parametrize(
    "spec",
    [
        envoi.Array((2,), "float32", -1, 1),
        envoi.Array((), "bool"),
        {"a": envoi.Array((1,), "float64"), "b": (envoi.Array((), "float16", 0),)},
    ],
)
def test_one_hot_passes_an_action_without_integers_through(spec):
    env = envoi.OneHotAction(Told(spec))
    assert env.action_spec is spec
    action = envoi.sample(spec, np.random.default_rng(0))
    (seen,) = told(env, action)
    assert seen is action


@pytest.mark.parametrize("wrap", WRAPPERS)
def test_lanes_say_it_as_one_does(wrap):
    kind = envoi.Array((2,), "float32", -1, 1) if wrap == "discretize" else envoi.MultiDiscrete([3, 3], -1)
    one, batch = WRAPPERS[wrap](Told(kind)), WRAPPERS[wrap](envoi.batch(Told(kind), 4))
    assert envoi.spec_equal(batch.action_spec, one.action_spec)
    actions = [one.sample_action() for _ in range(4)]
    (seen,) = told(batch, stack(batch.action_spec, actions))
    np.testing.assert_array_equal(seen, told(one, *actions))


def test_extra_disabled_actions_are_in_the_spec_and_masked_everywhere():
    env = envoi.ExtraDisabledActions(envoi.models.CartPole(), 3)
    assert envoi.spec_equal(env.action_spec, envoi.Discrete(5, name=envoi.models.CartPole().action_spec.name))
    assert env.observation_spec == (envoi.models.CartPole().observation_spec, envoi.MultiBinary((5,), MASK))
    first = env.reset(seed=0)
    step = env.step(1)
    for observation, info in (first, (step.observation, step.info)):
        assert observation[1].tolist() == info[MASK].tolist() == [1, 1, 0, 0, 0]
        envoi.validate(env.observation_spec, observation)
    with pytest.raises(envoi.SpecError, match="action: 4 is disabled"):
        env.step(4)
    np.testing.assert_array_equal(env.observation[0], step.observation[0])


def test_extra_disabled_actions_begin_where_the_others_end():
    env = envoi.ExtraDisabledActions(Told(envoi.Array((), "int32", -10, 10)), 25)
    assert envoi.spec_equal(env.action_spec, envoi.Array((), "int32", -10, 35))
    seen = told(env, np.int32(3), np.int32(-7))
    assert [int(observation) for observation, _ in seen] == [3, -7]
    assert seen[0][1].tolist() == [1] * 21 + [0] * 25


def test_a_mask_inside_remains_and_each_agent_has_its_own():
    env = envoi.ExtraDisabledActions(envoi.models.Nim(), 2)
    observations, infos = env.reset(options={"sticks": 2})
    assert observations["first"][1].tolist() == infos["first"][MASK].tolist() == [1, 1, 0, 0, 0]
    assert all(action["first"] < 2 for action in (env.sample_actions(infos) for _ in range(20)))
    step = env.step({"first": 0})
    assert step.observations["second"][1].tolist() == [1, 0, 0, 0, 0]


class Masked(Sums):
    """Forbids the action that was taken last."""

    observation_spec = action_spec = envoi.Discrete(3)

    def initial(self, rng, context, size):
        return np.zeros(size, np.int64)

    def transition(self, state, action, rng):
        return np.asarray(action)

    def info(self, state):
        return {MASK: (np.arange(3) != np.asarray(state)[..., None]).astype(np.int8)}


@pytest.mark.parametrize("make", [lambda: envoi.batch(Masked(), 2), lambda: envoi.Lanes([Masked(), Masked()])])
def test_each_lane_has_its_own_mask(make):
    env = envoi.ExtraDisabledActions(make(), 1)
    first = env.reset()
    assert first.observation[1].tolist() == [[0, 1, 1, 0]] * 2
    step = env.step(np.array([1, 2]))
    assert step.observation[1].tolist() == [[1, 0, 1, 0], [1, 1, 0, 0]]
    assert [info[MASK].tolist() for info in step.info] == [[1, 0, 1, 0], [1, 1, 0, 0]]
    step = env.step(np.array([0, 0]), restart=np.array([False, True]))
    assert step.observation[1].tolist() == [[0, 1, 1, 0], [0, 1, 1, 0]]
    step.observation[1][:] = 7  # what is given away is the taker's
    assert env.observation[1].tolist() == [[0, 1, 1, 0], [0, 1, 1, 0]]
    reset = env.reset(mask=np.array([True, False]))
    assert MASK in reset.info[0]
    assert MASK not in reset.info[1]


def test_one_hot_leaves_integers_without_bounds():
    free = {"a": envoi.Array((2,), "int64", [-np.inf, 0], 5), "b": envoi.Discrete(3)}
    assert envoi.OneHotAction(Told(free)).action_spec["a"] == free["a"]


REAL, OPEN = envoi.Array((), "float32", 0, 1), envoi.Array((2,), "int64", 0)
POLE, PENDULUM = envoi.models.CartPole(), envoi.models.Pendulum()
WIDE = {"a": envoi.Array((), "int64", -(2**63), 2**63 - 1), "b": envoi.Discrete(3)}
WRONG = [
    (lambda: envoi.ActionOffset(Told({"a": envoi.Discrete(2, 1), "b": REAL})), r"action\['b'\]: expected integers"),
    (lambda: envoi.ActionOffset(Told(OPEN)), "action: expected integers with bounds"),
    (lambda: envoi.ActionOffset(Told(envoi.Array((), "int8", -128, 127))), "fit int8"),
    (lambda: envoi.ActionDiscretize(POLE, 3), "expected a continuous action"),
    (lambda: envoi.ActionDiscretize(Told([envoi.Array((), "float32", 0)]), 3), r"action\[0\]: expected finite bounds"),
    *((partial(envoi.ActionDiscretize, PENDULUM, n), "integers of at least 2") for n in (1, 2.5, [3, 3], "many")),
    (lambda: envoi.ActionDiscretize(Told({"a": REAL}), {"b": 3}), "num_actions: expected keys"),
    *((partial(envoi.ActionDiscretize, Told(REAL), 300, dtype=x), "that holds") for x in ("int8", "float32", "number")),
    (lambda: envoi.ActionDiscretize(Told([REAL, REAL]), 300, dtype="int8"), "an integer dtype that holds the numbers"),
    *((partial(told, envoi.ActionDiscretize(PENDULUM, 5), n), "action: expected integers") for n in (-1, 5, 1.5, "a")),
    (lambda: envoi.OneHotAction(Told([OPEN])), "expected an action whose integers have bounds"),
    (lambda: envoi.OneHotAction(Told([envoi.MultiDiscrete([2, 3])])), r"action\[0\]: .* all elements, got \[2, 3\]"),
    (lambda: envoi.OneHotAction(Told(WIDE)), r"action\['a'\]: expected integers of so few values"),
    (lambda: told(envoi.OneHotAction(POLE), 1), "expected a last axis of 2, one-hot, got 1"),
    (lambda: envoi.ExtraDisabledActions(PENDULUM, 2), "one integer with bounds"),
    (lambda: envoi.ExtraDisabledActions(Told(envoi.MultiDiscrete([2, 2])), 2), "one integer with bounds"),
    (lambda: envoi.ExtraDisabledActions(POLE, -1), "num_extra_actions: expected an integer of at least 0"),
]


@pytest.mark.parametrize(("do", "message"), WRONG)
def test_what_cannot_be_says_why(do, message):
    with pytest.raises(envoi.SpecError, match=message):
        do()
