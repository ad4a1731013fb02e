"""Features that are numbers, with a uniform or normal distribution."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import ContextError
from ..spec import Array
from .features import LARGEST, Feature, is_number, plain

_LEAST_MASS = 1e-3
"""The least probability that a normal distribution's bounds must contain, so that rejection sampling terminates."""


def _short(number: float) -> str:
    short = f"{number:g}"
    return short if float(short) == number else repr(number)


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
                raise ContextError(f"{self.name}: the default {self.default!r} is not {self}")

    def allows(self, value: Any) -> bool:
        if type(value) is float:  # by far the most common type; this runs at every reset
            return self.low <= value <= self.high and -LARGEST <= value <= LARGEST
        return is_number(value) and self.low <= plain(value) <= self.high

    @property
    def spec(self) -> Array:
        low, high = (bound if math.isfinite(bound) else None for bound in (self.low, self.high))
        return Array((), np.float64, low, high)

    def _within(self, kind: str) -> str:
        has_low, has_high = math.isfinite(self.low), math.isfinite(self.high)
        article = "an" if kind == "integer" else "a"
        if has_low and has_high:
            return f"{article} {kind} from {_short(self.low)} to {_short(self.high)}"
        if not (has_low or has_high):
            return f"a finite {kind}"
        return f"a finite {kind} of at " + (f"least {_short(self.low)}" if has_low else f"most {_short(self.high)}")

    def __str__(self) -> str:
        return self._within("number")


@dataclass(frozen=True)
class _Uniform(_Numeric):
    """A number between two bounds, uniform or (`log`) with a uniform logarithm.

    Its subclasses are dataclasses by it, without a decorator, which would take each import a millisecond.
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
        high: The largest value; `math.inf` for no bound, likewise.
        default: The value in contexts that leave the feature out; the middle if None.
        log: If True, the logarithm is uniformly distributed.

    Raises:
        ContextError: The bounds are impossible, the default lies outside, or `log` comes with a `low` of 0 or below.
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
        default: The value in contexts that leave the feature out; the middle if None.
        log: If True, values are real numbers between `low` and `high + 1` with a uniformly distributed logarithm,
            rounded down.

    Raises:
        ContextError: The bounds are impossible, the default is not one of the integers, or `log` comes with a `low`
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

    def __str__(self) -> str:
        return self._within("integer")


@dataclass(frozen=True)
class NormalFloat(_Numeric):
    """A real number with a normal distribution, truncated to the bounds if there are any.

    Args:
        name: The name of the feature.
        mu: The mean of the distribution before truncation.
        sigma: Its standard deviation; with 0, every value is `mu`.
        default: The value in contexts that leave the feature out; if None, `mu`, clipped to the bounds.
        low: The smallest value.
        high: The largest value.

    Raises:
        ContextError: The bounds are impossible or contain less than a thousandth of the distribution, or the default
            lies outside.
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
        if self._mass < _LEAST_MASS:
            raise ContextError(
                f"{self.name}: expected bounds that hold at least {_LEAST_MASS:.1%} of the distribution "
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
