"""Seeding of sources whose framework's `reset` takes no seed."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np

from .imported import Imported
from .introspection import Generators, seed_hook
from .loss import Loss, UnseededWarning, warn_user


class SeedsSource(Imported):
    """Base of importers for frameworks whose `reset` takes no seed.

    The source is seeded in the first way that is available: by the user's function; by a method `seed` of the source;
    through the random generators of the source, its task and its wrappers. Without any, the first seed gives a warning.
    """

    has_place = False

    _layer: ClassVar[type]
    """The class that every layer of a source is an instance of."""

    _most_seeds: ClassVar[int] = 2**32
    """The upper bound (exclusive) of the seeds that the source takes."""

    _seeder: Callable[[Any], Any] | None = None
    _warned_of_seeds: bool = False

    def _generators(self) -> Generators:
        return Generators(self.source, self._layer)

    @property
    def _has_seeder(self) -> bool:
        """True if the user gave a function that seeds the source."""
        return self._seeder is not None

    @property
    def unseeded(self) -> bool:
        """True if no way to seed the source is known; then a seed affects only the sampled actions."""
        return not (self._has_seeder or self._has_seed_method or self._generators())

    @property
    def _has_seed_method(self) -> bool:
        return seed_hook(self.source, self._layer) is not None

    def _call_seed_method(self, seed: Any) -> bool:
        """Calls the source's method `seed`; returns False if it has none."""
        hook = seed_hook(self.source, self._layer)
        if hook is not None:
            hook(seed)
        return hook is not None

    def seed_source(self, seed: Any) -> None:
        if self._seeder is not None:
            self._seeder(seed)
        elif self._call_seed_method(seed):
            pass
        elif generators := self._generators():
            generators.seed(seed)
        elif not self._warned_of_seeds:
            self._warned_of_seeds = True
            hint = f"pass from_{self._framework}(env, seed=function of an integer)"
            warn_user(f"seed: nothing is known that seeds {self.source}; {hint}", UnseededWarning)

    def _source_rng(self) -> np.random.Generator | None:
        """Returns the source's innermost generator, or None if it has none or uses a `RandomState`."""
        return self._generators().first()

    def _replace_rng(self, generator: np.random.Generator) -> None:
        """Makes all randomness of the source follow from a generator.

        A source's `RandomState` copies the state of an `MT19937` generator, and is seeded from any other.
        """
        generators = None if self._has_seeder else self._generators()
        if generators:
            generators.replace(generator)
        else:
            self.seed_source(int(deepcopy(generator).integers(self._most_seeds)))

    @property
    def arrival_losses(self) -> list[Loss]:
        """The loss of seeds, if the source cannot be seeded; else empty."""
        if not self.unseeded:
            return []
        hint = f"pass from_{self._framework}(env, seed=function of an integer), which seeds it"
        return [Loss("seed", "reach", f"{self.source!r}", "the core", False, hint)]
