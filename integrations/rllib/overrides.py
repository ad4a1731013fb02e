"""Settings of RLlib by name, as `--set` and a config file give them: RLlib and Ray Tune check and apply them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from functools import cache
from inspect import isfunction, signature
from typing import TYPE_CHECKING, Any

import envoi
from envoi.errors import UnknownName, near_misses, nearest

from .algorithms import find

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

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
    """Reads a value as YAML has it, where True, False and None are as in Python."""
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
    """Returns the settings of each trial: each combination of the grids, so many times, the rest sampled by Tune."""
    spaces: dict[str, Any] = {}
    for name, value in values.items():
        if is_space(value):
            spaces[name] = _named(name, make_space, value)
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
    """Reads the texts among the values of settings, and refuses settings that have options of their own."""
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
            if (kind := value.partition("(")[0].strip()) not in SPACES:
                raise UnknownName(f"{given}: Ray Tune has no search space {kind!r}; {nearest(kind, SPACES)}")
        else:
            read[name] = _named(given, parse_value, value) if isinstance(value, str) else value
    return read


def _named(name: str, read: Any, value: Any) -> Any:
    try:
        return read(value)
    except envoi.EnvoiError as error:
        raise type(error)(f"{name}: {error}") from None


def config_key(name: str, config: Mapping[str, Any]) -> str:
    """Returns the key of a setting in the dict that Tune has of a config."""
    return next((key for key in (name, f"_{name}", name.rstrip("_")) if key in config), name)


def apply_overrides(
    config: AlgorithmConfig,
    values: Mapping[str, Any],
    algo: str,
    *,
    own_module: bool = False,
    others: Iterable[str] = (),
) -> None:
    """Sets settings on a config by its own methods.

    A dotted name changes one entry, and `lr` each of the rates that the algorithm has. `others` are further names that
    an unknown one may mean.
    """
    methods = _methods(type(config))
    for name, value in values.items():
        head, dot, inner = name.partition(".")
        if head not in methods:
            raise UnknownName(f"{algo} has no setting {name!r}; {nearest(head, [*methods, *RESERVED, *others])}")
        for one in find(algo).rates if name == "lr" else (head,):
            before = getattr(config, one, None)
            if dot:
                held = dict(before) if isinstance(before, Mapping) else {}
                own = {**_networks(), **held} if head == "model_config" and not own_module else held
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
    """Returns the methods of a config's class by the settings that they take."""
    from ray.rllib.utils.from_config import NotProvided

    return {
        name: method
        for owner in kind.__mro__
        for method, function in vars(owner).items()
        if isfunction(function) and not method.startswith("_")
        for name, parameter in signature(function).parameters.items()
        if parameter.default is NotProvided and not name.startswith("_")
    }


@cache
def _networks() -> dict[str, Any]:
    """Returns the settings of RLlib's default networks with their defaults."""
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

    return asdict(DefaultModelConfig())


def _merge(whole: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    key, *rest = path
    return {**whole, key: _merge(whole.get(key) or {}, rest, value) if rest else value}


def _fit(name: str, value: Any, before: Any) -> Any:
    """Returns a value in the kind of the one before, which RLlib checks only once it trains, if at all."""
    if isinstance(before, int) and isinstance(value, float) and not isinstance(before, bool) and value.is_integer():
        return int(value)  # such as 1e5
    kinds = {
        bool: "true or false",
        int: "a number",
        float: "a number",
        list: "a list",
        tuple: "a list",
        dict: "a mapping",
    }
    wanted, got = kinds.get(type(before)), kinds.get(type(value), "a word")
    schedule = (wanted == "a number" and got == "a list") or (
        isinstance(before, list) and got == "a number" and all(isinstance(one, list | tuple) for one in before)
    )
    if wanted in (None, got) or value is None or value == "auto" or schedule:
        return value
    raise envoi.EnvoiError(f"{name}: expected {wanted}, such as RLlib's {before!r}, got {value!r}")
