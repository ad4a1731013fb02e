"""Wrappers that measure: the number of steps and episodes, and where their time goes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..errors import SpecError
from ..wrapping.arguments import at_least
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted

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
    _of_episode = ("episodes", "resets", "total_steps")

    def __init__(self, env: Any) -> None:
        super().__init__(env)
        n = getattr(self, "batch_size", None)
        self.episodes = self.resets = self.total_steps = 0
        self.episode_steps: Any = 0 if n is None else np.zeros(n, np.int64)

    def change(self, specs: Specs) -> Change:
        return Change(watch=self._count)

    def reset(self, **arguments: Any) -> Any:
        result = super().reset(**arguments)
        mask = arguments.get("mask")
        if not np.ndim(self.episode_steps):
            self.episode_steps, self.resets = 0, self.resets + 1
        else:
            began = np.full(self.batch_size, True) if mask is None else np.asarray(mask)
            self.episode_steps, self.resets = np.where(began, 0, self.episode_steps), self.resets + int(began.sum())
        return result

    def _count(self, reward: Any, terminated: Any, truncated: Any, info: Any, *masks: Any) -> None:
        """Counts a step. In a batch, `masks` are the masks `restart` and `hold`, or None."""
        if not masks:
            self.episode_steps, self.total_steps = self.episode_steps + 1, self.total_steps + 1
            self.episodes += not self.agents if self.is_several else terminated or truncated
            return
        restart, hold = masks
        steps, acted = self.episode_steps + 1, self.batch_size
        if hold is not None:
            steps[hold], acted = self.episode_steps[hold], acted - int(np.count_nonzero(hold))
        if restart is not None:
            began = int(np.count_nonzero(restart))
            steps[restart], acted, self.resets = 0, acted - began, self.resets + began
        self.episode_steps, self.total_steps = steps, self.total_steps + acted
        self.episodes += 0 if terminated is None else int(np.count_nonzero(terminated | truncated))


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
