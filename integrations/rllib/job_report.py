"""The results of a training job: a report for each iteration of a trial, and the outcome of the job."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .run_folder import RunFolder
from .settings import Settings
from .sweep import Trial
from .trial_state import TrialState


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


@dataclass(frozen=True)
class Outcome:
    """The result of a job.

    Args:
        folder: The output folder.
        settings: The settings that it ran with.
        states: The progress of each trial, as of its last checkpoint, by index.
        best: Index of the best trial; None if there is no checkpoint.
        interrupted: True if the user stopped the job.
        notes: Messages for the user: trials that failed, a plot that needs a missing package.
    """

    folder: RunFolder
    settings: Settings
    states: dict[int, TrialState]
    best: int | None
    interrupted: bool
    notes: tuple[str, ...] = ()

    @property
    def learned(self) -> bool:
        """True if a policy was updated, in any trial."""
        return any(state.learned for state in self.states.values())


Observer = Callable[[Report], None]
"""Called after each iteration of each trial."""
