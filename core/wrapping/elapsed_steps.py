"""The elapsed steps of the episodes of many lanes, counted together."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..protocol.fast_steps import Count


class ElapsedSteps:
    """The number of steps of each lane's episode; its methods return new counts, of other arrays than one that runs.

    All lanes step together, so a step adds one to a number that they share; only lanes that begin an episode change an
    array. An upper bound of the counts spares the comparison with a limit that no lane can have reached.

    Args:
        offsets: The count of each lane less `common`, int64 of shape (n,); never changed.
        common: The part of the counts that all lanes share.
        bound: A number that no offset exceeds.
        count: For counts that run: the arrays that a kernel changes, of which `offsets` is a part; else None.

    Attributes:
        offsets: The count of each lane less `common`.
        common: The part of the counts that all lanes share.
        count: The arrays that a kernel changes; None if the counts stay as they are.
    """

    __slots__ = ("_bound", "common", "count", "offsets")

    def __init__(
        self, offsets: NDArray[np.int64], common: int = 0, bound: int = 0, count: Count | None = None
    ) -> None:
        self.offsets, self.common, self._bound, self.count = offsets, common, bound, count

    def stepped(self) -> ElapsedSteps:
        """Returns the counts after one more step of all lanes."""
        return ElapsedSteps(self.offsets, self.common + 1, self._bound)

    def running(self, cut: NDArray[np.bool_], limit: int) -> ElapsedSteps:
        """Returns the same counts in arrays of their own, which a kernel advances in place.

        Only one wrapper may hold them. What it has made of them stays as it is from when it holds others.

        Args:
            cut: The lanes that the last step has truncated, of shape (n,).
            limit: A number of steps.
        """
        elapsed = np.append(self.counts(), limit)
        return ElapsedSteps(elapsed[:-1], 0, sys.maxsize, (np.array(cut, order="C"), elapsed))

    def resting(self) -> ElapsedSteps:
        """Returns the same counts for others to hold; a kernel must not change their arrays any more."""
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
