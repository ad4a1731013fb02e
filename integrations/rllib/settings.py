"""The settings of a training job: all that is needed to run it and to resume it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, fields, replace
from importlib.util import find_spec
from typing import Any, Literal

import envoi

from .algorithms import find
from .batched_runner import Runner, check_runner
from .env_options import EnvOptions
from .exact_resume.limits import check_exact
from .multi_agent.grouping import check_way
from .overrides import check_overrides
from .search_space import SearchSpace, format_value
from .sweep import SAMPLES, Trial, check_known, check_scheduler, sample_trials

DEFAULT_STOP_STEPS = 1_000_000
ARGUMENT = "env_config."
"""Prefix of the settings that are arguments of the env."""
TRACKERS = {"wandb": "wandb", "mlflow": "mlflow", "tensorboard": "tensorboardX"}
"""The services that a job can report to, with the package that each needs."""


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
        action_masks: See `EnvOptions`.
        vectorize: See `EnvOptions`.
        check_specs: See `EnvOptions`.
        on_env_error: See `EnvOptions`.
        max_env_restarts: See `EnvOptions`.
        step_timeout: See `EnvOptions`.
        policies: The policies of several agents: "shared", "per-agent", "by-prefix" or "self-play", or the agents of
            each policy; None chooses by the agents' spaces and names.
        exact: Make checkpoints from which a resumed job continues bit for bit as if it had not stopped; see
            `envoi.integrations.rllib.exact_resume`.
        runner: "sync" samples by RLlib's own env runner, "batched" by envoi's, "auto" by envoi's where it is quicker.
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
    action_masks: bool | Literal["auto"] = "auto"
    vectorize: bool | Literal["auto"] = "auto"
    check_specs: bool | Literal["sample"] = "sample"
    on_env_error: Literal["stop", "restart"] = "stop"
    max_env_restarts: int = 3
    step_timeout: float = 60.0
    policies: str | Mapping[str, Sequence[str]] | None = None
    exact: bool = False
    runner: Runner = "auto"
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
        check_way(self.policies)
        check_runner(self.runner)
        if isinstance(self.policies, Mapping):
            own = {name: list(agents) for name, agents in self.policies.items()}
            object.__setattr__(self, "policies", own)
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
        self._replace(trials=sample_trials(self.set, self.spaces, self.samples or 1, self.seed))
        if self.scheduler is not None:
            check_scheduler(self.scheduler, self.spaces, len(self.trials))

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
        EnvOptions.of(self)
        if self.exact:
            check_exact(self.algo)

    @property
    def env_options(self) -> EnvOptions:
        """The options of the env."""
        return EnvOptions.of(self)

    def env_of(self, overrides: Mapping[str, Any]) -> str:
        """Returns the env's name with the arguments that overrides such as `env_config.size` give it."""
        given = {name.removeprefix(ARGUMENT): value for name, value in overrides.items() if name.startswith(ARGUMENT)}
        if not given:
            return self.env
        query = "&".join(f"{name}={value}" for name, value in given.items())
        return f"{self.env}{'&' if '?' in self.env else '?'}{query}"

    @property
    def spaces(self) -> dict[str, SearchSpace]:
        """The search spaces of the sweep, by setting."""
        rates = {"lr": SearchSpace("grid", self.lr)} if self.lr else {}
        return rates | {name: value for name, value in self.set.items() if isinstance(value, SearchSpace)}

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
            changes: Settings by name. Only when to stop, where and how to sample, what to report, the checks of specs
                and what follows errors of the env can change; a stop that is given replaces all earlier stops.

        Raises:
            envoi.EnvoiError: Another setting would change.
        """
        stops = {"stop_return", "stop_steps", "stop_minutes"}
        free = stops | {"address", "num_env_runners", "runner", "evaluate_every", "gpus", "track"}
        free |= {"check_specs", "on_env_error", "max_env_restarts", "step_timeout"}
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
