"""The progress of a trial, as `state.json` keeps it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

STOPPED = "stopped by "
"""Beginning of `TrialState.reached` for trials that a scheduler has stopped."""


@dataclass
class TrialState:
    """The progress of a trial, as of its last checkpoint.

    Args:
        checkpoint: Path of the checkpoint relative to the folder; None before the first.
        iteration: Iterations of RLlib.
        env_steps: Steps of the env.
        seconds: Training time.
        episodes: Episodes that ended.
        returns: Returns of the last episodes, at most 100; with several agents, the sum of theirs.
        best: The highest mean return so far.
        reached: The goal or the scheduler that stopped it; None if it can continue.
        learned: True once a policy was updated.
        overrides: The settings that it runs with, where they are no longer those that it began with.
        perturbations: Changes of its settings while it trained: what it took over from which trial, and when.
        rows: Number of its rows in `progress.csv`; None in folders of earlier versions.
        shares: Returns of each agent and policy in the last episodes, at most 100 each, by `agent/<id>` and
            `policy/<id>`; empty for one agent.
    """

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
    perturbations: list[dict[str, Any]] = field(default_factory=list)
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
