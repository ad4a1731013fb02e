"""Features: the parameters of an environment, each with a default and the values that it may have."""

from __future__ import annotations

import math
import sys
from collections.abc import Hashable
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np

from ..errors import ContextError
from ..spec import Array, Discrete
from ..tree import AnyScalar

LARGEST = sys.float_info.max
"""The largest finite number."""


@dataclass(frozen=True)
class Feature:
    """A parameter of an environment, with its name, default and allowed values.

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
        """The value in contexts that omit the feature."""
        raise NotImplementedError

    def allows(self, value: Any) -> bool:
        """Returns True if the feature allows this value."""
        raise NotImplementedError

    def sample(self, rng: np.random.Generator) -> Any:
        """Samples a value."""
        raise NotImplementedError

    @property
    def spec(self) -> Array | Discrete:
        """The spec of encoded values. The default is an unbounded float64 scalar."""
        return Array((), np.float64)

    def encode(self, value: Any) -> np.generic:
        """Encodes an allowed value as a number that lies in `spec`."""
        return np.float64(value)

    def __str__(self) -> str:
        raise NotImplementedError


def plain(value: Any) -> Any:
    """Returns a numpy scalar as the equal Python object, and anything else unchanged."""
    return value.item() if isinstance(value, AnyScalar) else value


def text_of(value: Any) -> str:
    """Returns the repr of a value, or the name of a function, class or object whose repr contains an address."""
    name, text = getattr(value, "__name__", None), repr(value)
    return name or (f"<{type(value).__name__}>" if " at 0x" in text else text)


def is_number(value: Any) -> bool:
    """Returns True for a finite real number of Python or numpy, and False for a bool."""
    if isinstance(value, bool) or not isinstance(value, (int, float, np.integer, np.floating)):
        return False
    return bool(-LARGEST <= plain(value) <= LARGEST)


class _Numeric(Feature):
    """A number within inclusive bounds, which may be infinite."""

    low: float
    high: float
    default: float | None

    def __post_init__(self) -> None:
        super().__post_init__()
        for field in ("low", "high"):
            bound = plain(getattr(self, field))
            if not (is_number(bound) or bound in (math.inf, -math.inf)):
                raise ContextError(f"{self.name}: {field}: expected a number, or infinity for no bound, got {bound!r}")
            object.__setattr__(self, field, bound)
        if not self.low <= self.high or self.low == math.inf or self.high == -math.inf:
            raise ContextError(f"{self.name}: expected low ≤ high, got {self.low} and {self.high}")
        if self.default is not None:
            object.__setattr__(self, "default", plain(self.default))
            if not self.allows(self.default):
                raise ContextError(f"{self.name}: the default {text_of(self.default)} is not {self}")

    def allows(self, value: Any) -> bool:
        if type(value) is float:  # by far the most common type; this runs at every reset
            return self.low <= value <= self.high and -LARGEST <= value <= LARGEST
        return is_number(value) and self.low <= plain(value) <= self.high

    @property
    def spec(self) -> Array:
        low, high = (bound if math.isfinite(bound) else None for bound in (self.low, self.high))
        return Array((), np.float64, low, high)

    def __str__(self) -> str:
        kind = "integer" if isinstance(self, UniformInteger) else "number"
        low, high = (_short(bound) if math.isfinite(bound) else None for bound in (self.low, self.high))
        if low and high:
            return f"{'an' if kind == 'integer' else 'a'} {kind} from {low} to {high}"
        return f"a finite {kind}" + (f" of at least {low}" if low else f" of at most {high}" if high else "")


def _short(number: float) -> str:
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


@dataclass(frozen=True)
class _Uniform(_Numeric):
    """A number between two bounds, uniform or (`log`) with a uniform logarithm.

    Subclasses inherit its dataclass methods; a decorator on each would take a millisecond of the import.
    """

    low: float
    high: float
    default: float | None = None
    log: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.log and self.low <= 0:
            raise ContextError(f"{self.name}: log: expected a low above 0, got {self.low}")

    @property
    def default_value(self) -> float:
        if self.default is not None:
            return self.default
        if self.log and math.isfinite(self.high):
            middle = math.exp((math.log(self.low) + math.log(self.high)) / 2)
        else:
            middle = (self.low + self.high) / 2
        return min(max(middle if math.isfinite(middle) else 0.0, self.low), self.high)

    def _check_finite(self) -> None:
        if not math.isfinite(self.high - self.low):
            raise ContextError(f"{self.name}: cannot sample uniformly from {self}; give it finite bounds")


class UniformFloat(_Uniform):
    """A real number, uniformly distributed between `low` and `high`.

    Args:
        name: The name of the feature.
        low: The smallest value; `-math.inf` for no bound (then it cannot be sampled).
        high: The largest value; `math.inf` for no bound (then it cannot be sampled).
        default: The value in contexts that omit the feature; None for the middle of the range.
        log: If True, the logarithm is uniformly distributed.

    Raises:
        ContextError: The bounds are invalid, the default lies outside them, or `log` is True and `low` is not above 0.
    """

    def sample(self, rng: np.random.Generator) -> float:
        self._check_finite()
        if not self.log:
            return float(rng.uniform(self.low, self.high))
        value = math.exp(rng.uniform(math.log(self.low), math.log(self.high)))
        return float(min(max(value, self.low), self.high))


class UniformInteger(_Uniform):
    """An integer, uniformly distributed between `low` and `high`, both included.

    Args:
        name: The name of the feature.
        low: The smallest value, or `-math.inf`.
        high: The largest value, or `math.inf`.
        default: The value in contexts that omit the feature; None for the middle of the range.
        log: If True, samples log-uniformly between `low` and `high + 1`, and rounds down.

    Raises:
        ContextError: The bounds are invalid, the default is not one of the integers, or `log` is True and `low` is
            below 1.
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        for field, bound in (("low", self.low), ("high", self.high)):
            if math.isfinite(bound) and bound != int(bound):
                raise ContextError(f"{self.name}: {field}: expected an integer, got {bound}")

    @property
    def default_value(self) -> int:
        value = super().default_value
        return round(value) if self.log else int(value)

    def allows(self, value: Any) -> bool:
        return super().allows(value) and plain(value) == int(value)

    def sample(self, rng: np.random.Generator) -> int:
        self._check_finite()
        low, high = int(self.low), int(self.high)
        if self.log:
            value = int(math.exp(rng.uniform(math.log(low), math.log(high + 1))))
            return min(max(value, low), high)
        try:
            return int(rng.integers(low, high, endpoint=True))
        except ValueError as error:
            raise ContextError(f"{self.name}: cannot sample from {self}; give it bounds within 64 bits") from error

    @property
    def spec(self) -> Array:
        low, high = (int(bound) if math.isfinite(bound) else None for bound in (self.low, self.high))
        return Array((), np.int64, low, high)

    def encode(self, value: Any) -> np.generic:
        try:
            return np.int64(int(value))
        except OverflowError as error:
            raise ContextError(f"{self.name}: expected an integer of 64 bits, got {value!r}") from error


