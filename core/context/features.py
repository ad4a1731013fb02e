"""Features: the parameters of an environment, each with a default and the values that it may have.

They have the meaning and the argument order of the hyperparameters of ConfigSpace
(https://automl.github.io/ConfigSpace), which CARL (Benjamins et al., 2023, https://github.com/automl/CARL) calls
context features. Here is what all have in common; `numeric_features` and `categorical_feature` have their kinds.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ..errors import ContextError
from ..spec import Array, Discrete
from ..tree import AnyScalar

LARGEST = sys.float_info.max
"""The largest finite number."""


@dataclass(frozen=True)
class Feature:
    """A parameter of an environment: its name, its default, and the values that it may have.

    A custom feature is a frozen dataclass that defines `default_value`, `allows`, `sample` and `__str__`, and if its
    values are not numbers, also `spec` and `encode`.

    Args:
        name: The name of the feature.

    Raises:
        ContextError: The name is not a string, or empty.
    """

    name: str

    def __post_init__(self) -> None:
        if not isinstance(cast("Any", self.name), str) or not self.name:
            raise ContextError(f"a feature's name: expected a string that is not empty, got {self.name!r}")

    @property
    def default_value(self) -> Any:
        """The value in contexts that leave the feature out."""
        raise NotImplementedError

    def allows(self, value: Any) -> bool:
        """Returns True if the feature may have this value."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator) -> Any:
        """Returns a random value.

        Args:
            rng: The source of randomness.
        """
        raise NotImplementedError

    @property
    def spec(self) -> Array | Discrete:
        """The spec of the numbers that `encode` returns; a float64 scalar without bounds, unless a subclass differs."""
        return Array((), np.float64)

    def encode(self, value: Any) -> np.generic:
        """Returns an allowed value as a number, a value of `spec`."""
        return np.float64(value)

    def __str__(self) -> str:
        raise NotImplementedError


def plain(value: Any) -> Any:
    """Returns a numpy scalar as the equal Python object, and anything else unchanged."""
    return value.item() if isinstance(value, AnyScalar) else value


def is_number(value: Any) -> bool:
    """Returns True for a finite real number of Python or numpy, and False for a bool."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    return bool(-LARGEST <= plain(value) <= LARGEST)
