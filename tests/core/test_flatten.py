"""Nested observations and actions as one flat array, and back."""

import copy
from collections import OrderedDict

import gymnasium
import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from small_models import Echo
from strategies import Pair, array_leaves, arrays, generators, nested

import envoi
from envoi import (
    Array,
    Discrete,
    FlattenAction,
    Flattening,
    FlattenObservation,
    MultiBinary,
    MultiDiscrete,
    Sequence,
    SpecError,
    Text,
)
from envoi.adapters.gymnasium import to_gymnasium
from envoi.adapters.gymnasium.specs import to_space
from envoi.tree import children, is_branch, leaves, map_leaves


class Two(envoi.MultiModel):
    """Two agents that see and do different things."""

    possible_agents = ("a", "b")
    observation_spec = {"a": {"x": Array((2,)), "y": Array(())}, "b": {"y": Array((3,), "float64")}}
    action_spec = {"a": {"go": Discrete(3), "aim": Array((2,), "float64", -1, 1)}, "b": Discrete(4, start=2)}

    def initial(self, rng, context):
        return 0, {}

    def transition(self, state, actions, rng):
        return state[0] + 1, actions

    def observe(self, state, agent, rng):
        return envoi.sample(self.observation_spec[agent], rng)

    def reward(self, state, actions, next_state):
        return {"a": 0.0, "b": 0.0}

    def terminal(self, state):
        return state[0] >= 3


def same(one, other):
    """True if two values have the same structure, dtypes and numbers."""
    if type(one) in (dict, list, tuple, Pair, OrderedDict):
        keys = list(one) if isinstance(one, dict) else range(len(one))
        return type(one) is type(other) and len(one) == len(other) and all(same(one[k], other[k]) for k in keys)
    one, other = np.asarray(one), np.asarray(other)
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def promoted(spec, order="insertion", discrete="integer"):
    """The flattening under promotion, where there is one."""
    try:
        return Flattening(spec, order, "promote", discrete)
    except SpecError as error:
        assume("cannot be sorted" not in str(error) and "does not hold every value" not in str(error))
        raise


small_discrete = st.builds(Discrete, st.integers(1, 5), st.integers(-3, 3)) | st.builds(
    MultiDiscrete, st.lists(st.integers(1, 4), max_size=3), st.integers(-2, 2)
)
trees = nested(array_leaves() | arrays(("float32",)) | small_discrete)


@given(trees, generators(), st.sampled_from(envoi.flattening.ORDERS))
def test_flattening_is_undone_exactly(spec, rng, order):
    flattening, value = promoted(spec, order), envoi.sample(spec, rng)
    flat = flattening.flatten(value)
    envoi.validate(flattening.spec, flat)
    assert same(flattening.unflatten(flat), value)


@given(
    trees, generators(), st.lists(st.integers(1, 3), min_size=1, max_size=2), st.sampled_from(["integer", "one_hot"])
)
def test_leading_axes_are_kept_and_say_the_same_as_single_values(spec, rng, lead, discrete):
    assume(discrete == "integer" or all(getattr(leaf, "n", 0) < 100 for _, leaf in leaves(spec)))
    flattening, n = promoted(spec, discrete=discrete), int(np.prod(lead))
    singles = [envoi.sample(spec, rng) for _ in range(n)]
    stacked = map_leaves(
        lambda leaf, *ones: np.array(ones, leaf.dtype).reshape(*lead, *leaf.shape) if ones else None, spec, *singles
    )
    assume(next(leaves(spec), None) is not None)
    flat = flattening.flatten(stacked)
    assert flat.shape == (*lead, *flattening.spec.shape)
    assert same(flat.reshape(n, -1), np.stack([flattening.flatten(one) for one in singles]).reshape(n, -1))
    assert same(flattening.unflatten(flat), stacked)


@given(nested(arrays(("int8", "bool", "float32", "float64", "int64"), finite=True) | small_discrete), generators())
def test_whatever_lies_in_a_flat_spec_that_rounds_means_a_value_of_the_nested_one(spec, rng):
    flattening = Flattening(spec, dtype="float32")
    with np.errstate(over="ignore"):  # of floats beyond the narrower dtype
        envoi.validate(flattening.spec, flattening.flatten(envoi.sample(spec, rng)))
    envoi.validate(spec, flattening.unflatten(flattening.spec.sample(rng)))


