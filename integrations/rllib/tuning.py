"""The Ray Tune job: trials that start or go on, what is recorded of them, and when they stop.

A job that goes on is a new Tune experiment whose trials load the checkpoints that `state.json` names. Tune's
own `Tuner.restore` would need files that a kill can leave half written, and could not change when to stop.
"""

from __future__ import annotations

import os
import signal
import statistics
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

import envoi

from .folder import RunFolder, TrialState
from .settings import Settings, Trial
from .training import Observer, Report

# Read by Ray when it is imported or started.
os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
os.environ["TUNE_DISABLE_AUTO_CALLBACK_LOGGERS"] = "1"  # the recorder below writes what they would
os.environ["TUNE_DISABLE_SIGINT_HANDLER"] = "1"  # its handler drops what was learned since the last checkpoint

try:
    import ray
    from ray import tune
    from tensorboardX import SummaryWriter

    from .configuration import RETURNS, configure, load_algorithm
except ImportError as error:
    raise envoi.MissingBackend(f"RLlib cannot be used ({error}); pip install 'envoi[rllib]'") from error

from .environment import read_failure

if TYPE_CHECKING:
    from ray.tune.experiment import Trial as TuneTrial

WINDOW = 100
"""Episodes over which the return is averaged."""
LEAST = 20
"""Episodes that a mean return must be taken over to count: the first to end are the short ones."""
CHECKPOINT_SECONDS = 15.0


def run(
    settings: Settings,
    folder: RunFolder,
    states: Mapping[int, TrialState],
    observe: Observer | None,
    *,
    log_to_driver: bool,
) -> tuple[dict[int, TrialState], bool, list[str]]:
    """Run the trials that have not reached their goal.

    Args:
        settings: What to do.
        folder: Where to write.
        states: How far each trial is.
        observe: Called after each iteration of each trial.
        log_to_driver: Whether the workers' logs come to this process's stdout.

    Returns:
        How far each trial is as of its last checkpoint; whether the user interrupted; a line for each trial
        that failed.

    Raises:
        envoi.EnvoiError: The env failed, or all trials did.
    """
    todo = [trial for trial in settings.trials if states[trial.index].reached is None]
    recorder = Recorder(settings, folder, states, observe)
    with _ray(settings, log_to_driver), _interruptible(recorder):
        tuner = tune.Tuner(
            load_algorithm(settings.algo),
            param_space=_search_space(settings, folder, states, todo),
            run_config=tune.RunConfig(
                name=folder.new_session(),
                storage_path=str(folder.tune.resolve()),
                stop=recorder,
                callbacks=[recorder],
                verbose=0,
                # Two, as `state.json` names the last but one until it is replaced.
                checkpoint_config=tune.CheckpointConfig(num_to_keep=2, checkpoint_at_end=True),
            ),
        )
        try:
            tuner.fit()
        except KeyboardInterrupt:
            recorder.interrupted = True
        finally:
            recorder.close()
    failed = list(recorder.failures.values())
    if failed and len(failed) == len(todo):
        raise envoi.EnvoiError(f"{failed[0]}; the full report is in {folder.log}")
    return recorder.saved, recorder.interrupted, failed


def _search_space(
    settings: Settings, folder: RunFolder, states: Mapping[int, TrialState], todo: list[Trial]
) -> Any:
    config = configure(
        settings.env,
        settings.algo,
        num_envs=settings.num_envs_per_runner,
        num_env_runners=settings.num_env_runners,
        check_specs=settings.check_specs,
        failure=folder.failure.resolve(),
        training=_rates(settings, {trial.seed: trial.lr for trial in todo}),
    )
    config.debugging(seed=tune.grid_search([trial.seed for trial in todo]))
    held = {trial.seed: states[trial.index].checkpoint for trial in todo}
    config.callbacks(
        on_algorithm_init=_Restore({s: folder.path.resolve() / path for s, path in held.items() if path})
    )
    return config


