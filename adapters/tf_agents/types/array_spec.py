"""Specs of arrays, with and without bounds, as in `tf_agents.specs.array_spec`."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray


class ArraySpec:
    """The spec of arrays of one shape and dtype.

    Args:
        shape: Sizes of the axes.
        dtype: A numpy dtype.
        name: The name of the value, or None.
    """

    __slots__ = ("_dtype", "_name", "_shape")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(self, shape: Any, dtype: DTypeLike, name: str | None = None) -> None:
        self._shape: tuple[int, ...] = tuple(shape)
        self._dtype = np.dtype(dtype)
        self._name = name

    @property
    def shape(self) -> tuple[int, ...]:
        """Sizes of the axes."""
        return self._shape

    @property
    def dtype(self) -> np.dtype[Any]:
        """The numpy dtype."""
        return self._dtype

    @property
    def name(self) -> str | None:
        """The name of the value, or None."""
        return self._name

    def __repr__(self) -> str:
        return f"ArraySpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ArraySpec) and self.shape == other.shape and self.dtype == other.dtype

    def check_array(self, array: Any) -> bool:
        """Returns True if a numpy array or a number fits this spec."""
        if isinstance(array, np.ndarray):
            return self.shape == array.shape and self.dtype == array.dtype
        if isinstance(array, numbers.Number):
            return self.shape == () and self.dtype == np.dtype(type(array))
        return False

    def __reduce__(self) -> tuple[Any, ...]:
        return ArraySpec, (self.shape, self.dtype, self.name)

    @staticmethod
    def from_array(array: Any, name: str | None = None) -> ArraySpec:
        """Returns the spec of an array or number.

        Args:
            array: A numpy array or a number.
            name: The name of the spec.

        Raises:
            ValueError: It is neither an array nor a number.
        """
        if isinstance(array, np.ndarray):
            return ArraySpec(array.shape, array.dtype, name)
        if isinstance(array, numbers.Number):
            return ArraySpec((), type(array), name)
        raise ValueError(f"Array must be a np.ndarray or number. Got {array!r}.")

    @staticmethod
    def from_spec(spec: Any) -> ArraySpec:
        """Returns the spec of the same shape, dtype and name as another, without its bounds."""
        return ArraySpec(spec.shape, spec.dtype, spec.name)

    def replace(self, shape: Any = None, dtype: DTypeLike | None = None, name: str | None = None) -> ArraySpec:
        """Returns the same spec with some fields replaced.

        Args:
            shape: The new sizes of the axes; None keeps them.
            dtype: The new dtype; None keeps it.
            name: The new name; None keeps it.
        """
        return ArraySpec(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.name if name is None else name,
        )


class BoundedArraySpec(ArraySpec):
    """The spec of arrays of one shape and dtype between two bounds, which are inclusive.

    Args:
        shape: Sizes of the axes.
        dtype: A numpy integer or float dtype.
        minimum: The lower bounds, broadcastable to `shape`; None and -inf become the least finite number of the dtype.
        maximum: The upper bounds, broadcastable to `shape`; None and inf become the greatest finite number.
        name: The name of the value, or None.

    Raises:
        ValueError: The bounds do not fit shape or dtype, or a minimum exceeds its maximum.
        TypeError: The dtype is neither integer nor float.
    """

    __slots__ = ("_maximum", "_minimum")
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __init__(
        self,
        shape: Any,
        dtype: DTypeLike,
        minimum: ArrayLike | None = None,
        maximum: ArrayLike | None = None,
        name: str | None = None,
    ) -> None:
        super().__init__(shape, dtype, name)
        kind = self.dtype.kind
        if kind not in "iuf":
            raise TypeError(f"Cannot find minimum value of {self.dtype}")
        info: Any = np.finfo(self.dtype) if kind == "f" else np.iinfo(self.dtype)
        low, high = (
            self._bound(given, default, info, what)
            for given, default, what in ((minimum, info.min, "minimum"), (maximum, info.max, "maximum"))
        )
        if np.any(low > high):
            raise ValueError(f"Spec bounds min has values greater than max: [{low},{high}]")
        if any(np.any(bound < info.min) or np.any(bound > info.max) for bound in (low, high)):
            raise ValueError(f"Spec bounds [{low},{high}] not within the range of the given dtype ({self.dtype})")
        self._minimum, self._maximum = low.astype(self.dtype), high.astype(self.dtype)
        self._minimum.setflags(write=False)
        self._maximum.setflags(write=False)

    def _bound(self, given: ArrayLike | None, default: Any, info: Any, what: str) -> NDArray[Any]:
        bound = np.array(default if given is None else given)
        try:
            np.broadcast_to(bound, self.shape)
        except ValueError as error:
            raise ValueError(f"{what} is not compatible with shape. Message: {error!r}.") from error
        if self.dtype.kind == "f" and bound.dtype.kind == "f":
            bound[bound == -np.inf] = info.min
            bound[bound == np.inf] = info.max
        return bound

    @classmethod
    def from_spec(cls, spec: Any, name: str | None = None) -> BoundedArraySpec:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Returns a bounded spec with the shape, dtype and bounds of another.

        Args:
            spec: The other spec; without bounds, those of its dtype are taken.
            name: The new name; None keeps that of `spec`.
        """
        name = spec.name if name is None else name
        if hasattr(spec, "minimum") and hasattr(spec, "maximum"):
            return BoundedArraySpec(spec.shape, spec.dtype, spec.minimum, spec.maximum, name)
        return BoundedArraySpec(spec.shape, spec.dtype, name=name)

    @property
    def minimum(self) -> NDArray[Any]:
        """The lower bounds; broadcastable to `shape`, read-only."""
        return self._minimum

    @property
    def maximum(self) -> NDArray[Any]:
        """The upper bounds; broadcastable to `shape`, read-only."""
        return self._maximum

    @property
    def num_values(self) -> NDArray[Any] | None:
        """The number of values of each element, of the spec's shape; None unless the dtype is an integer."""
        if self.dtype.kind not in "iu":
            return None
        with np.errstate(over="ignore"):  # the whole range of an integer has more values than it can count
            return np.broadcast_to(self.maximum, self.shape) - np.broadcast_to(self.minimum, self.shape) + 1

    def __repr__(self) -> str:
        return (
            f"BoundedArraySpec(shape={self.shape}, dtype={self.dtype!r}, name={self.name!r}, "
            f"minimum={self.minimum}, maximum={self.maximum})"
        )

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, BoundedArraySpec)
            and super().__eq__(other)
            and bool((self.minimum == other.minimum).all() and (self.maximum == other.maximum).all())
        )

    def check_array(self, array: Any) -> bool:
        return (
            super().check_array(array) and bool(np.all(array >= self.minimum)) and bool(np.all(array <= self.maximum))
        )

    def replace(  # pyright: ignore[reportIncompatibleMethodOverride]
        self,
        shape: Any = None,
        dtype: DTypeLike | None = None,
        minimum: ArrayLike | None = None,
        maximum: ArrayLike | None = None,
        name: str | None = None,
    ) -> BoundedArraySpec:
        """Returns the same spec with some fields replaced.

        Args:
            shape: The new sizes of the axes; None keeps them.
            dtype: The new dtype; None keeps it.
            minimum: The new lower bounds; None keeps them.
            maximum: The new upper bounds; None keeps them.
            name: The new name; None keeps it.
        """
        return BoundedArraySpec(
            self.shape if shape is None else shape,
            self.dtype if dtype is None else dtype,
            self.minimum if minimum is None else minimum,
            self.maximum if maximum is None else maximum,
            self.name if name is None else name,
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return BoundedArraySpec, (self.shape, self.dtype, self.minimum, self.maximum, self.name)