@given(nested(arrays(("int8", "bool", "float32")) | small_discrete), generators())
def test_every_action_of_the_flat_spec_is_an_action(spec, rng):
    env = FlattenAction(Echo(action_spec=spec), dtype="promote")
    env.reset(seed=0)
    env.step(env.action_spec.sample(rng))
    envoi.validate(spec, env.state[1])


FLOAT, INT, LONG = Array((), "float32"), Array((), "int32"), Array((), "int64")


@pytest.mark.parametrize(("order", "expected"), [("insertion", [1, 2, 9]), ("sorted", [9, 1, 2])])
def test_keys_come_in_the_order_that_is_asked_for(order, expected):
    spec = OrderedDict(z=Array((2,), "int32"), a=INT)
    env = FlattenObservation(Echo(spec), order=order)
    assert env.flatten(OrderedDict(z=np.array([1, 2], "int32"), a=np.array(9, "int32"))).tolist() == expected
    back = env.unflatten(np.array(expected, "int32"))
    assert list(back) == ["z", "a"]
    assert type(back) is OrderedDict
    assert back["z"].tolist() == [1, 2]
    assert back["a"] == 9
    assert env.order == env.flattening().order == order
    first, second = ("z", "a") if order == "insertion" else ("a", "z")
    assert list(env.flattening().slices) == [f"observation[{first!r}]", f"observation[{second!r}]"]
    assert env.flattening().slices["observation['z']"] == (slice(0, 2) if order == "insertion" else slice(1, 3))


ROBOT = {"robot": {"arm": Array((2,)), "leg": Array((3,))}, "goal": FLOAT, "name": Text(3), "time": Array((), "int64")}


@pytest.mark.parametrize(
    ("allowlist", "expected"),
    [
        (["goal"], ["['goal']"]),
        (("goal", "robot"), ["['robot']['arm']", "['robot']['leg']", "['goal']"]),
        (["goal", "robot/leg"], ["['robot']['leg']", "['goal']"]),
        ([], []),
    ],
)
def test_an_allowlist_chooses_before_dtypes_and_kinds_are_looked_at(allowlist, expected):
    env = FlattenObservation(Echo(ROBOT), allowlist)
    assert list(env.flattening().slices) == [f"observation{path}" for path in expected]
    value = env.reset(seed=0).observation
    assert value.dtype == np.float32
    back = env.unflatten(value)
    assert {path: leaf.tolist() for path, leaf in leaves(back)} == {
        path: leaf.tolist() for path, leaf in leaves(env.env.observation) if path in expected
    }


def test_a_key_goes_before_a_path_that_reads_the_same():
    env = FlattenObservation(Echo({"a": {"b": FLOAT}, "a/b": Array((2,))}), ["a/b"])
    assert list(env.flattening().slices) == ["observation['a/b']"]


@pytest.mark.parametrize("keyword", ["allowlist", "observations_whitelist", "observations_allowlist"])
def test_the_allowlist_goes_by_its_older_names_too(keyword):
    assert FlattenObservation(Echo(ROBOT), **{keyword: {"robot": 1}.keys()}).observation_spec.shape == (5,)


@pytest.mark.parametrize(
    ("spec", "arguments", "message"),
    [
        (ROBOT, {"allowlist": ["gaol"]}, r"allowlist: observation has no 'gaol'; did you mean 'goal'\?"),
        (ROBOT, {"allowlist": "goal"}, r"allowlist: expected a list of names, got 'goal'"),
        (Array((2,)), {"allowlist": ["a"]}, r"allowlist: expected None, for observation is no dict"),
        (ROBOT, {"allowlist": ["goal"], "observations_whitelist": ["goal"]}, r"allowlist: expected it once, got it 2"),
        (ROBOT, {}, r"observation\['name'\]: expected an array of numbers to flatten, got Text"),
        ({"a": [Sequence(FLOAT)]}, {}, r"observation\['a'\]\[0\]: expected an array of numbers.*Sequence"),
        ({"a": FLOAT, "b": (INT,)}, {}, r"of one dtype, got .*\['a'\]: float32, .*\['b'\]\[0\]: int32; .*promote"),
        ({"a": FLOAT, "b": Array((), "int64")}, {"dtype": "promote"}, "float64 does not hold every value of .*'int64'"),
        ({"a": FLOAT}, {"dtype": "int64"}, r"observation\['a'\]: int64 does not hold every value"),
        ({"a": Array((), "int32", 0, 70000)}, {"dtype": "float16"}, r"float16 does not hold"),
        ({"a": FLOAT}, {"dtype": "promot"}, r"dtype: expected 'strict', 'promote' or a numpy dtype, got 'promot'"),
        ({"a": FLOAT}, {"order": "alphabetical"}, r"order: expected one of \['insertion', 'sorted'\]"),
    ],
)
def test_what_cannot_be_flattened_is_refused_at_construction(spec, arguments, message):
    with pytest.raises(SpecError, match=message) as error:
        FlattenObservation(Echo(spec), **arguments)
    assert isinstance(error.value, ValueError)


