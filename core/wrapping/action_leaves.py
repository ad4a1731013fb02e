"""Functions of the leaves of an action."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..spec import SpecTree


def each_leaf(spec: SpecTree, function: Callable[..., Any], *others: Any) -> Any:
    """Returns `function(leaf, path, …)` of each leaf, in the structure of the spec.

    Args:
        spec: The spec of an action.
        function: A function of a leaf, its path, and the values of `others` there.
        others: Values of the same structure.
    """
    paths = iter([path for path, _ in tree.leaves(spec, "action")])

    def called(leaf: Any, *rest: Any) -> Any:
        return function(leaf, next(paths), *rest)

    return tree.map_leaves(called, spec, *others)


def plus(start: NDArray[Any], number: Any) -> Any:
    """Returns `start + number` in the dtype of the start, for int64 and uint64 would make floats.

    Args:
        start: Integers, in the dtype of the action.
        number: Integers of any dtype, of shape (…, *start.shape).
    """
    return np.add(start, number, dtype=start.dtype, casting="unsafe")
