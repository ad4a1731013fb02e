"""Structural equality: values that compare by class and attributes, recursively."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any, cast

from .tree import AnyArray, AnyDict, AnyList, AnyTuple


class Structured:
    """Base class of objects that are equal if their class and all attributes are equal."""

    def parts(self) -> list[tuple[str, Any]]:
        """Returns the `(name, value)` of each attribute that counts for equality."""
        return attributes(self)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Structured):
            return NotImplemented
        return self is other or structure(self) == structure(other)

    def __hash__(self) -> int:
        return hash(structure(self))

    def __repr__(self) -> str:
        arguments = ", ".join(f"{name}={value!r}" for name, value in self.parts())
        return f"{type(self).__name__}({arguments})"


def attributes(value: object) -> list[tuple[str, Any]]:
    """Returns the `(name, value)` of each instance attribute of an object, from slots and dict, sorted by name."""
    kind = type(value)
    found = {name: getattr(value, name) for name in slots(kind) if hasattr(value, name)}
    return sorted({**found, **getattr(value, "__dict__", {})}.items())


def slots(kind: type) -> set[str]:
    """Returns the attribute names of the slots of a class and of its bases."""
    return {name for base in kind.__mro__ for name in _own_slots(base)}


def _own_slots(kind: type) -> tuple[str, ...]:
    declared: str | Iterable[str] = kind.__dict__.get("__slots__", ())
    names = (declared,) if isinstance(declared, str) else tuple(declared)
    private = [name for name in names if name.startswith("__") and not name.endswith("__")]
    held = (name for name in names if name not in ("__dict__", "__weakref__"))
    return tuple(f"_{kind.__name__.lstrip('_')}{name}" if name in private else name for name in held)


def structure(value: object) -> Hashable:
    """Returns a hashable key for a value; the keys of two values are equal if the values are structurally equal."""
    if isinstance(value, Structured):
        return (type(value), *((name, structure(part)) for name, part in value.parts()))
    if isinstance(value, AnyArray):
        held = structure(value.tolist()) if value.dtype.hasobject else value.tobytes()  # bytes of objects are addresses
        return ("array", value.shape, value.dtype.str, held)
    if isinstance(value, (set, frozenset)):
        return ("set", frozenset(structure(element) for element in cast("set[Any]", value)))
    if isinstance(value, AnyDict):
        # Equality of dicts ignores their order, so the key must ignore it too.
        return ("dict", frozenset((key, structure(element)) for key, element in value.items()))
    if isinstance(value, (AnyList, AnyTuple)):
        return (type(value), *(structure(child) for child in value))
    try:
        hash(value)
    except TypeError:
        kind, held = type(value), attributes(value)
        # An unhashable object, such as a plain dataclass, compares by its attributes.
        return (kind, *((name, structure(part)) for name, part in held)) if held else (kind, id(value))
    return value
