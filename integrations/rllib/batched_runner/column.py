"""Stores one kind of value, such as observations, of all lanes at successive steps."""

from __future__ import annotations

from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray


class Column:
    """Values of n lanes, in arrays with lanes first, so that the values of an episode are one contiguous slice.

    Args:
        value: The first value of all lanes: an array of shape (n, …), or a nested dict or tuple of such arrays.
        capacity: The number of rows to make place for. A row is one step of all lanes.
        first_row: The first row that will be stored.
    """

    def __init__(self, value: Any, capacity: int, first_row: int = 0) -> None:
        self.first_row = first_row
        self._structure = None if isinstance(value, np.ndarray) else value
        self._leaves: list[NDArray[Any]] = [
            np.zeros((len(leaf), capacity, *leaf.shape[1:]), leaf.dtype) for leaf in self._flat(value)
        ]

    def fits(self, value: Any) -> bool:
        """Returns True if values have the types and shapes of the first value."""
        parts = zip(self._leaves, self._flat(value), strict=True)
        return all(leaf.dtype == part.dtype and leaf.shape[2:] == part.shape[1:] for leaf, part in parts)

    def put(self, row: int, value: Any) -> None:
        """Copies the values of all lanes into a row.

        Args:
            row: The row, below the capacity.
            value: Arrays of shape (n, …), nested as the first value.
        """
        for index, part in enumerate(self._flat(value)):
            leaf = self._leaves[index]
            if leaf.dtype != part.dtype:  # random actions can have other types than those of a module
                self._leaves[index] = leaf = leaf.astype(part.dtype)
            leaf[:, row] = part

    def rows(self, lane: int, start: int, stop: int) -> Any:
        """Returns a copy of a lane's values in some rows: nested arrays of shape (rows, …).

        Args:
            lane: The lane number.
            start: The first row.
            stop: The row after the last.
        """
        if self._structure is None:
            return self._leaves[0][lane, start:stop].copy()
        return tree.unflatten_as(self._structure, [leaf[lane, start:stop].copy() for leaf in self._leaves])

    def move(self, start: int, stop: int, capacity: int) -> None:
        """Drops all rows but those from `start` to before `stop`, which become the first.

        Args:
            start: The first row to keep.
            stop: The row after the last to keep.
            capacity: The number of rows to make place for; at least those kept.
        """
        for index, leaf in enumerate(self._leaves):
            kept = leaf[:, start:stop]
            if capacity == leaf.shape[1]:
                leaf[:, : stop - start] = kept.copy()
                continue
            self._leaves[index] = moved = np.zeros((len(leaf), capacity, *leaf.shape[2:]), leaf.dtype)
            moved[:, : stop - start] = kept
        self.first_row = max(self.first_row - start, 0)

    def _flat(self, value: Any) -> list[Any]:
        return [value] if self._structure is None else tree.flatten(value)
