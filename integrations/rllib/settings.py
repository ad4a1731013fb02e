"""The settings of a training job: all that is needed to run it and to resume it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Literal

import envoi

from .algorithms import find
from .env_options import EnvOptions
from .exact_resume.limits import check_exact
from .multi_agent.grouping import check_way

DEFAULT_STOP_STEPS = 1_000_000


@dataclass(frozen=True)
class Trial:
    """One training run of a sweep.

    Args:
        index: Its number in the sweep, from 0.
        lr: Learning rate; None is the algorithm's own.
        seed: Fixes the initial weights, the exploration and the envs; differs from trial to trial.
    """

    index: int
    lr: float | None
    seed: int


@dataclass(frozen=True)
class Settings:
    """The settings of a training job.

    Args:
        env: Name of the env, as in `envoi.adapters.load`.
        algo: Name of an algorithm, see `envoi.integrations.rllib.ALGORITHMS`; any case.
        lr: Learning rates to sweep; empty for the algorithm's own.
        samples: Trials for each learning rate, which differ by their seed.
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

    Raises:
        envoi.EnvoiError: A value is out of its range, or the algorithm is unknown.
    """

    env: str
    algo: str = "PPO"
    lr: tuple[float, ...] = ()
    samples: int = 1
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

    def __post_init__(self) -> None:
        object.__setattr__(self, "algo", find(self.algo).name)
        check_way(self.policies)
        if isinstance(self.policies, Mapping):
            own = {name: list(agents) for name, agents in self.policies.items()}
            object.__setattr__(self, "policies", own)
        if self.stop_return is None and self.stop_steps is None and self.stop_minutes is None:
            object.__setattr__(self, "stop_steps", DEFAULT_STOP_STEPS)
        for name, least in (("samples", 1), ("num_env_runners", 0), ("num_envs_per_runner", 1), ("seed", 0)):
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

    @property
    def trials(self) -> tuple[Trial, ...]:
        """The trials of the sweep: every learning rate `samples` times."""
        rates = self.lr or (None,)
        pairs = [rate for _ in range(self.samples) for rate in rates]
        return tuple(Trial(index, rate, self.seed + index) for index, rate in enumerate(pairs))

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
        """Returns the settings as plain values that YAML can hold."""
        return asdict(self) | {"lr": list(self.lr)}

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        """Returns the settings from the values of `to_dict`; unknown keys are ignored."""
        known: dict[str, Any] = {f.name: values[f.name] for f in fields(cls) if f.name in values}
        known["lr"] = tuple(known.get("lr") or ())
        return cls(**known)

    def resumed(self, changes: Mapping[str, Any]) -> Settings:
        """Returns the settings that a resumed job runs with.

        Args:
            changes: Settings by name. Only when to stop, where to run, the checks of specs and what follows errors
                of the env can change; a stop that is given replaces all earlier stops.

        Raises:
            envoi.EnvoiError: Another setting would change.
        """
        stops = {"stop_return", "stop_steps", "stop_minutes"}
        free = stops | {"address", "num_env_runners", "check_specs", "on_env_error", "max_env_restarts", "step_timeout"}
        changes = dict(changes)
        if "algo" in changes:
            changes["algo"] = find(changes["algo"]).name
        for name, value in changes.items():
            if name not in free and value != getattr(self, name):
                raise envoi.EnvoiError(
                    f"--resume cannot change {name} from {getattr(self, name)} to {value}; "
                    "start a new run in another folder instead"
                )
        if stops & changes.keys():
            changes = dict.fromkeys(stops) | changes
        return replace(self, **changes)
