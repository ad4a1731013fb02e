"""Specs of numeric arrays, bounded and not, and of discrete choices."""

from __future__ import annotations

import operator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from ..errors import SpecError
from ..tree import AnyArray, AnyScalar
from .base import Spec, is_uniform, set_fields, short, shown, without_repeats


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Array(Spec):
    """Arrays of one shape and dtype, within optional bounds.

    Args:
        shape: The sizes of the axes; `()` for a scalar.
        dtype: Any numpy bool, integer, float or complex dtype.
        low: Inclusive lower bounds, a number or an array that broadcasts to `shape`, or None. An element of -inf has no
            bound, also for integers, unlike an element whose bound is the smallest integer of the dtype.
        high: Inclusive upper bounds, in the same form; an element of inf has no bound.
        name: The name of the value, for frameworks that name their specs.

    Attributes:
        low: The lower bounds, of shape `shape` and dtype `dtype`, or None. Unbounded integers have the smallest integer
            of the dtype; `bounded_below` and `low_or_inf` distinguish the two.
        high: The upper bounds, in the same form.

    Raises:
        SpecError: The bounds do not fit shape or dtype, or a lower bound lies above its upper bound.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: NDArray[Any] | None
    high: NDArray[Any] | None
    name: str | None
    _free_below: NDArray[np.bool_] | None
    _free_above: NDArray[np.bool_] | None

    def __init__(
        self,
        shape: int | tuple[int, ...] | list[int],
        dtype: DTypeLike = "float32",
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        name: str | None = None,
    ) -> None:
        size, kind = as_shape(shape), as_dtype(dtype)
        if kind.kind == "c" and not (low is None and high is None):
            raise SpecError(f"low, high: expected None, because {kind} numbers have no order")
        below, free_below = as_bounds(low, kind, size, "low")
        above, free_above = as_bounds(high, kind, size, "high")
        if below is not None and above is not None:
            lows, highs = np.broadcast_arrays(without_repeats(below), without_repeats(above))
            check_bounds(lows, lows, highs, "low")
        set_fields(self, shape=size, dtype=kind, low=below, high=above, name=name)
        set_fields(self, _free_below=free_below, _free_above=free_above)

    @property
    def bounded_below(self) -> NDArray[np.bool_]:
        """Mask of the elements that have a lower bound: bool, of shape `shape`, read-only."""
        return self._bounded(self.low, self._free_below)

    @property
    def bounded_above(self) -> NDArray[np.bool_]:
        """Mask of the elements that have an upper bound: bool, of shape `shape`, read-only."""
        return self._bounded(self.high, self._free_above)

    def _bounded(self, bound: NDArray[Any] | None, free: NDArray[np.bool_] | None) -> NDArray[np.bool_]:
        if bound is None or (free is None and self.dtype.kind != "f"):
            return np.broadcast_to(bound is not None, self.shape)
        return np.broadcast_to(~np.isinf(without_repeats(bound)) if free is None else ~free, self.shape)

    @property
    def low_or_inf(self) -> NDArray[Any] | None:
        """The lower bounds, in the form that the constructor accepts.

        Equal to `low`, unless only some integers are bounded: then it is an object array of Python integers and -inf.
        """
        return self.low if self._free_below is None else with_infinity(self.low, self._free_below, -np.inf)

    @property
    def high_or_inf(self) -> NDArray[Any] | None:
        """The upper bounds, in the form that the constructor accepts; see `low_or_inf`."""
        return self.high if self._free_above is None else with_infinity(self.high, self._free_above, np.inf)

    def arguments(self) -> dict[str, Any]:
        bounds = {"low": self.low_or_inf, "high": self.high_or_inf}
        return {"shape": self.shape, "dtype": self.dtype, **bounds, "name": self.name}

    def __reduce__(self) -> tuple[Any, ...]:
        # Uniform bounds are pickled as a single number, whatever their shape.
        values = self.arguments().values()
        return type(self), tuple(without_repeats(v) if isinstance(v, AnyArray) else v for v in values)

    def validate(self, value: Any, path: str = "value") -> None:
        array = check_array(value, self.shape, self.dtype, path)
        if self.dtype.kind in "fc" and np.isnan(array).any():
            at = np.unravel_index(int(np.argmax(np.isnan(array))), array.shape)
            raise SpecError(f"{path}{''.join(f'[{int(i)}]' for i in at)}: expected a number, got nan")
        if self.low is not None or self.high is not None:
            low = array if self.low is None else self.low
            check_bounds(array, low, array if self.high is None else self.high, path)

    def sample(self, rng: np.random.Generator) -> NDArray[Any]:
        return sample_array(rng, self.shape, self.dtype, self.low, self.high)

    def zeros(self) -> NDArray[Any]:
        value = np.zeros(self.shape, self.dtype)
        return value if self.low is None and self.high is None else np.asarray(np.clip(value, self.low, self.high))


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Discrete(Spec):
    """The integers start, …, start + n - 1, as Python or numpy integers of any width.

    Args:
        n: The number of integers, at least 1.
        start: The smallest one.
        dtype: The integer dtype of the values that frameworks receive.
        name: The name of the value, for frameworks that name their specs.

    Raises:
        SpecError: `n` is below 1, or the integers do not fit `dtype`.
    """

    n: int
    start: int
    dtype: np.dtype[Any]
    name: str | None

    def __init__(self, n: int, start: int = 0, dtype: DTypeLike = "int64", name: str | None = None) -> None:
        kind = as_dtype(dtype)
        if not is_integer(n) or n < 1:
            raise SpecError(f"n: expected an integer of at least 1, got {n!r}")
        if not is_integer(start):
            raise SpecError(f"start: expected an integer, got {start!r}")
        n, start = int(n), int(start)
        if kind.kind not in "iu" or start < np.iinfo(kind).min or start + n - 1 > np.iinfo(kind).max:
            raise SpecError(f"dtype: expected an integer dtype that holds {start} … {start + n - 1}, got {kind}")
        set_fields(self, n=n, start=start, dtype=kind, name=name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Always `()`; values are scalars."""
        return ()

    def validate(self, value: Any, path: str = "value") -> None:
        is_number = isinstance(value, (int, np.integer, np.ndarray))
        array: NDArray[Any] | None = np.asarray(value) if is_number else None
        if array is None or array.shape != () or array.dtype.kind not in "iu":
            raise SpecError(f"{path}: expected an integer, got {shown(value)}")
        number = int(array)
        if not self.start <= number < self.start + self.n:
            raise SpecError(f"{path}: expected {self.start} … {self.start + self.n - 1}, got {number}")

    def sample(self, rng: np.random.Generator) -> np.integer[Any]:
        if self.n >= 2**63:  # exceeds int64, the default dtype of `integers`
            return rng.integers(self.start, self.start + self.n - 1, dtype=self.dtype, endpoint=True)
        return self.dtype.type(self.start + int(rng.integers(self.n)))

    def zeros(self) -> np.integer[Any]:
        return self.dtype.type(min(max(0, self.start), self.start + self.n - 1))


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MultiDiscrete(Spec):
    """Arrays of integers. Element i is one of start[i], …, start[i] + nvec[i] - 1.

    Args:
        nvec: The number of values of each element, at least 1. Values have the same shape.
        start: The smallest value of each element, a number or an array shaped like `nvec`.
        dtype: An integer dtype.
        name: The name of the value, for frameworks that name their specs.

    Raises:
        SpecError: An element has no value, or its integers do not fit `dtype`.
    """

    nvec: NDArray[Any]
    start: NDArray[Any]
    dtype: np.dtype[Any]
    name: str | None

    def __init__(
        self, nvec: ArrayLike, start: ArrayLike = 0, dtype: DTypeLike = "int64", name: str | None = None
    ) -> None:
        kind, shape = as_dtype(dtype), as_numbers(nvec, "nvec").shape
        if kind.kind not in "iu":
            raise SpecError(f"dtype: expected an integer dtype, got {kind}")
        counts = as_read_only(nvec, np.dtype(np.int64), shape, "nvec")
        starts = as_read_only(start, kind, shape, "start")
        check_bounds(counts, 1, counts, "nvec")
        info = np.iinfo(kind)
        for first, count in zip(starts.ravel().tolist(), counts.ravel().tolist(), strict=True):
            if first + count - 1 > info.max:
                raise SpecError(f"dtype: expected one that holds {first} … {first + count - 1}, got {kind}")
        set_fields(self, nvec=counts, start=starts, dtype=kind, name=name)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a value: the shape of `nvec`."""
        return self.nvec.shape

    @property
    def last(self) -> NDArray[Any]:
        """The largest value of each element, as an array."""
        return self.start + (self.nvec - 1).astype(self.dtype)

    def validate(self, value: Any, path: str = "value") -> None:
        check_bounds(check_array(value, self.shape, self.dtype, path), self.start, self.last, path)

    def sample(self, rng: np.random.Generator) -> NDArray[Any]:
        return np.asarray(self.start + rng.integers(0, self.nvec).astype(self.dtype))

    def zeros(self) -> NDArray[Any]:
        return np.asarray(np.clip(np.zeros(self.shape, self.dtype), self.start, self.last))


@dataclass(frozen=True, init=False, eq=False, repr=False)
class MultiBinary(Spec):
    """Arrays of 0 and 1, of dtype int8.

    Args:
        shape: The shape of a value; an integer n means `(n,)`.
        name: The name of the value, for frameworks that name their specs.
    """

    shape: tuple[int, ...]
    name: str | None

    def __init__(self, shape: int | tuple[int, ...] | list[int], name: str | None = None) -> None:
        set_fields(self, shape=as_shape(shape), name=name)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Always int8."""
        return np.dtype(np.int8)

    def validate(self, value: Any, path: str = "value") -> None:
        check_bounds(check_array(value, self.shape, self.dtype, path), 0, 1, path)

    def sample(self, rng: np.random.Generator) -> NDArray[Any]:
        return np.asarray(rng.integers(0, 2, self.shape, np.int8))

    def zeros(self) -> NDArray[Any]:
        return np.zeros(self.shape, np.int8)


