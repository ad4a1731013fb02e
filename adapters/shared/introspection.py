"""Inspection of a source's layers: its wrappers, outermost first, then the bare environment.

Some frameworks define neither seeding nor snapshots. There, the attributes of the layers are searched: for random
generators that can be seeded, for the physics, and for everything that a snapshot copies and restores.
"""

from __future__ import annotations

import dis
import gc
import inspect
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import cache, cached_property
from types import CodeType, FunctionType, MemberDescriptorType
from typing import Any

import numpy as np

from envoi import SnapshotUnsupported
from envoi.structural_equality import slots

_INNER = ("_env", "_environment", "env", "aec_env", "environment")
"""Attributes in which wrappers keep the environment inside."""

_STREAMS = ("_rng", "rng", "_random", "random", "_random_state", "random_state", "_np_random", "np_random")
"""Attributes in which environments and tasks keep their generator."""


def attributes(part: Any) -> dict[str, Any]:
    """Returns the instance dict of a part of a source, without what its `__getattr__` would find elsewhere."""
    return getattr(part, "__dict__", {})


def attribute(part: Any, name: str) -> Any:
    """Returns an attribute from a slot or the dict of a part of a source, or None if the part itself has none.

    Avoids the dict where possible, because CPython reads all attributes of an object more slowly once its dict has
    been accessed.

    Args:
        part: A layer or another object.
        name: The attribute's name.
    """
    of_class = getattr(type(part), name, None)
    if of_class is not None and not isinstance(of_class, MemberDescriptorType):
        return attributes(part).get(name)
    try:
        return object.__getattribute__(part, name)
    except AttributeError:
        return None


def names(part: Any) -> set[str]:
    """Returns the names of the attributes of a part of a source, its own and those of its class."""
    return {*dir(type(part)), *own_names(part)}


def own_names(part: Any) -> set[str]:
    """Returns the names of the instance attributes of a part of a source, without access to its dict if possible.

    Candidates are the names that its class declares and those in the code of its methods. They are complete if each
    object that it refers to is the value of one; otherwise some attribute was set from outside, and its dict is read.
    """
    kind = type(part)
    found = {name: held for name, of_class in _candidates(kind) if (held := _own_value(part, name)) is not of_class}
    if sorted([id(kind), *map(id, found.values())]) == sorted(map(id, gc.get_referents(part))):
        return {*found}
    return {*attributes(part)}


_NOTHING = object()


def _own_value(part: Any, name: str) -> Any:
    try:
        return object.__getattribute__(part, name)
    except AttributeError:
        return _NOTHING


@cache
def _candidates(kind: type) -> tuple[tuple[str, Any], ...]:
    """Returns the names that instance attributes may have, each with the class's value; no methods or properties.

    Names with two underscores on either side are the language's: CPython 3.14 adds some to a class when it is asked for
    annotations.
    """
    of_classes = {name: held for base in reversed(kind.__mro__) for name, held in vars(base).items()}
    found = {*of_classes, *annotated(kind), *(name for code in _codes(kind) for name in code.co_names)}
    found = {name for name in found if not (name.startswith("__") and name.endswith("__"))}
    values = ((name, of_classes.get(name, _NOTHING)) for name in found)
    return tuple((name, value) for name, value in values if not hasattr(type(value), "__get__"))


def annotated(kind: type) -> set[str]:
    """Returns the names that a class and its bases annotate with a type."""
    return {name for base in kind.__mro__ for name in inspect.get_annotations(base)}


def assigned(kind: type) -> set[str]:
    """Returns the names of the attributes that the methods of a class and its bases assign, on any object."""
    steps = (step for code in _codes(kind) for step in dis.get_instructions(code))
    return {step.argval for step in steps if step.opname == "STORE_ATTR"}


def _codes(kind: type) -> Iterator[CodeType]:
    """Yields the code of all methods and properties of a class and its bases, and of the functions inside them."""
    found: list[Any] = [held for base in kind.__mro__ for held in vars(base).values()]
    while found:
        one = found.pop()
        if isinstance(one, CodeType):
            yield one
            found.extend(held for held in one.co_consts if isinstance(held, CodeType))
        elif isinstance(one, FunctionType):
            found.extend((one.__code__, getattr(one, "__wrapped__", None)))
        elif isinstance(one, (classmethod, staticmethod)):
            found.append(one.__func__)
        elif isinstance(one, property):
            found.extend((one.fget, one.fset))
        elif isinstance(one, cached_property):
            found.append(one.func)


def inner_layer(layer: Any, fits: Callable[[Any], bool]) -> Any:
    """Returns the object that a wrapper wraps, or None if it wraps none.

    Args:
        layer: The wrapper; any object.
        fits: Returns True for an environment, and False for other objects that attributes of these names may contain.
    """
    held = (attribute(layer, name) for name in _INNER)
    return next((one for one in held if fits(one)), None)


def layers(source: Any, kind: type) -> list[Any]:
    """Returns the layers of a source from its outermost wrapper to the bare environment.

    Args:
        source: The environment.
        kind: The class that every layer is an instance of.
    """
    found = [source]
    while True:
        inner = inner_layer(found[-1], lambda layer: isinstance(layer, kind))
        if inner is None or any(inner is layer for layer in found):
            return found
        found.append(inner)


def physics(source: Any, kind: type) -> Any:
    """Returns the simulation inside a source of dm_control, or None.

    Args:
        source: The environment.
        kind: The class that every layer is an instance of.
    """
    held = (attribute(layer, "_physics") for layer in layers(source, kind))
    return next((one for one in held if hasattr(one, "get_state")), None)


