"""The settings of a training job: all that is needed to run it and to resume it."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from typing import Any

import numpy as np

import envoi
from envoi.errors import UnknownName, nearest

from .algorithms import find
from .overrides import check_overrides
from .search_space import SearchSpace, format_value
from .setting_table import MODEL

DEFAULT_STOP_STEPS = 1_000_000
SAMPLES = 8
"""Trials of a sweep that samples, unless `samples` is given."""
SCHEDULERS = ("asha", "pbt", "median")
"""The schedulers of Ray Tune that can stop or change the trials of a sweep."""
TRACKERS = {"wandb": "wandb", "mlflow": "mlflow", "tensorboard": "tensorboardX"}
"""The services that a job can report to, with the package that each needs."""
FIXED = frozenset({"num_envs_per_env_runner", "replay_buffer_config", "gym_env_vectorize_mode"})
"""Settings that population based training cannot change, because a checkpoint depends on them; `model.` is another."""


@dataclass(frozen=True)
class Trial:
    """One training run of a sweep.

    Args:
        index: Its number in the sweep, from 0.
        seed: Fixes the initial weights, the exploration and the envs; differs from trial to trial.
        overrides: Settings of RLlib that differ from envoi's defaults, by name.
    """

    index: int
    seed: int
    overrides: Mapping[str, Any] = field(default_factory=dict)

    @property
    def lr(self) -> float | None:
        """The learning rate; None is the algorithm's own."""
        return self.overrides.get("lr")


