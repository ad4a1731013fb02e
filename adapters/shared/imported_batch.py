"""The bases of importers of many lanes: lanes that the source steps together, and lanes that can be reached singly."""

from __future__ import annotations

from typing import Any

import numpy as np

from envoi import BatchEnv, EpisodeError, Lanes
from envoi.protocol.batch_env import Mask, as_mask
from envoi.protocol.env import NOT_RESET
from envoi.protocol.episode import NOT_BEGUN

from .arrival import Copy
from .imported import FromSource, Imported


class ImportedBatch(Imported, BatchEnv):
    """Base of importers of many lanes, which the source steps together.

    Args:
        source: The framework's environment, possibly wrapped.
        n: The number of lanes.
        copy: The rule for copying observations, see `envoi.adapters.shared.arrival.Copy`.

    Attributes:
        source: The framework's environment.
    """

    _memory = ("_observation", "_over", "_begun")

    def __init__(self, source: Any, n: int, copy: Copy = "auto") -> None:
        BatchEnv.__init__(self, n)
        self._begun = False
        self._over: Any = np.zeros(n, bool)  # the lanes that have ended
        super().__init__(source, copy)

    def _lanes_to_reset(self, mask: Mask | None) -> Mask:
        """Returns the mask of the lanes that begin an episode, shape (n,); all of them for None.

        Raises:
            EpisodeError: Some lanes, before the first reset of all.
        """
        given = as_mask(mask, self.batch_size, "mask")
        lanes = np.ones(self.batch_size, bool) if given is None else given.copy()
        if not self._begun and not lanes.all():
            raise EpisodeError(f"reset: {NOT_RESET} in all lanes first, without a mask")
        return lanes

    def _check_begun(self, what: str) -> None:
        if not self._begun:
            raise EpisodeError(f"{what}: {NOT_BEGUN}")

    @property
    def observation(self) -> Any:
        self._check_begun("observation")
        return self._observation


class ImportedLanes(FromSource, Lanes):
    """Base of importers of many lanes that can be reached and stepped one by one.

    Args:
        source: The framework's environment.
        lanes: The lanes, as core environments.
    """

    def __init__(self, source: Any, lanes: list[Any]) -> None:
        Lanes.__init__(self, lanes)
        self.source = source
        self._closed = False

    @property
    def is_unchanged(self) -> bool:
        """True as long as the source behaves like this batch, because no lane was changed."""
        return all(lane.is_unchanged for lane in self.envs)
