"""Finds the spaces inside of a nested space."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gymnasium import spaces


def parts_of(space: spaces.Space[Any]) -> Iterator[spaces.Space[Any]]:
    """Yields the spaces inside of nested `Dict` and `Tuple` spaces, or the space itself."""
    if isinstance(space, (spaces.Dict, spaces.Tuple)):
        for part in space.spaces.values() if isinstance(space, spaces.Dict) else space.spaces:
            yield from parts_of(part)
    else:
        yield space
