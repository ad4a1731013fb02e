"""The steps of all lanes of a single-agent env as arrays, from which episodes are cut."""

from __future__ import annotations

import copy
from os import urandom
from typing import Any

import numpy as np
import tree
from numpy.typing import NDArray
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO

from .acting import items_of

LaneInfos = list[dict[str, Any]]
"""One info per lane."""

_FIRST_CAPACITY = 64
"""Rows that a new rollout has place for."""


class Rollout:
    """The steps of n lanes since the start of the earliest unfinished episode, and the episodes made of them.

    A row is one step of the vector environment. It holds the observation before the step with its info, and, once the
    step was made, the action, reward and outputs of the module. The last row holds only an observation and its info.
    """

    def __init__(self, observations: Any, infos: LaneInfos, blank: SingleAgentEpisode) -> None:
        self._row = 0  # the last one
        self._begins = [0] * len(infos)  # of each lane, the first row that is still needed
        self._lookbacks = [0] * len(infos)  # rows of it that are only for looking back
        self._capacity = _FIRST_CAPACITY
        self._observations = Column(observations, self._capacity)
        self._observations.put(0, observations)
        self._actions = self._rewards = None
        self._outputs: dict[str, Column] = {}
        self._infos = [infos]
        self._times: list[float] = []  # after the step of each row
        self._blank = blank
        slots = (name for name in SingleAgentEpisode.__slots__ if hasattr(blank, name))
        self._attributes = [(name, getattr(blank, name)) for name in slots]

    def begin(self, lane: int, lookback: int = 0) -> None:
        """Begins an episode at a lane's last row; keeps `lookback` rows before it."""
        kept = min(lookback, self._row - self._begins[lane])
        self._begins[lane], self._lookbacks[lane] = self._row - kept, kept

    def steps(self, lane: int) -> int:
        """Returns the number of steps that a lane has made since its episode began, without the lookback."""
        return self._row - self._begins[lane] - self._lookbacks[lane]

    def add(
        self, actions: Any, outputs: dict[str, Any], rewards: Any, observations: Any, infos: LaneInfos, time: float
    ) -> None:
        """Adds a step of all lanes."""
        if self._row + 1 >= self._capacity:
            self._make_place()
        row = self._row
        if self._actions is None or self._rewards is None:
            self._actions, self._rewards = Column(actions, self._capacity), Column(rewards, self._capacity)
        self._actions.put(row, actions)
        self._rewards.put(row, rewards)
        before, self._outputs = self._outputs, {}
        for name, value in outputs.items():
            column = before.get(name)
            if column is None or not column.fits(value):  # another way to explore can have other outputs
                column = Column(value, self._capacity, row)
            column.put(row, value)
            self._outputs[name] = column
        self._times.append(time)
        self._observations.put(row + 1, observations)
        self._infos.append(infos)
        self._row = row + 1

    def latest(self, lane: int) -> tuple[Any, dict[str, Any]]:
        """Returns the last observation of a lane, as a copy, and its info."""
        return items_of(self._observations.rows(lane, self._row, self._row + 1))[0], self._infos[self._row][lane]

    def _make_place(self) -> None:
        """Drops the rows before the earliest begin; doubles the capacity if more than half of the rows remain."""
        start, stop = min(self._begins), self._row + 1
        if stop - start > self._capacity // 2:
            self._capacity *= 2
        for column in (self._observations, self._actions, self._rewards, *self._outputs.values()):
            if column is not None:
                column.move(start, stop, self._capacity)
        del self._times[:start], self._infos[:start]
        self._begins = [begin - start for begin in self._begins]
        self._row -= start

    # Episodes.

    def new_episode(self, before: SingleAgentEpisode | None = None) -> SingleAgentEpisode:
        """Makes an episode without data, or one that continues `before`, as `SingleAgentEpisode.cut` does.

        Avoids RLlib's constructor, which takes as long as all steps of a short episode.
        """
        episode: SingleAgentEpisode = object.__new__(SingleAgentEpisode)
        for name, value in self._attributes:
            setattr(episode, name, value)
        episode.id_, episode._custom_data = urandom(16).hex(), {}
        if before is not None:
            episode.id_, episode.t, episode.t_started = before.id_, before.t, before.t
            episode._custom_data = copy.deepcopy(before.custom_data)
        return episode

    def start_time(self, episode: SingleAgentEpisode) -> None:
        """Lets an episode measure its duration from the last step."""
        episode._start_time = self._times[-1]

    def fill(self, episode: SingleAgentEpisode, lane: int, as_arrays: bool) -> None:
        """Puts a lane's rows since its begin into its episode, as arrays or as RLlib's lists of items."""
        start, stop, lookback = self._begins[lane], self._row, self._lookbacks[lane]
        assert self._actions is not None
        assert self._rewards is not None

        def buffer(like: InfiniteLookbackBuffer, column: Column, end: int = stop) -> InfiniteLookbackBuffer:
            known = max(start, column.first_row)
            rows = column.rows(lane, known, end)
            return _buffer(like, rows if as_arrays else items_of(rows), start + lookback - known, as_arrays)

        like = self._blank
        episode.observations = buffer(like.observations, self._observations, stop + 1)
        episode.actions = buffer(like.actions, self._actions)
        episode.rewards = buffer(like.rewards, self._rewards)
        episode.infos = _buffer(like.infos, [infos[lane] for infos in self._infos[start : stop + 1]], lookback, False)
        outputs = {name: buffer(like.infos, column) for name, column in self._outputs.items()}
        if not as_arrays:
            weights: Any = outputs[WEIGHTS_SEQ_NO]
            weights.data = list(map(int, weights.data))
        episode.extra_model_outputs = outputs
        episode.t = episode.t_started + stop - start - lookback
        # By these an episode measures its duration.
        episode._last_step_time = self._times[stop - 1]
        if episode._start_time is None:
            episode._start_time = self._times[start + lookback]


