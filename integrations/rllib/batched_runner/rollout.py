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

_KEPT = 64
"""Rows that no lane needs are dropped once there are this many, and they are at least half of all rows."""


class Rollout:
    """The steps of n lanes since the start of the earliest unfinished episode, and the episodes made of them.

    A row is one step of the vector environment. It holds the observation before the step with its info, and, once the
    step was made, the action, reward and outputs of the module. The last row holds only an observation and its info.
    """

    def __init__(self, observations: Any, infos: list[Any], blank: SingleAgentEpisode) -> None:
        self._begins = [0] * len(infos)  # of each lane, the first row that is still needed
        self._lookbacks = [0] * len(infos)  # rows of it that are only for looking back
        self._observations, self._infos = [_copy(observations)], [infos]
        self._actions, self._rewards = list[Any](), list[Any]()
        self._outputs: list[dict[str, Any]] = []
        # The shape of each output and the first row since which all have it, because exploring otherwise has others.
        self._shapes: dict[str, tuple[Any, int]] = {}
        self._times: list[float] = []  # after the step of each row
        self._blank = blank
        slots = (name for name in SingleAgentEpisode.__slots__ if hasattr(blank, name))
        self._attributes = [(name, getattr(blank, name)) for name in slots]

    def begin(self, lane: int, lookback: int = 0) -> None:
        """Begins an episode at a lane's last row; keeps `lookback` rows before it."""
        last = len(self._times)
        kept = min(lookback, last - self._begins[lane])
        self._begins[lane], self._lookbacks[lane] = last - kept, kept

    def steps(self, lane: int) -> int:
        """Returns the number of steps that a lane has made since its episode began, without the lookback."""
        return len(self._times) - self._begins[lane] - self._lookbacks[lane]

    def add(
        self, actions: Any, outputs: dict[str, Any], rewards: Any, observations: Any, infos: list[Any], time: float
    ) -> None:
        """Adds a step of all lanes, as copies, because an environment may use its arrays again."""
        now, known = {name: (np.shape(value), len(self._times)) for name, value in outputs.items()}, self._shapes
        self._shapes = {n: known[n] if n in known and known[n][0] == own[0] else own for n, own in now.items()}
        self._actions.append(_copy(actions))
        self._rewards.append(_copy(rewards))
        self._outputs.append(outputs)
        self._times.append(time)
        self._observations.append(_copy(observations))
        self._infos.append(infos)
        start = min(self._begins)
        if start >= max(_KEPT, len(self._times) // 2):
            columns = self._observations, self._infos, self._actions, self._rewards, self._outputs, self._times
            for column in columns:
                del column[:start]
            self._begins = [begin - start for begin in self._begins]
            self._shapes = {name: (shape, first - start) for name, (shape, first) in self._shapes.items()}

    def latest(self, lane: int) -> tuple[Any, dict[str, Any]]:
        """Returns the last observation of a lane, as a copy, and its info."""
        return items_of(_of_lane(self._observations[-1:], lane))[0], self._infos[-1][lane]

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
        start, stop, lookback = self._begins[lane], len(self._times), self._lookbacks[lane]

        def buffer(like: InfiniteLookbackBuffer, column: list[Any]) -> InfiniteLookbackBuffer:
            rows = _of_lane(column, lane)
            missing = max(0, stop - start - len(column))
            return _buffer(like, rows if as_arrays else items_of(rows), lookback - missing, as_arrays)

        like = self._blank
        episode.observations = buffer(like.observations, self._observations[start:])
        episode.actions = buffer(like.actions, self._actions[start:])
        episode.rewards = buffer(like.rewards, self._rewards[start:])
        episode.infos = _buffer(like.infos, [infos[lane] for infos in self._infos[start:]], lookback, False)
        columns = {n: [row[n] for row in self._outputs[max(start, k) :]] for n, (_, k) in self._shapes.items()}
        outputs = {name: buffer(like.infos, column) for name, column in columns.items()}
        if not as_arrays:
            weights: Any = outputs[WEIGHTS_SEQ_NO]
            weights.data = list(map(int, weights.data))
        episode.extra_model_outputs = outputs
        episode.t = episode.t_started + stop - start - lookback
        # By these an episode measures its duration.
        episode._last_step_time = self._times[stop - 1]
        if episode._start_time is None:
            episode._start_time = self._times[start + lookback]


def _copy(value: Any) -> Any:
    return value.copy() if isinstance(value, np.ndarray) else tree.map_structure(np.copy, value)


def _of_lane(rows: list[Any], lane: int) -> Any:
    """Returns a lane's values in some rows: nested arrays of shape (rows, …)."""
    if isinstance(rows[0], np.ndarray):
        return np.array([row[lane] for row in rows])
    return tree.map_structure(lambda *leaves: np.array([leaf[lane] for leaf in leaves]), *rows)


def _buffer(like: InfiniteLookbackBuffer, data: Any, lookback: int, finalized: bool) -> InfiniteLookbackBuffer:
    """Makes a buffer with the space of another; avoids RLlib's constructor, which would traverse the space again."""
    buffer: InfiniteLookbackBuffer = object.__new__(InfiniteLookbackBuffer)
    buffer.__dict__ = {**vars(like), "data": data, "lookback": lookback, "finalized": finalized}
    return buffer
