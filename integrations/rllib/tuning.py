"""Runs the trials of a job with Ray Tune, from their start or from their checkpoints.

A resumed job is a new Tune experiment whose trials load the checkpoints that `state.json` names. Tune's own
`Tuner.restore` would need files that a kill can leave half written, and could not change when to stop.
"""

from __future__ import annotations

import os
import socket
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import envoi

from ..errors import describe
from .damaged_files import reading
from .exact_resume.limits import HASH_SEED
from .interruption import Interruption
from .job_report import Observer
from .process_variables import variables_set
from .run_folder import RunFolder
from .settings import Settings
from .sweep import Trial
from .trial_state import TrialState

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

try:
    import ray
    from ray import tune

    from .algorithm_config import configure, load_algorithm
    from .failure_file import write_failure
    from .faults import shared_records
    from .job_options import KeepRates, apply_job_options, check_gpus, load_module
    from .recorder import Recorder
    from .schedulers import make_scheduler
    from .trial_configs import TrialConfigs
    from .trial_errors import root_cause
except ImportError as error:
    raise envoi.MissingBackend(f"RLlib cannot be used ({error}); pip install 'envoi[rllib]'") from error

_TUNE_VARIABLES = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # the recorder writes these files itself
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # no return is known before the first episode ends
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # its handler drops the progress since the last checkpoint
}


def run(
    settings: Settings,
    folder: RunFolder,
    states: Mapping[int, TrialState],
    observe: Observer | None,
    interruption: Interruption,
    *,
    log_to_driver: bool,
    measured: Sequence[str] = (),
) -> tuple[dict[int, TrialState], bool, list[str]]:
    """Runs the trials that have not reached their goal.

    Args:
        settings: The settings of the job.
        folder: The output folder.
        states: The progress of each trial.
        observe: Called after each iteration of each trial.
        interruption: Set once the user asks to stop.
        log_to_driver: Send the workers' logs to this process's stdout.
        measured: The agents and policies whose returns are recorded, see `Grouping.measured`.

    Returns:
        The progress of each trial as of its last checkpoint; True if the user interrupted; a line for each trial that
        failed.

    Raises:
        envoi.EnvoiError: The env failed, or all trials did.
    """
    todo = [trial for trial in settings.trials if states[trial.index].reached is None]
    overrides = {trial.seed: states[trial.index].overrides or trial.overrides for trial in todo}
    configs = TrialConfigs(_shared_config(settings, folder, states, todo), settings, overrides)
    recorder = Recorder(settings, folder, states, observe, interruption, measured)
    defaults = {"RAY_USAGE_STATS_ENABLED": "0", **({HASH_SEED: "0"} if settings.exact else {})}
    with variables_set(_TUNE_VARIABLES, defaults), _ray(settings, interruption, log_to_driver):
        check_gpus(settings)
        tuner = tune.Tuner(
            load_algorithm(settings.algo),
            param_space=configs.param_space(),
            tune_config=tune.TuneConfig(
                trial_dirname_creator=lambda t: f"trial_{t.config['seed'] - settings.seed}",
                scheduler=make_scheduler(settings, recorder, configs),
            ),
            run_config=tune.RunConfig(
                name=folder.new_session(),
                storage_path=str(folder.tune.resolve()),
                stop=recorder,
                callbacks=[recorder],
                verbose=0,
                # Two, as `state.json` names the last but one until it is replaced; more, as trials take others' over.
                checkpoint_config=tune.CheckpointConfig(
                    num_to_keep=4 if settings.scheduler == "pbt" else 2, checkpoint_at_end=True
                ),
            ),
        )
        try:
            began = time.time()  # earlier records are of jobs that were killed
            with interruption.patience(is_stuck=lambda: bool(shared_records.left_by(shared_records.SLOW, since=began))):
                tuner.fit()
        except KeyboardInterrupt:
            pass  # the second Ctrl-C: the last checkpoints count
        except (tune.TuneError, ValueError) as error:
            recorder.raise_failure()
            raise envoi.EnvoiError(
                f"the job failed: {root_cause(error)}; the full report is in {folder.log}"
            ) from error
        finally:
            recorder.close()
        recorder.raise_failure()
    failed = list(recorder.failures.values())
    if failed and len(failed) == len(todo):
        raise envoi.EnvoiError(f"{failed[0]}; the full report is in {folder.log}")
    return recorder.saved, interruption.asked, [*failed, *recorder.tracker_failures]


