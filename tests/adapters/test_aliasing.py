"""Observations of sources: never changed once returned, mostly without a copy; and careless values are cast."""

import copy
import ctypes

import numpy as np
import pytest
from depth import examples
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from scripted import Returning

import envoi
from envoi import Array, Discrete, Graph, MultiBinary, MultiDiscrete, Sequence
from envoi.adapters import from_gymnasium, load, to_gymnasium
from envoi.adapters.shared.arrival import incoming

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)


def filled(env):
    return np.full(3, env.at, np.float32)


def keep(name, env, make):
    if not hasattr(env, name):
        setattr(env, name, make())
    return getattr(env, name)


# Sources of one array that can still write into what they returned.


def writing(make, look=lambda buffer: buffer):
    """A source that writes into one buffer again and again, and returns what `look` gives of it."""

    def see(env):
        buffer = keep("buffer", env, make)
        buffer[:] = env.at
        return look(buffer)

    return see


def zeros(*shape):
    return lambda: np.zeros(shape, np.float32)


def torch_zeros():
    return pytest.importorskip("torch").zeros(3)


def fresh_but_kept(env):
    env.last = filled(env)
    earlier = keep("all", env, list)
    for one in earlier:
        one[:] = env.at
    earlier.append(env.last)
    return env.last


def fresh_but_a_view_is_kept(base, kept, returned):
    """A source of new arrays, which keeps a view of each and writes into it later."""

    def see(env):
        made, views = np.full(base, env.at, np.float32), keep("views", env, list)
        for one in views:
            one[:] = env.at
        views.append(made[kept])
        return made[returned] if returned else made

    return see


def kept_by_a_closure(env):
    made = filled(env)
    earlier = keep("writers", env, list)
    for write in earlier:
        write(env.at)
    earlier.append(lambda at: made.fill(at))
    return made


def over_a_bytearray(env):
    memory = keep("memory", env, lambda: bytearray(12))
    memory[:] = filled(env).tobytes()
    return np.frombuffer(memory, np.float32)


def over_ctypes_memory(env):
    memory = keep("memory", env, lambda: (ctypes.c_float * 3)())
    memory[:] = [env.at] * 3
    return np.ctypeslib.as_array(memory)


class Own(np.ndarray):
    pass


RECORD = [("a", np.float32), ("b", np.int8)]
SOURCES = {
    "the buffer": writing(zeros(3)),
    "a view": writing(zeros(8), lambda buffer: buffer[2:5]),
    "a view of a view": writing(zeros(2, 8), lambda buffer: buffer[0][1:7][::2]),
    "transposed": writing(zeros(3, 1), lambda buffer: buffer.T[0]),
    "a memoryview": writing(zeros(3), lambda buffer: np.asarray(memoryview(buffer))),
    "torch": writing(torch_zeros, lambda tensor: tensor.numpy()),
    "a subclass": writing(lambda: np.zeros(3, np.float32).view(Own)),
    "strided": writing(zeros(1), lambda buffer: np.lib.stride_tricks.as_strided(buffer, (3,), (0,))),
    "broadcast": writing(zeros(1), lambda buffer: np.broadcast_to(buffer, (3,))),
    "a field of a record": writing(lambda: np.zeros(3, RECORD)["a"], lambda field: field.base["a"]),
    "of another width": writing(lambda: np.zeros(3, np.float64)),
    "fresh but kept": fresh_but_kept,
    "fresh but a view of it kept": fresh_but_a_view_is_kept(3, slice(2), None),
    "sharing a base with a kept view": fresh_but_a_view_is_kept(6, slice(4), slice(3, None)),
    "kept by a closure": kept_by_a_closure,
    "a bytearray": over_a_bytearray,
    "ctypes": over_ctypes_memory,
}
reused = SOURCES["the buffer"]
every_source = pytest.mark.parametrize("make", SOURCES.values(), ids=SOURCES)


def stay(env, look=lambda observation: observation):
    """Asserts that a few observations stay what they were when they were returned."""
    returned = [env.reset().observation]
    held = [copy.deepcopy(returned[0])]
    for step in range(6):
        observation = env.reset().observation if step == 3 else env.step(0).observation
        returned.append(observation)
        held.append(copy.deepcopy(observation))
    for now, then in zip(returned, held, strict=True):
        np.testing.assert_equal(now, then)
    np.testing.assert_equal(look(returned[2]), np.full(3, 2, np.float32))


@every_source
@pytest.mark.parametrize("policy", ["auto", True])
def test_an_observation_stays_what_it_was(make, policy):
    stay(from_gymnasium(Returning(BOX, make), copy=policy))


# The same sources inside containers, fresh or kept.

INSIDE = {
    "a fresh dict": (spaces.Dict({"a": BOX}), lambda env, array: {"a": array}, lambda o: o["a"]),
    "a fresh tuple": (spaces.Tuple([BOX]), lambda env, array: (array,), lambda o: o[0]),
    "a fresh dict of tuples": (
        spaces.Dict({"t": spaces.Tuple([BOX, BOX])}),
        lambda env, array: {"t": (np.zeros(3, np.float32), array)},
        lambda o: o["t"][1],
    ),
    "a kept dict": (
        spaces.Dict({"a": BOX}),
        lambda env, array: keep("dict", env, dict).update(a=array) or env.dict,
        lambda o: o["a"],
    ),
    "a kept dict in a fresh one": (
        spaces.Dict({"d": spaces.Dict({"a": BOX})}),
        lambda env, array: {"d": keep("dict", env, dict).update(a=array) or env.dict},
        lambda o: o["d"]["a"],
    ),
    "a kept list": (
        spaces.Tuple([BOX]),
        lambda env, array: keep("list", env, lambda: [None]).__setitem__(0, array) or env.list,
        lambda o: o[0],
    ),
    "a sequence": (spaces.Sequence(BOX), lambda env, array: (array,), lambda o: o[0]),
    "a stacked sequence": (spaces.Sequence(BOX, stack=True), lambda env, array: array[None], lambda o: o[0]),
    "an alternative": (spaces.OneOf([BOX]), lambda env, array: (np.int64(0), array), lambda o: o[1]),
    "a graph": (
        spaces.Graph(BOX, None),
        lambda env, array: spaces.GraphInstance(array[None], None, None),
        lambda o: o.nodes[0],
    ),
}