def seed_hook(source: Any, kind: type) -> Callable[[int], Any] | None:
    """Returns the `seed` method of the outermost layer that has one, or None.

    Args:
        source: The environment.
        kind: The class that every layer is an instance of.
    """
    for layer in layers(source, kind):
        if callable(getattr(type(layer), "seed", None)):
            return layer.seed
    return None


class Generators:
    """The random generators of a source's layers and tasks, innermost first.

    Args:
        source: The environment.
        kind: The class that every layer is an instance of.
    """

    def __init__(self, source: Any, kind: type) -> None:
        self._places: list[tuple[dict[str, Any], str]] = []
        known: set[int] = set()
        for holder in _holders(source, kind):
            for name in _STREAMS:
                held = holder.get(name)
                if isinstance(held, (np.random.RandomState, np.random.Generator)) and id(held) not in known:
                    known.add(id(held))
                    self._places.append((holder, name))

    def __bool__(self) -> bool:
        return bool(self._places)

    def seed(self, seed: int) -> None:
        """Seeds each generator as a constructor would from that seed; in place, because other objects may share it."""
        for holder, name in self._places:
            _seed(holder[name], seed)

    def first(self) -> np.random.Generator | None:
        """Returns the innermost generator, or None if it is a `RandomState`, whose states cannot be compared."""
        if not self._places:
            return None
        holder, name = self._places[0]
        return holder[name] if isinstance(holder[name], np.random.Generator) else None

    def replace(self, generator: np.random.Generator) -> None:
        """Replaces the innermost generator, and seeds the others from the new one, which is not advanced.

        A `RandomState` cannot be replaced: the innermost one copies the state of a generator of the same kind, and is
        seeded from any other.
        """
        words = deepcopy(generator).integers(2**32, size=(len(self._places), 4), dtype=np.uint32)
        for index, (holder, name) in enumerate(self._places):
            held = holder[name]
            if index == 0 and isinstance(held, np.random.Generator):
                holder[name] = generator
            elif index == 0 and type(_bits(held)) is type(generator.bit_generator):
                _bits(held).state = generator.bit_generator.state
            else:
                _seed(held, int.from_bytes(words[index].tobytes(), "little"))


def _holders(source: Any, kind: type) -> Iterator[dict[str, Any]]:
    for layer in reversed(layers(source, kind)):
        held = attributes(layer)
        yield held
        yield attributes(held.get("_task", held.get("task")))


def _bits(held: Any) -> Any:
    return held.bit_generator if isinstance(held, np.random.Generator) else held._bit_generator


def _seed(held: Any, seed: int) -> None:
    bits = _bits(held)
    if isinstance(held, np.random.RandomState) and isinstance(bits, np.random.MT19937):
        # `seed` takes words of 32 bits.
        words = [seed >> shift & 0xFFFFFFFF for shift in range(0, seed.bit_length(), 32)]
        held.seed(words if len(words) > 1 else seed)
    else:
        bits.state = type(bits)(seed).state


# Snapshots: the attributes of the layers, copied as a whole so that shared objects stay shared. Layers are not copied.


class _Layer:
    """A placeholder for a layer in a snapshot; a copy of the source has its own layer in that place."""

    def __init__(self, kind: type) -> None:
        self.kind = kind


class Content:
    """A copy of the attributes of a source's layers.

    Args:
        parts: The layers. One with methods `content()` and `put_back(content)` is copied and restored by these.

    Raises:
        SnapshotUnsupported: An attribute cannot be copied.
    """

    def __init__(self, parts: list[Any]) -> None:
        self._layers = [_Layer(kind_of(part)) for part in parts]
        stand_ins: dict[int, Any] = dict(zip(map(id, parts), self._layers, strict=True))
        try:
            self._held = deepcopy(
                [part.content() if _copies_itself(part) else _held(part) for part in parts], stand_ins
            )
        except SnapshotUnsupported:
            raise
        except Exception as error:  # any that the source's own objects may raise
            raise SnapshotUnsupported(f"{parts[0]}: cannot be copied ({error!r})") from error

    def put_back(self, parts: list[Any]) -> None:
        """Restores the attributes in layers of the same classes.

        Raises:
            SnapshotUnsupported: The layers are of other classes.
        """
        if [layer.kind for layer in self._layers] != [kind_of(part) for part in parts]:
            raise SnapshotUnsupported(
                f"restore: expected a snapshot of {parts[0]}, got one of a {self._layers[0].kind.__name__}"
            )
        stand_ins: dict[int, Any] = dict(zip(map(id, self._layers), parts, strict=True))
        for part, held in zip(parts, deepcopy(self._held, stand_ins), strict=True):
            if _copies_itself(part):
                part.put_back(held)
            else:
                in_slots, in_dict = held
                for name in slots(type(part)):
                    if name in in_slots:
                        setattr(part, name, in_slots[name])
                    elif hasattr(part, name):
                        delattr(part, name)
                own = attributes(part)
                own.clear()
                own.update(in_dict)


def kind_of(part: Any) -> type:
    """Returns an object's class; for a form whose class was extended by reached attributes, the original class."""
    return type(part).__dict__.get("_written", type(part))


def _held(part: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the instance attributes of a part: those in slots, and those in its dict."""
    return {name: getattr(part, name) for name in slots(type(part)) if hasattr(part, name)}, attributes(part)


def _copies_itself(part: Any) -> bool:
    return callable(getattr(type(part), "content", None)) and callable(getattr(type(part), "put_back", None))
