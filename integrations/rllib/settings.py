"""The settings of a training job: everything that is needed to run and to resume it.

RLlib's settings have the names and values that `--set` or a config file gives them; RLlib and Ray Tune check and apply
them.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cache
from inspect import isfunction, signature
from pathlib import Path
from typing import Any, Literal, get_args

import envoi
from envoi.curricula import Curriculum, LearningProgress, PrioritizedLevelReplay
from envoi.errors import UnknownName, near_misses, nearest

from ..errors import check_number, nearest_of_all
from .algorithms import check_exact, find
from .multi_agent.grouping import check_way

Runner = Literal["auto", "sync", "batched"]
"""The name of an env runner: RLlib's own ("sync"), envoi's ("batched"), or envoi's where it is quicker ("auto")."""
RUNNERS: tuple[str, ...] = get_args(Runner)
"""The names of env runners."""
DEFAULT_STOP_STEPS = 1_000_000
ARGUMENT = "env_config."
"""Prefix of the settings that are arguments of the env."""
TRACKERS = {"wandb": "wandb", "mlflow": "mlflow", "csv": "ray", "json": "ray", "tensorboard": "tensorboardX"}
"""The loggers of Ray Tune that a job can report to, with the package that each needs."""
SCHEDULERS = ("asha", "pbt")
"""The schedulers of Ray Tune that can stop or change the trials of a job."""
CURRICULA: Mapping[str, type[Curriculum]] = {"plr": PrioritizedLevelReplay, "learning-progress": LearningProgress}
"""The curricula that a job can have."""
SPACES = (
    "choice", "grid_search", "lograndint", "loguniform", "qlograndint", "qloguniform", "qrandint", "qrandn",
    "quniform", "randint", "randn", "uniform",
)  # fmt: skip
"""The search spaces of Ray Tune that a setting may be sampled from."""
RESERVED = {
    "env": "the first argument",
    "seed": "--seed",
    "num_env_runners": "--num-env-runners",
    "num_envs_per_env_runner": "--num-envs-per-runner",
    "num_learners": "--num-learners",
    "num_gpus_per_learner": "--gpus",
    "evaluation_interval": "--evaluate-every",
    "callbacks_class": "envoi.integrations.rllib.configure in Python",
    "rl_module_spec": "--module",
    "policies": "--policies",
    "train_batch_size": "train_batch_size_per_learner, times the learners",
}
"""The options that set what `--set` does not, by setting."""
_SHORT = {"model": "model_config", "lambda": "lambda_", "input": "input_"}
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
_WHOLES = dict.fromkeys(("samples", "num_envs_per_runner", "evaluate_every", "stop_steps"), 1) | dict.fromkeys(
    ("num_env_runners", "num_learners", "seed"), 0
)
"""The least values of the settings that are whole numbers."""
CHOICES: Mapping[str, tuple[Any, ...]] = {
    "action_masks": ("auto", True, False),
    "vectorize": ("auto", True, False),
    "check_specs": ("sample", True, False),
    "on_env_error": ("stop", "restart"),
}
"""The values of the options that have few."""


@dataclass(frozen=True, kw_only=True)
class EnvOptions:
    """The options of an env under RLlib.

    Args:
        action_masks: True puts the action mask into each observation, for modules that mask; "auto" does so if the env
            has masks and `configure` sets such a module.
        vectorize: True steps the lanes of a runner as one batch (`gym_env_vectorize_mode="vector_entry_point"`), False
            one by one; "auto" as a batch if the env can step many lanes together.
        check_specs: True checks each value against its spec, "sample" when one of a lane's first two episodes begins
            or ends and in one step of a thousand, False never. NaN is found in all steps unless this is False.
        on_env_error: "stop" ends the training with the env's own error; "restart" makes the envs of that worker again
            and discards their unfinished episodes.
        max_env_restarts: How many times in a row a worker's envs, or its process, may be restarted before an error is
            raised; ten minutes without a restart set the count back to 0.
        step_timeout: Seconds after which a step or reset counts as hanging, which is an error.

    Raises:
        envoi.EnvoiError: A value is not one of those above.
    """

    action_masks: bool | Literal["auto"] = "auto"
    vectorize: bool | Literal["auto"] = "auto"
    check_specs: bool | Literal["sample"] = "sample"
    on_env_error: Literal["stop", "restart"] = "stop"
    max_env_restarts: int = 3
    step_timeout: float = 60.0

    def __post_init__(self) -> None:
        for name, choices in CHOICES.items():
            value = getattr(self, name)
            if not any(value is choice or (isinstance(value, str) and value == choice) for choice in choices):
                near = nearest(str(value), [one for one in choices if isinstance(one, str)])
                hint = f"; {near}" if near.endswith("?") else ""
                raise UnknownName(f"{name}: expected {' or '.join(map(repr, choices))}, got {value!r}{hint}")
        check_number("max_env_restarts", self.max_env_restarts, 0)
        check_number("step_timeout", self.step_timeout, 0, whole=False, above=True, hint="; inf for no limit")

    @classmethod
    def of(cls, holder: object) -> EnvOptions:
        """Collects the options from a function's `locals()`, or from an object's attributes."""
        held: Mapping[str, Any] = holder if isinstance(holder, Mapping) else vars(holder)
        return cls(**{field.name: held[field.name] for field in fields(cls)})

    def changes(self) -> dict[str, Any]:
        """Returns the options that differ from the defaults, by name."""
        defaults = asdict(EnvOptions())
        return {name: value for name, value in asdict(self).items() if value != defaults[name]}


