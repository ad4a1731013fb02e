"""The elapsed steps of the episodes of many lanes, counted together."""

from __future__ import annotations

import sys
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..protocol.fast_steps import Count


class ElapsedSteps:
    """The number of steps of each lane's episode.

    Without `count`, the arrays never change, and methods return new objects. With it, a step advances them in place.

    All lanes step together, so a step adds one to a number that they share; only lanes that begin an episode change an
    array. An upper bound of the counts spares the comparison with a limit that no lane can have reached.

    Args:
        offsets: The count of each lane less `common`, int64 of shape (n,).
        common: The part of the counts that all lanes share.
        bound: A number that no offset exceeds.
        count: The arrays that a step advances in place, of which `offsets` is a part; None if they never change.

    Attributes:
        offsets: The count of each lane less `common`.
        common: The part of the counts that all lanes share.
        count: The arrays that a step advances in place; None if they never change.
    """

    __slots__ = ("_bound", "common", "count", "offsets")

    def __init__(self, offsets: NDArray[np.int64], common: int = 0, bound: int = 0, count: Count | None = None) -> None:
        self.offsets, self.common, self._bound, self.count = offsets, common, bound, count

    def stepped(self) -> ElapsedSteps:
        """Returns the counts after one more step of all lanes."""
        return ElapsedSteps(self.offsets, self.common + 1, self._bound)

    def running(self, cut: NDArray[np.bool_], limit: int) -> ElapsedSteps:
        """Returns the same counts with a `count`, whose arrays are new; only one wrapper may hold them.

        Args:
            cut: The lanes that the last step has truncated, of shape (n,).
            limit: A number of steps.
        """
        elapsed = np.empty(len(self.offsets) + 1, np.int64)
        np.add(self.offsets, self.common, out=elapsed[:-1])
        elapsed[-1] = limit
        return ElapsedSteps(elapsed[:-1], 0, sys.maxsize, (np.array(cut, bool, order="C"), elapsed))

    def runs_with(self, cut: Any) -> bool:
        """Returns True if there is a `count`, and it has this very array of truncated lanes.

        Args:
            cut: The array.
        """
        return self.count is not None and self.count[0] is cut

    def begin(self, lanes: NDArray[np.bool_]) -> None:
        """Begins episodes in some lanes, in place; there must be a `count`.

        Args:
            lanes: The mask of these lanes, of shape (n,).
        """
        cut, _ = cast("Count", self.count)
        cut[lanes], self.offsets[lanes] = False, 0

    def resting(self) -> ElapsedSteps:
        """Returns the same counts without `count`; no step may change their arrays from now on."""
        return self if self.count is None else ElapsedSteps(self.offsets, 0, self._bound)

    def merged(self, other: ElapsedSteps, index: NDArray[np.intp]) -> ElapsedSteps:
        """Returns these counts, with those of `other` in some lanes.

        Args:
            other: Counts of as many lanes.
            index: The indices of these lanes.
        """
        offsets, apart = self.offsets.copy(), other.common - self.common
        has_begun = other._bound + other.common > 0  # else all its counts are 0: these lanes begin an episode
        offsets[index] = other.offsets[index] + apart if has_begun else -self.common
        return ElapsedSteps(offsets, self.common, max(self._bound, other._bound + apart))

    def cut(self, flags: Any, limit: int) -> Any:
        """Returns flags, set in the lanes that have reached a limit; the same object if no lane can have.

        Args:
            flags: bool of shape (n,).
            limit: A number of steps.
        """
        if self._bound + self.common < limit:
            return flags
        self._bound = int(self.offsets.max())
        return flags | (self.counts() >= limit)

    def counts(self) -> NDArray[np.int64]:
        """Returns the number of steps of each lane, of shape (n,)."""
        return self.offsets + self.common
