"""Watches the calls of a batch of lanes, whose episodes it counts one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from ..env_options import EnvOptions
from .env_guard import EnvGuard


class BatchGuard(EnvGuard):
    """Watches the calls of a batch of lanes. The steps of each lane's episode are counted for messages.

    Args:
        name: As in `EnvGuard`.
        options: As in `EnvGuard`.
        form: As in `EnvGuard`; None if the lanes themselves are watched.
        file: As in `EnvGuard`.
        num_envs: The number of lanes.
    """

    def __init__(
        self, name: str, options: EnvOptions, form: Any = None, file: Path | None = None, num_envs: int = 1
    ) -> None:
        super().__init__(name, options, form, file)
        self._num_envs = num_envs
        self._over = np.zeros(num_envs, bool)
        self._any_over = False
        self._began = np.zeros(num_envs, int)
        self._ended = np.zeros(num_envs, int)

    _of_lanes = True

    def reset(self, function: Callable[..., Any], /, **arguments: Any) -> Any:
        self._over, self._any_over = np.zeros(self._num_envs, bool), False
        self._began[:] = 0
        return super().reset(function, **arguments)

    def _count(self, result: Any) -> None:
        if self._any_over:
            self._began[self._over] = self.steps
            self._ended[self._over] += 1
        self._over = np.logical_or(result[2], result[3])
        self._any_over = bool(self._over.any())

    def _restarted(self) -> Mapping[str, Any] | None:
        return {"restart": self._over} if self.steps else None

    def where(self, lane: int | str | None = None) -> str:
        if isinstance(lane, str):
            return super().where(lane)
        if lane is None:
            lanes = f"one of its {self._num_envs} lanes" if self._num_envs > 1 else "lane 0"
            return f"env {self._name!r}, {self.runner}, {lanes}, step {self.steps:,} since the reset of all"
        step, episode = self.steps - self._began[lane], self.episodes + self._ended[lane]
        return f"env {self._name!r}, {self.runner}, lane {lane}, step {step:,} of episode {episode:,}"
