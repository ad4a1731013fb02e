"""The steps of all lanes of a single-agent env as arrays, from which episodes are cut."""

from __future__ import annotations

import copy
from os import urandom
from typing import Any

import numpy as np
import tree
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO

from .acting import items_of


class _Column:
    """One value of all lanes in successive rows, as arrays with the lanes first: an episode's part is one slice."""

    def __init__(self, value: Any, row: int, capacity: int) -> None:
        self.first, self._like = row, None if isinstance(value, np.ndarray) else value
        self._leaves = [np.zeros((len(leaf), capacity, *leaf.shape[1:]), leaf.dtype) for leaf in self._flat(value)]

    def _flat(self, value: Any) -> list[Any]:
        return [value] if self._like is None else tree.flatten(value)

    def fits(self, value: Any) -> bool:
        """Returns True if a value has the shapes of the column."""
        return [leaf.shape[2:] for leaf in self._leaves] == [leaf.shape[1:] for leaf in self._flat(value)]

    def put(self, row: int, value: Any) -> None:
        """Copies the value of all lanes into a row."""
        for index, part in enumerate(self._flat(value)):
            leaf = self._leaves[index]
            if leaf.dtype != part.dtype:  # random actions may be wider than a module's
                narrows = np.can_cast(leaf.dtype, part.dtype, "same_kind")
                leaf = leaf.astype(part.dtype if narrows else np.result_type(leaf, part), copy=False)
                self._leaves[index] = leaf
            leaf[:, row] = part

    def rows(self, lane: int, start: int, stop: int) -> Any:
        """Returns copies of a lane's values in some rows: nested arrays of shape (rows, …)."""
        if self._like is None:
            return self._leaves[0][lane, start:stop].copy()
        return tree.unflatten_as(self._like, [leaf[lane, start:stop].copy() for leaf in self._leaves])

    def move(self, start: int, stop: int, capacity: int) -> None:
        """Drops the rows before `start` and makes room for others after `stop`."""
        for index, leaf in enumerate(self._leaves):
            self._leaves[index] = moved = np.zeros((len(leaf), capacity, *leaf.shape[2:]), leaf.dtype)
            moved[:, : stop - start] = leaf[:, start:stop]
        self.first = max(self.first - start, 0)


class Rollout:
    """The steps of n lanes since the start of the earliest unfinished episode, and the episodes made of them.

    A row is one step of the vector environment. It holds the observation before the step with its info, and, once the
    step was made, the action, reward and outputs of the module. The last row holds only an observation and its info.
    """

    def __init__(self, observations: Any, infos: list[Any], blank: SingleAgentEpisode) -> None:
        self._begins = [0] * len(infos)  # of each lane, the first row that is still needed
        self._lookbacks = [0] * len(infos)  # rows of it that are only for looking back
        self._row, self._capacity = 0, 64
        self._columns: dict[str, _Column] = {}
        self._outputs: dict[str, _Column] = {}
        self._infos, self._times = [infos], list[float]()  # the time after the step of each row
        self._put("observations", 0, observations)
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
        self, actions: Any, outputs: dict[str, Any], rewards: Any, observations: Any, infos: list[Any], time: float
    ) -> None:
        """Adds a step of all lanes, as copies, because an environment may use its arrays again."""
        if self._row + 1 == self._capacity:
            self._make_room()
        row = self._row
        # Exploring otherwise has other outputs, which have no past.
        self._outputs = {name: self._outputs[name] for name in outputs if name in self._outputs}
        for name, value in outputs.items():
            if name not in self._outputs or not self._outputs[name].fits(value):
                self._outputs[name] = _Column(value, row, self._capacity)
            self._outputs[name].put(row, value)
        self._put("actions", row, actions)
        self._put("rewards", row, rewards)
        self._put("observations", row + 1, observations)
        self._infos.append(infos)
        self._times.append(time)
        self._row = row + 1

    def _put(self, name: str, row: int, value: Any) -> None:
        if name not in self._columns:
            self._columns[name] = _Column(value, row, self._capacity)
        self._columns[name].put(row, value)

    def _make_room(self) -> None:
        """Drops the rows that no lane needs; doubles the capacity if more than half of them are needed."""
        start, stop = min(self._begins), self._row + 1
        self._capacity *= 1 if stop - start <= self._capacity // 2 else 2
        for column in (*self._columns.values(), *self._outputs.values()):
            column.move(start, stop, self._capacity)
        del self._infos[:start], self._times[:start]
        self._begins = [begin - start for begin in self._begins]
        self._row -= start

    def latest(self, lane: int) -> tuple[Any, dict[str, Any]]:
        """Returns the last observation of a lane, as a copy, and its info."""
        rows = self._columns["observations"].rows(lane, self._row, self._row + 1)
        return items_of(rows)[0], self._infos[-1][lane]

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

    def fill(self, episode: SingleAgentEpisode, lane: int, as_arrays: bool) -> None:
        """Puts a lane's rows since its begin into its episode, as arrays or as RLlib's lists of items."""
        start, stop, lookback = self._begins[lane], self._row, self._lookbacks[lane]

        def buffer(like: InfiniteLookbackBuffer, column: _Column, stop: int = stop) -> InfiniteLookbackBuffer:
            known = max(start, column.first)
            rows = column.rows(lane, known, stop)
            return _buffer(like, rows if as_arrays else items_of(rows), lookback - (known - start), as_arrays)

        like, columns = self._blank, self._columns
        episode.observations = buffer(like.observations, columns["observations"], stop + 1)
        episode.actions = buffer(like.actions, columns["actions"])
        episode.rewards = buffer(like.rewards, columns["rewards"])
        episode.infos = _buffer(like.infos, [infos[lane] for infos in self._infos[start:]], lookback, False)
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


def _buffer(like: InfiniteLookbackBuffer, data: Any, lookback: int, finalized: bool) -> InfiniteLookbackBuffer:
    """Makes a buffer with the space of another; avoids RLlib's constructor, which would traverse the space again."""
    buffer: InfiniteLookbackBuffer = object.__new__(InfiniteLookbackBuffer)
    buffer.__dict__ = {**vars(like), "data": data, "lookback": lookback, "finalized": finalized}
    return buffer
