"""Random streams: several independent generators from one seed.

An environment takes its random numbers from five generators: for its dynamics, its observations, its context, sampled
actions, and random rewards. Observing a state or sampling an action therefore never changes the dynamics. The
generators are seeded by the children of `numpy.random.SeedSequence`, so that even the seeds s and s + 1 give
independent streams.
"""

from __future__ import annotations

import copy
import ctypes
from collections.abc import Iterable, Sequence
from functools import cache, cached_property
from typing import Any, cast

import numpy as np

from .errors import SpecError


def check_seed(seed: Any, where: str = "") -> Any:
    """Returns a seed as a Python int, or None."""
    if seed is None:
        return None
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and seed >= 0:
        return int(cast("int", seed))
    raise SpecError(f"seed: expected an integer of at least 0, or None, got {seed!r}{where}")


def lane_seeds(seed: int | Sequence[int | None] | None, n: int) -> list[int | None]:
    """Returns one seed for each of n lanes."""
    if seed is None:
        return [None] * n
    if isinstance(seed, (Sequence, np.ndarray)):
        if len(seed) != n:
            raise SpecError(f"seed: expected one seed for each of {n} lanes, got {len(seed)}")
        given = cast("list[Any]", seed)
        if type(seed) is list and {type(one) for one in given} == {int} and min(given) >= 0:
            return given
        return [check_seed(one, f" in lane {lane}") for lane, one in enumerate(given)]
    root, size = np.random.SeedSequence(check_seed(seed)), n
    while True:
        # 31 bits, which the seed of every framework can hold. Duplicates are dropped, and more are generated.
        seeds = list(dict.fromkeys((root.generate_state(size, np.uint32) >> 1).tolist()))
        if len(seeds) >= n:
            return seeds[:n]
        size += n


