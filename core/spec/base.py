"""What every spec is, and how specs compare, print and complain."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import fields
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError

SpecTree: TypeAlias = Any
"""A `Spec`, or a dict, list, tuple or named tuple of such trees."""


class Spec:
    """A set of values. Subclasses are frozen dataclasses, equal when all their fields are."""

    name: str | None

    def validate(self, value: Any, path: str = "value") -> None:
        """Checks that `value` lies in this spec.

        Args:
            value: Anything.
            path: How to call the value in the message.

        Raises:
            SpecError: It does not; the message says where, what was expected and what came.
        """
        raise NotImplementedError

    def contains(self, value: Any) -> bool:
        """Whether `value` lies in this spec."""
        try:
            self.validate(value)
        except SpecError:
            return False
        return True

    def sample(self, rng: np.random.Generator) -> Any:
        """A random value of this spec: uniform where that exists, never nan or infinite."""
        raise NotImplementedError

    def zeros(self) -> Any:
        """The value of this spec that is nearest to all zeros (or the shortest one)."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """The arguments of the constructor that make this spec, in order."""
        return {f.name: getattr(self, f.name) for f in fields(cast("Any", self))}

    def _key(self) -> Hashable:
        return (type(self), *map(frozen, self.arguments().values()))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return self is other or self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that bounds come back read-only and compact.
        return type(self), tuple(self.arguments().values())

    def __repr__(self) -> str:
        values = self.arguments().items()
        return f"{type(self).__name__}({', '.join(said(*v) for v in values if v[1] is not None)})"


def without_repeats(array: NDArray[Any]) -> NDArray[Any]:
    """A view with one element along each axis that only repeats it: looking at it takes no memory for the others."""
    return array[tuple(slice(None) if stride else slice(1) for stride in array.strides)]


def is_uniform(array: NDArray[Any]) -> bool:
    """Whether there are elements, and they are all equal."""
    return array.size > 0 and bool(np.all(without_repeats(array) == array.flat[0]))


def frozen(value: Any) -> Hashable:
    """A hashable stand-in for a field's value, equal exactly when the values are."""
    if isinstance(value, np.ndarray):
        array = cast("NDArray[Any]", value)
        inside = array.flat[0].item() if is_uniform(array) else tuple(array.ravel().tolist())
        return (array.shape, array.dtype.str, inside)
    if isinstance(value, dict):
        return ("dict", *((k, frozen(v)) for k, v in cast("dict[Any, Any]", value).items()))
    if isinstance(value, (list, tuple)):
        return (type(cast("object", value)), *(frozen(v) for v in cast("tuple[Any, ...]", value)))
    return value


def short(array: NDArray[Any]) -> str:
    """An array for a message: one number where it is uniform."""
    if is_uniform(array):
        return str(array.flat[0])
    return np.array2string(array, threshold=8, edgeitems=2, separator=", ", floatmode="unique").replace("\n", "")


def said(field: str, value: Any) -> str:
    """One argument of a spec's repr, which reads as the call that makes it."""
    text = repr(value)
    if isinstance(value, np.ndarray):
        array = cast("NDArray[Any]", value)
        # Any number will do as the bound of no elements.
        text = str(array.tolist()) if field == "nvec" else short(array) if array.size else "0"
    if isinstance(value, np.dtype):
        text = repr(str(cast("np.dtype[Any]", value)))
    return text if field in ("shape", "n", "nvec", "spec", "specs", "node") else f"{field}={text}"


def shown(value: Any) -> str:
    """How a message calls a value that came."""
    if isinstance(value, np.ndarray):
        array = cast("NDArray[Any]", value)
        return f"an array of shape {array.shape} and dtype {array.dtype}"
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"


def set_fields(spec: Spec, /, **values: Any) -> None:
    """Sets the fields of a frozen spec, in its constructor."""
    for name, value in values.items():
        object.__setattr__(spec, name, value)
