"""Random streams: several independent generators from one seed.

An environment takes its random numbers from five generators: for its dynamics, its observations, its context, sampled
actions, and random rewards. Observing a state or sampling an action therefore never changes the dynamics. The
generators are seeded by the children of `numpy.random.SeedSequence`, so that even the seeds s and s + 1 give
independent streams.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast, overload

import numpy as np

from .errors import SpecError


@overload
def check_seed(seed: None) -> None: ...


@overload
def check_seed(seed: int) -> int: ...


@overload
def check_seed(seed: object) -> int | None: ...


def check_seed(seed: Any) -> int | None:
    """Returns a seed as a Python int, or None."""
    if seed is None:
        return None
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and seed >= 0:
        return int(cast("int", seed))
    raise SpecError(f"seed: expected an integer of at least 0, or None, got {seed!r}")


def lane_seeds(seed: int | Sequence[int | None] | None, n: int) -> list[int | None]:
    """Returns one seed for each of n lanes."""
    if seed is None:
        return [None] * n
    if isinstance(seed, (Sequence, np.ndarray)):
        if len(seed) != n:
            raise SpecError(f"seed: expected one seed for each of {n} lanes, got {len(seed)}")
        return [check_seed(s) for s in seed]
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
        seed: An integer of at least 0; None takes entropy from the operating system.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._root = np.random.SeedSequence(check_seed(seed))

    @classmethod
    def from_generator(cls, generator: np.random.Generator) -> Streams:
        """Returns streams whose `dynamics` is the given generator itself; the others are seeded from a copy of it.

        The generator does not advance, so its next numbers are the same as without this call.

        Args:
            generator: The generator for the dynamics.
        """
        words = copy.deepcopy(generator).integers(2**32, size=4, dtype=np.uint32)
        streams = cls.__new__(cls)
        streams._root = np.random.SeedSequence([int(word) for word in words])
        streams.dynamics = generator
        return streams

    def _child(self, index: int) -> np.random.Generator:
        entropy, key = self._root.entropy, (*self._root.spawn_key, index)
        return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key))

    @cached_property
    def dynamics(self) -> np.random.Generator:
        """For initial states and transitions."""
        return self._child(0)

    @cached_property
    def observation(self) -> np.random.Generator:
        """For noise in observations."""
        return self._child(1)

    @cached_property
    def context(self) -> np.random.Generator:
        """For the selection of contexts."""
        return self._child(2)

    @cached_property
    def action(self) -> np.random.Generator:
        """For sampled actions."""
        return self._child(3)

    @cached_property
    def reward(self) -> np.random.Generator:
        """For random rewards and terminations."""
        return self._child(4)

    def copy(self) -> Streams:
        """Returns independent streams in the same state, which generate the same numbers from here on."""
        return copy.deepcopy(self)


def batch_streams(seed: int | Sequence[int | None] | None, n: int) -> Streams | None:
    """Returns the random streams of a batch whose lanes share them."""
    if seed is None:
        return None
    if isinstance(seed, (Sequence, np.ndarray)):
        seeds = lane_seeds(seed, n)
        if all(s is None for s in seeds):
            return None
        words = [0 if s is None else s for s in seeds]
        seed = int(np.random.SeedSequence(words).generate_state(1, np.uint64)[0])
    return Streams(seed)
