"""Seeded random streams: one seed, independent generators.

What an environment draws for its dynamics, for its observations, for its context, for sampled actions and for random
rewards comes from five generators, so that looking at an observation or sampling an action never changes the future.
The children are those of `numpy.random.SeedSequence.spawn`; s and s+1 share nothing.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from functools import cached_property
from typing import Any, cast

import numpy as np

from .errors import SpecError


def check_seed(seed: Any) -> int | None:
    """`seed` as a Python int of at least 0, or None.

    Raises:
        SpecError: It is neither.
    """
    if seed is None:
        return None
    if isinstance(seed, (int, np.integer)) and not isinstance(seed, bool) and seed >= 0:
        return int(cast("int", seed))
    raise SpecError(f"seed: expected an integer of at least 0, or None, got {seed!r}")


def lane_seeds(seed: int | Sequence[int | None] | None, n: int) -> list[int | None]:
    """One seed for each of `n` lanes: spawned from one seed, or as given.

    Args:
        seed: None, one seed for all (the lanes' seeds are derived from it, pairwise distinct), or one a lane.
        n: How many lanes.

    Raises:
        SpecError: Not one seed a lane.
    """
    if seed is None:
        return [None] * n
    if isinstance(seed, (Sequence, np.ndarray)):
        if len(seed) != n:
            raise SpecError(f"seed: expected one seed for each of {n} lanes, got {len(seed)}")
        return [check_seed(s) for s in seed]
    root, size = np.random.SeedSequence(check_seed(seed)), n
    while True:
        # 31 bits, so that any framework's seed holds them; the few that collide are passed over.
        seeds = list(dict.fromkeys((root.generate_state(size, np.uint32) >> 1).tolist()))
        if len(seeds) >= n:
            return seeds[:n]
        size += n


class Streams:
    """The five generators of an environment, each made when it is first asked for.

    Args:
        seed: An integer of at least 0; None takes entropy from the operating system.

    Attributes:
        dynamics: For initial states and transitions.
        observation: For noise in observations.
        context: For choosing contexts.
        action: For sampling actions.
        reward: For rewards and terminations that are drawn.
    """

    def __init__(self, seed: int | None = None) -> None:
        self._root = np.random.SeedSequence(check_seed(seed))

    @classmethod
    def from_generator(cls, generator: np.random.Generator) -> Streams:
        """Streams whose dynamics are exactly `generator`; the others are seeded from a copy of it.

        The generator itself is not advanced, so it draws next what it would have drawn.
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
        """For choosing contexts."""
        return self._child(2)

    @cached_property
    def action(self) -> np.random.Generator:
        """For sampling actions."""
        return self._child(3)

    @cached_property
    def reward(self) -> np.random.Generator:
        """For rewards and terminations that are drawn."""
        return self._child(4)

    def copy(self) -> Streams:
        """Streams that will draw what these will, independently of them."""
        return copy.deepcopy(self)