def _rates(settings: Settings, rates: dict[int, float | None]) -> dict[str, Any]:
    from .algorithms import find

    if not settings.lr:
        return {}
    chosen = tune.sample_from(lambda spec: rates[spec.config.seed])
    return dict.fromkeys(find(settings.algo).rates, chosen)


class _Restore:
    """Loads a trial's checkpoint when its algorithm is built."""

    def __init__(self, checkpoints: dict[int, Path]) -> None:
        self._checkpoints = checkpoints

    def __call__(self, *, algorithm: Any, **_: Any) -> None:
        path = self._checkpoints.get(algorithm.config.seed)
        if path is not None:
            algorithm.restore_from_path(path)


class Recorder(tune.Callback, tune.Stopper):
    """Writes down what the trials do, asks for checkpoints, and stops them.

    Args:
        settings: What to do.
        folder: Where to write.
        states: How far each trial is.
        observe: Called after each iteration of each trial.
    """

    def __init__(
        self,
        settings: Settings,
        folder: RunFolder,
        states: Mapping[int, TrialState],
        observe: Observer | None,
    ) -> None:
        self.saved = dict(states)
        self.failures: dict[int, str] = {}
        self.interrupted = False
        self._settings, self._folder, self._observe = settings, folder, observe
        self._live = {index: replace(state, returns=list(state.returns)) for index, state in states.items()}
        self._earlier = {index: state.seconds for index, state in states.items()}
        self._running: set[int] = set()
        self._checkpointed: dict[int, float] = {}
        self._writers: dict[int, SummaryWriter] = {}
        minutes = settings.stop_minutes
        self._deadline = time.monotonic() + 60 * minutes if minutes is not None else float("inf")

    def __getstate__(self) -> dict[str, Any]:
        return {}  # Tune stores it to restore the job by, which is not how this job goes on

    def _trial(self, config: Mapping[str, Any]) -> Trial:
        return self._settings.trials[config["seed"] - self._settings.seed]

    @property
    def _ending(self) -> bool:
        return self.interrupted or time.monotonic() > self._deadline

    def __call__(self, trial_id: str, result: dict[str, Any]) -> bool:
        """Take in a result; tell whether its trial stops."""
        index = self._trial(result["config"]).index
        state = self._live[index]
        self._running.add(index)
        state.iteration = result["training_iteration"]
        state.env_steps = int(result.get("num_env_steps_sampled_lifetime", state.env_steps))
        state.seconds = self._earlier[index] + result["time_total_s"]
        ended = result.get("env_runners", {}).get(RETURNS, [])
        if isinstance(ended, list):  # a NaN if none ended
            state.episodes += len(ended)
            state.returns = [*state.returns, *map(float, ended)][-WINDOW:]
        mean = state.return_mean
        if mean is not None and len(state.returns) >= LEAST:
            state.best = mean if state.best is None else max(state.best, mean)
            if self._settings.stop_return is not None and mean >= self._settings.stop_return:
                state.reached = f"mean return {mean:.4g}"
        if self._settings.stop_steps is not None and state.env_steps >= self._settings.stop_steps:
            state.reached = state.reached or f"{state.env_steps:,} env steps"
        return state.reached is not None or self._ending

    def stop_all(self) -> bool:
        """Whether to stop what has no result to save."""
        return self._ending and not self._running

    def on_trial_result(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, result: dict[str, Any], **info: Any
    ) -> None:
        """Write a row and events; ask for a checkpoint now and then."""
        mine = self._trial(result["config"])
        state = self._live[mine.index]
        sampled = result.get("num_env_steps_sampled", 0) or 0
        speed = sampled / max(result["time_this_iter_s"], 1e-9)
        row = _row(mine, state, result, speed)
        self._folder.append_progress(row)
        self._write_events(mine.index, state, row, result)
        now = time.monotonic()
        if now - self._checkpointed.get(mine.index, float("-inf")) > CHECKPOINT_SECONDS:
            self._checkpointed[mine.index] = now
            result["should_checkpoint"] = True
        if self._observe is not None:
            self._observe(Report(mine, replace(state), speed))

    def on_checkpoint(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, checkpoint: Any, **info: Any
    ) -> None:
        """Write down that a checkpoint is whole; its trial waits for it, so its state is the live one."""
        index = self._trial(trial.config).index
        path = Path(checkpoint.path).relative_to(self._folder.path.resolve())
        self.saved[index] = replace(self._live[index], checkpoint=path.as_posix())
        self._folder.write_state(self.saved)

    def on_trial_complete(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Note that a trial has stopped."""
        self._running.discard(self._trial(trial.config).index)

    def on_trial_error(
        self, iteration: int, trials: list[TuneTrial], trial: TuneTrial, **info: Any
    ) -> None:
        """Note that a trial has failed, and why."""
        self._raise_failure()
        mine = self._trial(trial.config)
        self._running.discard(mine.index)
        self.failures[mine.index] = f"trial {mine.index} failed: {_cause(trial.get_pickled_error())}"

    def on_step_end(self, iteration: int, trials: list[TuneTrial], **info: Any) -> None:
        """End the job as soon as an env has failed, in whatever process."""
        self._raise_failure()

    def _raise_failure(self) -> None:
        message = read_failure(self._folder.failure)
        if message is not None:
            raise envoi.EnvoiError(message)

    def _write_events(
        self, index: int, state: TrialState, row: Mapping[str, Any], result: Mapping[str, Any]
    ) -> None:
        if index not in self._writers:
            self._writers[index] = SummaryWriter(str(self._folder.tensorboard / f"trial_{index}"))
        numbers = {f"envoi/{name}": row[name] for name in ("return_mean", "length_mean", "steps_per_second")}
        for part in ("learners", "env_runners"):
            numbers |= _flat(result.get(part, {}), part)
        for name, value in numbers.items():
            if isinstance(value, (int, float, np.number)) and np.isfinite(value):
                self._writers[index].add_scalar(name, value, state.env_steps)
        self._writers[index].flush()

    def close(self) -> None:
        """Close the events."""
        for writer in self._writers.values():
            writer.close()


def _flat(values: Any, prefix: str) -> dict[str, Any]:
    if not isinstance(values, Mapping):
        return {prefix: values}
    return {path: leaf for key, value in values.items() for path, leaf in _flat(value, f"{prefix}/{key}").items()}


def _row(trial: Trial, state: TrialState, result: Mapping[str, Any], speed: float) -> dict[str, Any]:
    """A row of `progress.csv`."""
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


def _cause(error: BaseException | None) -> str:
    """The root of an error that came through Ray, in one line."""
    while error is not None:
        inner = getattr(error, "cause", None) or error.__cause__
        if inner is None or inner is error:
            break
        error = inner
    lines = [line for line in str(error).splitlines() if line.strip()]
    return f"{type(error).__name__}: {lines[-1].strip() if lines else 'no message'}"


@contextmanager
def _ray(settings: Settings, log_to_driver: bool) -> Iterator[None]:
    """Ray while it is needed: this process's own, a cluster's, or a new one on this machine."""
    if ray.is_initialized():
        yield
        return
    shared: dict[str, Any] = {"log_to_driver": log_to_driver, "logging_level": "ERROR"}
    try:
        if settings.address is not None:
            variables = {"OMP_NUM_THREADS": os.environ["OMP_NUM_THREADS"]}
            ray.init(settings.address, runtime_env={"env_vars": variables}, **shared)
        else:
            runners = settings.num_env_runners
            ray.init(
                num_cpus=max(os.cpu_count() or 1, 1 + runners),  # fewer would wait for ever
                include_dashboard=False,
                object_store_memory=200 * 2**20 * (1 + runners),
                **shared,
            )
    except (ConnectionError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        raise envoi.EnvoiError(f"Ray could not be started: {reason}") from error
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def _interruptible(recorder: Recorder) -> Iterator[None]:
    """Let the first Ctrl-C end the job in good order, and the second at once."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return

    def interrupt(signum: int, frame: FrameType | None) -> None:
        if recorder.interrupted:
            raise KeyboardInterrupt
        recorder.interrupted = True

    earlier = signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, earlier)
