"""Runs the trials of a job with Ray Tune, from their start or from their checkpoints.

A resumed job is a new Tune experiment whose trials load the checkpoints that `state.json` names. Tune's own
`Tuner.restore` would need files that a kill can leave half written, and could not change when to stop.
"""

from __future__ import annotations

import copy
import json
import os
import socket
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, replace
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import envoi
from envoi.adapters.rllib.creator import arguments_of, make_core
from envoi.errors import nearest

from ..errors import describe, missing_rllib, reading
from .algorithms import find
from .job_process import Interruption, variables_set
from .run_folder import LEAST, STOPPED, Observer, Report, RunFolder, TrialState
from .settings import DEFAULT_STOP_STEPS, TRACKERS, EnvOptions, Settings, Trial, apply_overrides, config_key, make_space

try:
    import ray
    from ray import tune
    from ray.exceptions import RayActorError
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.core.rl_module.rl_module import RLModule
    from ray.tune.experiment import Trial as TuneTrial
    from ray.tune.logger import CSVLoggerCallback, JsonLoggerCallback, TBXLoggerCallback
    from ray.tune.schedulers import ASHAScheduler, FIFOScheduler, PopulationBasedTraining, TrialScheduler

    from .callbacks import RETURNS, learned_policies
    from .configuration import configure, load_algorithm
    from .curriculum import TABLE, chosen_in, tabulate
    from .env_failures import record_of
    from .exact_resume import HASH_SEED
    from .multi_agent.league import LEAGUE, RIVAL_RETURNS, League, ended_returns
    from .registration import env_of_config, register_first_lane
except ImportError as error:
    raise missing_rllib(error) from error

if TYPE_CHECKING:
    from .training import Job

_TUNE_VARIABLES = {
    "TUNE_DISABLE_AUTO_CALLBACK_LOGGERS": "1",  # `make_trackers` makes those that are asked for
    "TUNE_DISABLE_STRICT_METRIC_CHECKING": "1",  # no return is known before the first episode ends
    "TUNE_DISABLE_SIGINT_HANDLER": "1",  # its handler drops the progress since the last checkpoint
}

CHECKPOINT_SECONDS = 15.0
WINDOW = 100
"""Episodes over which the return is averaged."""
RUNGS = 3
"""Env steps at which `asha` compares trials: a 27th, a 9th and a 3rd of the budget."""
PERTURBATIONS = 8
"""Times that `pbt` compares trials within the budget."""
PROJECT = "envoi"
"""The project of wandb, and the experiment of MLflow, that jobs belong to unless the environment names another."""
_HOOKS = ("setup", "log_trial_start", "log_trial_result", "log_trial_save", "log_trial_end", "on_experiment_end")


def run(
    job: Job, observe: Observer | None, interruption: Interruption, *, log_to_driver: bool
) -> tuple[dict[int, TrialState], list[str]]:
    """Runs the trials that have not reached their goal; returns their progress and their failures."""
    settings, folder, states = job.settings, job.folder, job.states
    todo = [trial for trial in settings.trials if states[trial.index].reached is None]
    overrides = {trial.seed: states[trial.index].overrides or trial.overrides for trial in todo}
    space = param_space(_shared_config(job, todo), settings, overrides)
    untracked: dict[str, str] = {}
    recorder = Recorder(job, observe, interruption)
    defaults = {"RAY_USAGE_STATS_ENABLED": "0", **({HASH_SEED: "0"} if settings.exact else {})}
    with variables_set(_TUNE_VARIABLES, defaults), _ray(settings, interruption, log_to_driver):
        held = float(ray.cluster_resources().get("GPU", 0))
        if settings.gpus > held:  # the job would wait for ever
            raise envoi.EnvoiError(f"--gpus: a trial asks for {settings.gpus:g}, and Ray found {held:g} here")
        tuner = tune.Tuner(
            load_algorithm(settings.algo),
            param_space=space,
            tune_config=tune.TuneConfig(
                trial_dirname_creator=lambda t: f"trial_{t.config['seed'] - settings.seed}",
                scheduler=make_scheduler(settings, space),
            ),
            run_config=tune.RunConfig(
                name=folder.new_session(),
                storage_path=str(folder.tune.resolve()),
                stop=recorder,
                callbacks=[recorder, *make_trackers(settings, folder, untracked)],
                verbose=0,
                # Two, as `state.json` names the last but one until it is replaced; more, as trials take others' over.
                checkpoint_config=tune.CheckpointConfig(
                    num_to_keep=4 if settings.scheduler == "pbt" else 2, checkpoint_at_end=True
                ),
            ),
        )
        try:
            with interruption.patience():
                ended = [result.error for result in tuner.fit()]
        except KeyboardInterrupt:
            ended = []  # the second Ctrl-C: the last checkpoints count
        except (tune.TuneError, ValueError) as error:
            raise envoi.EnvoiError(f"the job failed: {_cause_of(error)}; the full report is in {folder.log}") from error
        which = "trial {} failed: " if len(states) > 1 else ""
        errors = [(trial.index, error) for trial, error in zip(todo, ended, strict=False) if error is not None]
        failed = [which.format(index) + _cause_of(error) for index, error in errors]
    if failed and len(failed) == len(todo):
        kept = f", and the last checkpoint in {folder.checkpoint}" if folder.checkpoint.exists() else ""
        raise envoi.EnvoiError(f"{failed[0]}; the full report is in {folder.log}{kept}") from errors[0][1]
    return recorder.saved, [*failed, *untracked.values()]


