"""The generator of a form for gymnasium's own `np_random`."""

from __future__ import annotations

from typing import Any

import numpy as np


class CoreGenerator:
    """The base of a form whose `np_random`, as gymnasium's classes define it, is the generator of its core.

    gymnasium's classes print a form as the innermost environment; here it prints as itself.
    """

    core: Any

    # gymnasium's own `np_random` reads and writes this.
    @property
    def _np_random(self) -> np.random.Generator:
        return self.core.rng

    @_np_random.setter
    def _np_random(self, generator: np.random.Generator) -> None:
        self.core.rng = generator

    def __str__(self) -> str:
        return repr(self)