ARRAYS = (Array, Discrete, MultiDiscrete, MultiBinary)
"""The specs whose values are arrays of numbers."""

Bound = NDArray[Any] | None


def bounds(spec: Any) -> tuple[Bound, Bound]:
    """Returns the lowest and highest value of each element; None if there is no bound or no array."""
    if isinstance(spec, Discrete):
        return np.asarray(spec.start, spec.dtype), np.asarray(spec.start + spec.n - 1, spec.dtype)
    if isinstance(spec, MultiDiscrete):
        return spec.start, spec.last
    if isinstance(spec, MultiBinary):
        return np.zeros(spec.shape, np.int8), np.ones(spec.shape, np.int8)
    return (spec.low, spec.high) if isinstance(spec, Array) else (None, None)


def bounds_or_inf(spec: Any) -> tuple[Bound, Bound]:
    """Returns `bounds` in the form that `Array` accepts: infinite for integers without a bound."""
    return (spec.low_or_inf, spec.high_or_inf) if isinstance(spec, Array) else bounds(spec)


def is_integer(value: Any) -> bool:
    """Returns True for a Python or numpy integer, and False for a bool."""
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def as_dtype(dtype: DTypeLike) -> np.dtype[Any]:
    """Returns a numpy dtype of numbers or bools, in native byte order."""
    try:
        result = np.dtype(dtype)
    except TypeError as error:
        raise SpecError(f"dtype: expected a numpy dtype, got {dtype!r}") from error
    if result.kind not in "biufc":
        raise SpecError(f"dtype: expected bool, integer, float or complex, got {result}; for strings use Text")
    return result if result.isnative else result.newbyteorder("=")  # numpy's own dtype object compares fastest


