"""Once an observation is returned, nothing that its source does later changes it; and the common case costs no copy."""

import copy
import ctypes

import gymnasium
import numpy as np
import pytest
from depth import examples
from foreign_memory import over
from gymnasium import spaces
from hypothesis import given
from hypothesis import strategies as st
from scripted import Returning

from envoi import Array
from envoi.adapters import from_gymnasium, load
from envoi.adapters.shared.arrival import incoming

BOX = spaces.Box(-np.inf, np.inf, (3,), np.float32)


def filled(env):
    return np.full(3, env.at, np.float32)


def keep(name, env, make):
    if not hasattr(env, name):
        setattr(env, name, make())
    return getattr(env, name)


# Sources of one array that can still write into what they returned.


def reused(env):
    buffer = keep("buffer", env, lambda: np.zeros(3, np.float32))
    buffer[:] = env.at
    return buffer


def a_view_of_the_buffer(env):
    buffer = keep("buffer", env, lambda: np.zeros(8, np.float32))
    buffer[:] = env.at
    return buffer[2:5]


def a_view_of_a_view(env):
    buffer = keep("buffer", env, lambda: np.zeros((2, 8), np.float32))
    buffer[:] = env.at
    return buffer[0][1:7][::2]


def transposed(env):
    buffer = keep("buffer", env, lambda: np.zeros((3, 1), np.float32))
    buffer[:] = env.at
    return buffer.T[0]


def fresh_but_kept(env):
    env.last = filled(env)
    earlier = keep("all", env, list)
    for one in earlier:
        one[:] = env.at
    earlier.append(env.last)
    return env.last


def fresh_but_a_view_of_it_kept(env):
    made = filled(env)
    views = keep("views", env, list)
    for one in views:
        one[:] = env.at
    views.append(made[:2])
    return made


def sharing_a_base_with_a_kept_view(env):
    base = np.full(6, env.at, np.float32)
    views = keep("views", env, list)
    for one in views:
        one[:] = env.at
    views.append(base[:4])
    return base[3:]


def kept_by_a_closure(env):
    made = filled(env)
    earlier = keep("writers", env, list)
    for write in earlier:
        write(env.at)
    earlier.append(lambda at: made.fill(at))
    return made


def kept_by_a_generator(env):
    def forever():
        buffer = np.zeros(3, np.float32)
        while True:
            buffer[:] = env.at
            yield buffer

    return next(keep("generator", env, forever))


def over_a_bytearray(env):
    memory = keep("memory", env, lambda: bytearray(12))
    memory[:] = filled(env).tobytes()
    return np.frombuffer(memory, np.float32)


def over_a_memoryview_of_an_array(env):
    buffer = keep("buffer", env, lambda: np.zeros(3, np.float32))
    buffer[:] = env.at
    return np.asarray(memoryview(buffer))


def over_an_interface(env):
    class Owner:
        def __init__(self, array):
            self.array, self.__array_interface__ = array, array.__array_interface__

    owner = keep("owner", env, lambda: Owner(np.zeros(3, np.float32)))
    owner.array[:] = env.at
    return np.asarray(owner)


def over_ctypes_memory(env):
    memory = keep("memory", env, lambda: (ctypes.c_float * 3)())
    memory[:] = [env.at] * 3
    return np.ctypeslib.as_array(memory)


def over_torch_memory(env):
    torch = pytest.importorskip("torch")
    tensor = keep("tensor", env, lambda: torch.zeros(3))
    tensor[:] = env.at
    return tensor.numpy()


def a_subclass(env):
    class Own(np.ndarray):
        pass

    buffer = keep("buffer", env, lambda: np.zeros(3, np.float32).view(Own))
    buffer[:] = env.at
    return buffer


def strided(env):
    buffer = keep("buffer", env, lambda: np.zeros(1, np.float32))
    buffer[:] = env.at
    return np.lib.stride_tricks.as_strided(buffer, (3,), (0,))


def broadcast(env):
    buffer = keep("buffer", env, lambda: np.zeros(1, np.float32))
    buffer[:] = env.at
    return np.broadcast_to(buffer, (3,))


def a_field_of_a_record(env):
    record = keep("record", env, lambda: np.zeros(3, [("a", np.float32), ("b", np.int8)]))
    record["a"] = env.at
    return record["a"]


def of_another_width(env):
    buffer = keep("buffer", env, lambda: np.zeros(3, np.float64))
    buffer[:] = env.at
    return buffer


SOURCES = [
    reused,
    a_view_of_the_buffer,
    a_view_of_a_view,
    transposed,
    fresh_but_kept,
    fresh_but_a_view_of_it_kept,
    sharing_a_base_with_a_kept_view,
    kept_by_a_closure,
    kept_by_a_generator,
    over_a_bytearray,
    over_a_memoryview_of_an_array,
    over_an_interface,
    over_ctypes_memory,
    over_torch_memory,
    a_subclass,
    strided,
    broadcast,
    a_field_of_a_record,
    of_another_width,
]


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


@pytest.mark.parametrize("make", SOURCES)
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


@pytest.mark.parametrize("make", SOURCES)
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


def test_a_wrapper_that_keeps_the_last_observation_and_writes_into_it_changes_nothing():
    class Keeping(gymnasium.ObservationWrapper):
        last = None

        def observation(self, observation):
            if self.last is not None:
                self.last[:] = -1
            self.last = observation
            return observation

    stay(from_gymnasium(Keeping(Returning(BOX, filled))))


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
        lambda env: keep("buffer", env, lambda: {"a": np.zeros(3, np.float32)}),
    ],
)
def test_even_an_observation_that_leaves_its_spec_stays_what_it_was(make):
    def written(env):
        value = make(env)
        (value["a"] if isinstance(value, dict) else value)[:] = env.at
        return value

    env = from_gymnasium(Returning(BOX, written))
    first = env.reset().observation
    held = copy.deepcopy(first)
    env.step(0)
    np.testing.assert_equal(first, held)


def test_a_dict_that_leaves_its_spec_stays_what_it_was():
    def make(env):
        kept = keep("dict", env, lambda: {"a": np.zeros(3, np.float32), "more": np.zeros(1)})
        kept["a"][:] = env.at
        return kept

    env = from_gymnasium(Returning(spaces.Dict({"a": BOX}), make))
    first = env.reset().observation
    env.step(0)
    assert first["a"].tolist() == [0, 0, 0]


@examples(200)
@given(st.lists(st.tuples(st.integers(0, 3), st.booleans()), min_size=2, max_size=8))
def test_a_pool_of_buffers_in_any_order_of_use_changes_nothing(order):
    pool = [np.zeros(3, np.float32) for _ in range(3)]

    def make(env):
        pick, whole = order[env.at % len(order)]
        if pick == 3:
            return filled(env)
        pool[pick][:] = env.at
        return pool[pick] if whole else pool[pick][:]

    stay(from_gymnasium(Returning(BOX, make)))


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


def test_copying_always_copies_arrays_without_other_references():
    take, array = incoming(Array((3,)), True), np.zeros(3, np.float32)
    taken = take(array)
    taken[:] = 1
    assert array.tolist() == [0, 0, 0]


def test_memory_without_an_owner_is_copied():
    memory = (ctypes.c_float * 3)()

    def make(env):
        memory[:] = [env.at] * 3
        return over(memory)

    stay(from_gymnasium(Returning(BOX, make)))
    stay(from_gymnasium(Returning(BOX, lambda env: make(env)[:])))