def _shared_config(
    settings: Settings, folder: RunFolder, states: Mapping[int, TrialState], todo: list[Trial]
) -> AlgorithmConfig:
    """Returns the config that all trials have in common, without what `settings.set` and `settings.lr` give."""
    options = asdict(settings.env_options)
    if settings.module is not None and options["action_masks"] == "auto":
        options["action_masks"] = False  # a module of the user's own sees masks if they ask for these
    config = configure(
        settings.env_of(settings.trials[0].overrides),
        settings.algo,
        num_envs=settings.num_envs_per_runner,
        num_env_runners=settings.num_env_runners,
        seed=settings.seed,
        **options,
        failure=folder.failure.resolve(),
        policies=settings.policies,
        exact=settings.exact,
        runner=settings.runner,
        module=None if settings.module is None else load_module(settings.module),
    )
    apply_job_options(config, settings)
    held = {trial.seed: states[trial.index].checkpoint for trial in todo}
    checkpoints = {seed: folder.path.resolve() / path for seed, path in held.items() if path}
    restore = _Restore(checkpoints, folder.failure.resolve())
    if settings.scheduler == "pbt":
        rates = KeepRates()
        config.callbacks(on_algorithm_init=[rates.note, restore], on_checkpoint_loaded=rates.set_again)
    else:
        config.callbacks(on_algorithm_init=restore)
    return config


class _Restore:
    """Loads a trial's checkpoint when its algorithm is built; of a failure there Tune would not pass on the reason.

    Args:
        checkpoints: The folder of each trial's checkpoint, by the trial's seed.
        failure: A file that an error is written to, see `write_failure`.
    """

    def __init__(self, checkpoints: dict[int, Path], failure: Path) -> None:
        self._checkpoints, self._failure = checkpoints, failure

    def __call__(self, *, algorithm: Any, **_: Any) -> None:
        path = self._checkpoints.get(algorithm.config.seed)
        if path is None:
            return
        try:
            with reading(path):
                algorithm.restore_from_path(path)
        except envoi.EnvoiError as error:
            write_failure(self._failure, describe(error), "".join(traceback.format_exception(error)))
            raise


@contextmanager
def _ray(settings: Settings, interruption: Interruption, log_to_driver: bool) -> Iterator[None]:
    """Provides Ray while it is entered: the one of this process, a cluster's, or a new one on this machine."""
    if ray.is_initialized():
        yield
        return
    # Ray crashes when it is interrupted while it starts.
    with interruption.patience():
        _start(settings, log_to_driver)
    try:
        interruption.check()
        yield
    finally:
        ray.shutdown()


def _start(settings: Settings, log_to_driver: bool) -> None:
    shared: dict[str, Any] = {"log_to_driver": log_to_driver, "logging_level": "ERROR"}
    try:
        if settings.address not in (None, "local"):
            _reach(settings.address)
            variables = {name: os.environ[name] for name in ("OMP_NUM_THREADS", HASH_SEED) if name in os.environ}
            ray.init(settings.address, runtime_env={"env_vars": variables}, **shared)
        else:
            others = settings.num_env_runners + settings.num_learners
            ray.init(
                "local",  # without an address it would join any Ray that runs here
                num_cpus=max(os.cpu_count() or 1, 1 + others),  # fewer would wait for ever
                include_dashboard=False,
                object_store_memory=200 * 2**20 * (1 + others),
                **shared,
            )
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        what = "Ray could not be started" if settings.address in (None, "local") else f"--address {settings.address}"
        raise envoi.EnvoiError(f"{what}: {reason}") from error


def _reach(address: str) -> None:
    """Checks within 10 s that a server listens at `host:port`; Ray would retry for minutes.

    Raises:
        OSError: No server listens there.
    """
    host, _, port = address.rpartition(":")
    if host and port.isdigit() and "/" not in host:
        socket.create_connection((host, int(port)), timeout=10).close()
