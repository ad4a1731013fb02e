"""A careless source's value becomes what its space declares; where that would lose something it stays as it came."""

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from scripted import Returning

import envoi
from envoi import Array, Discrete, Graph, MultiBinary, MultiDiscrete, Sequence
from envoi.adapters import from_gymnasium, to_gymnasium
from envoi.adapters.shared.arrival import incoming

INTEGERS = ["int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64"]
FLOATS = ["float16", "float32", "float64"]


CAREFUL = [
    # (spec, what came, what it becomes)
    (Array((), "float32"), 0.5, np.array(0.5, np.float32)),
    (Array((), "float32"), np.float64(0.5), np.array(0.5, np.float32)),
    (Array((), "float64"), 3, np.array(3.0)),
    (Array((), "int32"), 3, np.array(3, np.int32)),
    (Array((2,), "float32"), [0.5, 1], np.array([0.5, 1], np.float32)),
    (Array((2,), "float32"), (1, 2), np.array([1, 2], np.float32)),
    (Array((2,), "float32"), np.array([0.5, 1]), np.array([0.5, 1], np.float32)),
    (Array((2,), "float64"), np.array([1, 2]), np.array([1.0, 2.0])),
    (Array((2,), "uint8"), np.array([0, 255]), np.array([0, 255], np.uint8)),
    (Array((2,), "int64"), np.array([1, 2], np.uint8), np.array([1, 2])),
    (Array((2,), "int8"), [True, False], np.array([1, 0], np.int8)),
    (Array((2,), "bool"), [True, False], np.array([True, False])),
    (MultiBinary(2), np.array([True, False]), np.array([1, 0], np.int8)),
    (MultiBinary(2), [1, 0], np.array([1, 0], np.int8)),
    (MultiDiscrete([3, 3], dtype="int32"), [1, 2], np.array([1, 2], np.int32)),
    (Discrete(3), 2, np.int64(2)),
    (Discrete(3), np.array(2), np.int64(2)),
    (Discrete(3), np.int8(2), np.int64(2)),
    (Discrete(3, dtype="int8"), 2, np.int8(2)),
    (Discrete(2), True, np.int64(1)),
    (Array((2,), "float32"), np.array([0.5, 1], ">f4"), np.array([0.5, 1], np.float32)),
]


@pytest.mark.parametrize(("spec", "value", "expected"), CAREFUL)
def test_a_careless_value_is_cast(spec, value, expected):
    taken = incoming(spec)(value)
    assert np.asarray(taken).dtype == expected.dtype
    np.testing.assert_array_equal(taken, expected)
    assert spec.contains(taken)


LOSSY = [
    (Array((2,), "int32"), np.array([0.5, 1])),
    (Array((2,), "int32"), np.array([1.0, 2.0])),
    (Array((2,), "bool"), np.array([0, 1])),
    (Array((2,), "int32"), np.array([0, 2**40])),
    (Array((2,), "uint8"), np.array([0, 256])),
    (Array((2,), "uint8"), np.array([-1, 0], np.int8)),
    (Array((1,), "int64"), np.array([2**63], np.uint64)),
    (Array((2,), "float32"), np.array([0, 16777217])),
    (Array((2,), "float64"), np.array([0, 2**53 + 1])),
    (Array((2,), "float32"), np.array([0, 1j])),
    (Array((2,), "float32"), [[1, 2]]),
    (Array((2,), "float32"), [1, [2]]),
    (Array((2,), "float32"), "ab"),
    (Array((2,), "float32"), None),
    (Array((2,), "float32"), {"a": 1}),
    (Discrete(3), 1.0),
    (Discrete(3, dtype="int8"), 300),
    (Discrete(3, dtype="int8"), np.int64(300)),
    (Discrete(3, dtype="uint8"), -1),
    (Discrete(3), np.array([1])),
    (Discrete(3), "1"),
    ({"a": Discrete(3)}, {"b": 1}),
    ({"a": Discrete(3)}, (1,)),
    ((Discrete(3), Discrete(3)), 5),
]


@pytest.mark.parametrize(("spec", "value"), LOSSY)
def test_what_a_cast_would_lose_comes_through_as_it_is_and_validation_finds_it(spec, value):
    taken = incoming(spec)(value)
    np.testing.assert_equal(taken, value)
    assert type(taken) is type(value)
    assert not envoi.contains(spec, taken)


@settings(max_examples=1500)
@given(
    st.sampled_from([*INTEGERS, *FLOATS, "bool"]),
    st.sampled_from([*INTEGERS, *FLOATS, "bool"]),
    st.lists(
        st.integers(-(2**63), 2**64 - 1) | st.sampled_from([0, 1, 2, 127, 128, 2**24 + 1]), min_size=1, max_size=3
    ),
)
def test_a_cast_never_changes_an_integer(source, target, numbers):
    kind = np.dtype(source)
    if kind.kind in "iu":
        info = np.iinfo(kind)
        value = np.array([min(max(n, info.min), info.max) for n in numbers], kind)
    else:
        value = np.array([n % 1000 for n in numbers]).astype(kind)
    taken = incoming(Array((len(numbers),), target))(value)
    if kind.kind != "f":  # between floats precision may narrow
        assert taken.tolist() == value.tolist()
    assert taken.dtype == target or taken.dtype == source


@pytest.mark.parametrize(
    ("space", "value"),
    [
        (spaces.Box(0, 9, (2,), np.float32), [1, 2]),
        (spaces.Box(0, 9, (), np.float32), 3.0),
        (spaces.Discrete(5, start=2), np.array(3)),
        (spaces.Dict({"a": spaces.Tuple([spaces.MultiBinary(2), spaces.Discrete(3)])}), {"a": [[True, False], 2]}),
        (spaces.Tuple([spaces.Discrete(3), spaces.Discrete(3)]), np.array([1, 2])),
        (spaces.Sequence(spaces.Box(0, 9, (1,))), [[1.0], np.array([2.0])]),
        (spaces.OneOf([spaces.Discrete(3), spaces.Box(0, 9, (1,))]), (1, [2.0])),
    ],
)
def test_a_careless_environment_keeps_to_its_specs_once_imported(space, value):
    env = envoi.Validated(from_gymnasium(Returning(space, lambda env: value)))
    first, second = env.reset().observation, env.step(0).observation
    np.testing.assert_equal(first, second)
    # Into gymnasium again, where its own space holds it.
    form = to_gymnasium(env)
    assert form.observation_space.contains(form.reset()[0])


def test_graphs_and_stacked_sequences_are_cast_too():
    graph, rows = Graph(Array((2,)), Discrete(3)), Sequence(Array((2,)), stack=True)
    source = envoi.GraphValue(np.ones((3, 2)), np.array([0, 1], np.int16), np.array([[0, 1], [1, 2]]))
    envoi.validate(graph, incoming(graph)(source))
    envoi.validate(Graph(Array((2,))), incoming(Graph(Array((2,))))(source._replace(edges=None)))
    envoi.validate(rows, incoming(rows)(np.ones((4, 2))))
