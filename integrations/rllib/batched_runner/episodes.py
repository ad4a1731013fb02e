"""Cuts RLlib's episodes from slices of a rollout.

Episodes are made for each lane and sample, so their parts are copied from a template instead of made by RLlib's
constructors, which would take longer than all else that is done for an episode.
"""

from __future__ import annotations

from copy import deepcopy
from os import urandom
from typing import Any

import numpy as np
import tree
from gymnasium import spaces
from ray.rllib.env.single_agent_episode import SingleAgentEpisode
from ray.rllib.env.utils.infinite_lookback_buffer import InfiniteLookbackBuffer
from ray.rllib.utils.metrics import WEIGHTS_SEQ_NO
from ray.rllib.utils.spaces.space_utils import unbatch

from .rollout import Rollout

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
        """Becomes RLlib's buffer.

        Args:
            as_arrays: True for a buffer of arrays, in which items that were replaced are replaced too, False for one of
                single items.
        """
        if as_arrays and "data" not in self.__dict__:
            self.data, self.finalized = self.rows, True
        else:
            self.data = self.data
        del self.rows
        object.__setattr__(self, "__class__", Buffer)
        if as_arrays:
            self.finalize()


class EpisodeMaker:
    """Makes the episodes of an env runner.

    Args:
        observation_space: The observation space of a lane.
        action_space: The action space of a lane.
    """

    def __init__(self, observation_space: spaces.Space[Any], action_space: spaces.Space[Any]) -> None:
        blank = Episode(observation_space=observation_space, action_space=action_space)
        self._fields = [
            (name, getattr(blank, name)) for name in Episode.__slots__ if name not in _OWN and hasattr(blank, name)
        ]
        self._buffers = {name: vars(getattr(blank, name)) for name in _BUFFERS}

    def new(self, is_blank: bool = True) -> Episode:
        """Returns an episode without data.

        Args:
            is_blank: True for one to which data can be added, False for one without buffers, which `fill` makes.
        """
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
        """Puts the latest rows of a lane into its episode; `settle` then makes it RLlib's own.

        Args:
            episode: The episode, without data or with only that of its begin.
            rollout: The rollout, with at least one step of the episode.
            lane: The lane number.
            unread: True if the buffers shall read as single items until then, False for arrays.
        """
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
    """Makes the buffers of a filled episode RLlib's own.

    Args:
        episode: The episode.
        as_arrays: True for buffers of arrays, False for those of single items.

    Returns:
        The same episode.
    """
    for buffer in (episode.observations, episode.actions, episode.rewards, *episode.extra_model_outputs.values()):
        if isinstance(buffer, UnreadBuffer):
            buffer.settle(as_arrays)
        elif as_arrays:
            buffer.finalize()
    return episode
