"""Records the progress of a job, requests checkpoints, and stops trials."""

from __future__ import annotations

import copy
import statistics
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ray import tune

import envoi

from .failure_file import read_failure
from .interruption import Interruption
from .job_report import Observer, Report
from .multi_agent.league import LEAGUE, League
from .multi_agent.league_files import LeagueFiles
from .progress_rows import progress_row, tracked
from .run_folder import RunFolder
from .schedulers import RETURN, STEPS
from .settings import Settings
from .sweep import Trial
from .trackers import open_trackers
from .trial_errors import error_of, root_cause
from .trial_progress import LEAST, advance
from .trial_state import STOPPED, TrialState

if TYPE_CHECKING:
    from ray.tune.experiment import Trial as TuneTrial

CHECKPOINT_SECONDS = 15.0


class Recorder(tune.Callback, tune.Stopper):
    """Records the progress of the trials, requests checkpoints, and stops trials.

    Args:
        settings: The settings of the job.
        folder: The output folder.
        states: The progress of each trial.
        observe: Called after each iteration of each trial.
        interruption: Set once the user asks to stop.
        measured: The agents and policies whose returns are recorded, see `Grouping.measured`; none for one agent.
    """

    def __init__(
        self,
        settings: Settings,
        folder: RunFolder,
        states: Mapping[int, TrialState],
        observe: Observer | None,
        interruption: Interruption,
        measured: Sequence[str] = (),
    ) -> None:
        self.saved = dict(states)
        self.earlier: dict[int, TrialState] = {}
        self.failures: dict[int, str] = {}
        self._settings, self._folder, self._observe = settings, folder, observe
        self._index: dict[str, int] = {}
        self._earlier_rows = folder.read_progress()
        self._written = Counter(int(row["trial"]) for row in self._earlier_rows)
        self._interruption, self._measured = interruption, tuple(measured)
        self._live = {index: copy.deepcopy(state) for index, state in states.items()}
        self._earlier = {index: state.seconds for index, state in states.items()}
        self._leagues = LeagueFiles(folder.path)
        self._running: set[int] = set()
        self._speed: dict[int, float] = {}
        self._checkpointed: dict[int, float] = {}
        self._trackers = open_trackers(settings, folder)
        minutes = settings.stop_minutes
        self._deadline = time.monotonic() + 60 * minutes if minutes is not None else float("inf")

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune stores it to restore the job from, which this job does not use

    def _trial(self, trial_id: str, config: Mapping[str, Any]) -> Trial:
        # The seed of its first config, as a scheduler may give it another trial's.
        index = self._index.setdefault(trial_id, config["seed"] - self._settings.seed)
        return self._settings.trials[index]

    def index_of(self, trial: TuneTrial) -> int:
        """Returns the index of one of Tune's trials."""
        return self._trial(trial.trial_id, trial.config).index

    def steps_of(self, trial: TuneTrial) -> int:
        """Returns the env steps of a trial."""
        return self._live[self.index_of(trial)].env_steps

    def overrides_of(self, trial: TuneTrial) -> Mapping[str, Any]:
        """Returns the settings of RLlib that a trial runs with."""
        index = self.index_of(trial)
        return self._live[index].overrides or self._settings.trials[index].overrides

    def progress_of(self, trial: TuneTrial) -> dict[str, Any] | None:
        """Returns what schedulers decide by; None while there is no mean return that counts."""
        state = self._live[self.index_of(trial)]
        if state.return_mean is None or len(state.returns) < LEAST:
            return None
        return {RETURN: state.return_mean, STEPS: state.env_steps}

    def earlier_progress(self) -> Iterator[tuple[int, dict[str, Any]]]:
        """Yields what schedulers decide by, with the trial's index, of the rows before the job was resumed."""
        for row in self._earlier_rows:
            if row["return_mean"] and int(row["episodes"]) >= LEAST:
                yield int(row["trial"]), {RETURN: float(row["return_mean"]), STEPS: int(row["env_steps"])}

    def has_ended(self, index: int) -> bool:
        """Returns True if a trial ended before the job was resumed."""
        return self.saved[index].reached is not None

    def stop(self, trial: TuneTrial, scheduler: str) -> None:
        """Records that a scheduler stops a trial.

        Args:
            trial: The trial.
            scheduler: Name of the scheduler.
        """
        state = self._live[self.index_of(trial)]
        state.reached = state.reached or f"{STOPPED}{scheduler} at {state.env_steps:,} env steps"

    def perturb(self, trial: TuneTrial, donor: TuneTrial, overrides: Mapping[str, Any]) -> None:
        """Records that a trial continues with the weights of another and with changed settings.

        Args:
            trial: The trial.
            donor: The trial whose weights it takes.
            overrides: The settings of RLlib that it continues with.
        """
        own, other = self.index_of(trial), self.index_of(donor)
        before, after = self._live[own], self._live[other]
        change = {"env_steps": before.env_steps, "from_trial": other, "from_env_steps": after.env_steps}
        before.perturbations = [*before.perturbations, change | {"set": dict(overrides)}]
        before.overrides, before.returns, before.shares = dict(overrides), list(after.returns), dict(after.shares)
        self._earlier[own] = self._earlier[other]

    @property
    def _ending(self) -> bool:
        return self._interruption.asked or time.monotonic() > self._deadline

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Records a result, and returns True if its trial stops."""
        index = self._trial(trial_id, result["config"]).index
        state = self._live[index]
        self._running.add(index)
        self._speed[index] = advance(state, result, self._settings, self._earlier[index])
        return state.reached is not None or self._ending

    def stop_all(self) -> bool:
        """Returns True if the job ends and no trial has a result to save."""
        return self._ending and not self._running

    # Tune calls these by keyword, with more than is named here.

    def on_trial_result(self, *, trial: TuneTrial, result: dict[str, Any], **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Writes a row and events; requests a checkpoint every `CHECKPOINT_SECONDS`.

        Args:
            trial: The trial.
            result: The result that Tune reports.
            **_: Arguments of Tune that are not used.
        """
        mine = self._settings.trials[self.index_of(trial)]
        state = self._live[mine.index]
        speed = self._speed[mine.index]
        overrides = self.overrides_of(trial)
        swept = {name: overrides[name] for name in self._settings.spaces}
        row = progress_row(replace(mine, overrides=overrides), state, result, speed, swept) | self._shares(state)
        if LEAGUE in result:
            league = League.from_json(result[LEAGUE])
            row |= {"elo": self._leagues.write(mine.index, league), "members": len(league.members)}
        self._folder.append_progress(row)
        self._written[mine.index] += 1
        self._trackers.log(mine.index, state.env_steps, tracked(row, result))
        now = time.monotonic()
        if now - self._checkpointed.get(mine.index, float("-inf")) > CHECKPOINT_SECONDS:
            self._checkpointed[mine.index] = now
            result["should_checkpoint"] = True
        if self._observe is not None:
            self._observe(Report(mine, copy.deepcopy(state), speed))

    def on_checkpoint(self, *, trial: TuneTrial, checkpoint: Any, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a checkpoint is complete; its trial waits for it, so the live state belongs to it.

        Args:
            trial: The trial.
            checkpoint: The checkpoint.
            **_: Arguments of Tune that are not used.
        """
        index = self.index_of(trial)
        path = Path(checkpoint.path).relative_to(self._folder.path.resolve())
        if self.saved[index].checkpoint is not None:
            self.earlier[index] = self.saved[index]
        self.saved[index] = replace(
            copy.deepcopy(self._live[index]), checkpoint=path.as_posix(), rows=self._written[index]
        )
        self._folder.write_state(self.saved, self.earlier)

    def on_trial_complete(self, *, trial: TuneTrial, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a trial has stopped.

        Args:
            trial: The trial.
            **_: Arguments of Tune that are not used.
        """
        self._running.discard(self.index_of(trial))

    def on_trial_error(self, *, trial: TuneTrial, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a trial has failed, and its error.

        Args:
            trial: The trial.
            **_: Arguments of Tune that are not used.
        """
        index = self.index_of(trial)
        self._running.discard(index)
        self.failures[index] = f"trial {index} failed: {root_cause(error_of(trial))}"

    def on_step_end(self, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Ends the job as soon as an env has failed, in any process."""
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raises the error that a failed env has written to the failure file, if there is one.

        Raises:
            envoi.EnvoiError: An env failed.
        """
        message = read_failure(self._folder.failure)
        if message is not None:
            kept = (
                f"; the last checkpoint stays in {self._folder.checkpoint}" if self._folder.checkpoint.exists() else ""
            )
            raise envoi.EnvoiError(message + kept)

    def _shares(self, state: TrialState) -> dict[str, float | None]:
        """Returns the mean return of each agent and policy, None before its first episode ended, by column."""
        held = {name: state.shares.get(name) for name in self._measured}
        return {f"{name}/return_mean": statistics.fmean(own) if own else None for name, own in held.items()}

    @property
    def tracker_failures(self) -> list[str]:
        """A line for each tracker that failed."""
        return self._trackers.failures

    def close(self) -> None:
        """Ends the reports to trackers."""
        self._trackers.close(failed=bool(self.failures))
