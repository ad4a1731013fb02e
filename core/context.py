"""Contexts: the parameters that tell one instance of an environment from another.

A context maps feature names to values (`{"gravity": 9.8, "length": 0.5}`). A `ContextSpace` says which features
there are, their defaults, and what values they may have.

The features follow the ones of ConfigSpace and CARL, by name and meaning.
"""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import ContextError, nearest
from .streams import check_seed


@dataclass(frozen=True)
class Feature:
    """One parameter of an environment: a name, a default, and what values it may have."""

    name: str

    @property
    def default_value(self) -> Any:
        """The value where a context does not say one."""
        raise NotImplementedError

    def allows(self, value: Any) -> bool:
        """Whether the feature may have this value."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator) -> Any:
        """A random value."""
        raise NotImplementedError

    def __str__(self) -> str:
        raise NotImplementedError


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)


@dataclass(frozen=True)
class _Range(Feature):
    """A number between two bounds."""

    low: float
    high: float
    default: float | None = None

    def __post_init__(self) -> None:
        if not self.low <= self.high:
            raise ContextError(f"{self.name}: expected low ≤ high, got {self.low} and {self.high}")
        if self.default is not None and not self.allows(self.default):
            raise ContextError(f"{self.name}: the default {self.default} is not {self}")

    @property
    def default_value(self) -> float:
        if self.default is not None:
            return self.default
        middle = (self.low + self.high) / 2
        return middle if math.isfinite(middle) else min(max(0.0, self.low), self.high)


@dataclass(frozen=True)
class UniformFloat(_Range):
    """A real number, uniform between `low` and `high`; the default is the middle unless given."""

    def allows(self, value: Any) -> bool:
        return _is_number(value) and self.low <= value <= self.high

    def sample(self, rng: np.random.Generator) -> float:
        if not math.isfinite(self.high - self.low):
            raise ContextError(f"{self.name}: cannot sample uniformly from {self}; give it finite bounds")
        return float(rng.uniform(self.low, self.high))

    def __str__(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class UniformInteger(_Range):
    """An integer, uniform between `low` and `high`, both included."""

    @property
    def default_value(self) -> int:
        return int(super().default_value)

    def allows(self, value: Any) -> bool:
        return _is_number(value) and self.low <= value <= self.high and float(value).is_integer()

    def sample(self, rng: np.random.Generator) -> int:
        if not math.isfinite(self.high - self.low):
            raise ContextError(f"{self.name}: cannot sample uniformly from {self}; give it finite bounds")
        return int(rng.integers(int(self.low), int(self.high), endpoint=True))

    def __str__(self) -> str:
        return f"an integer from {self.low:g} to {self.high:g}"


@dataclass(frozen=True)
class NormalFloat(Feature):
    """A real number, normal around `mu` (also the default unless given) with deviation `sigma`."""

    mu: float
    sigma: float
    default: float | None = None

    @property
    def default_value(self) -> float:
        return self.mu if self.default is None else self.default

    def allows(self, value: Any) -> bool:
        return _is_number(value) and not math.isnan(value)

    def sample(self, rng: np.random.Generator) -> float:
        return float(rng.normal(self.mu, self.sigma))

    def __str__(self) -> str:
        return "a number"


@dataclass(frozen=True)
class Categorical(Feature):
    """One of a few values; the default is the first unless given."""

    choices: tuple[Hashable, ...]
    default: Any = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "choices", tuple(self.choices))
        if not self.choices:
            raise ContextError(f"{self.name}: expected at least one choice, got none")
        if self.default is not None and self.default not in self.choices:
            raise ContextError(f"{self.name}: the default {self.default!r} is not {self}")

    @property
    def default_value(self) -> Any:
        return self.choices[0] if self.default is None else self.default

    def allows(self, value: Any) -> bool:
        return value in self.choices

    def sample(self, rng: np.random.Generator) -> Any:
        return self.choices[int(rng.integers(len(self.choices)))]

    def __str__(self) -> str:
        return "one of " + ", ".join(repr(choice) for choice in self.choices)


class ContextSpace:
    """The features of an environment, in order.

    Args:
        features: The features; their names differ.

    Raises:
        ContextError: Two features have the same name.
    """

    def __init__(self, features: Iterable[Feature]) -> None:
        self._features: dict[str, Feature] = {}
        for feature in features:
            if feature.name in self._features:
                raise ContextError(f"{feature.name}: there are two features of this name")
            self._features[feature.name] = feature

    @property
    def features(self) -> dict[str, Feature]:
        """The features by name."""
        return dict(self._features)

    @property
    def defaults(self) -> dict[str, Any]:
        """The default context."""
        return {name: feature.default_value for name, feature in self._features.items()}

    def insert_defaults(self, context: Mapping[str, Any]) -> dict[str, Any]:
        """A full context: `context` with the defaults filled in, checked, in the order of the features.

        Raises:
            ContextError: See `verify`.
        """
        self.verify(context)
        return {**self.defaults, **context}

    def verify(self, context: Mapping[str, Any]) -> None:
        """Checks that every feature of `context` exists and may have its value.

        Raises:
            ContextError: It does not, with near names; or it may not, with what it may be.
        """
        for name, value in context.items():
            if name not in self._features:
                raise ContextError(f"context[{name!r}]: no such feature; {nearest(str(name), self._features)}")
            feature = self._features[name]
            if not feature.allows(value):
                raise ContextError(f"context[{name!r}]: expected {feature}, got {value!r}")

    def sample(self, n: int | None = None, *, seed: int | np.random.Generator | None = None) -> Any:
        """Random contexts.

        Args:
            n: How many; None for one alone.
            seed: An integer, a generator to draw from, or None for the system's entropy.

        Returns:
            One context, or a list of `n`.
        """
        rng = seed if isinstance(seed, np.random.Generator) else np.random.default_rng(check_seed(seed))
        contexts = [{k: f.sample(rng) for k, f in self._features.items()} for _ in range(1 if n is None else n)]
        return contexts[0] if n is None else contexts

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContextSpace) and list(self._features.values()) == list(other._features.values())

    def __hash__(self) -> int:
        return hash(tuple(self._features.values()))

    def __repr__(self) -> str:
        return f"ContextSpace({list(self._features.values())!r})"
