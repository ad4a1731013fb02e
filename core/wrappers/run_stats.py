"""Counts of steps and episodes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..wrapping.lifted import Lifted, ended

if TYPE_CHECKING:
    pass


class RunStats(Lifted):
    """Counts steps and episodes, over all lanes of a batch; for several agents the steps are those of all together.

    A snapshot restores `episode_steps`, and leaves the totals as they are.

    Args:
        env: The environment.

    Attributes:
        episodes: How many episodes have ended.
        resets: How many have begun.
        total_steps: How many steps were taken.
        episode_steps: How many of these in the current episode; in a batch an array of shape (n,).
    """

    memory = ("episode_steps",)

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        n = getattr(self, "batch_size", None)
        self.episodes = self.resets = self.total_steps = 0
        self.episode_steps: Any = 0 if n is None else np.zeros(n, np.int64)

    def reset(self, **arguments: Any) -> Any:
        result = super().reset(**arguments)
        mask = arguments.get("mask")
        self._count(True if mask is None else mask, False, False)
        return result

    def step(self, action: Any, restart: Any = None) -> Any:
        step = super().step(action, restart)
        self._count(False if restart is None else restart, True, ended(self, step))
        return step

    def step_lanes(self, action: Any, lanes: Any) -> Any:
        step = super().step_lanes(action, lanes)
        self._count(False, lanes, ended(self, step))
        return step

    def _count(self, began: Any, acted: Any, over: Any) -> None:
        """Counts steps and episodes; each argument is a bool, or for a batch may be a mask of shape (n,)."""
        shape = np.shape(self.episode_steps)
        began, acted, over = (np.broadcast_to(flag, shape) for flag in (began, acted, over))
        steps = np.where(began, 0, self.episode_steps + acted)
        self.episode_steps = steps if shape else int(steps)
        self.resets += int(began.sum())
        self.total_steps += int((acted & ~began).sum())
        self.episodes += int(over.sum())
