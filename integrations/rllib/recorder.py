"""Records the progress of a job, requests checkpoints, and stops trials."""

from __future__ import annotations

import copy
import statistics
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ray import tune
from tensorboardX import SummaryWriter

import envoi

from .callbacks import RETURNS
from .failure_file import read_failure
from .interruption import Interruption
from .job_report import Observer, Report
from .multi_agent.league import LEAGUE, RIVAL_RETURNS, League
from .multi_agent.league_files import LeagueFiles
from .multi_agent.returns import ended_returns
from .run_folder import RunFolder, TrialState
from .settings import Settings, Trial

if TYPE_CHECKING:
    from ray.tune.experiment import Trial as TuneTrial

WINDOW = 100
"""Episodes over which the return is averaged."""
LEAST = 20
"""Fewest episodes of a mean return that counts: the first episodes to end are the short ones."""
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
        self._interruption, self._measured = interruption, tuple(measured)
        self._live = {index: copy.deepcopy(state) for index, state in states.items()}
        self._earlier = {index: state.seconds for index, state in states.items()}
        self._leagues = LeagueFiles(folder.path)
        self._running: set[int] = set()
        self._speed: dict[int, float] = {}
        self._checkpointed: dict[int, float] = {}
        self._writers: dict[int, SummaryWriter] = {}
        minutes = settings.stop_minutes
        self._deadline = time.monotonic() + 60 * minutes if minutes is not None else float("inf")

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune stores it to restore the job from, which this job does not use

    def _trial(self, config: Mapping[str, Any]) -> Trial:
        return self._settings.trials[config["seed"] - self._settings.seed]

    @property
    def _ending(self) -> bool:
        return self._interruption.asked or time.monotonic() > self._deadline

    def __call__(self, _trial_id: str, result: dict[str, Any]) -> bool:
        """Records a result, and returns True if its trial stops."""
        index = self._trial(result["config"]).index
        state = self._live[index]
        self._running.add(index)
        state.iteration = result["training_iteration"]
        before = state.env_steps
        state.env_steps = int(result.get("num_env_steps_sampled_lifetime", before))
        self._speed[index] = (state.env_steps - before) / max(result["time_this_iter_s"], 1e-9)
        state.seconds = self._earlier[index] + result["time_total_s"]
        # In self-play the sum over both agents would be 0 in each zero-sum game.
        ended = result.get("env_runners", {}).get(RIVAL_RETURNS if LEAGUE in result else RETURNS, [])
        if isinstance(ended, list):  # a NaN if none ended
            state.episodes += len(ended)
            state.returns = [*state.returns, *map(float, ended)][-WINDOW:]
        for name, values in ended_returns(result).items():
            state.shares[name] = [*state.shares.get(name, ()), *values][-WINDOW:]
        mean = state.return_mean
        if mean is not None and len(state.returns) >= LEAST:
            state.best = mean if state.best is None else max(state.best, mean)
            if self._settings.stop_return is not None and mean >= self._settings.stop_return:
                state.reached = f"mean return {mean:.4g}"
        if self._settings.stop_steps is not None and state.env_steps >= self._settings.stop_steps:
            state.reached = state.reached or f"{state.env_steps:,} env steps"
        return state.reached is not None or self._ending

    def stop_all(self) -> bool:
        """Returns True if the job ends and no trial has a result to save."""
        return self._ending and not self._running

    # Tune calls these by keyword, with more than is named here.

    def on_trial_result(self, *, result: dict[str, Any], **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Writes a row and events; requests a checkpoint every `CHECKPOINT_SECONDS`.

        Args:
            result: The result that Tune reports.
            **_: Arguments of Tune that are not used.
        """
        mine = self._trial(result["config"])
        state = self._live[mine.index]
        speed = self._speed[mine.index]
        row = _row(mine, state, result, speed) | self._shares(state)
        if LEAGUE in result:
            league = League.from_json(result[LEAGUE])
            row |= {"elo": self._leagues.write(mine.index, league), "members": len(league.members)}
        self._folder.append_progress(row)
        self._write_events(mine.index, state, row, result)
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
        index = self._trial(trial.config).index
        path = Path(checkpoint.path).relative_to(self._folder.path.resolve())
        if self.saved[index].checkpoint is not None:
            self.earlier[index] = self.saved[index]
        self.saved[index] = replace(copy.deepcopy(self._live[index]), checkpoint=path.as_posix())
        self._folder.write_state(self.saved, self.earlier)

    def on_trial_complete(self, *, trial: TuneTrial, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a trial has stopped.

        Args:
            trial: The trial.
            **_: Arguments of Tune that are not used.
        """
        self._running.discard(self._trial(trial.config).index)

    def on_trial_error(self, *, trial: TuneTrial, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a trial has failed, and its error.

        Args:
            trial: The trial.
            **_: Arguments of Tune that are not used.
        """
        mine = self._trial(trial.config)
        self._running.discard(mine.index)
        error = trial.get_pickled_error() or trial.get_error()
        self.failures[mine.index] = f"trial {mine.index} failed: {root_cause(error)}"

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

    def _write_events(self, index: int, state: TrialState, row: Mapping[str, Any], result: Mapping[str, Any]) -> None:
        if index not in self._writers:
            self._writers[index] = SummaryWriter(str(self._folder.tensorboard / f"trial_{index}"))
        numbers = {f"envoi/{name}": row[name] for name in ("return_mean", "length_mean", "steps_per_second")}
        numbers |= {f"envoi/{name}": row[name] for name in self._shares(state)}
        for part in ("learners", "env_runners"):
            numbers |= _flat(result.get(part, {}), part)
        for name, value in numbers.items():
            if isinstance(value, (int, float, np.number)) and np.isfinite(value):
                self._writers[index].add_scalar(name, value, state.env_steps)
        self._writers[index].flush()

    def close(self) -> None:
        """Closes the event files."""
        for writer in self._writers.values():
            writer.close()


def _flat(values: Any, prefix: str) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        return {prefix: values}
    return {path: leaf for key, value in values.items() for path, leaf in _flat(value, f"{prefix}/{key}").items()}


def _row(trial: Trial, state: TrialState, result: Mapping[str, Any], speed: float) -> dict[str, Any]:
    """Returns a row of `progress.csv`."""
    row: dict[str, Any] = {
        "trial": trial.index,
        "lr": trial.lr,
        "seed": trial.seed,
        "iteration": state.iteration,
        "env_steps": state.env_steps,
        "seconds": round(state.seconds, 3),
        "episodes": state.episodes,
        "steps_per_second": round(speed, 1),
    }
    length = result.get("env_runners", {}).get("episode_len_mean")
    row["length_mean"] = None if length is None or np.isnan(length) else round(float(length), 3)
    for name in ("mean", "std", "min", "p10", "p50", "p90", "max"):
        row[f"return_{name}"] = None
    if state.returns:
        low, tenth, median, ninetieth, high = np.percentile(state.returns, [0, 10, 50, 90, 100])
        row |= {
            "return_mean": state.return_mean,
            "return_std": statistics.pstdev(state.returns),
            "return_min": float(low),
            "return_p10": float(tenth),
            "return_p50": float(median),
            "return_p90": float(ninetieth),
            "return_max": float(high),
        }
    return row


def root_cause(error: BaseException | None) -> str:
    """Returns the root cause of an error that came through Ray, as one line."""
    if error is None:
        return "Ray gave no reason"
    while error is not None:
        inner = getattr(error, "cause", None) or error.__cause__
        if inner is None or inner is error:
            break
        error = inner
    # Where the error itself could not be sent, Tune gives the text of its traceback.
    text = str(error).partition("During handling of the above exception")[0]
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    last = lines[-1] if lines else "no message"
    return last if isinstance(error, tune.TuneError) else f"{type(error).__name__}: {last}"
