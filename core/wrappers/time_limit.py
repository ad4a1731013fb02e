"""A time limit."""

from __future__ import annotations

from typing import Any

from ..wrapping.arguments import at_least
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class TimeLimit(Lifted):
    """Truncates every episode at its `max_episode_steps`-th step; a termination at that very step stays one too.

    Several agents are cut off together.

    Args:
        env: The environment.
        max_episode_steps: How many steps an episode has at most, at least 1.

    Raises:
        SpecError: The limit is no such number.
    """

    def __init__(self, env: Any, max_episode_steps: int) -> None:
        self._max_episode_steps = at_least(max_episode_steps, 1, "max_episode_steps")
        super().__init__(env)

    @property
    def max_episode_steps(self) -> int:
        """The limit; can be set, also within an episode."""
        return self._max_episode_steps

    @max_episode_steps.setter
    def max_episode_steps(self, limit: int) -> None:
        self._max_episode_steps = at_least(limit, 1, "max_episode_steps")
        self._plan()

    def change(self, specs: Specs) -> Change:
        return Change(limit=self._max_episode_steps)
