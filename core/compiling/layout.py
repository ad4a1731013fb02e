"""Layout: the trees of arrays of n lanes as one record array, whose fields are the scalars of a lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree


class Layout:
    """The record of one lane's tree of arrays.

    Args:
        example: The tree of one lane, with arrays or numbers as leaves.
        prefix: The beginning of the fields' names.
        names: The names, for leaves that are numbers; None to count them.

    Attributes:
        fields: The names of the scalars, leaf by leaf, with their dtypes.
        dtype: The dtype of a record whose fields are scalars, for kernels.
    """

    def __init__(self, example: Any, prefix: str = "f", names: Sequence[str] | None = None) -> None:
        self.example = example
        leaves = [np.asarray(leaf) for _, leaf in tree.leaves(example)]
        self.paths = [path for path, _ in tree.leaves(example)]
        self.shapes, self.dtypes = [leaf.shape for leaf in leaves], [leaf.dtype for leaf in leaves]
        found = [] if names is None else list(names)
        names, formats, offsets, starts, offset = [], [], [], [], 0
        for leaf in leaves:
            size = leaf.dtype.itemsize
            offset = -(-offset // size) * size
            starts.append(offset)
            for _ in range(leaf.size):
                names.append(found[len(names)] if found else f"{prefix}{len(names)}")
                formats.append(leaf.dtype)
                offsets.append(offset)
                offset += size
        whole = max(8, -(-offset // 8) * 8)
        self.fields = list(zip(names, formats, strict=True))
        self.dtype = np.dtype({"names": names, "formats": formats, "offsets": offsets, "itemsize": whole}, align=True)
        self._by_leaf = np.dtype(
            {
                "names": [f"leaf{number}" for number in range(len(leaves))],
                "formats": [(leaf.dtype, leaf.shape) for leaf in leaves],
                "offsets": starts,
                "itemsize": whole,
            }
        )

    def empty(self, n: int) -> np.ndarray[Any, Any]:
        """Returns records of n lanes, filled with zeros."""
        return np.zeros(n, self.dtype)

    def converted(self, leaves: Sequence[Any], n: int) -> list[np.ndarray[Any, Any]] | None:
        """Returns arrays as the leaves of n lanes of this layout; None if that would change their values.

        Args:
            leaves: Arrays of shape (n, …), in order.
            n: The number of lanes.
        """
        if len(leaves) != len(self.shapes):
            return None
        arrays: list[np.ndarray[Any, Any]] = []
        for leaf, shape, dtype in zip(leaves, self.shapes, self.dtypes, strict=True):
            if not isinstance(leaf, np.ndarray) or leaf.shape != (n, *shape):
                return None
            if leaf.dtype != dtype and not (dtype == np.float64 and leaf.dtype == np.int64):
                return None
            arrays.append(leaf)
        return arrays

    def write(self, records: np.ndarray[Any, Any], leaves: Sequence[Any]) -> None:
        """Copies the leaves of n lanes into records.

        Args:
            records: Records of n lanes.
            leaves: Arrays of shape (n, …), in order.
        """
        view = records.view(self._by_leaf)
        for number, leaf in enumerate(leaves):
            view[f"leaf{number}"] = leaf

    def read(self, records: np.ndarray[Any, Any]) -> Any:
        """Returns the tree of n lanes that records hold; its arrays are new."""
        view = records.view(self._by_leaf)
        leaves = iter([view[f"leaf{number}"].copy() for number in range(len(self.shapes))])
        return tree.map_leaves(lambda _: next(leaves), self.example)
