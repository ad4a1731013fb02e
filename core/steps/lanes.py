"""Functions that vectorized stages call: they replace values in some lanes."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from .. import tree
from ..errors import SpecError
from ..lane_values import put, take
from ..spec import Spec, SpecTree
from ..spec.base import shown


def merged(memory: Any, other: Any, lanes: Any) -> Any:
    """Returns a copy of the memory in which some lanes have the values of `other`."""
    if memory is other or memory is None:
        return memory
    index = lanes.nonzero()[0]
    return put(memory, index, take(other, index))


def terminate(ended: Any, terminated: Any, truncated: Any, discount: Any) -> tuple[Any, Any, Any]:
    """Returns flags and discounts after a wrapper has terminated some lanes.

    Args:
        ended: The lanes that the wrapper terminates.
        terminated: The lanes that have terminated inside, or None for none.
        truncated: The lanes that are truncated inside, or None for none.
        discount: The discounts, or None for the default.
    """

    def zero(values: Any) -> Any:
        result = np.array(values)
        result[ended] = 0
        return result

    discount = None if discount is None else tree.map_leaves(zero, discount)
    return (
        (ended.copy(), np.zeros_like(ended), discount)
        if terminated is None
        else (terminated | ended, truncated, discount)
    )


def cut_off(function: Any, terminated: Any, truncated: Any, memory: Any, idle: Any, none: Any) -> tuple[Any, Any]:
    """Returns the flags after a wrapper has truncated some lanes; None for flags that are all False.

    Args:
        function: The function of the change, `(flags, memory) -> flags`.
        terminated: The lanes that have terminated, or None.
        truncated: The lanes that are truncated inside, or None.
        memory: The memory.
        idle: The lanes that do not act, or None.
        none: A mask of no lane.
    """
    flags = none if terminated is None else truncated
    cut = function(flags, memory)
    if cut is flags:
        return terminated, truncated
    truncated = cut if idle is None else np.greater(cut, idle)
    if terminated is not None:
        return terminated, truncated
    return (none.copy(), truncated) if np.count_nonzero(truncated) else (None, None)


def zeroed(values: Any, lanes: Any, spec: SpecTree, zero: Any = None) -> Any:
    """Returns a copy of the values of all lanes, with zeros in some lanes."""

    def some(leaf: Spec, all_lanes: Any) -> Any:
        nothing = leaf.zeros() if zero is None else zero
        if isinstance(all_lanes, tuple):  # of values that no array holds
            values = cast("tuple[Any, ...]", all_lanes)
            return tuple(nothing if idle else own for idle, own in zip(lanes.tolist(), values, strict=True))
        result = np.array(all_lanes)
        if result.shape[:1] != lanes.shape:
            raise SpecError(f"expected a value for each of {len(lanes)} lanes, got {shown(all_lanes)}")
        result[lanes] = nothing
        return result

    return tree.map_leaves(some, spec, values)
