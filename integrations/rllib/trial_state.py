"""The progress of a trial, as `state.json` keeps it, and what observers of a job receive."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from .settings import Trial

STOPPED = "stopped by "
"""Beginning of `TrialState.reached` for trials that a scheduler has stopped."""


@dataclass
class TrialState:
    """The progress of a trial, as of its last checkpoint."""

    checkpoint: str | None = None
    iteration: int = 0
    env_steps: int = 0
    seconds: float = 0.0
    episodes: int = 0
    returns: list[float] = field(default_factory=list)
    best: float | None = None
    reached: str | None = None
    learned: bool = False
    shares: dict[str, list[float]] = field(default_factory=dict[str, list[float]])
    overrides: dict[str, Any] | None = None
    rows: int | None = None

    @property
    def stopped_early(self) -> bool:
        """True if a scheduler has stopped it, so that another goal does not continue it."""
        return self.reached is not None and self.reached.startswith(STOPPED)

    @property
    def return_mean(self) -> float | None:
        """Mean return of the last episodes; None before the first ended."""
        return sum(self.returns) / len(self.returns) if self.returns else None


def best_trial(states: Mapping[int, TrialState]) -> int | None:
    """Returns the index of the trial with the highest mean return; None if no trial has a checkpoint."""
    held: Sequence[int] = [index for index, state in states.items() if state.checkpoint is not None]

    def mean(index: int) -> float:
        value = states[index].return_mean
        return value if value is not None else float("-inf")

    return max(held, key=mean, default=None)


@dataclass(frozen=True)
class Report:
    """The result of one iteration of a trial.

    Args:
        trial: The trial.
        state: The progress of the trial.
        steps_per_second: Env steps a second of training in this iteration.
    """

    trial: Trial
    state: TrialState
    steps_per_second: float


Observer = Callable[[Report], None]
"""Called after each iteration of each trial."""
