"""Warns of a job whose policies were never updated, or in which no episode ended."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from .losses import has_learned

logger = logging.getLogger("envoi")


class Progress:
    """Notes from the results of an algorithm whether it learns, which it may start to do late."""

    def __init__(self) -> None:
        self._iterations, self._env_steps = 0, 0
        self._has_learned = self._has_episodes = self._is_said = False

    def note(self, result: Mapping[str, Any]) -> None:
        """Notes the result of an iteration.

        Args:
            result: The result.
        """
        self._iterations += 1
        self._env_steps = int(result.get("num_env_steps_sampled_lifetime") or 0)
        self._has_learned = self._has_learned or has_learned(result)
        ended = (result.get("env_runners") or {}).get("num_episodes_lifetime")
        self._has_episodes = self._has_episodes or bool(ended and ended > 0)

    def warning(self) -> str | None:
        """Returns what is wrong with the job as a whole; None if nothing is, or before its first iteration."""
        if not self._iterations:
            return None
        lasted = f"{self._iterations:,} iterations and {self._env_steps:,} env steps"
        if not self._has_learned:
            return (
                f"nothing was learned: {lasted}, and no update of a policy; train for longer, or lower what the "
                "algorithm waits for, such as num_steps_sampled_before_learning_starts"
            )
        if self._env_steps and not self._has_episodes:
            return (
                f"no episode ended in {lasted}, so there is no return to judge the policy by; limit the steps of an "
                "episode, as by envoi.wrappers.TimeLimit"
            )
        return None

    def warn(self) -> None:
        """Logs the warning, if there is one, once."""
        message = self.warning()
        if message is not None and not self._is_said:
            self._is_said = True
            logger.warning("%s", message)
