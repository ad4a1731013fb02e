"""A time limit."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..wrapping.arguments import at_least
from ..wrapping.change import Change, Specs
from ..wrapping.elapsed_steps import ElapsedSteps
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
        self.max_episode_steps = at_least(max_episode_steps, 1, "max_episode_steps")
        super().__init__(env)

    def change(self, specs: Specs) -> Change:
        if specs.lanes is not None:
            none = ElapsedSteps(np.zeros(specs.lanes, np.int64))
            return Change(
                shared=True,
                begin=lambda observation: none,
                remember=lambda elapsed, action, observation, reward: elapsed.stepped(),
                truncated=lambda flags, elapsed: elapsed.cut(flags, self.max_episode_steps),
            )
        return Change(
            shared=True,
            begin=lambda observation: 0,
            remember=lambda elapsed, action, observation, reward: elapsed + 1,
            truncated=lambda flag, elapsed: flag | (elapsed >= self.max_episode_steps),
        )
