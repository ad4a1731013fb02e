"""Layouts: the arrays in which kernels find the trees of n lanes, one element for each scalar of a lane.

Records    one array of records, whose fields are the numbers of a lane: contexts and settings, which few lines read
Rows       one array for each leaf, whose rows are the scalars of all lanes: states
Stream     a lane's generator; the kernel advances its very state, so that it continues in Python where the kernel left
           it
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from .. import tree

METHODS = ("random", "uniform", "integers", "standard_normal", "normal")
"""The methods of a generator that kernels have."""

INSIDE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only kernels call: they have no entry from Python, which takes as long to compile."""


class Stream(NamedTuple):
    """The addresses of a generator's state, and of the functions that return its next numbers."""

    state: int
    next_double: int
    next_uint32: int
    next_uint64: int


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


class Records(Leaves):
    """The record of some numbers of one lane by their names."""

    def __init__(self, numbers: Mapping[str, Any]) -> None:
        super().__init__(dict(numbers))
        fields = [*zip(numbers, self.dtypes, strict=True)] or [("", np.dtype(np.int64))]
        self.dtype = np.dtype(fields, align=True)

    def write(self, records: np.ndarray[Any, Any], leaves: Sequence[Any]) -> None:
        """Copies the numbers of n lanes into records."""
        for name, leaf in zip(self.example, leaves, strict=True):
            if leaf is not None:
                records[name] = leaf


class Rows(Leaves):
    """The rows of the scalars of one lane's tree of arrays."""

    def __init__(self, example: Any) -> None:
        super().__init__(example)
        self._sizes = [int(np.prod(shape)) for shape in self.shapes]
        # For each scalar, the number of its leaf, and of its row in the leaf's array.
        self.places = [(leaf, row) for leaf, size in enumerate(self._sizes) for row in range(size)]

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