@pytest.mark.parametrize(
    ("spec", "dtype", "expected"),
    [
        ({"a": FLOAT, "b": Array((1,), low=-1)}, "strict", Array((2,), low=[-np.inf, -1])),
        ({"a": INT, "b": Array((1,), "int32", 0, 3)}, "strict", Array(2, "int32", [-np.inf, 0], [np.inf, 3])),
        ([Array(2, "int64", [3, -np.inf]), LONG], "strict", Array(3, "int64", [3, -np.inf, -np.inf])),
        ([Array(1, "int8", -np.inf, 9), FLOAT], "promote", Array(2, "float32", [-128, -np.inf], [9, np.inf])),
        ({"a": Array((), bool), "b": Array((1,), bool, True)}, "strict", Array(2, bool, [-np.inf, True])),
        ({"a": FLOAT, "b": Array((), "int8")}, "promote", Array(2, "float32", [-np.inf, -128], [np.inf, 127])),
        ({"a": INT, "b": Array((), "int8")}, "promote", Array(2, "int32", [-np.inf, -128], [np.inf, 127])),
        ([Discrete(3, 2), MultiBinary(1), MultiDiscrete([5], -1)], "promote", Array(3, "int64", [2, 0, -1], [4, 1, 3])),
        ({"a": Array((), "float64", 0, 1e300)}, "float32", Array(1, "float32", 0, np.inf)),
        ({"a": Array((), "float64", 0, 1), "b": Discrete(5)}, np.float32, Array(2, "float32", 0, [1, 4])),
        ({"a": Array((), "complex64"), "b": FLOAT}, "promote", Array(2, "complex64")),
        ({"a": Array((0,), "int32"), "b": FLOAT}, "strict", Array(1)),
    ],
)  # fmt: skip
def test_the_flat_spec_keeps_bounds_and_says_so_where_there_are_none(spec, dtype, expected):
    assert FlattenObservation(Echo(spec), dtype=dtype).observation_spec == expected


def test_one_hot_numbers_have_the_dtype_of_the_others():
    spec = {"a": Discrete(3, start=-1), "b": Array((2,), "float32", 0, 5), "c": MultiDiscrete([2, 3], [4, 0], "int32")}
    env = FlattenObservation(Echo(spec), discrete="one_hot")
    assert env.observation_spec == Array((10,), "float32", 0, [1, 1, 1, 5, 5, 1, 1, 1, 1, 1])
    value = {"a": 1, "b": np.array([2, 3], "float32"), "c": np.array([5, 0], "int32")}
    assert env.flatten(value).tolist() == [0, 0, 1, 2, 3, 0, 1, 1, 0, 0]
    assert env.unflatten(np.array([0.1, 0.7, 0.2, 0, 0, 0.6, 0.4, 0, 0, 0.1]))["a"] == 0
    assert FlattenObservation(Echo(Discrete(3)), discrete="one_hot").observation_spec == Array(3, "int64", 0, 1)


def test_nothing_inside_is_changed_or_shared():
    model = Echo(ROBOT)
    before = copy.deepcopy(model.observation_spec)
    env = FlattenObservation(model, ["robot"])
    flat, inner = env.reset(seed=0).observation, model.observation
    kept = copy.deepcopy(inner)
    flat += 1
    back = env.unflatten(flat)
    back["robot"]["arm"] += 1
    assert same(model.observation, kept)
    assert envoi.spec_equal(model.observation_spec, before)
    assert same(flat, env.flatten(kept) + np.float32(1))
    single = FlattenObservation(Echo(Array((3,))))
    single.reset(seed=0).observation[:] = 7
    assert 7 not in single.env.observation


