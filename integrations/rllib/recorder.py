"""Records the progress of a job, requests checkpoints, and stops trials."""

from __future__ import annotations

import copy
import json
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from ray import cloudpickle, tune

import envoi

from .algorithms import find
from .callbacks import RETURNS
from .damaged_files import reading
from .faults.failure import read_failure
from .faults.results import has_learned
from .job_process import Interruption
from .multi_agent.league import LEAGUE, RIVAL_RETURNS, League, LeagueFile, ended_returns
from .run_folder import STOPPED, Observer, Report, RunFolder, TrialState
from .settings import Settings, Trial, config_key

if TYPE_CHECKING:
    from ray.tune.experiment import Trial as TuneTrial

CHECKPOINT_SECONDS = 15.0
WINDOW = 100
"""Episodes over which the return is averaged."""
LEAST = 20
"""Fewest episodes of a mean return that counts: the first episodes to end are the short ones."""


class Recorder(tune.Callback, tune.Stopper):
    """Records the progress of the trials, requests checkpoints, and stops trials."""

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
        self._written = Counter(int(row["trial"]) for row in folder.read_progress())
        self._interruption, self._measured = interruption, tuple(measured)
        self._live = {index: copy.deepcopy(state) for index, state in states.items()}
        self._earlier = {index: state.seconds for index, state in states.items()}
        self._leagues = LeagueFile(folder.path)
        self._running: set[int] = set()
        self._speed: dict[int, float] = {}
        self._checkpointed: dict[int, float] = {}
        minutes = settings.stop_minutes
        self._deadline = time.monotonic() + 60 * minutes if minutes is not None else float("inf")

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune stores it to restore the job from, which this job does not use

    def _index_of(self, trial: TuneTrial) -> int:
        return trial.config["seed"] - self._settings.seed

    def _overrides(self, index: int) -> Mapping[str, Any]:
        return self._live[index].overrides or self._settings.trials[index].overrides

    def _note_changes(self, index: int, config: Mapping[str, Any]) -> None:
        """Notes that population based training has given a trial other settings, and the weights of another trial."""
        before, state = self._overrides(index), self._live[index]
        first = {name: find(self._settings.algo).rates[0] if name == "lr" else name for name in self._settings.spaces}
        after = {**before, **{name: config[config_key(one, config)] for name, one in first.items()}}
        if after != before:
            state.overrides, state.returns, state.shares = after, [], {}

    @property
    def _ending(self) -> bool:
        return self._interruption.asked or time.monotonic() > self._deadline

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Records a result, and returns True if its trial stops."""
        index = result["config"]["seed"] - self._settings.seed
        state = self._live[index]
        self._running.add(index)
        if self._settings.scheduler == "pbt":
            self._note_changes(index, result["config"])
        self._speed[index] = _advance(state, result, self._settings, self._earlier[index])
        result["timesteps_total"] = state.env_steps  # the steps of Tune's loggers, which would count iterations
        return state.reached is not None or self._ending

    def stop_all(self) -> bool:
        """Returns True if the job ends and no trial has a result to save."""
        return self._ending and not self._running

    # Tune calls these by keyword, with more than is named here.

    def on_trial_result(self, *, trial: TuneTrial, result: dict[str, Any], **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Writes a row and events; requests a checkpoint every `CHECKPOINT_SECONDS`."""
        mine = self._settings.trials[self._index_of(trial)]
        state = self._live[mine.index]
        speed = self._speed[mine.index]
        if result.get("done") and self._settings.scheduler and not self._ending:
            state.reached = state.reached or f"{STOPPED}{self._settings.scheduler} at {state.env_steps:,} env steps"
        overrides = self._overrides(mine.index)
        swept = {name: overrides[name] for name in self._settings.spaces}
        row = _progress_row(replace(mine, overrides=overrides), state, result, speed, swept) | self._shares(state)
        if LEAGUE in result:
            league = League.from_json(result[LEAGUE])
            row |= {"elo": self._leagues.write(mine.index, league), "members": len(league.members)}
        self._folder.append_progress(row)
        self._written[mine.index] += 1
        now = time.monotonic()
        if now - self._checkpointed.get(mine.index, float("-inf")) > CHECKPOINT_SECONDS:
            self._checkpointed[mine.index] = now
            result["should_checkpoint"] = True
        if self._observe is not None:
            self._observe(Report(mine, copy.deepcopy(state), speed))

    def on_checkpoint(self, *, trial: TuneTrial, checkpoint: Any, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a checkpoint is complete; its trial waits for it, so the live state belongs to it."""
        index = self._index_of(trial)
        path = Path(checkpoint.path).relative_to(self._folder.path.resolve())
        if self.saved[index].checkpoint is not None:
            self.earlier[index] = self.saved[index]
        self.saved[index] = replace(
            copy.deepcopy(self._live[index]), checkpoint=path.as_posix(), rows=self._written[index]
        )
        self._folder.write_state(self.saved, self.earlier)

    def on_trial_complete(self, *, trial: TuneTrial, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a trial has stopped."""
        self._running.discard(self._index_of(trial))

    def on_trial_error(self, *, trial: TuneTrial, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a trial has failed, and its error."""
        index = self._index_of(trial)
        self._running.discard(index)
        self.failures[index] = f"trial {index} failed: {root_cause(_error_of(trial))}"

    def on_step_end(self, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Ends the job as soon as an env has failed, in any process."""
        self.raise_failure()

    def raise_failure(self) -> None:
        """Raises the error that a failed env has written to the failure file, if there is one."""
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


def _advance(state: TrialState, result: Mapping[str, Any], settings: Settings, earlier_seconds: float) -> float:
    """Updates the progress of a trial, and decides whether it has reached a goal."""
    state.iteration = result["training_iteration"]
    before = state.env_steps
    state.env_steps = int(result.get("num_env_steps_sampled_lifetime", before))
    state.seconds = earlier_seconds + result["time_total_s"]
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
    return max(0, state.env_steps - before) / max(result["time_this_iter_s"], 1e-9)


def _progress_row(
    trial: Trial, state: TrialState, result: Mapping[str, Any], speed: float, swept: Mapping[str, Any]
) -> dict[str, Any]:
    """Returns the row of an iteration."""
    row: dict[str, Any] = {
        "trial": trial.index,
        "lr": trial.lr,
        "seed": trial.seed,
        "iteration": state.iteration,
        "env_steps": state.env_steps,
        "seconds": round(state.seconds, 3),
        "episodes": state.episodes,
        "steps_per_second": round(speed, 1),
        "length_mean": _finite(result.get("env_runners", {}).get("episode_len_mean")),
    }
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
    row |= {
        f"set.{name}": value if isinstance(value, str) else json.dumps(value)
        for name, value in swept.items()
        if name != "lr"
    }
    return row | _losses(result.get("learners", {})) | _evaluation(result.get("evaluation", {}))


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


def _evaluation(evaluation: Mapping[str, Any]) -> dict[str, Any]:
    runners = evaluation.get("env_runners", {})
    ended = runners.get(RETURNS, [])
    if not isinstance(ended, list) or not ended:
        return {}
    return {
        "evaluation_return_mean": statistics.fmean(map(float, ended)),
        "evaluation_length_mean": _finite(runners.get("episode_len_mean")),
    }


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
