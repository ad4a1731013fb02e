"""Distributions of features: a check that they stay within the allowed values, and their extreme values."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

from ..errors import ContextError
from ..spec import Discrete
from .categorical_feature import Categorical
from .features import Feature
from .numeric_features import NormalFloat, UniformFloat, UniformInteger

_REACH = 8
"""The number of standard deviations from its mean at which a normal distribution counts as ended."""


def fitted(distribution: Feature, feature: Feature) -> Feature:
    """Returns a distribution restricted to the allowed values of a feature.

    A normal distribution gets the feature's bounds where it has none. All other distributions are returned unchanged.
    A class of the user's own cannot be checked in advance; its values are checked when they are sampled.

    Args:
        distribution: The feature whose `sample` is used.
        feature: The feature that defines the allowed values.

    Raises:
        ContextError: The distribution could produce a value that the feature does not allow.
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
        kind = type(distribution).__name__
        raise ContextError(f"features[{feature.name!r}]: expected to sample {feature}, got a {kind} of {distribution}")
    return distribution


def extremes(feature: Feature) -> list[Any]:
    """Returns the smallest and the largest value of a feature, or all choices of a categorical one.

    An infinite bound is left out; a feature without finite bounds gives its default value alone. A normal distribution
    counts as ended 8 standard deviations from its mean.

    Args:
        feature: The feature.
    """
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