def _shared_config(job: Job, todo: list[Trial]) -> AlgorithmConfig:
    """Returns the config that all trials share, without the settings in `settings.set`."""
    settings, folder = job.settings, job.folder
    options = asdict(EnvOptions.of(settings))
    if settings.module is not None and options["action_masks"] == "auto":
        options["action_masks"] = False  # a module of the user's own sees masks if they ask for these
    config = configure(
        settings.env_of(settings.trials[0].overrides),
        settings.algo,
        num_envs=settings.num_envs_per_runner,
        num_env_runners=settings.num_env_runners,
        seed=settings.seed,
        **options,
        policies=settings.policies,
        exact=settings.exact,
        runner=settings.runner,
        module=None if settings.module is None else load_module(settings.module),
        **settings.chosen,
    )
    if chosen_in(config) is not None:
        config.callbacks(on_train_result=tabulate)
    gpus = settings.gpus / max(1, settings.num_learners)
    config.learners(num_learners=settings.num_learners, num_gpus_per_learner=gpus)
    if settings.evaluate_every is not None:
        _set_evaluation(config, settings.evaluate_every)
    held = {trial.seed: job.states[trial.index].checkpoint for trial in todo}
    checkpoints = {seed: folder.path.resolve() / path for seed, path in held.items() if path}
    config.callbacks(on_algorithm_init=partial(_load_checkpoint, checkpoints))
    if settings.scheduler == "pbt":
        config.callbacks(on_checkpoint_loaded=set_rates)
    return config


def _load_checkpoint(checkpoints: Mapping[int, Path], *, algorithm: Any, **_: Any) -> None:
    """Loads a trial's checkpoint when its algorithm is built."""
    path = checkpoints.get(algorithm.config.seed)
    if path is not None:
        with reading(path):
            algorithm.restore_from_path(path)


@contextmanager
def _ray(settings: Settings, interruption: Interruption, log_to_driver: bool) -> Iterator[None]:
    """Provides Ray inside its `with` block: this process's running Ray, a cluster, or a new one on this machine."""
    if ray.is_initialized():
        yield
        return
    try:
        # Ray crashes when it is interrupted while it starts.
        with interruption.patience():
            _start_ray(settings, log_to_driver=log_to_driver, logging_level="ERROR")
    except (OSError, RuntimeError, ValueError) as error:
        reason = " ".join(str(error).split())
        what = "Ray could not be started" if settings.address in (None, "local") else f"--address {settings.address}"
        raise envoi.EnvoiError(f"{what}: {reason}") from error
    try:
        interruption.check()
        yield
    finally:
        ray.shutdown()


def _start_ray(settings: Settings, **shared: Any) -> None:
    if settings.address is not None and settings.address != "local":
        host, _, port = settings.address.rpartition(":")
        if host and port.isdigit() and "/" not in host:  # Ray would try for minutes to reach a server
            socket.create_connection((host, int(port)), timeout=10).close()
        variables = {name: os.environ[name] for name in ("OMP_NUM_THREADS", HASH_SEED) if name in os.environ}
        ray.init(settings.address, runtime_env={"env_vars": variables}, **shared)
        return
    others = settings.num_env_runners + settings.num_learners
    ray.init(
        "local",  # without an address it would join any Ray that runs here
        num_cpus=max(os.cpu_count() or 1, 1 + others),  # fewer would wait for ever
        include_dashboard=False,
        object_store_memory=200 * 2**20 * (1 + others),
        **shared,
    )


