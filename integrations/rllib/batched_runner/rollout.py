"""Collects the steps of all lanes as arrays."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import tree
from numpy.typing import NDArray

from .column import Column

LaneInfos = list[dict[str, Any]]
"""One info per lane."""

_FIRST_CAPACITY = 64
"""Rows that a new rollout has place for."""


class Piece(NamedTuple):
    """The rows of one lane that are an episode, or a chunk of one.

    Attributes:
        lookback: The number of rows before it that are only for looking back.
        observations: Nested arrays of shape (rows + 1, …).
        infos: The info of each observation.
        actions: Nested arrays of shape (rows, …).
        rewards: An array of shape (rows,).
        outputs: Further outputs of the module by name: nested arrays, and the number of their rows to look back on.
        weights: The number of the weights that chose each action, an array of shape (rows,).
        first_time: The time after its first step, in seconds.
        last_time: The time after its last step, in seconds.
    """

    lookback: int
    observations: Any
    infos: list[dict[str, Any]]
    actions: Any
    rewards: Any
    outputs: dict[str, tuple[Any, int]]
    weights: NDArray[np.int64]
    first_time: float
    last_time: float


class Rollout:
    """The steps of n lanes since the start of the earliest unfinished episode.

    A row is one step of the vector environment. It holds the observation before the step with its info, and, once the
    step was made, the action, reward and outputs of the module. The last row holds only an observation and its info.

    Args:
        observations: The observations of the lanes after a reset: nested arrays of shape (n, …).
        infos: The infos of that reset.

    Attributes:
        row: The index of the last row.
        begins: The first row of each lane that is still needed: of its present episode, or to look back on.
        lookbacks: The number of each lane's rows, from its begin, that are only for looking back.
        outputs: The module's outputs other than actions, by name.
        times: The time after the step of each row, in seconds.
        weights: The number of the weights that chose the actions of each row; the array has place for later rows.
    """

    def __init__(self, observations: Any, infos: LaneInfos) -> None:
        self.row = 0
        self.begins = [0] * len(infos)
        self.lookbacks = [0] * len(infos)
        self.outputs: dict[str, Column] = {}
        self.times: list[float] = []
        self._capacity = _FIRST_CAPACITY
        self.weights = np.zeros(self._capacity, np.int64)
        self._observations = Column(observations, self._capacity)
        self._observations.put(0, observations)
        self._actions: Column | None = None
        self._rewards: Column | None = None
        self._infos = [infos]

    def begin(self, lane: int, lookback: int = 0) -> None:
        """Drops a lane's rows before the last.

        Args:
            lane: The lane number.
            lookback: The number of rows before the last to keep, as far as the lane has them.
        """
        kept = min(lookback, self.row - self.begins[lane])
        self.begins[lane], self.lookbacks[lane] = self.row - kept, kept

    def steps(self, lane: int) -> int:
        """Returns the number of steps that a lane has made since its begin, without those to look back on."""
        return self.row - self.begins[lane] - self.lookbacks[lane]

    def add(
        self,
        actions: Any,
        outputs: dict[str, Any],
        rewards: Any,
        observations: Any,
        infos: LaneInfos,
        time: float,
        weights: int,
    ) -> None:
        """Adds a step of all lanes.

        Args:
            actions: The actions: nested arrays of shape (n, …).
            outputs: Further outputs of the module, each of nested arrays of shape (n, …).
            rewards: The rewards, of shape (n,).
            observations: The observations after the step: nested arrays of shape (n, …).
            infos: The infos after the step.
            time: The time after the step, in seconds.
            weights: The number of the weights that chose the actions.
        """
        if self.row + 1 >= self._capacity:
            self._make_place()
        row = self.row
        if self._actions is None or self._rewards is None:
            self._actions, self._rewards = Column(actions, self._capacity), Column(rewards, self._capacity)
        self._actions.put(row, actions)
        self._rewards.put(row, rewards)
        before, self.outputs = self.outputs, {}
        for name, value in outputs.items():
            column = before.get(name)
            if column is None or not column.fits(value):  # another way to explore can have other outputs
                column = Column(value, self._capacity, row)
            column.put(row, value)
            self.outputs[name] = column
        self.times.append(time)
        self.weights[row] = weights
        self._observations.put(row + 1, observations)
        self._infos.append(infos)
        self.row = row + 1

    def latest(self, lane: int) -> tuple[Any, dict[str, Any]]:
        """Returns the last observation of a lane, as a copy, and its info."""
        rows = self._observations.rows(lane, self.row, self.row + 1)
        item = rows[0] if isinstance(rows, np.ndarray) else tree.map_structure(lambda leaf: leaf[0], rows)
        return item, self._infos[self.row][lane]

    def piece(self, lane: int) -> Piece:
        """Returns the rows of a lane from its begin, with at least one step."""
        start, stop, lookback = self.begins[lane], self.row, self.lookbacks[lane]
        first = start + lookback
        assert self._actions is not None
        assert self._rewards is not None
        outputs: dict[str, tuple[Any, int]] = {}
        for name, column in self.outputs.items():
            known = max(start, column.first_row)
            outputs[name] = column.rows(lane, known, stop), first - known
        return Piece(
            lookback,
            self._observations.rows(lane, start, stop + 1),
            [infos[lane] for infos in self._infos[start : stop + 1]],
            self._actions.rows(lane, start, stop),
            self._rewards.rows(lane, start, stop),
            outputs,
            self.weights[start:stop].copy(),
            self.times[first],
            self.times[stop - 1],
        )

    def _make_place(self) -> None:
        """Drops the rows before the earliest begin; doubles the capacity if more than half of the rows remain."""
        start, stop = min(self.begins), self.row + 1
        if stop - start > self._capacity // 2:
            self._capacity *= 2
        for column in (self._observations, self._actions, self._rewards, *self.outputs.values()):
            if column is not None:
                column.move(start, stop, self._capacity)
        del self.times[:start], self._infos[:start]
        weights, self.weights = self.weights[start:], np.zeros(self._capacity, np.int64)
        self.weights[: len(weights)] = weights
        self.begins = [begin - start for begin in self.begins]
        self.row -= start