def as_shape(shape: Any) -> tuple[int, ...]:
    """Returns a shape as a tuple; an integer n becomes `(n,)`."""
    try:
        result = (int(shape),) if is_integer(shape) else tuple(operator.index(size) for size in shape)
    except TypeError as error:
        raise SpecError(f"shape: expected an integer or a tuple of integers, got {shape!r}") from error
    if any(size < 0 for size in result):
        raise SpecError(f"shape: expected sizes of at least 0, got {result}")
    return result


def as_numbers(value: ArrayLike, what: str) -> NDArray[Any]:
    """Converts an argument to an array of numbers."""
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
    """Converts an argument to a read-only array, which stores only one element if all are equal."""
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
    """Returns `given`, or for Python integers an object array of `value`, because floats may have rounded them."""
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
    """Returns the bounds on one side, and a mask of the unbounded integers (None if all or none have a bound)."""
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
    """Converts integer bounds to an object array of Python integers, with infinity for free elements."""
    result = bound.astype(object)
    result[free] = infinity
    return result


def check_array(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], path: str) -> NDArray[Any]:
    """Checks that a value is an array of a given shape and dtype, and returns it."""
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
    """Checks that an array lies within bounds."""
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
    """
    kind = dtype.kind
    if kind == "b":
        return (rng.integers(0, 2, shape).astype(bool) | (low is not None and low)) & (high is None or high)
    if kind in "iu":
        info = np.iinfo(dtype)
        bottom = info.min if low is None else low
        top = info.max if high is None else high
        return np.asarray(rng.integers(bottom, top, shape, dtype, endpoint=True))
    if kind == "c":
        return np.asarray(rng.normal(size=shape) + 1j * rng.normal(size=shape)).astype(dtype)
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
