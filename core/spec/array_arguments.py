"""The arguments of array specs, checked and converted: dtypes, shapes, numbers and bounds."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..errors import SpecError
from .base import is_uniform, short, without_repeats


def is_integer(value: Any) -> bool:
    """Returns True for a Python or numpy integer, and False for a bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def as_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Returns a dtype of numbers or bools, in the machine's byte order.

    Raises:
        SpecError: It is no dtype, or one of other values.
    """
    try:
        result = np.dtype(dtype)
    except TypeError as error:
        raise SpecError(f"dtype: expected a numpy dtype, got {dtype!r}") from error
    if result.kind not in "biufc":
        raise SpecError(f"dtype: expected bool, integer, float or complex, got {result}; for strings use Text")
    return result if result.isnative else result.newbyteorder("=")  # numpy's own dtype object compares fastest


def as_shape(shape: Any) -> tuple[int, ...]:
    """Returns the sizes of the axes as a tuple; `(n,)` for an integer n.

    Raises:
        SpecError: A size is negative, or no integer.
    """
    try:
        result = (int(shape),) if is_integer(shape) else tuple(operator.index(size) for size in shape)
    except TypeError as error:
        raise SpecError(f"shape: expected an integer or a tuple of integers, got {shape!r}") from error
    if any(size < 0 for size in result):
        raise SpecError(f"shape: expected sizes of at least 0, got {result}")
    return result


def as_numbers(value: ArrayLike, what: str) -> NDArray[Any]:
    """Returns an array of the numbers in an argument.

    Args:
        value: The argument.
        what: Its name, for the message.

    Raises:
        SpecError: It has other values than numbers, or rows of several lengths.
    """
    try:
        given = np.asarray(value)
        if given.dtype.kind == "O":  # Python integers, possibly beside infinities
            given = np.asarray(given.tolist()).reshape(given.shape)
    except ValueError as error:
        raise SpecError(f"{what}: expected numbers in rows of one length, got {value!r}") from error
    if given.dtype.kind not in "biuf" or np.isnan(given).any():
        raise SpecError(f"{what}: expected numbers, got {value!r}")
    return given


def as_read_only(value: ArrayLike, dtype: np.dtype[Any], shape: tuple[int, ...], what: str) -> NDArray[Any]:
    """Returns an argument as a read-only array; a uniform one takes the memory of one element.

    Args:
        value: The argument, which broadcasts to `shape`.
        dtype: The dtype of the array.
        shape: Its shape.
        what: The name of the argument, for the message.

    Raises:
        SpecError: The argument is not made of numbers, or does not fit dtype or shape.
    """
    given = as_numbers(value, what)
    if dtype.kind in "iu" and given.size:
        info = np.iinfo(dtype)
        whole = np.isfinite(given).all() and (given == np.trunc(given)).all()
        if given.dtype.kind == "f":
            given = _exact(value, given)
        if not whole or int(given.min()) < info.min or int(given.max()) > info.max:
            raise SpecError(f"{what}: expected integers that fit {dtype}, got {short(given)}")
    try:
        given = np.broadcast_to(given, shape)
    except ValueError as error:
        raise SpecError(f"{what}: expected something of shape {shape}, got shape {given.shape}") from error
    with np.errstate(over="ignore"):
        result = np.array(given.flat[0] if is_uniform(given) else given, dtype)
    if dtype.kind == "f" and (np.isinf(result) & np.isfinite(without_repeats(given))).any():
        raise SpecError(f"{what}: expected numbers that fit {dtype}, got {short(given)}")
    if result.shape != shape:
        return np.broadcast_to(result, shape)
    result.flags.writeable = False
    return result


def _exact(value: ArrayLike, given: NDArray[Any]) -> NDArray[Any]:
    """Returns the array `given` of `value`, with the original Python integers in place of floats that rounded them."""
    return given if isinstance(value, np.ndarray) and value.dtype.kind != "O" else np.asarray(value, object)


def integer_range(dtype: np.dtype[Any]) -> tuple[int, int]:
    """Returns the smallest and the largest integer that an integer or bool dtype holds."""
    if dtype.kind == "b":
        return 0, 1
    info = np.iinfo(dtype)
    return int(info.min), int(info.max)


def as_bounds(
    value: ArrayLike | None, dtype: np.dtype[Any], shape: tuple[int, ...], what: str
) -> tuple[NDArray[Any] | None, NDArray[np.bool_] | None]:
    """Returns the bounds on one side, and a mask of the integers without one; no mask if all have a bound or none.

    Args:
        value: The argument: None for no bounds; an infinite element has none.
        dtype: The dtype of the bounds.
        shape: Their shape.
        what: `"low"` or `"high"`.

    Raises:
        SpecError: The bounds are not numbers, or do not fit dtype or shape.
    """
    if value is None:
        return None, None
    given = as_numbers(value, what)
    free: NDArray[np.bool_] = given == (-np.inf if what == "low" else np.inf)
    if dtype.kind not in "biu" or not free.any():
        return as_read_only(value, dtype, shape, what), None
    end = integer_range(dtype)[what == "high"]
    bound = as_read_only(np.where(free, end, _exact(value, given)).astype(object), dtype, shape, what)
    if free.all():
        return None, None
    free = np.array(np.broadcast_to(free, shape))
    free.flags.writeable = False
    return bound, free if free.size else None


def with_infinity(bound: Any, free: NDArray[np.bool_], infinity: float) -> NDArray[Any]:
    """Returns integer bounds as an object array of Python integers, in which free elements are infinite.

    Args:
        bound: The bounds on one side, an array of integers.
        free: The mask of the elements without a bound, of the same shape.
        infinity: The number for these.
    """
    result = bound.astype(object)
    result[free] = infinity
    return result
