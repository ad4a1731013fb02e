"""Wrappers that measure: the number of steps and episodes, and where their time goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..errors import SpecError
from ..wrapping.arguments import acting, at_least
from ..wrapping.lifted import Lifted, ended

if TYPE_CHECKING:
    from cProfile import Profile


class RunStats(Lifted):
    """Counts steps and episodes, over all lanes of a batch. A joint step of multiple agents counts once.

    Restoring a snapshot restores `episode_steps`, but not the totals.

    Args:
        env: The environment.

    Attributes:
        episodes: The number of episodes that have ended.
        resets: The number of episodes that have begun.
        total_steps: The number of steps.
        episode_steps: The number of steps of the current episode; in a batch, an array of shape (n,).
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

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Any:
        step = super().step(action, restart, hold)
        self._count(False if restart is None else restart, acting(None, hold), ended(self, step))
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


class PerformanceProfiler(Lifted):
    """Profiles the environment with `cProfile`, and passes the profile to a function every `process_steps` steps.

    Args:
        env: The environment.
        process_profile_fn: A function that receives a `cProfile.Profile` of the steps and the resets between them.
        process_steps: The number of steps in a profile, at least 1; a step of a batch counts once.

    Raises:
        SpecError: `process_steps` is not an integer of at least 1, or `process_profile_fn` cannot be called.
    """

    def __init__(self, env: Any, process_profile_fn: Callable[[Profile], Any], process_steps: int) -> None:
        if not callable(process_profile_fn):
            raise SpecError(f"process_profile_fn: expected a function of a profile, got {process_profile_fn!r}")
        self.process_profile_fn = process_profile_fn
        self.process_steps = at_least(process_steps, 1, "process_steps")
        self._profile: Profile | None = None
        self._steps = 0
        super().__init__(env)

    def reset(self, **arguments: Any) -> Any:
        return self._profiled(super().reset, **arguments)

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Any:
        return self._counted(self._profiled(super().step, action, restart, hold))

    def _profiled(self, call: Callable[..., Any], *args: Any, **arguments: Any) -> Any:
        if self._profile is None:
            from cProfile import Profile  # importing it costs time

            self._profile = Profile()
        self._profile.enable()
        try:
            return call(*args, **arguments)
        finally:
            self._profile.disable()

    def _counted(self, step: Any) -> Any:
        self._steps += 1
        if self._steps >= self.process_steps:
            profile, self._profile, self._steps = self._profile, None, 0
            self.process_profile_fn(cast("Profile", profile))
        return step

    def __getstate__(self) -> dict[str, Any]:
        # A profile is of this process and cannot be copied; a copy begins its own.
        return {**super().__getstate__(), "_profile": None, "_steps": 0}
