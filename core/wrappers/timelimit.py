"""A time limit."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ..batch import as_mask
from ..env import ENDED, ENDED_LANES, Env, Reset, Step
from ..errors import EpisodeError, SpecError
from ..wrapper import Wrapper


class TimeLimit(Wrapper):
    """Truncates every episode at its `max_episode_steps`-th step; a termination at that very step stays one too.

    Args:
        env: The environment.
        max_episode_steps: How many steps an episode has at most, at least 1.
    """

    memory = ("_elapsed",)

    def __init__(self, env: Env, max_episode_steps: int) -> None:
        super().__init__(env)
        if not isinstance(cast("object", max_episode_steps), (int, np.integer)) or max_episode_steps < 1:
            raise SpecError(f"max_episode_steps: expected an integer of at least 1, got {max_episode_steps!r}")
        self.max_episode_steps = int(max_episode_steps)
        self._batched = env.batch_size is not None
        self._elapsed: Any = 0 if env.batch_size is None else np.zeros(env.batch_size, np.int64)

    def reset(self, *, seed: Any = None, options: Any = None, mask: Any = None) -> Reset:
        result = super().reset(seed=seed, options=options, mask=mask)
        self._elapsed = self._elapsed * (0 if mask is None else ~np.asarray(mask))
        return result

    def step(self, action: Any, restart: Any = None) -> Step:
        if self._batched:
            return self._step_lanes(action, restart)
        if self._elapsed >= self.max_episode_steps:
            raise EpisodeError(f"step: {ENDED}")
        result = self.env.step(action)
        self._elapsed += 1
        return result if self._elapsed < self.max_episode_steps else result._replace(truncated=True)

    def _step_lanes(self, action: Any, restart: Any) -> Step:
        elapsed = self._elapsed + 1
        if restart is not None:
            elapsed[as_mask(restart, len(elapsed), "restart")] = 0
        if (elapsed > self.max_episode_steps).any():
            lanes = np.flatnonzero(elapsed > self.max_episode_steps).tolist()
            raise EpisodeError(f"step: in lanes {lanes}, {ENDED_LANES}")
        observation, reward, terminated, truncated, discount, info = super().step(action, restart)
        self._elapsed = elapsed
        limit = elapsed >= self.max_episode_steps
        return Step(observation, reward, terminated, truncated | limit, discount, info)
