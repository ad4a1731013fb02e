"""Noise on contexts: each episode has random values around those of its context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from ..errors import ContextError, nearest
from .categorical_feature import Categorical
from .features import Feature
from .numeric_features import UniformInteger

Context = Mapping[str, Any]

_REACH = 8
"""The number of standard deviations at which noise is clipped; one value in 10¹⁵ lies beyond."""


class Noise:
    """Gaussian noise relative to the value, `value + N(0, (deviation · |value|)²)`.

    Args:
        deviation: The relative standard deviation; 0 for no noise.
        chosen: The features that get noise; None for all real numbers.
        context: A full context; its values determine which undeclared features are numbers.
        features: The declared features, by name.

    Attributes:
        names: The features that get noise.
        bounds: A function `name -> (low, high)`, to which noisy values are clipped; None for no bounds.

    Raises:
        ContextError: The deviation is negative or infinite, or a chosen feature is unknown or not a real number.
    """

    bounds: Callable[[str], tuple[Any, Any]] | None = None
    _limits_of: Callable[[str], tuple[Any, Any]] | None = None
    _limits: Mapping[str, tuple[Any, Any]] = MappingProxyType({})  # the results of `_limits_of`

    def __init__(
        self, deviation: float, chosen: Sequence[str] | None, context: Context, features: Mapping[str, Feature]
    ) -> None:
        if not 0 <= deviation < np.inf:
            raise ContextError(f"gaussian_noise_std_percentage: expected a number of at least 0, got {deviation}")
        self._deviation = deviation
        numbers = [
            name
            for name, value in context.items()
            if np.asarray(value).dtype.kind in "iuf"
            and not isinstance(features.get(name), (Categorical, UniformInteger))
        ]
        for name in chosen or ():
            if name not in context:
                raise ContextError(f"noisy_features: no feature {name!r}; {nearest(name, context)}")
            if name not in numbers:
                raise ContextError(f"noisy_features: expected real numbers, and {name!r} is {context[name]!r}")
        self.names = [] if not deviation else numbers if chosen is None else list(chosen)

    def drawn(self, context: Context, rng: np.random.Generator) -> dict[str, Any]:
        """Returns the context of an episode: a copy with noise.

        Args:
            context: A full context.
            rng: The source of randomness.
        """
        return {**context, **{name: self._around(name, context[name], rng) for name in self.names}}

    def _around(self, name: str, value: Any, rng: np.random.Generator) -> Any:
        value = np.asarray(value, np.float64)
        far = np.clip(np.asarray(rng.normal(size=value.shape), np.float64), -_REACH, _REACH)
        return self._within(name, value + far * self._deviation * np.abs(value))

    def ends(self, contexts: Iterable[Context]) -> list[dict[str, Any]]:
        """Returns contexts that bound all noisy versions of the given ones, feature by feature."""
        reach = _REACH * self._deviation
        return [
            {**c, **{name: self._within(name, c[name] + end * reach * np.abs(c[name])) for name in self.names}}
            for end in (-1, 1)
            for c in contexts
            if self.names
        ]

    def _within(self, name: str, value: Any) -> Any:
        bounds = self.bounds
        if bounds is not None:
            if self._limits_of is not bounds:
                self._limits_of, self._limits = bounds, {known: bounds(known) for known in self.names}
            value = np.clip(value, *self._limits[name])
        return value if np.ndim(value) else float(value)