@dataclass(frozen=True)
class Settings:
    """The settings of a training job.

    Args:
        env: Name of the env, as in `envoi.adapters.load`.
        algo: Name of an algorithm, see `envoi.integrations.rllib.ALGORITHMS`; any case.
        lr: Learning rates to sweep; empty for the algorithm's own. Short for `set={"lr": "grid(…)"}`.
        samples: Trials for each combination of the values of `lr` and of the grids in `set`, which differ by their
            seed and by what they sample; None for 8 if a search space is sampled, and 1 otherwise.
        num_env_runners: Processes that step envs; 0 steps them in the trial's own process.
        num_envs_per_runner: Envs that each of them steps together; None for the default of the algorithm, or the lanes
            of a batch.
        seed: Seed of the first trial; the next have the numbers after it.
        stop_return: Stop a trial when the mean return over its last 100 episodes (at least 20) reaches this.
        stop_steps: Stop a trial after this many env steps; if no stop is set, 1,000,000.
        stop_minutes: Stop the job after this many minutes; resuming gives it the same time again.
        address: Address of a Ray cluster, such as "auto"; its nodes must share the output folder. None or "local"
            starts a Ray of this job's own on this machine.
        check_specs: Check each observation against the spec while training.
        set: Any settings of RLlib's `AlgorithmConfig` by name, such as `clip_param`; `model.fcnet_hiddens` is one of
            the default networks, `env_config.size` an argument of the env. A value may be a text, and a search space
            such as "log(1e-5,1e-3)", see `envoi.integrations.rllib.search_space`.
        scheduler: Ray Tune's scheduler for the trials: "asha" and "median" stop poor ones early, "pbt" (population
            based training) lets them go on with the weights and changed settings of good ones.
        evaluate_every: Evaluate the policy, without exploration, after each so many iterations; None for never.
        gpus: GPUs of each trial, divided among its learners; may be a fraction.
        num_learners: Processes that update the policy; 0 updates it in the trial's own process.
        track: Services to report to, of `wandb`, `mlflow` and `tensorboard`; the last always receives events.
        module: A module of your own, as "python:module:Class", a class derived from RLlib's `RLModule`.

    Raises:
        envoi.EnvoiError: A value is out of its range, or an algorithm, setting, scheduler or tracker is unknown.
    """

    env: str
    algo: str = "PPO"
    lr: tuple[float, ...] = ()
    samples: int | None = None
    num_env_runners: int = 0
    num_envs_per_runner: int | None = None
    seed: int = 0
    stop_return: float | None = None
    stop_steps: int | None = None
    stop_minutes: float | None = None
    address: str | None = None
    check_specs: bool = True
    set: Mapping[str, Any] = field(default_factory=dict, hash=False)
    scheduler: str | None = None
    evaluate_every: int | None = None
    gpus: float = 0
    num_learners: int = 0
    track: tuple[str, ...] = ()
    module: str | None = None
    trials: tuple[Trial, ...] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        self._replace(algo=find(self.algo).name)
        if self.stop_return is None and self.stop_steps is None and self.stop_minutes is None:
            self._replace(stop_steps=DEFAULT_STOP_STEPS)
        self._check_ranges()
        if self.module is not None:
            check_reference(self.module)
        for tracker in self.track:
            check_known("tracker", tracker, TRACKERS)
        self._replace(set=check_overrides(self.set, self.algo, own_module=self.module is not None))
        if self.lr and "lr" in self.set:
            raise envoi.EnvoiError("lr is set twice, by --lr and by --set lr=…; give one of them")
        if self.samples is None:
            sampled = any(space.kind != "grid" for space in self.spaces.values())
            self._replace(samples=SAMPLES if sampled else 1)
        self._replace(trials=self._sample_trials())
        if self.scheduler is not None:
            check_known("scheduler", self.scheduler, SCHEDULERS)
            self._check_scheduler()

    def _replace(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_ranges(self) -> None:
        leasts = {"samples": 1, "num_env_runners": 0, "num_envs_per_runner": 1, "seed": 0, "gpus": 0}
        for name, least in (leasts | {"num_learners": 0, "evaluate_every": 1}).items():
            value = getattr(self, name)
            if value is not None and value < least:
                raise envoi.EnvoiError(f"{name} must be at least {least}, got {value}")
        for name in ("stop_steps", "stop_minutes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise envoi.EnvoiError(f"{name} must be positive, got {value}")
        for rate in self.lr:
            if not 0 < rate < 1:
                raise envoi.EnvoiError(f"a learning rate must lie between 0 and 1, got {rate}")

    def _check_scheduler(self) -> None:
        if len(self.trials) < 2:
            raise envoi.EnvoiError(
                f"--scheduler {self.scheduler} compares trials, and this job has one; give a search space, such as "
                "--set lr=log(1e-5,1e-3), or more --samples"
            )
        if self.scheduler != "pbt":
            return
        if not self.spaces:
            raise envoi.EnvoiError("--scheduler pbt changes settings; give a search space: --set lr=log(1e-5,1e-3)")
        for name in self.spaces:
            head = name.partition(".")[0]
            if name.startswith(MODEL) or head in FIXED:
                raise envoi.EnvoiError(
                    f"--scheduler pbt cannot change {name} while training, as the checkpoints of the trials would no "
                    "longer fit one another; use --scheduler asha, or give it one value"
                )

    @property
    def spaces(self) -> dict[str, SearchSpace]:
        """The search spaces of the sweep, by setting."""
        rates = {"lr": SearchSpace("grid", self.lr)} if self.lr else {}
        return rates | {name: value for name, value in self.set.items() if isinstance(value, SearchSpace)}

    def _sample_trials(self) -> tuple[Trial, ...]:
        """Returns the trials: every combination of the grids `samples` times, with samples of the other spaces."""
        spaces, trials = self.spaces, list[Trial]()
        fixed = {name: value for name, value in self.set.items() if name not in spaces}
        grids = {name: space.values for name, space in spaces.items() if space.kind == "grid"}
        for _ in range(self.samples or 1):
            for values in itertools.product(*grids.values()):
                index = len(trials)
                rng = np.random.default_rng([self.seed, index])
                chosen = dict(zip(grids, values, strict=True))
                chosen |= {name: space.sample(rng) for name, space in spaces.items() if name not in grids}
                trials.append(Trial(index, self.seed + index, fixed | {name: chosen[name] for name in spaces}))
        return tuple(trials)

    @property
    def goal(self) -> str:
        """The stops of the job, in words."""
        goals = []
        if self.stop_return is not None:
            goals.append(f"mean return {self.stop_return:g}")
        if self.stop_steps is not None:
            goals.append(f"{self.stop_steps:,} env steps")
        if self.stop_minutes is not None:
            goals.append(f"{self.stop_minutes:g} min")
        return " or ".join(goals)

    def to_dict(self) -> dict[str, Any]:
        """Returns the settings as plain values that YAML can hold, and the trials with what they sampled."""
        values = {one.name: getattr(self, one.name) for one in fields(self)}
        values |= {"lr": list(self.lr), "track": list(self.track)}
        values["set"] = {n: str(v) if isinstance(v, SearchSpace) else v for n, v in self.set.items()}
        values["trials"] = [
            {"seed": trial.seed, **{name: trial.overrides[name] for name in self.spaces}} for trial in self.trials
        ]
        return deepcopy(values)  # so that YAML needs no references between equal lists

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        """Returns the settings from the values of `to_dict`; unknown keys are ignored."""
        known: dict[str, Any] = {f.name: values[f.name] for f in fields(cls) if f.init and f.name in values}
        for name in ("lr", "track"):
            known[name] = tuple(known.get(name) or ())
        settings = cls(**known)
        stored = values.get("trials")
        if stored is not None:  # as they were sampled when the job began, by whichever version of numpy
            trials = [
                replace(trial, overrides={**trial.overrides, **{name: row[name] for name in settings.spaces}})
                for trial, row in zip(settings.trials, stored, strict=True)
            ]
            settings._replace(trials=tuple(trials))
        return settings

    def resumed(self, changes: Mapping[str, Any]) -> Settings:
        """Returns the settings that a resumed job runs with.

        Args:
            changes: Settings by name. Only when to stop, where to run, what to report, and `check_specs` can change; a
                stop that is given replaces all earlier stops.

        Raises:
            envoi.EnvoiError: Another setting would change.
        """
        stops = {"stop_return", "stop_steps", "stop_minutes"}
        free = stops | {"address", "num_env_runners", "check_specs", "evaluate_every", "gpus", "track"}
        changes = dict(changes)
        if "algo" in changes:
            changes["algo"] = find(changes["algo"]).name
        if "set" in changes:
            asked = check_overrides(changes["set"], self.algo, own_module=self.module is not None)
            for name, value in asked.items():
                if name not in self.set or self.set[name] != value:
                    before = format_value(self.set[name]) if name in self.set else "its default"
                    raise _fixed(name, before, format_value(value))
            del changes["set"]
        for name, value in changes.items():
            if name not in free and value != getattr(self, name):
                raise _fixed(name, getattr(self, name), value)
        if stops & changes.keys():
            changes = dict.fromkeys(stops) | changes
        settings = replace(self, **changes)
        settings._replace(trials=self.trials)
        return settings


def _fixed(name: str, before: object, after: object) -> envoi.EnvoiError:
    return envoi.EnvoiError(
        f"--resume cannot change {name} from {before} to {after}; start a new run in another folder instead"
    )


def check_known(kind: str, name: str, known: Mapping[str, Any] | tuple[str, ...]) -> None:
    """Checks that a name is one of those that are known.

    Args:
        kind: The kind of thing that the name is for, such as "scheduler".
        name: The name.
        known: The known names.

    Raises:
        envoi.EnvoiError: It is none of them.
    """
    if name not in known:
        near = nearest(name, known)
        listing = f" There are: {', '.join(known)}" if near.endswith("?") else ""
        raise UnknownName(f"no {kind} is called {name!r}; {near}{listing}")


def check_reference(reference: str) -> None:
    """Checks that `python:module:Class` names a module that can be found, without importing it.

    Raises:
        envoi.EnvoiError: It is not of this form, or there is no such module.
    """
    scheme, _, rest = reference.partition(":")
    name, _, attribute = rest.partition(":")
    if scheme != "python" or not name or not attribute:
        raise envoi.EnvoiError(f"--module takes python:module:Class, such as python:nets:MyModule; got {reference!r}")
    try:
        found = find_spec(name) is not None
    except (ImportError, ValueError):  # of a parent package
        found = False
    if not found:
        raise envoi.EnvoiError(f"--module {reference}: no module is called {name!r}; is it in this folder?")
