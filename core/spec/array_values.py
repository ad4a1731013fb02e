"""The values of array specs: checks that name the first wrong element, and random arrays within bounds."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..tree import AnyArray, AnyScalar
from .base import shown


def check_array(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], path: str) -> NDArray[Any]:
    """Returns a value as an array if it has a given shape and dtype.

    Args:
        value: Any object.
        shape: The expected shape.
        dtype: The expected dtype.
        path: The name of the value in the message.

    Raises:
        SpecError: It is not an array or numpy scalar, or has another shape or dtype.
    """
    if not isinstance(value, (AnyArray, AnyScalar)):
        raise SpecError(
            f"{path}: expected an array of shape {shape} and dtype {dtype}, got {shown(value)}; "
            f"make it with np.asarray(…, {str(dtype)!r})"
        )
    array: NDArray[Any] = np.asarray(value)
    if array.shape != shape:
        raise SpecError(f"{path}: expected shape {shape}, got {array.shape}")
    if array.dtype != dtype:
        raise SpecError(f"{path}: expected dtype {dtype}, got {array.dtype}; cast with .astype({str(dtype)!r})")
    return array


def check_bounds(value: NDArray[Any], low: Any, high: Any, path: str) -> None:
    """Checks that an array lies within bounds.

    Args:
        value: An array of numbers.
        low: The lower bounds (inclusive), a number or an array that broadcasts to the shape of `value`.
        high: The upper bounds, likewise.
        path: The name of the value in the message.

    Raises:
        SpecError: An element is out of bounds; the message names the first one.
    """
    for bound, word, wrong in (
        (low, "below its lower", value < low),
        (high, "above its upper", value > high),
    ):
        if wrong.any():
            at = np.unravel_index(int(np.argmax(wrong)), value.shape)
            index = "".join(f"[{int(i)}]" for i in at)
            limit = np.broadcast_to(bound, value.shape)[at]
            raise SpecError(f"{path}{index}: {value[at]} is {word} bound {limit}")


def sample_array(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    low: NDArray[Any] | None,
    high: NDArray[Any] | None,
) -> NDArray[Any]:
    """Returns a random array within bounds, finite in each element.

    Integers and bools are uniform. A float is uniform between two finite bounds, exponential from a single one, and
    normal without bounds, as are complex numbers.

    Args:
        rng: The source of randomness.
        shape: The shape of the array.
        dtype: Its dtype: bool, integer, float or complex.
        low: The lower bounds (inclusive), of this shape and dtype; None for no bounds.
        high: The upper bounds, likewise.
    """
    kind = dtype.kind
    if kind == "b":
        bottom = np.False_ if low is None else low
        top = np.True_ if high is None else high
        return (rng.integers(0, 2, shape).astype(bool) | bottom) & top
    if kind in "iu":
        info = np.iinfo(dtype)
        bottom = info.min if low is None else low
        top = info.max if high is None else high
        return np.asarray(rng.integers(bottom, top, shape, dtype, endpoint=True))
    if kind == "c":
        return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
    return _sample_floats(rng, shape, dtype, low, high)


def _sample_floats(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    dtype: np.dtype[Any],
    low: NDArray[Any] | None,
    high: NDArray[Any] | None,
) -> NDArray[Any]:
    """Returns a random array of floats; see `sample_array`."""
    bottom = np.full(shape, -np.inf) if low is None else low.astype(np.float64)
    top = np.full(shape, np.inf) if high is None else high.astype(np.float64)
    has_low, has_high = np.isfinite(bottom), np.isfinite(top)
    low0, high0 = np.where(has_low, bottom, 0.0), np.where(has_high, top, 0.0)
    share = rng.random(shape)
    tail = rng.exponential(size=shape)
    value = np.select(
        [has_low & has_high, has_low, has_high],
        [low0 * (1 - share) + high0 * share, low0 + tail, high0 - tail],
        rng.normal(size=shape),
    )
    biggest = np.finfo(dtype).max
    value = np.clip(value, -biggest, biggest).astype(dtype)
    # numpy 1 raises an error when both bounds of `clip` are None.
    return value if low is None and high is None else np.asarray(np.clip(value, low, high))
