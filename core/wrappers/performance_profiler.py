"""Profiles of the environment inside."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from ..errors import SpecError
from ..wrapping.arguments import at_least
from ..wrapping.lifted import Lifted

if TYPE_CHECKING:
    from cProfile import Profile


class PerformanceProfiler(Lifted):
    """Profiles the environment inside with `cProfile`, and passes on a profile every `process_steps` steps.

    Args:
        env: The environment.
        process_profile_fn: Called with a `cProfile.Profile` of the steps, and of the resets among them.
        process_steps: The number of steps of a profile, at least 1; a step of a batch is one.

    Raises:
        SpecError: The number is no such integer, or the function cannot be called.
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

    def step(self, action: Any, restart: Any = None) -> Any:
        return self._counted(self._profiled(super().step, action, restart))

    def step_lanes(self, action: Any, lanes: Any) -> Any:
        return self._counted(self._profiled(super().step_lanes, action, lanes))

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
