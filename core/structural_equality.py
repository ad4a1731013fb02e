"""Values that are compared by what they are made of: their class and their attributes, all the way down."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from . import tree


class Structured:
    """Equal to another of its class when their attributes are equal, be they kept in slots or in a dict."""

    def parts(self) -> list[tuple[str, Any]]:
        """What makes two instances equal: the attributes by name."""
        return attributes(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structured):
            return NotImplemented
        return self is other or structure(self) == structure(other)

    def __hash__(self) -> int:
        return hash(structure(self))

    def __repr__(self) -> str:
        said = ", ".join(f"{name}={value!r}" for name, value in self.parts())
        return f"{type(self).__name__}({said})"


def attributes(value: Any) -> list[tuple[str, Any]]:
    """The attributes that an object holds itself, in slots of any of its classes or in a dict, sorted by name."""
    kind = type(cast("object", value))
    found = {name: getattr(value, name) for name in slots(kind) if hasattr(value, name)}
    return sorted({**found, **cast("dict[str, Any]", getattr(value, "__dict__", {}))}.items())


def slots(kind: type) -> set[str]:
    """The names of the slots of a class and of its bases."""
    return {name for base in kind.__mro__ for name in _own_slots(base)}


def _own_slots(kind: type) -> tuple[str, ...]:
    declared: str | Iterable[str] = kind.__dict__.get("__slots__", ())
    names = (declared,) if isinstance(declared, str) else tuple(declared)
    private = [name for name in names if name.startswith("__") and not name.endswith("__")]
    held = (name for name in names if name not in ("__dict__", "__weakref__"))
    return tuple(f"_{kind.__name__.lstrip('_')}{name}" if name in private else name for name in held)


def structure(value: Any) -> Hashable:
    """A hashable stand-in, equal for values that are equal all the way down."""
    if isinstance(value, Structured):
        return (type(value), *((name, structure(part)) for name, part in value.parts()))
    if isinstance(value, np.ndarray):
        array = cast("NDArray[Any]", value)
        held = structure(array.tolist()) if array.dtype.hasobject else array.tobytes()  # objects' bytes are addresses
        return ("array", array.shape, array.dtype.str, held)
    if isinstance(value, (set, frozenset)):
        return ("set", frozenset(structure(element) for element in cast("set[Any]", value)))
    if isinstance(value, dict):
        # Order does not matter for equality of dicts, so it must not matter here.
        pairs = cast("dict[Hashable, Any]", value).items()
        return ("dict", frozenset((key, structure(element)) for key, element in pairs))
    if tree.is_branch(value):
        return (type(cast("object", value)), *(structure(child) for child in value))
    try:
        hash(value)
    except TypeError:
        kind, held = type(cast("object", value)), attributes(value)
        # Who can be compared and not hashed is compared by attributes, as a dataclass is.
        return (kind, *((name, structure(part)) for name, part in held)) if held else (kind, id(value))
    return cast("Hashable", value)
