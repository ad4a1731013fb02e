"""Functions that vectorized stages call: they replace values in some lanes, and count steps."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..errors import SpecError
from ..lane_values import put, take
from ..spec import Spec, SpecTree
from ..spec.base import shown


class ElapsedSteps:
    """The number of steps of each lane's episode, as an immutable object.

    All lanes step together, so a step only increments a shared number; only lanes that begin an episode change an
    array. An upper bound of all counts saves comparing them while no lane can have reached the limit.

    Attributes:
        offsets: The count of each lane less `common`.
        common: The part of the counts that all lanes share.
    """

    __slots__ = ("_bound", "common", "offsets")

    def __init__(self, offsets: NDArray[np.int64], common: int = 0, bound: int = 0) -> None:
        self.offsets, self.common, self._bound = offsets, common, bound

    def __add__(self, steps: int) -> ElapsedSteps:
        """Returns the counts after further steps of all lanes."""
        return ElapsedSteps(self.offsets, self.common + steps, self._bound)

    def merged(self, other: ElapsedSteps, index: NDArray[np.intp]) -> ElapsedSteps:
        """Returns a copy in which some lanes have the counts of `other`."""
        offsets, apart = self.offsets.copy(), other.common - self.common
        has_begun = other._bound + other.common > 0  # else all its counts are 0: these lanes begin an episode
        offsets[index] = other.offsets[index] + apart if has_begun else -self.common
        return ElapsedSteps(offsets, self.common, max(self._bound, other._bound + apart))

    def cut(self, flags: Any, limit: int) -> Any:
        """Sets the flags of lanes at the limit. Returns the same object if no lane can have reached it."""
        if self._bound + self.common < limit:
            return flags
        self._bound = int(self.offsets.max())
        return flags | (self.counts() >= limit)

    def counts(self) -> NDArray[np.int64]:
        """Returns the number of steps of each lane, of shape (n,)."""
        return self.offsets + self.common


def merged(memory: Any, other: Any, lanes: Any) -> Any:
    """Returns a copy of the memory in which some lanes have the values of `other`."""
    if memory is other or memory is None:
        return memory
    index = lanes.nonzero()[0]
    if isinstance(memory, ElapsedSteps):
        return memory.merged(other, index)
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
