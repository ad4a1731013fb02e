"""The values of lanes in workers: arrays in shared memory, and what no array holds in messages."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...errors import SpecError
from ...lane_values import splitter
from ...spec import SpecTree
from ...tree import map_leaves
from .pool import WorkerPool
from .process import Stepped


class LaneValues:
    """The latest values of n lanes.

    Args:
        pool: The processes, with their shared memory.
        n: The number of lanes.
    """

    def __init__(self, pool: WorkerPool, n: int) -> None:
        self._pool, self._n = pool, n
        self._rests: list[tuple[Any, ...]] = [()] * n  # the leaves of the latest observations that are not arrays

    def keep(self, lanes: Sequence[int], content: Stepped) -> None:
        """Takes over the part of observations that came by message.

        Args:
            lanes: The lanes of the message.
            content: The message.
        """
        for lane, rest in zip(lanes, content.rests, strict=True):
            self._rests[lane] = rest

    def observations(self, lanes: NDArray[np.intp] | None = None) -> Any:
        """Returns the latest observations.

        Args:
            lanes: The indices of k lanes; None for all.

        Returns:
            Copies, with leaves of shape (k, …).
        """
        chosen: list[int] = list(range(self._n)) if lanes is None else lanes.tolist()
        rests = [self._rests[lane] for lane in chosen]
        return self._pool.rows["observation"].read(lanes, rests)

    def observe(self, lane: int, observation: Any) -> None:
        """Writes an observation of a lane.

        Args:
            lane: The lane.
            observation: The observation.
        """
        self._rests[lane] = self._pool.rows["observation"].write(lane, observation)

    def numbers(self, name: str, lanes: NDArray[np.intp] | None = None) -> Any:
        """Returns rewards, discounts or flags; all their leaves are arrays.

        Args:
            name: `"reward"`, `"discount"`, `"terminated"` or `"truncated"`.
            lanes: As for `observations`.

        Returns:
            As for `observations`.
        """
        count = self._n if lanes is None else len(lanes)
        return self._pool.rows[name].read(lanes, [()] * count)

    def write_end(self, lane: int, truncated: bool) -> None:
        """Writes a step of a lane that does not act, with its latest observation.

        Args:
            lane: The lane.
            truncated: True if the step truncates the lane.
        """
        rows = self._pool.rows
        rows["reward"].write(lane, self._filled("reward", np.zeros))
        rows["discount"].write(lane, self._filled("discount", np.ones))
        rows["terminated"].write(lane, False)
        rows["truncated"].write(lane, truncated)

    def _filled(self, name: str, make: Callable[..., Any]) -> Any:
        return map_leaves(lambda leaf: make(leaf.shape, leaf.dtype), self._pool.specs[name])

    def write_actions(self, spec: SpecTree, action: Any, lanes: NDArray[np.intp] | None = None) -> list[Any] | None:
        """Writes actions into shared memory.

        Args:
            spec: The spec of one lane's action.
            action: The actions, with leaves of shape (k, …).
            lanes: The indices of the k lanes; None for all.

        Returns:
            The actions, one for each lane, if they must be sent instead; else None.

        Raises:
            SpecError: They are not one for each lane.
        """
        n = self._n if lanes is None else len(lanes)
        if self._pool.rows["action"].fill(lanes, action):
            return None
        each = splitter(spec, n)(action)
        if len(each) != n:
            raise SpecError(f"action: expected one for each of {n} lanes, got {len(each)}")
        return list(each)
