"""The errors of a model that cannot be compiled."""

from __future__ import annotations

from ..errors import NotCompilable as NotCompilable


class Unsupported(Exception):
    """A reason why a function cannot be compiled, raised where it is found; it becomes a `NotCompilable`."""
