"""Inspection of a source's layers: its wrappers, outermost first, then the bare environment.

Some frameworks define neither seeding nor snapshots. There, the attributes of the layers are searched: for random
generators that can be seeded, for the physics, and for everything that a snapshot copies and restores.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from copy import deepcopy
from types import MemberDescriptorType
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
    """
    of_class = getattr(type(part), name, None)
    if of_class is not None and not isinstance(of_class, MemberDescriptorType):
        return attributes(part).get(name)
    try:
        return object.__getattribute__(part, name)
    except AttributeError:
        return None


def inner_layer(layer: Any, fits: Callable[[Any], bool]) -> Any:
    """Returns the object that a wrapper wraps, or None if it wraps none."""
    held = (attribute(layer, name) for name in _INNER)
    return next((one for one in held if fits(one)), None)


def layers(source: Any, kind: type | tuple[type, ...]) -> list[Any]:
    """Returns the layers of a source from its outermost wrapper to the bare environment."""
    found = [source]
    while True:
        inner = inner_layer(found[-1], lambda layer: isinstance(layer, kind))
        if inner is None or any(inner is layer for layer in found):
            return found
        found.append(inner)


def physics(source: Any, kind: type) -> Any:
    """Returns the simulation inside a source of dm_control, or None."""
    held = (attribute(layer, "_physics") for layer in layers(source, kind))
    return next((one for one in held if hasattr(one, "get_state")), None)


def seed_hook(source: Any, kind: type) -> Callable[[int], Any] | None:
    """Returns the `seed` method of the outermost layer that has one, or None."""
    return next((layer.seed for layer in layers(source, kind) if callable(getattr(type(layer), "seed", None))), None)


class Generators:
    """The random generators of a source's layers and tasks, innermost first."""

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


class Content:
    """A copy of the attributes of a source's layers."""

    def __init__(self, parts: list[Any]) -> None:
        self._kinds = [type(part) for part in parts]
        self._layers = [object() for _ in parts]  # placeholders: a copy of the source has layers of its own there
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
        """Restores the attributes in layers of the same classes."""
        if self._kinds != [type(part) for part in parts]:
            raise SnapshotUnsupported(
                f"restore: expected a snapshot of {parts[0]}, got one of a {self._kinds[0].__name__}"
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


def _held(part: Any) -> tuple[dict[str, Any], dict[str, Any]]:
    """Returns the instance attributes of a part: those in slots, and those in its dict."""
    return {name: getattr(part, name) for name in slots(type(part)) if hasattr(part, name)}, attributes(part)


def _copies_itself(part: Any) -> bool:
    return callable(getattr(type(part), "content", None)) and callable(getattr(type(part), "put_back", None))
