"""The class by which forms are recognised, and the one of objects that prepare their hot methods."""

from __future__ import annotations

from typing import Any, ClassVar

from envoi import MultiEnv
from envoi.wrapping.delegate import set_once


class CoreHolder:
    """An environment of a framework with a core environment inside; the base of all forms.

    Attributes:
        core: The core environment.
    """

    core: Any = set_once("core", "make a new form of it")
    _core_inside: Any


class MultiCoreHolder(CoreHolder):
    """The same for frameworks of several agents.

    Attributes:
        core: The core environment, of one agent or of several.
        multi: The same, as one of several agents.
    """

    multi: MultiEnv


def declared_names(kind: type, attribute: str) -> tuple[str, ...]:
    """Returns the names that a class and its bases list in a class attribute, each once."""
    return tuple(dict.fromkeys(name for base in reversed(kind.__mro__) for name in vars(base).get(attribute, ())))


class Planned:
    """An object whose `_plan` decides once what its hot methods need, such as functions that convert values.

    A class lists in `_planned` the names of the attributes that its `_plan` sets, apart from those of its bases.
    """

    _planned: ClassVar[tuple[str, ...]] = ()

    def _plan(self) -> None:
        """Sets the attributes of `_planned`, from the other ones."""

    def __getstate__(self) -> dict[str, Any]:
        planned = declared_names(type(self), "_planned")
        return {name: value for name, value in vars(self).items() if name not in planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        # One by one: CPython reads the attributes of an object more slowly after its dict was asked for.
        for name, value in state.items():
            object.__setattr__(self, name, value)  # and not where a form may reach
        self._plan()