class Column:
    """Values of n lanes in arrays whose first axis is the lane, so that an episode's values are a contiguous slice."""

    def __init__(self, value: Any, capacity: int, first_row: int = 0) -> None:
        self.first_row = first_row
        self._structure = None if isinstance(value, np.ndarray) else value
        self._leaves: list[NDArray[Any]] = [
            np.zeros((len(leaf), capacity, *leaf.shape[1:]), leaf.dtype) for leaf in self._flat(value)
        ]

    def fits(self, value: Any) -> bool:
        """Returns True if values have the types and shapes of the first value."""
        parts = zip(self._leaves, self._flat(value), strict=True)
        return all(leaf.dtype == part.dtype and leaf.shape[2:] == part.shape[1:] for leaf, part in parts)

    def put(self, row: int, value: Any) -> None:
        """Copies the values of all lanes into a row."""
        for index, part in enumerate(self._flat(value)):
            leaf = self._leaves[index]
            if leaf.dtype != part.dtype:  # random actions can have other types than those of a module
                self._leaves[index] = leaf = leaf.astype(part.dtype)
            leaf[:, row] = part

    def rows(self, lane: int, start: int, stop: int) -> Any:
        """Returns a copy of a lane's values in some rows: nested arrays of shape (rows, …)."""
        if self._structure is None:
            return self._leaves[0][lane, start:stop].copy()
        return tree.unflatten_as(self._structure, [leaf[lane, start:stop].copy() for leaf in self._leaves])

    def move(self, start: int, stop: int, capacity: int) -> None:
        """Keeps only the rows `start:stop`, which become the first rows."""
        for index, leaf in enumerate(self._leaves):
            kept = leaf[:, start:stop]
            if capacity == leaf.shape[1]:
                leaf[:, : stop - start] = kept.copy()
                continue
            self._leaves[index] = moved = np.zeros((len(leaf), capacity, *leaf.shape[2:]), leaf.dtype)
            moved[:, : stop - start] = kept
        self.first_row = max(self.first_row - start, 0)

    def _flat(self, value: Any) -> list[Any]:
        return [value] if self._structure is None else tree.flatten(value)


def _buffer(like: InfiniteLookbackBuffer, data: Any, lookback: int, finalized: bool) -> InfiniteLookbackBuffer:
    """Makes a buffer with the space of another; avoids RLlib's constructor, which would traverse the space again."""
    buffer: InfiniteLookbackBuffer = object.__new__(InfiniteLookbackBuffer)
    buffer.__dict__ = {**vars(like), "data": data, "lookback": lookback, "finalized": finalized}
    return buffer