def param_space(
    base: AlgorithmConfig, settings: Settings, overrides: Mapping[int, Mapping[str, Any]]
) -> dict[str, Any]:
    """Returns the search space for `ray.tune.Tuner`: a grid of seeds; the seed determines what overrides change."""
    config, trials = base.copy(copy_frozen=False), {}
    for seed, values in overrides.items():
        trials[seed] = own = base.copy(copy_frozen=False)
        apply_overrides(own, values, settings.algo, own_module=settings.module is not None)
        try:
            own.copy(copy_frozen=False).validate()
        except Exception as error:
            given = ", ".join(f"{name}={value}" for name, value in values.items())
            reason = " ".join(str(error).split()).partition(" To suppress all validation errors")[0]
            raise envoi.EnvoiError(f"RLlib refuses these settings ({given or 'no --set'}): {reason}") from error
    heads = dict.fromkeys(name.partition(".")[0] for values in overrides.values() for name in values)
    for name in [one for head in heads for one in (find(settings.algo).rates if head == "lr" else (head,))]:
        attribute = name if name in vars(config) else f"_{name}"  # such as that of the property `model_config`
        of_seed = {seed: getattr(own, attribute) for seed, own in trials.items()}
        setattr(config, attribute, tune.sample_from(partial(_value_of_seed, of_seed)))
    return {**config.to_dict(), "seed": tune.grid_search([*trials])}


def _value_of_seed(values: Mapping[int, Any], spec: Any) -> Any:
    return values[spec.config.seed]


def _set_evaluation(config: AlgorithmConfig, interval: int) -> None:
    # One env: of several at once, RLlib would take the episodes that end first, which are the short ones.
    one_env: dict[str, Any] = {"num_envs_per_env_runner": 1}
    env, chosen = env_of_config(config), chosen_in(config.get_evaluation_config_object())
    assert env is not None
    with make_core(env.env, arguments_of(config.env_config)) as core:
        if getattr(core, "batch_size", None) is not None:
            one_env |= {"env": register_first_lane(env).name, "gym_env_vectorize_mode": "sync"}
    config.evaluation(
        evaluation_interval=interval,
        evaluation_duration_unit="episodes",
        evaluation_duration=10 if chosen is None else max(10, len(chosen.full)),  # each context at least once
        evaluation_config=config.overrides(explore=False, **one_env),
    )


def load_module(reference: str) -> type[RLModule]:
    """Imports the class that `python:module:Class` names."""
    _, name, attribute = reference.split(":", 2)
    if (here := str(Path.cwd())) not in sys.path:
        sys.path.insert(0, here)
    try:
        module = import_module(name)
    except Exception as error:
        reason = " ".join(str(error).split())
        raise envoi.EnvoiError(f"--module {reference}: {name} cannot be imported: {reason}") from error
    classes = {key: value for key, value in vars(module).items() if isinstance(value, type)}
    if attribute not in classes:
        raise envoi.EnvoiError(f"--module {reference}: {name} has no {attribute!r}; {nearest(attribute, classes)}")
    if not issubclass(classes[attribute], RLModule):
        raise envoi.EnvoiError(
            f"--module {reference}: expected a class derived from RLlib's RLModule, such as TorchRLModule; "
            f"got {classes[attribute]!r}"
        )
    return classes[attribute]


def set_rates(*, algorithm: Any, **_: Any) -> None:
    """Sets the learning rates of an algorithm's config again, because another trial's checkpoint replaces them."""

    def set_again(learner: Any) -> None:
        for optimizer, schedule in learner._optimizer_lr_schedules.items():
            learner._set_optimizer_lr(optimizer, lr=schedule.get_current_value())

    algorithm.learner_group.foreach_learner(set_again)