class Streams:
    """The five random generators of an environment, each created on first access.

    Args:
        seed: An integer of at least 0, or None for a random seed.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._root: Any = np.random.SeedSequence().entropy if seed is None else check_seed(seed)

    @classmethod
    def from_generator(cls, generator: np.random.Generator) -> Streams:
        """Makes streams that use the given generator for `dynamics`, and seed the others from a copy of it.

        This call does not advance the generator.

        Args:
            generator: The generator for the dynamics.
        """
        if not isinstance(cast("Any", generator), np.random.Generator):
            raise SpecError(f"rng: expected a generator, such as np.random.default_rng(seed), got {generator!r}")
        words = copy.deepcopy(generator).integers(2**32, size=4, dtype=np.uint32)
        streams = cls.__new__(cls)
        streams._root = words.tolist()
        streams.dynamics = generator
        return streams

    def _child(self, index: int) -> np.random.Generator:
        root = self._root
        if type(root) is tuple:  # hashed only now, because that takes as long as seeding a lane
            root = int(np.random.SeedSequence(self._root).generate_state(1, np.uint64)[0])
        return np.random.default_rng(np.random.SeedSequence(root, spawn_key=(index,)))

    @cached_property
    def dynamics(self) -> np.random.Generator:
        """The generator for initial states and transitions."""
        return self._child(0)

    @cached_property
    def observation(self) -> np.random.Generator:
        """The generator for noise in observations."""
        return self._child(1)

    @cached_property
    def context(self) -> np.random.Generator:
        """The generator for the selection of contexts."""
        return self._child(2)

    @cached_property
    def action(self) -> np.random.Generator:
        """The generator for sampled actions."""
        return self._child(3)

    @cached_property
    def reward(self) -> np.random.Generator:
        """The generator for random rewards and terminations."""
        return self._child(4)

    def copy(self) -> Streams:
        """Returns independent copies of the streams, which generate the same numbers from here on."""
        return copy.deepcopy(self)


class StreamStates:
    """Saved states of many streams, to undo a refused step or to restore a snapshot.

    Copying a generator takes as long as thousands of numbers, so states are copied as raw memory where possible.

    Args:
        streams: The streams.
        names: Streams to create now if they do not exist yet, because they may be used before `put_back`.
    """

    def __init__(self, streams: Iterable[Streams], names: Sequence[str] = ()) -> None:
        self.streams = list(streams)
        self._views: list[memoryview] = []
        self._others: list[Any] = []  # the bit generators that are not of the usual kind
        self._made = [tuple(self._found(one, names)) for one in self.streams]
        self._dicts = [vars(one) for one in self.streams]
        self._size = sum(map(len, self._dicts))
        self.take()

    def _found(self, streams: Streams, names: Sequence[str]) -> Iterable[str]:
        for name in names:
            getattr(streams, name)
        for name, generator in vars(streams).items():
            if name != "_root":
                views = state_memory(generator)
                self._views.extend(views or ())
                if views is None:
                    self._others.append(generator.bit_generator)
                yield name

    def take(self) -> None:
        """Saves the present states of the generators that existed at construction."""
        self._words = b"".join(self._views)
        self._states = [bits.state for bits in self._others]

    def now(self) -> StreamStates:
        """Returns an object with the present states of the same generators."""
        states = StreamStates.__new__(StreamStates)
        vars(states).update(vars(self))
        states.take()
        return states

    def cover(self, streams: list[Streams]) -> bool:
        """Returns True if the streams are the same objects, and have created no generator since."""
        return self.streams == streams and self._size == sum(map(len, self._dicts))

    def put_back(self) -> None:
        """Restores the saved states."""
        self._drop_new(self.streams)
        start = 0
        for view in self._views:
            view[:] = self._words[start : start + len(view)]
            start += len(view)
        for bits, state in zip(self._others, self._states, strict=True):
            bits.state = state

    def _drop_new(self, each: Sequence[Streams]) -> None:
        """Drops generators that streams, or copies of them, have made since, out of the seed."""
        for streams, made in zip(each, self._made, strict=True):
            for name in vars(streams).keys() - {"_root", *made}:
                delattr(streams, name)

    def copies(self) -> list[Streams]:
        """Returns new streams in the saved states, which share nothing with the originals or other copies."""
        memo: dict[int, Any] = {}
        twins = [copy.deepcopy(streams, memo) for streams in self.streams]
        self._drop_new(twins)
        states = StreamStates(twins)
        states._words, states._states = self._words, self._states
        states.put_back()
        return twins

    def __reduce__(self) -> Any:
        return StreamStates, (self.copies(),)

    def __deepcopy__(self, memo: dict[int, Any]) -> StreamStates:
        return self  # never changed


def state_memory(generator: np.random.Generator) -> list[memoryview] | None:
    """Returns views of a generator's state in memory; None unless it is numpy's default kind.

    The views are valid as long as the generator exists.
    """
    bits: Any = generator.bit_generator
    if type(bits) is not np.random.PCG64 or not _memory_is_known():
        return None
    return _memory(bits)


def addresses(generator: np.random.Generator) -> tuple[int, int, int, int, int]:
    """Returns the addresses of a generator, for compiled code.

    Returns:
        The addresses of its state, of the functions `next_double`, `next_uint32` and `next_uint64`, and of the four
        numbers in its state (0 if `state_memory` returns None). They are valid as long as the generator exists.
    """
    bits: Any = generator.bit_generator
    state, uint64, uint32, double = _bitgen(bits)
    known = type(bits) is np.random.PCG64 and _memory_is_known()
    return state, double, uint32, uint64, ctypes.c_uint64.from_address(state).value if known else 0


_pointer_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(
    ("PyCapsule_GetPointer", ctypes.pythonapi)
)


def _bitgen(bits: Any) -> Any:
    """Returns numpy's `bitgen_t` of a bit generator: the addresses of its state and of three functions."""
    return (ctypes.c_uint64 * 4).from_address(cast("int", _pointer_in(bits.capsule, b"BitGenerator")))


def _memory(bits: Any) -> list[memoryview]:
    # A struct: a pointer to the state's integers, and the unused half of the last random number; mostly side by side.
    state: int = _bitgen(bits)[0]
    half, numbers = state + 8, ctypes.c_uint64.from_address(state).value
    parts = [(half, numbers + 32)] if 0 < numbers - half <= 24 else [(numbers, numbers + 32), (half, half + 8)]
    return [memoryview((ctypes.c_char * (end - start)).from_address(start)).cast("B") for start, end in parts]


@cache
def _memory_is_known() -> bool:
    """Returns True if this version of numpy keeps states where `_memory` looks for them."""
    bits, other = np.random.PCG64(1), np.random.PCG64(2)
    np.random.Generator(bits).integers(9, dtype=np.uint32)  # half of a 64-bit number stays unused
    if ctypes.sizeof(ctypes.c_void_p) != 8:
        return False
    for view, its in zip(_memory(other), _memory(bits), strict=True):
        view[:] = its
    return other.state == bits.state


def batch_streams(seed: int | Sequence[int | None] | None, n: int) -> Streams | None:
    """Returns the random streams that all lanes of a batch share."""
    if seed is None:
        return None
    if isinstance(seed, (Sequence, np.ndarray)):
        seeds = lane_seeds(seed, n)
        if all(s is None for s in seeds):
            return None
        streams = Streams.__new__(Streams)
        streams._root = tuple([s or 0 for s in seeds])  # pyright: ignore[reportPrivateUsage]
        return streams
    return Streams(seed)
