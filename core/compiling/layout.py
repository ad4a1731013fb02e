"""Layouts: the arrays in which kernels find the trees of n lanes, one element for each scalar of a lane.

Records    one array of records, whose fields are the scalars of a lane: contexts and settings, which few lines read
Rows       one array for each leaf, whose rows are the scalars of all lanes: states
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from .. import tree


@dataclass(frozen=True)
class Held:
    """An array that a kernel is given by its address."""

    name: str  # in the text
    shape: tuple[int | None, ...]  # with None for the number of lanes
    dtype: np.dtype[Any]

    def zeros(self, n: int) -> np.ndarray[Any, Any]:
        """Returns such an array of n lanes, filled with zeros."""
        return np.zeros(tuple(n if axis is None else axis for axis in self.shape), self.dtype)


class Leaves:
    """The leaves of one lane's tree of arrays."""

    def __init__(self, example: Any) -> None:
        self.example = example
        leaves = [np.asarray(leaf) for _, leaf in tree.leaves(example)]
        self.shapes, self.dtypes = [leaf.shape for leaf in leaves], [leaf.dtype for leaf in leaves]

    def holds(self, leaves: Sequence[Any], n: int) -> bool:
        """Returns True if arrays can be the leaves of n lanes of this layout without a change of their values."""
        if len(leaves) != len(self.shapes):
            return False
        for leaf, shape, dtype in zip(leaves, self.shapes, self.dtypes, strict=True):
            if leaf is None:
                continue
            if not isinstance(leaf, np.ndarray) or leaf.shape != (n, *shape):
                return False
            if leaf.dtype != dtype and not (dtype == np.float64 and leaf.dtype == np.int64):
                return False
        return True

    def rebuilt(self, leaves: Sequence[Any]) -> Any:
        """Returns a tree of this structure with other leaves."""
        remaining = iter(leaves)
        return tree.map_leaves(lambda _: next(remaining), self.example)


class Records(Leaves):
    """The record of one lane's tree of arrays."""

    def __init__(self, example: Any, names: Sequence[str]) -> None:
        super().__init__(example)
        formats, offsets, starts, offset = list[Any](), list[int](), list[int](), 0
        for dtype, shape in zip(self.dtypes, self.shapes, strict=True):
            offset = -(-offset // dtype.itemsize) * dtype.itemsize
            starts.append(offset)
            for _ in np.ndindex(*shape):
                formats.append(dtype)
                offsets.append(offset)
                offset += dtype.itemsize
        whole = max(8, -(-offset // 8) * 8)
        fields = {"names": list(names), "formats": formats, "offsets": offsets, "itemsize": whole}
        self.dtype = np.dtype(fields, align=True)  # pyright: ignore[reportCallIssue, reportArgumentType]
        self._by_leaf = np.dtype(
            {
                "names": [f"leaf{number}" for number in range(len(starts))],
                "formats": list(zip(self.dtypes, self.shapes, strict=True)),
                "offsets": starts,
                "itemsize": whole,
            }
        )

    def write(self, records: np.ndarray[Any, Any], leaves: Sequence[Any]) -> None:
        """Copies the leaves of n lanes into records."""
        view = records.view(self._by_leaf)
        for number, leaf in enumerate(leaves):
            if leaf is not None:
                view[f"leaf{number}"] = leaf


class Rows(Leaves):
    """The rows of the scalars of one lane's tree of arrays."""

    def __init__(self, example: Any) -> None:
        super().__init__(example)
        sizes = [int(np.prod(shape)) for shape in self.shapes]
        # For each scalar, the number of its leaf, and of its row in the leaf's array.
        self.places = [(leaf, row) for leaf, size in enumerate(sizes) for row in range(size)]
        self._sizes = sizes

    def held(self, name: str) -> list[Held]:
        """Returns the arrays of one tree for a kernel, of shapes (rows, n)."""
        pairs = zip(self._sizes, self.dtypes, strict=True)
        return [Held(f"{name}{leaf}", (size, None), dtype) for leaf, (size, dtype) in enumerate(pairs)]

    def scalars(self, name: str, lane: str) -> list[str]:
        """Returns the expressions of all scalars of a lane."""
        return [f"{name}{leaf}[{row}, {lane}]" for leaf, row in self.places]

    def write(self, arrays: Sequence[np.ndarray[Any, Any]], leaves: Sequence[Any]) -> None:
        """Copies the leaves of some lanes into rows."""
        for array, leaf, size in zip(arrays, leaves, self._sizes, strict=True):
            array[:, : len(leaf)] = leaf.reshape(-1, size).T if size else 0

    def read(self, arrays: Sequence[np.ndarray[Any, Any]]) -> list[np.ndarray[Any, Any]]:
        """Returns the leaves of n lanes that the first of some rows hold; the arrays are new."""
        return [
            array.T.reshape(array.shape[1], *shape).copy() if shape else array[0].copy()
            for array, shape in zip(arrays, self.shapes, strict=False)
        ]