@dataclass(frozen=True)
class Trial:
    """One training run of a job."""

    index: int
    seed: int
    overrides: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Settings(EnvOptions):
    """The settings of a training job, and the options of its env, which are described in `EnvOptions`.

    Args:
        env: Name of the env, as in `envoi.adapters.load`.
        algo: Name of an algorithm, see `envoi.integrations.rllib.ALGORITHMS`; any case.
        samples: Trials for each combination of the grids in `set`, which differ in seed and in sampled values;
            `num_samples` of Ray Tune.
        num_env_runners: Processes that step envs; 0 steps them in the trial's own process.
        num_envs_per_runner: Envs that each env runner steps together; None for the algorithm's default, or for the
            lanes of a batch.
        seed: Seed of the first trial; the next have the numbers after it.
        stop_return: Stop a trial when the mean return over its last 100 episodes (at least 20) reaches this.
        stop_steps: Stop a trial after this many env steps; if no stop is set, 1,000,000.
        stop_minutes: Stop the job after this many minutes; resuming gives it the same time again.
        address: Address of a Ray cluster, such as "auto"; its nodes must share the output folder. None or "local"
            starts a Ray of this job's own on this machine.
        policies: The policies of several agents: "shared", "per-agent", "by-prefix" or "self-play", or the agents of
            each policy; None chooses by the agents' spaces and names.
        exact: Make checkpoints from which a resumed job continues bit for bit as if it had not stopped; see
            `envoi.integrations.rllib.exact_resume`.
        runner: "sync" samples by RLlib's own env runner, "batched" by envoi's, "auto" by envoi's if it is faster.
        set: Any settings of RLlib's `AlgorithmConfig` by name, such as `clip_param`; `model_config.fcnet_hiddens` is
            one of the default networks, `env_config.size` an argument of the env. A value may be the text of a search
            space of Ray Tune, such as "loguniform(1e-5,1e-3)" or "grid_search([64,128])".
        scheduler: Ray Tune's scheduler for the trials: "asha" stops poor ones early, "pbt" (population based training)
            continues them with the weights and changed settings of good ones.
        evaluate_every: Iterations between evaluations, which run without exploration; None for no evaluations.
        gpus: GPUs of each trial, divided among its learners; may be a fraction.
        num_learners: Processes that update the policy; 0 updates it in the trial's own process.
        track: Loggers of Ray Tune: `wandb`, `mlflow`, `csv`, `json` or `tensorboard`, which is always on.
        module: A module of your own, as "python:module:Class", a class derived from RLlib's `RLModule`.
        contexts: The training contexts: the path of a file, or a text such as "length=0.3..0.7"; see `configure`.
        eval_contexts: The evaluation contexts, in the same form. Evaluations then run every 10 iterations unless
            `evaluate_every` is given.
        curriculum: How to choose `contexts`: "plr" (prioritized level replay), "learning-progress" (of successes)
            or "learning-progress:0,500" (of returns within these bounds); None uses them in turn.
        trials: The trials; empty for those that `set`, `samples` and `seed` make.

    Raises:
        envoi.EnvoiError: A value is out of its range, or an algorithm, setting, scheduler or tracker is unknown.
    """

    env: str
    algo: str = "PPO"
    samples: int = 1
    num_env_runners: int = 0
    num_envs_per_runner: int | None = None
    seed: int = 0
    stop_return: float | None = None
    stop_steps: int | None = None
    stop_minutes: float | None = None
    address: str | None = None
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
    contexts: str | None = None
    eval_contexts: str | None = None
    curriculum: str | None = None
    trials: tuple[Trial, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        self._replace(algo=find(self.algo).name)
        check_way(self.policies)
        check_runner(self.runner)
        if isinstance(self.policies, Mapping):
            self._replace(policies={name: list(agents) for name, agents in self.policies.items()})
        if self.stop_return is None and self.stop_steps is None and self.stop_minutes is None:
            self._replace(stop_steps=DEFAULT_STOP_STEPS)
        self._check_numbers()
        super().__post_init__()
        if self.exact:
            check_exact(self.algo)
        if self.module is not None and not re.fullmatch(r"python:[^:]+:\w+", self.module):
            raise envoi.EnvoiError(
                f"--module takes python:module:Class, such as python:nets:MyModule; got {self.module!r}"
            )
        for tracker in self.track:
            _check_known("tracker", tracker, TRACKERS)
        self._check_contexts()
        self._replace(set=read_overrides(self.set))
        if not self.trials:
            chosen = sample_trials(self.set, self.samples, self.seed)
            self._replace(trials=tuple(Trial(index, self.seed + index, one) for index, one in enumerate(chosen)))
        if self.scheduler is not None:
            self._check_scheduler(self.scheduler)

    def _replace(self, **values: Any) -> None:
        for name, value in values.items():
            object.__setattr__(self, name, value)

    def _check_contexts(self) -> None:
        for name in ("contexts", "eval_contexts", "curriculum"):
            given = getattr(self, name)
            if given is not None and not isinstance(given, (str, Path)):
                raise envoi.EnvoiError(f"{name}: expected a text, got {given!r}; contexts by id belong in a file")
            if name != "curriculum" and given is not None and (file := Path(given).expanduser()).is_file():
                self._replace(**{name: str(file.resolve())})  # a resumed job may run elsewhere
        if self.curriculum is not None:
            _curriculum_of(self.curriculum, self.seed)
            if self.contexts is None:
                raise envoi.EnvoiError(f"--curriculum {self.curriculum} chooses contexts; give them by --contexts")
        if self.eval_contexts is not None and self.evaluate_every is None:
            self._replace(evaluate_every=10)

    @property
    def chosen(self) -> dict[str, Any]:
        """The contexts and the curriculum, as arguments of `configure`."""
        curriculum = None if self.curriculum is None else _curriculum_of(self.curriculum, self.seed)
        return {"contexts": self.contexts, "curriculum": curriculum, "eval_contexts": self.eval_contexts}

    def _check_numbers(self) -> None:
        for name, least in _WHOLES.items():
            value = getattr(self, name)
            if isinstance(value, float) and value.is_integer():  # such as 1e5
                self._replace(**{name: int(value)})
            if value is not None:
                check_number(name, getattr(self, name), least)
        check_number("gpus", self.gpus, 0, whole=False)
        if self.stop_minutes is not None:
            check_number("stop_minutes", self.stop_minutes, 0, whole=False, above=True)
        if self.stop_return is not None:
            check_number("stop_return", self.stop_return, -math.inf, whole=False)

    def _check_scheduler(self, name: str) -> None:
        _check_known("scheduler", name, SCHEDULERS)
        space = "--set 'lr=loguniform(1e-5,1e-3)'"
        if len(self.trials) < 2:
            raise envoi.EnvoiError(
                f"--scheduler {name} compares trials, and this job has one; give --samples, and a search space such as "
                f"{space}"
            )
        if name != "pbt":
            return
        if not self.spaces:
            raise envoi.EnvoiError(f"--scheduler pbt changes settings; give a search space such as {space}")
        for setting in self.spaces:
            if "." in setting or setting in ("num_envs_per_env_runner", "gym_env_vectorize_mode"):
                raise envoi.EnvoiError(
                    f"--scheduler pbt cannot change {setting} while training, as the checkpoints of the trials "
                    "would no longer fit one another; use --scheduler asha, or give it one value"
                )

    def env_of(self, overrides: Mapping[str, Any]) -> str:
        """Returns the env's name, with the arguments that overrides such as `env_config.size` add."""
        given = {name.removeprefix(ARGUMENT): value for name, value in overrides.items() if name.startswith(ARGUMENT)}
        if not given:
            return self.env
        query = "&".join(f"{name}={value}" for name, value in given.items())
        return f"{self.env}{'&' if '?' in self.env else '?'}{query}"

    @property
    def spaces(self) -> dict[str, str]:
        """The search spaces as text, by setting."""
        return {name: value for name, value in self.set.items() if is_space(value)}

    @property
    def goal(self) -> str:
        """The stopping conditions of the job, in words."""
        texts = {"stop_return": "mean return {:g}", "stop_steps": "{:,} env steps", "stop_minutes": "{:g} min"}
        stops = {text: getattr(self, name) for name, text in texts.items()}
        return " or ".join(text.format(stop) for text, stop in stops.items() if stop is not None)

    def to_dict(self) -> dict[str, Any]:
        """Returns envoi's settings, RLlib's settings and the trials, as plain values for YAML."""
        values = {one.name: getattr(self, one.name) for one in fields(self) if one.name not in ("set", "trials")}
        values |= {"track": list(self.track), **self.set, "trials": [asdict(trial) for trial in self.trials]}
        return deepcopy(values)  # so that YAML needs no references between equal lists

    @classmethod
    def from_dict(cls, values: Mapping[str, Any]) -> Settings:
        """Makes settings from the result of `to_dict`."""
        if "set" in values:
            values = _upgrade(values)
        # As they were sampled when the job began, by whichever versions of Ray and numpy.
        trials = tuple(Trial(**stored) for stored in values.get("trials", ()))
        return cls(**split_settings(values), trials=trials)

    def resumed(self, changes: Mapping[str, Any]) -> Settings:
        """Returns the settings that a resumed job runs with.

        Args:
            changes: Settings by name. Only settings for stopping, sampling, reporting, spec checks and env errors can
                change; a new stop replaces all earlier stops.

        Raises:
            envoi.EnvoiError: Another setting would change.
        """
        stops = {"stop_return", "stop_steps", "stop_minutes"}
        free = {*stops, "address", "num_env_runners", "runner", "evaluate_every", "gpus", "track", "check_specs"}
        free |= {"on_env_error", "max_env_restarts", "step_timeout"}
        changes = dict(changes)
        if "algo" in changes:
            changes["algo"] = find(changes["algo"]).name
        fixed = {name: (getattr(self, name), value) for name, value in changes.items() if name not in {*free, "set"}}
        for name, value in read_overrides(changes.pop("set", {})).items():
            fixed[name] = self.set.get(name, "its default"), value
        for name, (before, after) in fixed.items():
            if after != before:
                raise envoi.EnvoiError(
                    f"--resume cannot change {name} from {before} to {after}; start a new run in another folder instead"
                )
        if stops & changes.keys():
            changes = dict.fromkeys(stops) | changes
        return replace(self, **changes)


def split_settings(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts a flat mapping of envoi's options and RLlib's settings to arguments of `Settings`."""
    known = {one.name for one in fields(Settings)} - {"set", "trials"}
    settings: dict[str, Any] = {}
    of_rllib = {**(values.get("set") or {})}
    for name, value in values.items():
        option = str(name).replace("-", "_")
        if option in known:
            settings[option] = value
        elif option not in ("set", "trials", "versions"):
            of_rllib[option] = value
    if "track" in settings:
        track = settings["track"]
        settings["track"] = (track,) if isinstance(track, str) else tuple(track or ())
    return settings | {"set": of_rllib}


def _upgrade(values: Mapping[str, Any]) -> dict[str, Any]:
    """Converts the settings of a run of envoi 0.2, which had RLlib's under `set`. The trials keep their samples."""
    fixed = read_overrides({name: one for name, one in values["set"].items() if not is_space(one)})
    trials: list[dict[str, Any]] = []
    for index, row in enumerate(values.get("trials", ())):
        sampled = read_overrides({name: value for name, value in row.items() if name != "seed"})
        trials.append({"index": index, "seed": row["seed"], "overrides": fixed | sampled})
    kept = {name: one for name, one in values.items() if name not in ("set", "lr", "scheduler")}
    return {**kept, **fixed, "trials": trials}


def read_config_file(path: Path) -> dict[str, Any]:
    """Reads the arguments of `Settings` from a YAML file, such as the `config.yaml` of a run."""
    import yaml

    try:
        values = yaml.load(path.read_text(encoding="utf-8"), Loader=yaml_loader())  # noqa: S506 (a safe loader)
    except OSError as error:
        raise envoi.EnvoiError(f"--config {path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise envoi.EnvoiError(f"--config {path}{line}: {problem}") from error
    if not isinstance(values, dict | None):
        raise envoi.EnvoiError(f"--config {path}: expected settings as `name: value`, got {type(values).__name__}")
    return split_settings(values or {})


def check_runner(runner: str) -> None:
    """Checks the name of an env runner, without importing Ray."""
    if runner not in RUNNERS:
        raise UnknownName(f"runner: expected one of {', '.join(RUNNERS)}, got {runner!r}; {nearest(runner, RUNNERS)}")


def _check_known(kind: str, name: str, known: Collection[str]) -> None:
    if name not in known:
        raise UnknownName(f"no {kind} is called {name!r}; {nearest_of_all(name, known)}")


def _curriculum_of(text: str, seed: int) -> Curriculum:
    """Makes a curriculum from a text such as "plr", or "learning-progress:0,500" with the bounds of returns."""
    name, colon, ends = text.partition(":")
    _check_known("curriculum", name, CURRICULA)
    if not colon:
        return CURRICULA[name](seed=seed)
    try:
        low, high = map(float, ends.split(","))
    except ValueError:
        low = high = 0.0
    if name != "learning-progress" or not -math.inf < low < high < math.inf:
        raise envoi.EnvoiError(f"curriculum: expected learning-progress:LOW,HIGH with LOW < HIGH, got {text!r}")
    return LearningProgress(bounds=(low, high), seed=seed)


def parse_assignments(assignments: Iterable[str]) -> dict[str, str]:
    """Reads `name=value` assignments."""
    values: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not equals or not name or not value:
            raise envoi.EnvoiError(f"--set takes NAME=VALUE, such as --set gamma=0.98; got {assignment!r}")
        if name in values:
            raise envoi.EnvoiError(f"--set {name} is given twice: {values[name]} and {value}")
        values[name] = value
    return values


@cache
def yaml_loader() -> Any:
    """Returns PyYAML's safe loader that also reads 1e-4 as a number, as YAML 1.2 does."""
    import yaml

    class Loader(yaml.SafeLoader):
        pass

    number = re.compile(r"[-+]?(\d[\d_]*\.?[\d_]*|\.\d[\d_]*)([eE][-+]?\d+)?")
    Loader.add_implicit_resolver(
        "tag:yaml.org,2002:float", re.compile(rf"^(?:{number.pattern})$"), list("-+0123456789.")
    )
    return Loader


def parse_value(text: str) -> Any:
    """Reads a value as YAML; also accepts Python's True, False and None."""
    import yaml

    try:
        value = yaml.load(text, Loader=yaml_loader())  # noqa: S506 (a safe loader)
    except yaml.YAMLError as error:
        raise envoi.EnvoiError(f"expected a value as in YAML, got {text}") from error
    return None if value == "None" else value


def is_space(value: Any) -> bool:
    """Returns True if a value is the text of a search space."""
    return isinstance(value, str) and _CALL.fullmatch(value) is not None


def make_space(text: str) -> Any:
    """Makes Ray Tune's search space from its text, such as `loguniform(1e-5,1e-3)`."""
    call = _CALL.fullmatch(text)
    name, inside = (call[1], call[2]) if call else (text, "")
    if name not in SPACES:
        raise UnknownName(f"Ray Tune has no search space {name!r}; {nearest(name, SPACES)}")
    from ray import tune

    try:
        space = getattr(tune, name)(*parse_value(f"[{inside}]"))
        if not isinstance(space, dict):  # a grid
            space.sample()
    except Exception as error:
        reason = " ".join(str(error).split())
        raise envoi.EnvoiError(f"{text} is no search space of Ray Tune: {reason}") from error
    return space


def sample_trials(values: Mapping[str, Any], samples: int, seed: int) -> list[dict[str, Any]]:
    """Returns each trial's settings: all combinations of the grids, `samples` times; Tune samples the other spaces."""
    spaces = {name: _named(name, make_space, value) for name, value in values.items() if is_space(value)}
    if not spaces:
        return [dict(values)] * samples
    import numpy as np
    from ray.tune.search.variant_generator import generate_variants

    return [
        {**values, **{name: getattr(value, "item", lambda value=value: value)() for name, value in chosen.items()}}
        for index in range(samples)
        for _, chosen in generate_variants(spaces, random_state=np.random.default_rng([seed, index]))  # pyright: ignore[reportArgumentType]
    ]


def read_overrides(values: Mapping[str, Any]) -> dict[str, Any]:
    """Parses settings that are given as text; raises an error for settings that have their own options."""
    read: dict[str, Any] = {}
    flat: dict[str, Any] = {}
    for name, value in values.items():
        if name in ("env_config", "model_config", "model") and isinstance(value, Mapping):
            flat |= {f"{name}.{entry}": one for entry, one in value.items()}
        else:
            flat[name] = value
    for given, value in flat.items():
        head, dot, inner = given.strip().partition(".")
        name = _SHORT.get(head, head) + dot + inner
        if name in RESERVED:
            raise envoi.EnvoiError(f"{given} is not for --set; it is set by {RESERVED[name]}")
        if name in read:
            raise envoi.EnvoiError(f"{given} and {name} are the same setting; give one of them")
        if is_space(value):
            read[name] = value.strip()
        else:
            read[name] = _named(given, parse_value, value) if isinstance(value, str) else value
    return read


def _named(name: str, read: Any, value: Any) -> Any:
    try:
        return read(value)
    except envoi.EnvoiError as error:
        raise type(error)(f"{name}: {error}") from None


def config_key(name: str, config: Mapping[str, Any]) -> str:
    """Returns the key of a setting in the dict into which Tune converts a config."""
    return next((key for key in (name, f"_{name}", name.rstrip("_")) if key in config), name)


def apply_overrides(
    config: Any,
    values: Mapping[str, Any],
    algo: str,
    *,
    own_module: bool = False,
    others: Iterable[str] = (),
) -> None:
    """Sets settings on a config by calling the config's methods.

    A dotted name changes one entry, and `lr` changes all learning rates of the algorithm. `others` are more names that
    the error for an unknown name may suggest.
    """
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    methods, networks = _methods(type(config)), {} if own_module else asdict(DefaultModelConfig())
    for name, value in values.items():
        head, dot, inner = name.partition(".")
        if head not in methods:
            raise UnknownName(f"{algo} has no setting {name!r}; {nearest(head, [*methods, *RESERVED, *others])}")
        for one in find(algo).rates if name == "lr" else (head,):
            before = getattr(config, one, None)
            if dot:
                held = dict(before) if isinstance(before, Mapping) else {}
                own = {**networks, **held} if head == "model_config" and networks else held
                if inner not in own and (own is not held or near_misses(inner, map(str, own))):
                    raise UnknownName(f"{head} has no entry {inner!r}; {nearest(inner, map(str, own))}")
                given = _merge(held, inner.split("."), _fit(name, value, own.get(inner)))
            else:
                given = _fit(name, value, before)
            try:
                getattr(config, methods[one])(**{one: given})
            except Exception as error:
                reason = " ".join(str(error).split())
                raise envoi.EnvoiError(f"{name}: RLlib refuses {value!r}: {reason}") from error


@cache
def _methods(kind: type) -> dict[str, str]:
    """Returns the name of the method of a config's class that takes each setting, by setting."""
    from ray.rllib.utils.from_config import NotProvided

    return {
        name: method
        for owner in kind.__mro__
        for method, function in vars(owner).items()
        if isfunction(function) and not method.startswith("_")
        for name, parameter in signature(function).parameters.items()
        if parameter.default is NotProvided and not name.startswith("_")
    }


def _merge(whole: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    key, *rest = path
    return {**whole, key: _merge(whole.get(key) or {}, rest, value) if rest else value}


def _fit(name: str, value: Any, before: Any) -> Any:
    """Checks that a value has the type of the previous one, which RLlib checks late or never; casts 1e5 to int."""
    if isinstance(before, int) and isinstance(value, float) and not isinstance(before, bool) and value.is_integer():
        return int(value)  # such as 1e5
    kinds = dict.fromkeys((int, float), "a number") | dict.fromkeys((list, tuple), "a list")
    kinds |= {bool: "true or false", dict: "a mapping"}
    wanted, got = kinds.get(type(before)), kinds.get(type(value), "a word")
    schedule = (wanted == "a number" and got == "a list") or (
        isinstance(before, list) and got == "a number" and all(isinstance(one, list | tuple) for one in before)
    )
    if wanted in (None, got) or value is None or value == "auto" or schedule:
        return value
    raise envoi.EnvoiError(f"{name}: expected {wanted}, such as RLlib's {before!r}, got {value!r}")
