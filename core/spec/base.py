"""The base class of specs, `Foreign`, and the functions by which specs compare, print and word their errors."""

from __future__ import annotations

from collections.abc import Hashable
from copy import deepcopy
from dataclasses import dataclass, fields
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..tree import AnyArray, AnyDict, AnyList, AnyTuple

SpecTree: TypeAlias = Any
"""A `Spec`, or a dict, list, tuple or named tuple of such trees."""


class Spec:
    """A set of values. Subclasses are frozen dataclasses, equal if all their fields are equal."""

    name: str | None

    def validate(self, value: Any, path: str = "value") -> None:
        """Checks that `value` lies in this spec.

        Args:
            value: Any object.
            path: The name of the value in the message.

        Raises:
            SpecError: `value` lies outside the spec. The message names the place, the expected and the actual value.
        """
        raise NotImplementedError

    def contains(self, value: Any) -> bool:
        """Returns True if `value` lies in this spec."""
        try:
            self.validate(value)
        except SpecError:
            return False
        return True

    def sample(self, rng: np.random.Generator) -> Any:
        """Samples a random value of this spec.

        Bounded numbers are uniformly distributed. Numbers are never nan or infinite.

        Args:
            rng: The source of randomness.
        """
        raise NotImplementedError

    def zeros(self) -> Any:
        """Returns the value closest to zero, or the shortest value if lengths vary."""
        raise NotImplementedError

    def arguments(self) -> dict[str, Any]:
        """Returns the constructor arguments of this spec, by name."""
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
        # Unpickled by the constructor, so that bounds are read-only and compact again.
        return type(self), tuple(self.arguments().values())

    def __repr__(self) -> str:
        values = self.arguments().items()
        return f"{type(self).__name__}({', '.join(argument_text(*v) for v in values if v[1] is not None)})"


def without_repeats(array: NDArray[Any]) -> NDArray[Any]:
    """Returns a view without the repetitions of a broadcast array: one element along each axis of stride 0.

    Comparing the view takes no memory for the repetitions.
    """
    return array[tuple(slice(None) if stride else slice(1) for stride in array.strides)]


def is_uniform(array: NDArray[Any]) -> bool:
    """Returns True if an array has elements, and they are all equal."""
    return array.size > 0 and bool(np.all(without_repeats(array) == array.flat[0]))


def frozen(value: Any) -> Hashable:
    """Returns a hashable key for a field's value; two keys are equal exactly if the values are."""
    if isinstance(value, AnyArray):
        inside = value.flat[0].item() if is_uniform(value) else tuple(value.ravel().tolist())
        return (value.shape, value.dtype.str, inside)
    if isinstance(value, AnyDict):
        return ("dict", *((k, frozen(v)) for k, v in value.items()))
    if isinstance(value, (AnyList, AnyTuple)):
        return (type(value), *(frozen(v) for v in value))
    return value


def short(array: NDArray[Any]) -> str:
    """Returns the text of an array for a message; a uniform array is shown as one number."""
    if is_uniform(array):
        return str(array.flat[0])
    return np.array2string(array, threshold=8, edgeitems=2, separator=", ", floatmode="unique").replace("\n", "")


def argument_text(field: str, value: Any) -> str:
    """Returns one argument of a spec's repr, which reads as the constructor call that makes the spec."""
    text = repr(value)
    if isinstance(value, AnyArray):
        # An array without elements accepts any number as its bound.
        text = str(value.tolist()) if field == "nvec" else short(value) if value.size else "0"
    if isinstance(value, np.dtype):
        text = repr(f"{value}")
    return text if field in ("shape", "n", "nvec", "spec", "specs", "node") else f"{field}={text}"


def shown(value: Any) -> str:
    """Returns a short description of a value for an error message: its repr and type, or an array's shape and dtype."""
    if isinstance(value, AnyArray):
        return f"an array of shape {value.shape} and dtype {value.dtype}"
    text, kind = repr(value), "class" if isinstance(value, type) else type(value).__name__
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({kind})"


def set_fields(spec: Spec, /, **values: Any) -> None:
    """Sets the fields of a frozen spec, in its constructor."""
    for name, value in values.items():
        object.__setattr__(spec, name, value)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Foreign(Spec):
    """The values of a framework-specific space object, or the instances of a Python class.

    A space object, such as minigrid's `MissionSpace`, converts back to its own framework unchanged, but to no other
    framework. Instances of a class convert to no framework, unless `Represented` turns them into arrays.

    Args:
        origin: An object with `contains(value)`, `seed(seed)` and `sample()`, such as a gymnasium space; or a class,
            whose instances cannot be sampled.
        name: The name of the value, for frameworks that name their specs.

    Raises:
        SpecError: `origin` is an object without these methods, or a class that defines them.
    """

    origin: Any
    name: str | None

    def __init__(self, origin: Any, name: str | None = None) -> None:
        is_space = all(callable(getattr(origin, method, None)) for method in ("contains", "seed", "sample"))
        if isinstance(origin, type) == is_space:
            what = "its class " if is_space else ""
            raise SpecError(f"origin: expected an object with contains, seed and sample, got {what}{origin!r}")
        set_fields(self, origin=origin, name=name)

    def validate(self, value: Any, path: str = "value") -> None:
        if isinstance(self.origin, type):
            if not isinstance(value, self.origin):
                raise SpecError(f"{path}: expected an object of class {self.origin.__name__}, got {shown(value)}")
        elif not self.origin.contains(value):
            raise SpecError(f"{path}: expected a value that {self.origin!r} contains, got {shown(value)}")

    def sample(self, rng: np.random.Generator) -> Any:
        if isinstance(self.origin, type):
            raise SpecError(f"sample: objects of class {self.origin.__name__} cannot be sampled")
        source = deepcopy(self.origin)  # so that the generator of the original does not advance
        source.seed(int(rng.integers(2**31)))
        return source.sample()

    def zeros(self) -> Any:
        return self.sample(np.random.default_rng(0))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Foreign):
            return NotImplemented
        return self.name == other.name and (self.origin is other.origin or bool(self.origin == other.origin))

    def __hash__(self) -> int:
        # The origin may be unhashable.
        origin: object = self.origin
        return hash((Foreign, type(origin), self.name))
