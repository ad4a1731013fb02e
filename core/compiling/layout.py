"""Layouts: the arrays in which kernels find the trees of n lanes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from .. import tree

METHODS = ("random", "uniform", "integers", "standard_normal", "normal")
"""The methods of a generator that kernels support."""

INSIDE: dict[str, Any] = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
"""Options of functions that only kernels call. Without an entry from Python, they compile twice as fast."""


class Stream(NamedTuple):
    """The addresses of a lane's generator, whose own state kernels advance, and of its functions in C."""

    state: int
    next_double: int
    next_uint32: int
    next_uint64: int
    numbers: int  # the address of its four numbers; 0 if its kind is unusual


class Leaves:
    """The layout of a tree of arrays: the shape and dtype of each leaf of one lane."""

    def __init__(self, example: Any) -> None:
        self.example = example
        leaves = [np.asarray(leaf) for _, leaf in tree.leaves(example)]
        self.shapes, self.dtypes = [leaf.shape for leaf in leaves], [leaf.dtype for leaf in leaves]

    def zeros(self, n: int) -> list[np.ndarray[Any, Any]]:
        return [np.zeros((n, *shape), dtype) for shape, dtype in zip(self.shapes, self.dtypes, strict=True)]

    def holds(self, leaves: Sequence[Any], n: int) -> bool:
        """Returns True if arrays of n lanes fit this layout without changing their values."""
        if len(leaves) != len(self.shapes):
            return False
        for leaf, shape, dtype in zip(leaves, self.shapes, self.dtypes, strict=True):
            if not isinstance(leaf, np.ndarray) or leaf.shape != (n, *shape):
                return False
            if leaf.dtype != dtype and not (dtype == np.float64 and leaf.dtype == np.int64):
                return False
        return True


class Records(Leaves):
    """The layout of an array of records, with a field for each number of a lane: of contexts and settings."""

    def __init__(self, numbers: Mapping[str, Any]) -> None:
        super().__init__(dict(numbers))
        fields = [*zip(numbers, self.dtypes, strict=True)] or [("", np.dtype(np.int64))]
        self.dtype = np.dtype(fields, align=True)

    def write(self, records: np.ndarray[Any, Any], leaves: Sequence[Any]) -> None:
        for name, leaf in zip(self.example, leaves, strict=True):
            records[name] = leaf
