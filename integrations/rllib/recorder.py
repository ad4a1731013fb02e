"""Records the progress of a job, requests checkpoints, and stops trials."""

from __future__ import annotations

import copy
import json
import statistics
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ray import cloudpickle, tune

import envoi

from .algorithms import find
from .callbacks import RETURNS
from .damaged_files import reading
from .faults import failure as records
from .faults.results import has_learned
from .job_process import Interruption
from .multi_agent.league import LEAGUE, RIVAL_RETURNS, League, LeagueFile, ended_returns
from .run_folder import STOPPED, Observer, Report, TrialState
from .settings import config_key

if TYPE_CHECKING:
    from ray.tune.experiment import Trial as TuneTrial

    from .training import Job

CHECKPOINT_SECONDS = 15.0
WINDOW = 100
"""Episodes over which the return is averaged."""
LEAST = 20
"""Fewest episodes of a mean return that counts: the first episodes to end are the short ones."""


class Recorder(tune.Callback, tune.Stopper):
    """Records the progress of the trials, requests checkpoints, and stops trials."""

    def __init__(self, job: Job, observe: Observer | None, interruption: Interruption) -> None:
        self.saved = dict(job.states)
        self.earlier: dict[int, TrialState] = {}
        self.failures: dict[int, str] = {}
        self._settings, self._folder, self._observe = job.settings, job.folder, observe
        self._interruption = interruption
        self._measured = () if job.grouping is None else job.grouping.measured
        self._written = Counter(int(row["trial"]) for row in job.folder.read_progress())
        self._live = copy.deepcopy(job.states)
        self._seconds = {index: state.seconds for index, state in job.states.items()}
        self._leagues = LeagueFile(job.folder.path)
        self._running: set[int] = set()
        self._speed: dict[int, float] = {}
        self._checkpointed: dict[int, float] = {}
        minutes = job.settings.stop_minutes
        self._deadline = time.monotonic() + 60 * minutes if minutes is not None else float("inf")

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune stores it to restore the job from, which this job does not use

    def _index_of(self, config: Mapping[str, Any]) -> int:
        return config["seed"] - self._settings.seed

    def _overrides(self, index: int) -> Mapping[str, Any]:
        return self._live[index].overrides or self._settings.trials[index].overrides

    @property
    def _ending(self) -> bool:
        return self._interruption.asked or time.monotonic() > self._deadline

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Records a result, and returns True if its trial stops."""
        index = self._index_of(result["config"])
        state = self._live[index]
        self._running.add(index)
        if self._settings.scheduler == "pbt":
            self._note_changes(index, result["config"])
        self._advance(index, result)
        result["timesteps_total"] = state.env_steps  # the steps of Tune's loggers, which would count iterations
        return state.reached is not None or self._ending

    def stop_all(self) -> bool:
        """Returns True if the job ends and no trial has a result to save."""
        return self._ending and not self._running

    def _note_changes(self, index: int, config: Mapping[str, Any]) -> None:
        """Notes that population based training has given a trial other settings, and the weights of another trial."""
        before, state = self._overrides(index), self._live[index]
        first = {name: find(self._settings.algo).rates[0] if name == "lr" else name for name in self._settings.spaces}
        after = {**before, **{name: config[config_key(one, config)] for name, one in first.items()}}
        if after != before:
            state.overrides, state.returns, state.shares = after, [], {}

    def _advance(self, index: int, result: Mapping[str, Any]) -> None:
        """Updates the progress of a trial, and decides whether it has reached a goal."""
        state, settings = self._live[index], self._settings
        state.iteration = result["training_iteration"]
        before = state.env_steps
        state.env_steps = int(result.get("num_env_steps_sampled_lifetime", before))
        state.seconds = self._seconds[index] + result["time_total_s"]
        self._speed[index] = max(0, state.env_steps - before) / max(result["time_this_iter_s"], 1e-9)
        state.learned = state.learned or has_learned(result)
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
            if settings.stop_return is not None and mean >= settings.stop_return:
                state.reached = f"mean return {mean:.4g}"
        if settings.stop_steps is not None and state.env_steps >= settings.stop_steps:
            state.reached = state.reached or f"{state.env_steps:,} env steps"

    # Tune calls these by keyword, with more than is named here.

    def on_trial_result(self, *, trial: TuneTrial, result: dict[str, Any], **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Writes a row; requests a checkpoint every `CHECKPOINT_SECONDS`."""
        index = self._index_of(trial.config)
        state = self._live[index]
        if result.get("done") and self._settings.scheduler and not self._ending:
            state.reached = state.reached or f"{STOPPED}{self._settings.scheduler} at {state.env_steps:,} env steps"
        self._folder.append_progress(self._row(index, result))
        self._written[index] += 1
        now = time.monotonic()
        if now - self._checkpointed.get(index, float("-inf")) > CHECKPOINT_SECONDS:
            self._checkpointed[index] = now
            result["should_checkpoint"] = True
        if self._observe is not None:
            self._observe(Report(self._settings.trials[index], copy.deepcopy(state), self._speed[index]))

    def on_checkpoint(self, *, trial: TuneTrial, checkpoint: Any, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a checkpoint is complete; its trial waits for it, so the live state belongs to it."""
        index = self._index_of(trial.config)
        path = Path(checkpoint.path).relative_to(self._folder.path.resolve()).as_posix()
        if self.saved[index].checkpoint is not None:
            self.earlier[index] = self.saved[index]
        self.saved[index] = replace(copy.deepcopy(self._live[index]), checkpoint=path, rows=self._written[index])
        self._folder.write_state(self.saved, self.earlier)

    def on_trial_complete(self, *, trial: TuneTrial, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a trial has stopped."""
        self._running.discard(self._index_of(trial.config))

    def on_trial_error(self, *, trial: TuneTrial, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a trial has failed, and its error."""
        index = self._index_of(trial.config)
        self._running.discard(index)
        self.failures[index] = f"trial {index} failed: {root_cause(_error_of(trial))}"

    def on_step_end(self, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Ends the job as soon as an env has failed, in any process."""
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raises the error that a failed env has written to the failure file, if there is one."""
        message = records.read_failure(self._folder.failure)
        if message is not None:
            link = self._folder.checkpoint
            raise envoi.EnvoiError(message + (f"; the last checkpoint stays in {link}" if link.exists() else ""))

    def _row(self, index: int, result: Mapping[str, Any]) -> dict[str, Any]:
        """Returns the row of an iteration for `progress.csv`."""
        state, overrides, runners = self._live[index], self._overrides(index), result.get("env_runners", {})
        row: dict[str, Any] = {
            "trial": index,
            "lr": overrides.get("lr"),
            "seed": self._settings.trials[index].seed,
            "iteration": state.iteration,
            "env_steps": state.env_steps,
            "seconds": round(state.seconds, 3),
            "episodes": state.episodes,
            "steps_per_second": round(self._speed[index], 1),
            "length_mean": _finite(runners.get("episode_len_mean")),
        }
        if state.returns:
            row |= {"return_mean": state.return_mean, "return_std": statistics.pstdev(state.returns)}
            parts = {"min": 0, "p10": 10, "p50": 50, "p90": 90, "max": 100}
            row |= {f"return_{name}": float(np.percentile(state.returns, part)) for name, part in parts.items()}
        for name in self._settings.spaces:
            if name != "lr":
                value = overrides[name]
                row[f"set.{name}"] = value if isinstance(value, str) else json.dumps(value)
        row |= _losses(result.get("learners", {}))
        evaluated = result.get("evaluation", {}).get("env_runners", {})
        if isinstance(ended := evaluated.get(RETURNS), list) and ended:
            row["evaluation_return_mean"] = statistics.fmean(map(float, ended))
            row["evaluation_length_mean"] = _finite(evaluated.get("episode_len_mean"))
        for name in self._measured:
            own = state.shares.get(name)
            row[f"{name}/return_mean"] = statistics.fmean(own) if own else None
        if LEAGUE in result:
            league = League.from_json(result[LEAGUE])
            row |= {"elo": self._leagues.write(index, league), "members": len(league.members)}
        return row


def _losses(learners: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the losses and entropies of each module; without the module's name where it is the only one."""
    row: dict[str, Any] = {}
    for module, values in learners.items():
        if not isinstance(values, Mapping) or module == "__all_modules__":
            continue
        prefix = "loss/" if module == "default_policy" else f"loss/{module}/"
        for name, value in values.items():
            if name.endswith("loss") or name == "entropy":
                row[prefix + name] = _finite(value)
    return row


def _finite(value: Any) -> float | None:
    if not isinstance(value, int | float | np.number | np.ndarray) or np.size(value) != 1 or not np.isfinite(value):
        return None
    return float(f"{float(value):.6g}")


def _error_of(trial: TuneTrial) -> BaseException | None:
    """Returns the error of a trial, which Tune copies to the storage only later."""
    path = Path(trial.pickled_error_file or "")
    if not path.is_file():
        return trial.get_pickled_error() or trial.get_error()
    with reading(path), path.open("rb") as file:
        return cloudpickle.load(file)


def root_cause(error: BaseException | None) -> str:
    """Returns the root cause of an error that came through Ray, as one line."""
    if error is None:
        return "Ray gave no reason"
    while (inner := getattr(error, "cause", None) or error.__cause__) is not None and inner is not error:
        error = inner
    # Where the error itself could not be sent, Tune gives the text of its traceback.
    text = str(error).partition("During handling of the above exception")[0]
    last = (text.strip() or "no message").splitlines()[-1].strip()
    return last if isinstance(error, tune.TuneError) else f"{type(error).__name__}: {last}"
