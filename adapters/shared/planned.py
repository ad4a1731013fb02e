"""Objects that prepare their hot methods at construction; copies and pickles leave that out and prepare it again."""

from __future__ import annotations

from functools import cache
from typing import Any, ClassVar


@cache
def declared_names(kind: type, attribute: str) -> tuple[str, ...]:
    """Returns the names that a class and its bases list in a class attribute, each once.

    Args:
        kind: The class.
        attribute: The class attribute, a tuple of names; each class lists only what it adds.
    """
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
            setattr(self, name, value)
        self._plan()