@dataclass(frozen=True)
class NormalFloat(_Numeric):
    """A real number with a normal distribution, truncated to optional bounds.

    Args:
        name: The name of the feature.
        mu: The mean of the distribution before truncation.
        sigma: Its standard deviation; with 0, every value is `mu`.
        default: The value in contexts that omit the feature; None for `mu`, clipped to the bounds.
        low: The smallest value.
        high: The largest value.

    Raises:
        ContextError: The bounds are invalid or contain less than 0.1 % of the distribution, or the default lies outside
            them.
    """

    mu: float
    sigma: float
    default: float | None = None
    low: float = -math.inf
    high: float = math.inf

    def __post_init__(self) -> None:
        for field in ("mu", "sigma"):
            object.__setattr__(self, field, plain(getattr(self, field)))
            if not is_number(getattr(self, field)):
                raise ContextError(f"{self.name}: {field}: expected a finite number, got {getattr(self, field)!r}")
        if self.sigma < 0:
            raise ContextError(f"{self.name}: sigma: expected at least 0, got {self.sigma}")
        super().__post_init__()
        if self._mass < 1e-3:  # so that rejection sampling terminates
            raise ContextError(
                f"{self.name}: expected bounds that hold at least 0.1% of the distribution "
                f"(mu {_short(self.mu)}, sigma {_short(self.sigma)}), got {self}"
            )

    @property
    def _mass(self) -> float:
        """The probability of a value within the bounds."""
        if not self.sigma:
            return float(self.low <= self.mu <= self.high)
        low, high = ((bound - self.mu) / self.sigma / math.sqrt(2) for bound in (self.low, self.high))
        return (math.erf(high) - math.erf(low)) / 2

    @property
    def default_value(self) -> float:
        return min(max(self.mu, self.low), self.high) if self.default is None else self.default

    def sample(self, rng: np.random.Generator) -> float:
        while True:
            value = float(rng.normal(self.mu, self.sigma))
            if self.low <= value <= self.high:
                return value


