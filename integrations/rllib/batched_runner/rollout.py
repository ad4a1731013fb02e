"""Collects the steps of all lanes as arrays."""

from __future__ import annotations

from copy import deepcopy
from os import urandom
from typing import Any, NamedTuple

import numpy as np
import tree
from gymnasium import spaces
from numpy.typing import NDArray
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO
from ray.rllib.utils.spaces.space_utils import unbatch

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
        """Drops a lane's rows before the last."""
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
        """Adds a step of all lanes."""
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


class Column:
    """Values of n lanes, in arrays with lanes first, so that the values of an episode are one contiguous slice."""

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
        """Drops all rows but those from `start` to before `stop`, which become the first."""
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


Episode = SingleAgentEpisode
Buffer = InfiniteLookbackBuffer


class UnreadBuffer(Buffer):
    """A buffer of arrays that reads as RLlib's buffer of single items, which it makes when one of them is read.

    RLlib's callbacks at the end of an episode find single items in it. Few read them, and the learner needs arrays.
    """

    rows: Any

    def __getattr__(self, name: str) -> Any:
        if name != "data":
            raise AttributeError(name)
        self.data = list(self.rows) if isinstance(self.rows, np.ndarray) else unbatch(self.rows)
        return self.data

    def len_incl_lookback(self) -> int:
        """Returns the number of items, those of the lookback included."""
        return len(self.data if "data" in self.__dict__ else tree.flatten(self.rows)[0])

    def settle(self, as_arrays: bool) -> None:
        """Becomes RLlib's buffer."""
        if as_arrays and "data" not in self.__dict__:
            self.data, self.finalized = self.rows, True
        else:
            self.data = self.data
        del self.rows
        object.__setattr__(self, "__class__", Buffer)
        if as_arrays:
            self.finalize()


class EpisodeMaker:
    """Makes the episodes of an env runner."""

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        blank = Episode(observation_space=observation_space, action_space=action_space)
        self._fields = [
            (name, getattr(blank, name)) for name in Episode.__slots__ if name not in _OWN and hasattr(blank, name)
        ]
        self._buffers = {name: vars(getattr(blank, name)) for name in _BUFFERS}

    def new(self, is_blank: bool = True) -> Episode:
        """Returns an episode without data."""
        episode = self._make(urandom(16).hex(), 0, {})
        if is_blank:
            for name in _BUFFERS:
                setattr(episode, name, self._buffer(name, [], 0))
        return episode

    def continuation(self, chunk: Episode) -> Episode:
        """Returns the episode that continues a chunk, as `SingleAgentEpisode.cut` does, but without buffers."""
        custom = chunk.custom_data
        return self._make(chunk.id_, chunk.t, deepcopy(custom) if custom else {})

    def fill(self, episode: Episode, rollout: Rollout, lane: int, unread: bool) -> None:
        """Puts the latest rows of a lane into its episode; `settle` then makes it RLlib's own."""
        piece = rollout.piece(lane)
        lookback, weights, make = piece.lookback, piece.weights, self._unread if unread else self._arrays
        episode.observations = make("observations", piece.observations, lookback)
        episode.actions = make("actions", piece.actions, lookback)
        episode.rewards = make("rewards", piece.rewards, lookback)
        episode.infos = self._buffer("infos", piece.infos, lookback)
        outputs = episode.extra_model_outputs = {
            name: make("infos", rows, known) for name, (rows, known) in piece.outputs.items()
        }
        outputs[WEIGHTS_SEQ_NO] = (
            self._buffer("infos", weights.tolist(), lookback) if unread else self._arrays("infos", weights, lookback)
        )
        episode.t = episode.t_started + len(weights) - lookback
        # By these an episode measures its duration.
        episode._last_step_time = piece.last_time
        if episode._start_time is None:
            episode._start_time = piece.first_time

    def _make(self, id_: str, t: int, custom_data: dict[Any, Any]) -> Episode:
        episode: Episode = object.__new__(Episode)
        for name, value in self._fields:
            setattr(episode, name, value)
        episode.id_, episode.t, episode.t_started, episode._custom_data = id_, t, t, custom_data
        episode.extra_model_outputs = {}
        return episode

    def _buffer(self, name: str, items: list[Any], lookback: int) -> Buffer:
        """Returns a buffer of single items, with the space of the buffer of that name."""
        buffer: Buffer = object.__new__(Buffer)
        buffer.__dict__ = {**self._buffers[name], "data": items, "lookback": lookback}
        return buffer

    def _arrays(self, name: str, rows: Any, lookback: int) -> Buffer:
        """Returns a buffer of arrays, with the space of the buffer of that name; that of infos has none."""
        buffer: Buffer = object.__new__(Buffer)
        buffer.__dict__ = {**self._buffers[name], "data": rows, "lookback": lookback, "finalized": True}
        return buffer

    def _unread(self, name: str, rows: Any, lookback: int) -> Buffer:
        """Returns a buffer of arrays that reads as one of single items."""
        buffer: UnreadBuffer = object.__new__(UnreadBuffer)
        buffer.__dict__ = {**self._buffers[name], "rows": rows, "lookback": lookback}
        del buffer.__dict__["data"]
        return buffer


_BUFFERS = ("observations", "actions", "rewards", "infos")
_OWN = {*_BUFFERS, "id_", "t", "t_started", "_custom_data", "extra_model_outputs"}
"""The attributes that episodes do not have in common."""


def settle(episode: Episode, as_arrays: bool) -> Episode:
    """Makes the buffers of a filled episode RLlib's own."""
    for buffer in (episode.observations, episode.actions, episode.rewards, *episode.extra_model_outputs.values()):
        if isinstance(buffer, UnreadBuffer):
            buffer.settle(as_arrays)
        elif as_arrays:
            buffer.finalize()
    return episode
