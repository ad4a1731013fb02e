"""The feature that is one of several values."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ContextError
from ..spec import Discrete
from .features import Feature, is_number, plain

_FIRST: Any = object()


@dataclass(frozen=True)
class Categorical(Feature):
    """One of several values.

    Args:
        name: The name of the feature.
        choices: The values, in order; `encode` returns their index.
        default: The value in contexts that leave the feature out; the first choice by default.
        weights: The relative probability of each choice; all equal if None.

    Raises:
        ContextError: There are no choices, the default is not one of them, or `weights` is not one number of at least 0
            for each choice, with a sum above 0.
    """

    choices: tuple[Hashable, ...]
    default: Any = _FIRST
    weights: tuple[float, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "choices", tuple(plain(choice) for choice in self.choices))
        if not self.choices:
            raise ContextError(f"{self.name}: expected at least one choice, got none")
        if self.default is _FIRST or (self.default is None and None not in self.choices):
            object.__setattr__(self, "default", self.choices[0])
        if not self.allows(self.default):
            raise ContextError(f"{self.name}: the default {self.default!r} is not {self}")
        if self.weights is not None:
            weights = tuple(plain(weight) for weight in self.weights)
            object.__setattr__(self, "weights", weights)
            if len(weights) != len(self.choices):
                raise ContextError(
                    f"{self.name}: weights: expected one for each of {len(self.choices)} choices, got {len(weights)}"
                )
            if not all(is_number(weight) and weight >= 0 for weight in weights) or not sum(weights):
                raise ContextError(f"{self.name}: weights: expected numbers of at least 0, one above, got {weights}")

    @property
    def default_value(self) -> Any:
        return self.default

    def _index(self, value: Any) -> int | None:
        value = plain(value)
        if isinstance(value, np.ndarray):
            return None  # a comparison with it would return an array
        return self.choices.index(value) if value in self.choices else None

    def allows(self, value: Any) -> bool:
        return self._index(value) is not None

    def sample(self, rng: np.random.Generator) -> Any:
        if self.weights is None:
            return self.choices[int(rng.integers(len(self.choices)))]
        weights = np.asarray(self.weights, np.float64)
        return self.choices[int(rng.choice(len(self.choices), p=weights / weights.sum()))]

    @property
    def spec(self) -> Discrete:
        return Discrete(len(self.choices))

    def encode(self, value: Any) -> np.generic:
        index = self._index(value)
        if index is None:
            raise ContextError(f"{self.name}: expected {self}, got {value!r}")
        return np.int64(index)

    def __str__(self) -> str:
        return "one of " + ", ".join(repr(choice) for choice in self.choices)
