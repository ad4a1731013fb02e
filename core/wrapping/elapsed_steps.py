"""The elapsed steps of the episodes of many lanes, counted together."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray


class ElapsedSteps:
    """The number of steps of each lane's episode; its methods return new counts.

    All lanes step together, so a step adds one to a number that they share; only lanes that begin an episode change an
    array. An upper bound of the counts spares the comparison with a limit that no lane can have reached.

    Args:
        offsets: The count of each lane less `common`, int64 of shape (n,); never changed.
        common: The part of the counts that all lanes share.
        bound: A number that no offset exceeds.

    Attributes:
        offsets: The count of each lane less `common`.
        common: The part of the counts that all lanes share.
    """

    __slots__ = ("_bound", "common", "offsets")

    def __init__(self, offsets: NDArray[np.int64], common: int = 0, bound: int = 0) -> None:
        self.offsets, self.common, self._bound = offsets, common, bound

    def stepped(self) -> ElapsedSteps:
        """Returns the counts after one more step of all lanes."""
        return ElapsedSteps(self.offsets, self.common + 1, self._bound)

    def ahead(self, restart: Any) -> ElapsedSteps:
        """Returns `stepped`, with offsets that a kernel may change.

        Args:
            restart: The lanes that begin an episode, whose offsets it sets to `-common`; None for none.
        """
        return ElapsedSteps(self.offsets if restart is None else self.offsets.copy(), self.common + 1, self._bound)

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
