"""Seeds for sources of frameworks whose resets take none: what seeds such a source, and where its generators are."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np

from .imported import Imported
from .introspection import Generators, seed_hook
from .loss import Loss, UnseededWarning, warn_user


class SeedsSource(Imported):
    """Base of importers whose framework's resets take no seed.

    The source is seeded in the first of these ways that there is: by a function of the user's; by a method `seed` of
    the source; by the random generators that the source, its task and its wrappers hold. Else a seed warns once.
    """

    has_place = False

    _layer: ClassVar[type]
    """What every layer of a source is an instance of."""

    _most_seeds: ClassVar[int] = 2**32
    """The source takes seeds below this one."""

    _seeder: Callable[[Any], Any] | None = None
    _warned_of_seeds: bool = False

    def _generators(self) -> Generators:
        return Generators(self.source, self._layer)

    @property
    def _has_seeder(self) -> bool:
        """True where the user has said how the source is seeded."""
        return self._seeder is not None

    @property
    def unseeded(self) -> bool:
        """True where no way to seed the source is known; then a seed reaches only the sampled actions."""
        return not (self._has_seeder or self._has_seed_method or self._generators())

    @property
    def _has_seed_method(self) -> bool:
        return seed_hook(self.source, self._layer) is not None

    def _call_seed_method(self, seed: Any) -> bool:
        """Calls the source's method `seed`; returns False where it has none."""
        hook = seed_hook(self.source, self._layer)
        if hook is not None:
            hook(seed)
        return hook is not None

    def _seed_source(self, seed: Any) -> None:
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
        """Returns the source's generator; a `RandomState` is none."""
        return self._generators().first()

    def _replace_rng(self, generator: np.random.Generator) -> None:
        """Makes everything random follow from a generator.

        A source's `RandomState` takes over the state of an `MT19937` generator, and is seeded from any other.
        """
        generators = None if self._has_seeder else self._generators()
        if generators:
            generators.replace(generator)
        else:
            self._seed_source(int(deepcopy(generator).integers(self._most_seeds)))

    @property
    def arrival_losses(self) -> list[Loss]:
        """The loss of a source that nothing can seed."""
        if not self.unseeded:
            return []
        hint = f"pass from_{self._framework}(env, seed=function of an integer), which seeds it"
        return [Loss("seed", "reach", f"{self.source!r}", "the core", False, hint)]
