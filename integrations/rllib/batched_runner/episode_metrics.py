"""Logs the metrics of many episodes at once; RLlib looks each of them up again for each episode.

Environments with short episodes sample a tenth faster for it: the CartPole rows of `benchmarks/rllib_sampling.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from ray.rllib.env.single_agent_episode import SingleAgentEpisode

_NAMES = ("length", "return", "seconds")


class EpisodeMetrics:
    """The metrics that RLlib logs of each episode.

    Args:
        log: RLlib's function that logs the length, return and duration of an episode to a logger.
    """

    def __init__(self, log: Callable[[Any, Any, Any, Any], None]) -> None:
        recorder = _Recorder()
        log(recorder, *_NAMES)
        self._calls = recorder.calls

    def log(self, metrics: Any, episodes: Sequence[tuple[int, Any, float]]) -> None:
        """Logs episodes to RLlib's logger.

        Args:
            metrics: The logger.
            episodes: The length, return and duration in seconds of each.
        """
        if not episodes:
            return
        columns: dict[str, Any] = dict(zip(_NAMES, zip(*episodes, strict=True), strict=True))
        for key, name, options in self._calls:
            log_values(metrics, key, columns[name], **options)


def measured(episode: SingleAgentEpisode, chunks: Iterable[SingleAgentEpisode]) -> tuple[int, Any, float]:
    """Returns the length, return and duration in seconds of an episode.

    Args:
        episode: The episode, or its last chunk.
        chunks: Its earlier chunks.
    """
    length, total, seconds = len(episode), _return(episode), episode.get_duration_s()
    for chunk in chunks:
        length, total, seconds = length + len(chunk), total + _return(chunk), seconds + chunk.get_duration_s()
    return length, total, seconds


def _return(episode: SingleAgentEpisode) -> Any:
    """Returns the sum of an episode's rewards, added up in the order of `SingleAgentEpisode.get_return`."""
    rewards = episode.rewards.data
    if isinstance(rewards, np.ndarray) and rewards.dtype.kind == "f" and len(rewards) > episode.rewards.lookback:
        return 0 + np.add.accumulate(rewards[episode.rewards.lookback :])[-1]
    return episode.get_return()


def log_values(metrics: Any, key: Any, values: Sequence[Any], **options: Any) -> None:
    """Logs values under one key, in their order.

    Args:
        metrics: RLlib's logger.
        key: The key.
        values: The values; none logs nothing.
        **options: The options of `MetricsLogger.log_value`.
    """
    if not values:
        return
    metrics.log_value(key, values[0], **options)
    stats = metrics.log_time(key)  # which exists now
    for value in values[1:]:
        stats.push(value)


class _Recorder:
    """A logger that keeps the calls, in place of RLlib's."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, str, dict[str, Any]]] = []

    def log_value(self, key: Any, value: str, **options: Any) -> None:
        self.calls.append((key, value, options))
