"""The bounds of specs whose values are arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..spec import Array, Discrete, MultiBinary, MultiDiscrete

Bound = NDArray[Any] | None


def bounds(spec: Any) -> tuple[Bound, Bound]:
    """Returns the (lowest, highest) value of each element; None for no bound, and where no array holds the values."""
    if isinstance(spec, Discrete):
        return np.asarray(spec.start, spec.dtype), np.asarray(spec.start + spec.n - 1, spec.dtype)
    if isinstance(spec, MultiDiscrete):
        return spec.start, spec.last
    if isinstance(spec, MultiBinary):
        return np.zeros(spec.shape, np.int8), np.ones(spec.shape, np.int8)
    return (spec.low, spec.high) if isinstance(spec, Array) else (None, None)


def bounds_or_inf(spec: Any) -> tuple[Bound, Bound]:
    """Returns `bounds` as `Array` takes them: infinite where some integers have no bound, and others have."""
    return (spec.low_or_inf, spec.high_or_inf) if isinstance(spec, Array) else bounds(spec)


def integers(spec: Any) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Returns the (lowest, highest) value of each element where these are integers with both bounds, else None."""
    if isinstance(spec, Array) and not (spec.bounded_below & spec.bounded_above).all():
        return None
    low, high = bounds(spec)
    if low is None or high is None or spec.dtype.kind not in "iu":
        return None
    return low, high


def counts(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """Returns how many integers there are from `low` to `high`, in an integer dtype that holds them.

    Args:
        low: The lowest value of each element.
        high: The highest, of the same shape.
    """
    # Python's integers, for the difference need not fit the dtype of the two.
    number = np.asarray(high.astype(object) - low.astype(object) + 1)
    return np.array(number.tolist(), None if number.size else np.int64).reshape(number.shape)


def with_zero(spec: Any) -> Array:
    """Returns a spec of the same arrays that also allows zero, in every element."""
    low, high = bounds_or_inf(spec)
    low = None if low is None else np.minimum(low, 0)
    high = None if high is None else np.maximum(high, 0)
    return Array(spec.shape, spec.dtype, low, high, spec.name)
