"""How far distributions reach, and whether they keep to the values that a feature may have."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any, cast

from ..errors import ContextError
from ..spec import Discrete
from .features import Categorical, Feature, NormalFloat, UniformFloat, UniformInteger

_REACH = 8
"""How many deviations from its mean a normal distribution is taken to end."""


def fitted(distribution: Feature, feature: Feature) -> Feature:
    """A distribution for the values of a feature: as it is, or a normal one with the bounds that it lacked.

    Kinds of one's own cannot be judged beforehand; what they draw is checked as it comes.

    Raises:
        ContextError: It could draw what the feature does not allow.
    """
    numeric = (UniformFloat, UniformInteger, NormalFloat)
    if isinstance(distribution, Categorical) and isinstance(feature, (*numeric, Categorical)):
        return _checked(distribution, feature, all(feature.allows(choice) for choice in distribution.choices))
    if isinstance(distribution, NormalFloat) and not distribution.sigma:
        return _checked(distribution, feature, feature.allows(distribution.mu))
    if not isinstance(distribution, numeric):
        return distribution
    if isinstance(feature, Categorical):
        return _checked(distribution, feature, False)
    if not isinstance(feature, numeric):
        return distribution
    if isinstance(feature, UniformInteger) and not isinstance(distribution, UniformInteger):
        return _checked(distribution, feature, False)
    if isinstance(distribution, NormalFloat):
        low = distribution.low if math.isfinite(distribution.low) else feature.low
        high = distribution.high if math.isfinite(distribution.high) else feature.high
        distribution = replace(distribution, low=low, high=high, default=None)
    return _checked(distribution, feature, feature.low <= distribution.low and distribution.high <= feature.high)


def _checked(distribution: Feature, feature: Feature, fits: bool) -> Feature:
    if not fits:
        kind = cast("type[object]", type(distribution)).__name__
        raise ContextError(f"features[{feature.name!r}]: expected to draw {feature}, got a {kind} of {distribution}")
    return distribution


def extremes(feature: Feature) -> list[Any]:
    """What a feature can be at the least and at the most; all that it can be if that is no matter of more or less."""
    if isinstance(feature, Categorical):
        return list(feature.choices)
    if isinstance(feature, NormalFloat):
        reach = _REACH * feature.sigma
        return [max(feature.low, feature.mu - reach), min(feature.high, feature.mu + reach)]
    spec = feature.spec
    bounds = (
        [] if isinstance(spec, Discrete) else [bound.item() for bound in (spec.low, spec.high) if bound is not None]
    )
    return bounds or [feature.default_value]
