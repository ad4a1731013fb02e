"""The context of a call that may be refused."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any


class Refusable(AbstractContextManager[None]):
    """The context of a call that may be refused by an error: what was done ahead of it is then undone, else completed.

    Args:
        complete: Called after the call, with the arguments.
        undo: Called with them if the call raises an error.
        arguments: The arguments of both.
    """

    __slots__ = ("_arguments", "_complete", "_undo")

    def __init__(self, complete: Callable[..., None], undo: Callable[..., None], arguments: tuple[Any, ...]) -> None:
        self._complete, self._undo, self._arguments = complete, undo, arguments

    def __enter__(self) -> None:
        return

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self._complete(*self._arguments)
        elif issubclass(kind, Exception):
            self.undo()

    def undo(self) -> None:
        """Undoes what was done ahead of the call."""
        self._undo(*self._arguments)