def test_python_numbers_of_discrete_values_are_taken():
    class Counting(Echo):
        def observe(self, state, rng):
            return {"n": state[0], "x": np.float32(0.5)}

    env = FlattenObservation(Counting({"n": Discrete(9, dtype="uint8"), "x": FLOAT}), dtype="promote")
    env.reset()
    observation = env.step(0).observation
    assert observation.tolist() == [1, 0.5]
    assert observation.dtype == np.float32
    alone = FlattenObservation(Counting({"n": Discrete(9, dtype="uint8")}))
    assert same(alone.reset().observation, np.array([0], "uint8"))


def test_a_float_becomes_the_nearest_integer_where_an_integer_is_due():
    env = FlattenAction(Echo(action_spec=(Discrete(5), MultiBinary(2), Array((), bool), FLOAT)), dtype="promote")
    env.reset(seed=0)
    env.step(np.array([2.6, 0.2, 0.8, 0.9, 0.25], "float32"))
    number, bits, flag, real = env.state[1]
    assert (number, bits.tolist(), flag, real) == (3, [0, 1], True, 0.25)
    assert [np.asarray(leaf).dtype for leaf in env.state[1]] == ["int64", "int8", "bool", "float32"]


def test_an_action_of_another_length_is_refused():
    env = FlattenAction(Echo(action_spec={"a": Array((3,)), "b": FLOAT}))
    env.reset(seed=0)
    with pytest.raises(SpecError, match=r"action: expected an array of shape \(…, 4\), got an array of shape \(5,\)"):
        env.step(np.zeros(5, "float32"))


def test_each_of_several_agents_has_a_flat_array_of_its_own():
    env = FlattenAction(FlattenObservation(Two()), dtype="promote")
    assert env.observation_spec == {"a": Array(3), "b": Array(3, "float64")}
    assert env.action_spec == {"a": Array(3, "float64", [0, -1, -1], [2, 1, 1]), "b": Array(1, "int64", 2, 5)}
    assert {agent: value.shape for agent, value in env.reset(seed=0).observations.items()} == {"a": (3,), "b": (3,)}
    step = env.step({"a": np.array([1, 0.5, -0.5]), "b": np.array([3])})
    assert step.observations["b"].dtype == np.float64
    actions = env.state[1]
    assert actions["a"]["go"] == 1
    assert actions["a"]["aim"].tolist() == [0.5, -0.5]
    assert actions["b"] == 3
    assert env.unflatten([4], "b") == 4
    assert env.env.flatten({"x": [1, 2], "y": 3}, "a").tolist() == [1, 2, 3]
    with pytest.raises(SpecError, match=r"agent: got None; there are: a, b"):
        env.unflatten(np.zeros(3))
    with pytest.raises(SpecError, match=r"observation\['b'\] has no 'x'; there are: y"):
        FlattenObservation(Two(), ["x"])


def filled(spec):
    """True if every branch has a child."""
    return not is_branch(spec) or (len(spec) > 0 and all(filled(sub) for _, _, sub in children(spec)))


@given(nested(arrays(("float32",), finite=True)).filter(filled), generators())  # gymnasium cannot flatten nothing
def test_gymnasium_flattens_floats_to_the_same_numbers(spec, rng):
    space, value = to_space(spec), envoi.sample(spec, rng)
    assert same(Flattening(spec).flatten(value), gymnasium.spaces.flatten(space, value))
    assert gymnasium.spaces.flatten_space(space) == to_space(Flattening(spec).spec)


@pytest.mark.parametrize("rows", [1, 2, 8, 9])
def test_a_form_steps_to_the_array_that_the_wrapper_has(rows):
    spec = {f"part {i}": Array((i % 3 + 1,), ("float32", "float16")[i % 2]) for i in range(rows)}
    wrapped = FlattenObservation(Echo(spec), dtype="float32")
    form = to_gymnasium(wrapped)
    form.reset(seed=1)
    observation = form.step(0)[0]
    assert observation.dtype == np.float32
    assert same(observation, wrapped.flatten(wrapped.env.observation))