class _First:
    """The default of `Categorical` for `default`, shown by its repr in the signature."""

    def __repr__(self) -> str:
        return "the first choice"


_FIRST: Any = _First()


@dataclass(frozen=True)
class Categorical(Feature):
    """One of several values.

    Args:
        name: The name of the feature.
        choices: The values, in order; `encode` returns their index.
        default: The value in contexts that omit the feature; the first choice by default.
        weights: The relative probability of each choice; all equal if None.

    Raises:
        ContextError: There are no choices, the default is not one of them, or `weights` does not have one number ≥ 0
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
            raise ContextError(f"{self.name}: the default {text_of(self.default)} is not {self}")
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
        return "one of " + ", ".join(map(text_of, self.choices))


def fit(distribution: Feature, feature: Feature) -> Feature:
    """Returns a distribution restricted to the allowed values of a feature.

    A normal distribution gets the feature's bounds where it has none. All other distributions are returned unchanged.
    A class of the user's own cannot be checked in advance; its values are checked when they are sampled.
    """
    if isinstance(distribution, Categorical) and isinstance(feature, (_Numeric, Categorical)):
        fits = all(feature.allows(choice) for choice in distribution.choices)
    elif isinstance(distribution, NormalFloat) and not distribution.sigma:
        fits = feature.allows(distribution.mu)
    elif not isinstance(distribution, _Numeric) or not isinstance(feature, (_Numeric, Categorical)):
        return distribution
    elif isinstance(feature, Categorical) or (
        isinstance(feature, UniformInteger) and not isinstance(distribution, UniformInteger)
    ):
        fits = False
    else:
        if isinstance(distribution, NormalFloat):
            low = distribution.low if math.isfinite(distribution.low) else feature.low
            high = distribution.high if math.isfinite(distribution.high) else feature.high
            distribution = replace(distribution, low=low, high=high, default=None)
        fits = feature.low <= distribution.low and distribution.high <= feature.high
    if not fits:
        kind = type(distribution).__name__
        raise ContextError(f"features[{feature.name!r}]: expected to sample {feature}, got a {kind} of {distribution}")
    return distribution


def extremes(feature: Feature) -> list[Any]:
    """Returns the smallest and the largest value of a feature, or all choices of a categorical one.

    An infinite bound is left out; a feature without finite bounds gives its default value alone. A normal distribution
    counts as ended 8 standard deviations from its mean.
    """
    if isinstance(feature, Categorical):
        return list(feature.choices)
    if isinstance(feature, NormalFloat):
        reach = 8 * feature.sigma
        return [max(feature.low, feature.mu - reach), min(feature.high, feature.mu + reach)]
    bounds = [getattr(feature.spec, name, None) for name in ("low", "high")]
    return [bound.item() for bound in bounds if bound is not None] or [feature.default_value]