def make_scheduler(settings: Settings, config: Mapping[str, Any]) -> TrialScheduler:
    """Makes the scheduler of a job. Its budget is `stop_steps`, or 1,000,000 env steps without that."""
    budget = settings.stop_steps or DEFAULT_STOP_STEPS
    ends: dict[str, Any] = {"time_attr": "num_env_steps_sampled_lifetime", "mode": "max"}
    ends["metric"] = "env_runners/episode_return_mean"
    if settings.scheduler == "asha":
        first = max(1, budget // 3**RUNGS)
        return ASHAScheduler(max_t=budget, grace_period=first, reduction_factor=3, stop_last_trials=False, **ends)
    if settings.scheduler == "pbt":
        return _Population(
            perturbation_interval=max(1, budget // PERTURBATIONS),
            hyperparam_mutations=_mutations(settings, config),
            log_config=False,
            require_attrs=False,  # no return is known before the first episode ends
            **ends,
        )
    return FIFOScheduler()


def _mutations(settings: Settings, config: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the search spaces by the settings' keys in a config; grids and choices become lists."""
    found: dict[str, Any] = {}
    for name, text in settings.spaces.items():
        space = make_space(text)
        values = space["grid_search"] if isinstance(space, dict) else getattr(space, "categories", space)
        for one in find(settings.algo).rates if name == "lr" else (name,):
            found[config_key(one, config)] = values
    return found


class _Population(PopulationBasedTraining):
    """Population based training that stays inside the search spaces, and keeps each trial's seed."""

    def _get_new_config(self, trial: Any, trial_to_clone: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        config, operations = super()._get_new_config(trial, trial_to_clone)
        for name, space in self._hyperparam_mutations.items():
            low, high = getattr(space, "lower", None), getattr(space, "upper", None)
            if low is not None and high is not None:  # Tune multiplies by 0.8 or 1.2
                config[name] = min(max(config[name], low), high)
        return {**config, "seed": trial.config["seed"]}, operations

    def _exploit(self, tune_controller: Any, trial: Any, trial_to_clone: Any) -> None:
        saving = trial.temporary_state.saving_to
        if saving is not None:
            # Pausing a trial that is being saved, Ray Tune would stop it for good after its next checkpoint.
            saving.resolve()
            trial.temporary_state.saving_to = None
        super()._exploit(tune_controller, trial, trial_to_clone)


def make_trackers(settings: Settings, folder: RunFolder, failures: dict[str, str]) -> list[tune.Callback]:
    """Makes the loggers of a job. A logger that fails is added to `failures` and disabled; the job continues."""
    names = {*settings.track, "tensorboard"} if find_spec(TRACKERS["tensorboard"]) else {*settings.track}
    made: list[tune.Callback] = []
    for name in sorted(names):
        tracker = _call(_make, name, failures, name, folder)
        if tracker is not None:
            for hook in _HOOKS:
                setattr(tracker, hook, partial(_call, getattr(tracker, hook), name, failures))
            made.append(tracker)
    return made


def _call(function: Callable[..., Any], name: str, failures: dict[str, str], *arguments: Any, **named: Any) -> Any:
    if name in failures:
        return None
    try:
        return function(*arguments, **named)
    except Exception as error:
        failures[name] = f"{name} took no more reports: {' '.join(str(error).split())}"
        return None


def _make(name: str, folder: RunFolder) -> Any:
    if name == "wandb":
        from ray.air.integrations.wandb import WandbLoggerCallback

        return WandbLoggerCallback(project=os.environ.get("WANDB_PROJECT", PROJECT), group=folder.path.name)
    if name == "mlflow":
        from ray.air.integrations.mlflow import MLflowLoggerCallback

        return MLflowLoggerCallback(
            os.environ.get("MLFLOW_TRACKING_URI"),
            experiment_name=os.environ.get("MLFLOW_EXPERIMENT_NAME", PROJECT),
            tags={"run": folder.path.name},
        )
    if name == "tensorboard":
        events: Any = TBXLoggerCallback()
        writer, place = events._summary_writer_cls, folder.tensorboard
        # Beside Tune's folder of the trial, which a resumed job replaces.
        events._summary_writer_cls = lambda path, **options: writer(str(place / Path(path).name), **options)
        return events
    return CSVLoggerCallback() if name == "csv" else JsonLoggerCallback()


class Recorder(tune.Callback, tune.Stopper):
    """Records the progress of the trials, requests checkpoints, and stops trials."""

    def __init__(self, job: Job, observe: Observer | None, interruption: Interruption) -> None:
        self.saved = dict(job.states)
        self._settings, self._folder, self._observe = job.settings, job.folder, observe
        self._interruption = interruption
        self._measured = () if job.grouping is None else job.grouping.measured
        self._written = Counter(int(row["trial"]) for row in job.folder.read_progress())
        self._live = copy.deepcopy(job.states)
        self._seconds = {index: state.seconds for index, state in job.states.items()}
        self._contexts = job.folder.read_contexts(job.states)
        self._running: set[int] = set()
        self._speed: dict[int, float] = {}
        self._checkpointed: dict[int, float] = {}
        self._deadline = time.monotonic() + 60 * (job.settings.stop_minutes or float("inf"))

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
        rows = result.get("env_runners", {}).pop(TABLE, ())
        self._contexts += [{"trial": index, "iteration": result["training_iteration"], **row} for row in rows]
        if self._settings.scheduler == "pbt":
            self._note_changes(index, result["config"])
        self._advance(index, result)
        result["timesteps_total"] = state.env_steps  # the steps of Tune's loggers, which would count iterations
        return state.reached is not None or self._ending

    def stop_all(self) -> bool:
        """Returns True if the job is ending and no trial has results left to save."""
        return self._ending and not self._running

    def _note_changes(self, index: int, config: Mapping[str, Any]) -> None:
        """Records that population based training gave a trial other settings and another trial's weights."""
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
        state.learned = state.learned or bool(learned_policies(result))
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
        state.reached = state.goal_reached(settings) or state.reached

    # Tune calls these by keyword, with more than is named here.

    def on_trial_result(self, *, trial: TuneTrial, result: dict[str, Any], **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Writes a row; requests a checkpoint every `CHECKPOINT_SECONDS`."""
        index = self._index_of(trial.config)
        state, scheduler = self._live[index], self._settings.scheduler
        if result.get("done") and scheduler and not self._ending:
            state.reached = state.reached or f"{STOPPED}{scheduler} at {state.env_steps:,} env steps"
        self._folder.append_progress(self._row(index, result))
        self._written[index] += 1
        now = time.monotonic()
        if now - self._checkpointed.get(index, float("-inf")) > CHECKPOINT_SECONDS:
            self._checkpointed[index] = now
            result["should_checkpoint"] = True
        if self._observe is not None:
            self._observe(Report(self._settings.trials[index], copy.deepcopy(state), self._speed[index]))

    def on_checkpoint(self, *, trial: TuneTrial, checkpoint: Any, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a checkpoint is complete. The trial waited for it, so the live state is the checkpoint's."""
        index = self._index_of(trial.config)
        path = Path(checkpoint.path).relative_to(self._folder.path.resolve()).as_posix()
        before = replace(self.saved[index], before=None) if self.saved[index].checkpoint else None
        live = copy.deepcopy(self._live[index])
        self.saved[index] = replace(live, checkpoint=path, rows=self._written[index], before=before)
        self._folder.write_contexts(self._contexts)
        self._folder.write_state(self.saved)

    def on_trial_complete(self, *, trial: TuneTrial, **_: Any) -> None:  # pyright: ignore[reportIncompatibleMethodOverride]
        """Records that a trial has stopped or failed."""
        self._running.discard(self._index_of(trial.config))

    on_trial_error = on_trial_complete  # pyright: ignore[reportAssignmentType]

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
        for module, values in result.get("learners", {}).items():
            if isinstance(values, Mapping) and module != "__all_modules__":
                prefix = "loss/" if module == "default_policy" else f"loss/{module}/"
                losses = [name for name in values if name.endswith("loss") or name == "entropy"]
                row |= {prefix + name: _finite(values[name]) for name in losses}
        evaluated = result.get("evaluation", {}).get("env_runners", {})
        if isinstance(ended := evaluated.get(RETURNS), list) and ended:
            row["evaluation_return_mean"] = statistics.fmean(map(float, ended))
            row["evaluation_length_mean"] = _finite(evaluated.get("episode_len_mean"))
        for name in self._measured:
            own = state.shares.get(name)
            row[f"{name}/return_mean"] = statistics.fmean(own) if own else None
        if LEAGUE in result:
            league = League.from_json(result[LEAGUE])
            self._folder.write_league(index, described := league.describe())
            row |= {"elo": described["versions"][-1]["elo"], "members": len(league.members)}
        return row


def _finite(value: Any) -> float | None:
    if not isinstance(value, int | float | np.number | np.ndarray) or np.size(value) != 1 or not np.isfinite(value):
        return None
    return float(f"{float(value):.6g}")


def _cause_of(error: Any) -> str:
    """Returns the root cause of an error from Ray as one line: that of the env, if its process has recorded one."""
    if error is None:
        return "Ray gave no reason"
    if (record := record_of(str(getattr(error, "actor_id", "")))).get("failure"):
        return record["failure"]["message"]
    while (inner := getattr(error, "cause", None) or error.__cause__) is not None and inner is not error:
        error = inner
    if isinstance(error, envoi.EnvoiError):
        return describe(error)
    # Where the error itself could not be sent, Tune gives the text of its traceback.
    text = str(error).partition("During handling of the above exception")[0]
    last = (text.strip() or "no message").splitlines()[-1].strip()
    return last if isinstance(error, (tune.TuneError, RayActorError)) else f"{type(error).__name__}: {last}"