@every_source
@pytest.mark.parametrize("inside", INSIDE)
def test_an_observation_inside_a_container_stays_what_it_was(make, inside):
    space, wrap, look = INSIDE[inside]
    stay(from_gymnasium(Returning(space, lambda env: wrap(env, make(env)))), look)


def test_a_kept_dict_whose_arrays_are_replaced_in_place_of_being_written_stays_what_it_was():
    def make(env):
        kept = keep("dict", env, dict)
        for old in list(kept.values()):
            old[:] = env.at  # a source may reach its arrays through the dict alone
        kept["a"] = filled(env)
        return kept

    stay(from_gymnasium(Returning(spaces.Dict({"a": BOX}), make)), lambda o: o["a"])


def test_the_same_array_in_two_places_becomes_two():
    def make(env):
        array = filled(env)
        return {"a": array, "b": array}

    env = from_gymnasium(Returning(spaces.Dict({"a": BOX, "b": BOX}), make))
    observation = env.reset().observation
    observation["a"][:] = 9
    assert observation["b"].tolist() == [0, 0, 0]


def test_an_observation_that_is_in_info_too_is_not_shared_with_it():
    class Telling(Returning):
        def step(self, action):
            observation, reward, terminated, truncated, _ = super().step(action)
            return observation, reward, terminated, truncated, {"seen": observation}

    env = from_gymnasium(Telling(BOX, filled))
    env.reset()
    step = env.step(0)
    step.info["seen"][:] = 9
    assert step.observation.tolist() == [1, 1, 1]


@pytest.mark.parametrize(
    "make",
    [
        lambda env: keep("buffer", env, lambda: np.zeros(4, np.float32)),  # another shape
        lambda env: keep("buffer", env, lambda: np.zeros(3, complex)),  # another kind
        lambda env: keep("buffer", env, lambda: {"a": np.zeros(3, np.float32), "more": np.zeros(1)}),
    ],
)
@pytest.mark.parametrize("space", [BOX, spaces.Dict({"a": BOX})])
def test_even_an_observation_that_leaves_its_spec_stays_what_it_was(make, space):
    def written(env):
        value = make(env)
        (value["a"] if isinstance(value, dict) else value)[:] = env.at
        return value

    env = from_gymnasium(Returning(space, written))
    first = env.reset().observation
    held = copy.deepcopy(first)
    env.step(0)
    np.testing.assert_equal(first, held)


# What needs no copy gets none.


def address(array):
    return array.__array_interface__["data"][0]


@pytest.mark.parametrize(
    "make",
    [
        filled,
        lambda env: np.full(6, env.at, np.float32)[::2],
        lambda env: np.full((3, 1), env.at, np.float32).reshape(3),
        lambda env: np.full((2, 3), env.at, np.float32)[1],
    ],
)
def test_a_fresh_array_or_a_view_of_one_is_passed_on_as_it_is(make):
    made = []

    def noted(env):
        array = make(env)
        made.append(address(array))
        return array

    for space, wrap, look in (
        (BOX, lambda x: x, lambda o: o),
        (spaces.Dict({"a": BOX}), lambda x: {"a": x}, lambda o: o["a"]),
        (spaces.Tuple([spaces.Tuple([BOX])]), lambda x: ((x,),), lambda o: o[0][0]),
    ):
        env = from_gymnasium(Returning(space, lambda env, wrap=wrap: wrap(noted(env))))
        assert address(look(env.reset().observation)) == made[-1]
        assert address(look(env.step(0).observation)) == made[-1]
        always = from_gymnasium(env.source, copy=True)
        assert address(look(always.reset().observation)) != made[-1] or made[-1] in made[:-1]
        observation = always.step(0).observation
        assert look(observation).flags.owndata


@pytest.mark.parametrize("name", ["CartPole-v1", "Pendulum-v1", "MountainCar-v0", "Acrobot-v1"])
def test_gymnasiums_own_environments_are_not_copied(name):
    env, seen = load(f"gymnasium:{name}"), []
    base = env.unwrapped
    kind = type(base)

    class Noting(kind):
        def step(self, action):
            result = super().step(action)
            seen.append(address(result[0]))
            return result

    base.__class__ = Noting
    env.reset(seed=0)
    for _ in range(5):
        assert address(env.step(env.sample_action()).observation) == seen[-1]


def test_without_copying_the_sources_own_array_comes_through():
    env = from_gymnasium(Returning(BOX, reused), copy=False)
    assert env.reset().observation is env.unwrapped.buffer
    assert env.step(0).observation is env.unwrapped.buffer
    wrapped = from_gymnasium(Returning(spaces.Dict({"a": BOX}), lambda env: {"a": reused(env)}), copy=False)
    assert wrapped.reset().observation["a"] is wrapped.unwrapped.buffer


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


@examples(1500)
@given(
    st.sampled_from([*INTEGERS, *FLOATS, "bool"]),
    st.sampled_from([*INTEGERS, *FLOATS, "bool"]),
    st.lists(st.integers(-(2**63), 2**64 - 1) | st.sampled_from([0, 1, 127, 128, 2**24 + 1]), min_size=1, max_size=3),
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
