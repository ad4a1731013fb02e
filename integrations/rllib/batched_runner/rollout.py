"""Collects the steps of all lanes as arrays."""

from __future__ import annotations

from typing import Any

from .column import Column

LaneInfos = list[dict[str, Any]]
"""One info per lane."""

_FIRST_CAPACITY = 64
"""Rows that a new rollout has place for."""


class Rollout:
    """The steps of n lanes since the begin of the earliest unfinished episode.

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
        weights: The number of the weights that chose the actions of each row.
    """

    def __init__(self, observations: Any, infos: LaneInfos) -> None:
        self.row = 0
        self.begins = [0] * len(infos)
        self.lookbacks = [0] * len(infos)
        self.outputs: dict[str, Column] = {}
        self.times: list[float] = []
        self.weights: list[int] = []
        self._capacity = _FIRST_CAPACITY
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
        if outputs.keys() != self.outputs.keys():
            self.outputs = {
                name: self.outputs.get(name) or Column(value, self._capacity, row) for name, value in outputs.items()
            }
        for name, value in outputs.items():
            self.outputs[name].put(row, value)
        self.times.append(time)
        self.weights.append(weights)
        self._observations.put(row + 1, observations)
        self._infos.append(infos)
        self.row = row + 1

    def observations(self, lane: int, start: int, stop: int) -> Any:
        """Returns a lane's observations in the rows from `start` to before `stop`, as a copy."""
        return self._observations.rows(lane, start, stop)

    def actions(self, lane: int, start: int, stop: int) -> Any:
        """Returns a lane's actions in the rows from `start` to before `stop`, as a copy."""
        assert self._actions is not None
        return self._actions.rows(lane, start, stop)

    def rewards(self, lane: int, start: int, stop: int) -> Any:
        """Returns a lane's rewards in the rows from `start` to before `stop`, of shape (rows,), as a copy."""
        assert self._rewards is not None
        return self._rewards.rows(lane, start, stop)

    def infos(self, lane: int, start: int, stop: int) -> list[dict[str, Any]]:
        """Returns a lane's infos in the rows from `start` to before `stop`."""
        return [infos[lane] for infos in self._infos[start:stop]]

    def _make_place(self) -> None:
        """Drops the rows before the earliest begin; doubles the capacity if more than half of the rows remain."""
        start, stop = min(self.begins), self.row + 1
        if stop - start > self._capacity // 2:
            self._capacity *= 2
        for column in (self._observations, self._actions, self._rewards, *self.outputs.values()):
            if column is not None:
                column.move(start, stop, self._capacity)
        del self.times[:start], self.weights[:start], self._infos[:start]
        self.begins = [begin - start for begin in self.begins]
        self.row -= start

