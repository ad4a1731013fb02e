"""Settings of RLlib by name, as `--set` gives them: checked without Ray, applied to a config."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import envoi
from envoi.errors import UnknownName, near_misses, nearest

from .algorithms import find
from .search_space import SearchSpace, format_value, parse_space, parse_value
from .setting_ranges import check_range
from .setting_table import MODEL, Setting, settings_of, table
from .usual_names import USUAL_NAMES

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

RESERVED = {
    "env": "the first argument",
    "seed": "--seed",
    "num_env_runners": "--num-env-runners",
    "num_envs_per_env_runner": "--num-envs-per-runner",
    "num_learners": "--num-learners",
    "num_gpus": "--gpus",
    "num_gpus_per_learner": "--gpus",
    "evaluation_interval": "--evaluate-every",
    "callbacks_class": "envoi.integrations.rllib.configure in Python",
    "rl_module_spec": "--module",
    "policies": "--policies",
    "train_batch_size": "train_batch_size_per_learner, times the learners",
}
"""Options that set what `--set` does not, by setting."""
TUPLES = frozenset({"n_step"})
"""Settings that RLlib takes as a tuple and not as a list."""
_WORDS = {"bool": "true or false", "int": "a whole number", "float": "a number", "str": "a word", "list": "a list"}
_WORDS |= {"dict": "a mapping", "null": "null"}


def parse_assignments(assignments: Iterable[str], option: str = "--set") -> dict[str, str]:
    """Reads `name=value` assignments.

    Args:
        assignments: The assignments.
        option: The option that they were given by, for messages.

    Returns:
        Each value, as text, by its name.

    Raises:
        envoi.EnvoiError: One has no `=` or no name, or a name is given twice.
    """
    values: dict[str, str] = {}
    for assignment in assignments:
        name, equals, value = (part.strip() for part in assignment.partition("="))
        if not equals or not name or not value:
            raise envoi.EnvoiError(f"{option} takes NAME=VALUE, such as {option} gamma=0.98; got {assignment!r}")
        if name in values:
            raise envoi.EnvoiError(f"{option} {name} is given twice: {values[name]} and {value}")
        values[name] = value
    return values


def check_overrides(values: Mapping[str, Any], algo: str, *, own_module: bool = False) -> dict[str, Any]:
    """Checks settings of an algorithm, and converts their values to the kinds that it takes.

    Args:
        values: Values by name; a text is read as `parse_value` and `parse_space` do.
        algo: Name of the algorithm.
        own_module: The module is not one of RLlib's, so `model.` takes any name.

    Returns:
        The values, a `SearchSpace` where a space is given, by the names that RLlib has for them.

    Raises:
        envoi.EnvoiError: A setting is unknown, a value is not of a kind that it takes, or a space is none.
    """
    checked: dict[str, Any] = {}
    for given, value in values.items():
        name = _canonical(given)
        setting = _find(name, given, find(algo).name, own_module)
        if name in checked:
            raise envoi.EnvoiError(f"{given} and {name} are the same setting; give one of them")
        checked[name] = _read(setting, name, value)
    return checked


def _canonical(name: str) -> str:
    """Returns RLlib's name of a setting, of which a few have a more usual one."""
    name = name.strip()
    if name.startswith("model_config."):
        return MODEL + name.removeprefix("model_config.")
    return {"lambda": "lambda_", "input": "input_"}.get(name, name)


def _find(name: str, given: str, algo: str, own_module: bool) -> Setting | None:
    """Returns the setting of a name; None for one inside a setting that takes any."""
    known = settings_of(algo)
    if name in RESERVED:
        raise envoi.EnvoiError(f"{given} is not for --set; it is set by {RESERVED[name]}")
    if name in known:
        return known[name]
    head, dot, inner = name.partition(".")
    if dot and head == "model" and inner and own_module:
        return None
    if dot and inner and head in known and "dict" in known[head].kinds:
        inside = known[head].default or {}
        near = near_misses(inner, inside)
        if near:
            raise UnknownName(f"{head} has no entry {inner!r}; {nearest(inner, inside)}")
        return None
    elsewhere = [other for other, settings in table().items() if name in settings or (dot and head in settings)]
    if elsewhere and head not in known:
        raise UnknownName(f"{head} is no setting of {algo}, but one of {', '.join(elsewhere)}")
    if head == "model":
        fields = [key for key in known if key.startswith(MODEL)]
        raise UnknownName(f"the networks of RLlib have no setting {given!r}; {nearest(name, fields)}")
    usual = [one for one in USUAL_NAMES.get(name, ()) if one.partition(".")[0] in {*known, *RESERVED, "model"}]
    if usual:
        options = "".join(f", set by {RESERVED[one]}" for one in usual if one in RESERVED)
        raise UnknownName(f"{algo} has no setting {given!r}; RLlib's name is {' or '.join(map(repr, usual))}{options}")
    near = nearest(name, [*known, *RESERVED])
    if not near.endswith("?"):
        near = "RLlib's documentation of AlgorithmConfig lists them"
    raise UnknownName(f"{algo} has no setting {given!r}; {near}")


def _read(setting: Setting | None, name: str, value: Any) -> Any:
    try:
        if isinstance(value, str):
            space = parse_space(value, parse_value)
            value = parse_value(value) if space is None else space
    except envoi.EnvoiError as error:
        raise envoi.EnvoiError(f"{name}: {error}") from None
    if isinstance(value, SearchSpace):
        converted = tuple(_checked(setting, name, one) for one in value.values)
        if value.kind in ("log", "uniform") and setting is not None and "float" not in setting.kinds:
            low, high = (format_value(one) for one in converted)
            raise envoi.EnvoiError(f"{name}: {value} is no search space of whole numbers; expected int({low},{high})")
        return SearchSpace(value.kind, value.values if value.kind == "int" else converted)
    return _checked(setting, name, value)


def _checked(setting: Setting | None, name: str, value: Any) -> Any:
    converted = _convert(setting, name, value)
    check_range(name, converted)
    return converted


def _convert(setting: Setting | None, name: str, value: Any) -> Any:
    if setting is None:
        return value
    kinds = setting.kinds
    if value is None and "null" in kinds:
        return None
    if isinstance(value, bool):
        if "bool" in kinds:
            return value
    elif isinstance(value, int | float):
        if isinstance(value, int) and "int" in kinds:
            return value
        if "float" in kinds:
            return float(value)
        if "int" in kinds and float(value).is_integer():  # such as 1e6
            return int(value)
    elif isinstance(value, str):
        if "str" in kinds:
            return value
    elif isinstance(value, list | tuple) and "list" in kinds:
        return _checked_list(setting, name, list(value))
    elif isinstance(value, Mapping) and "dict" in kinds:
        return dict(value)
    wanted = " or ".join(_WORDS[kind] for kind in kinds if not (kind == "int" and "float" in kinds))
    default = "" if setting.default is None else f", such as RLlib's default {format_value(setting.default)}"
    raise envoi.EnvoiError(f"{name}: expected {wanted}{default}; got {format_value(value)}")


def _checked_list(setting: Setting, name: str, value: list[Any]) -> list[Any]:
    """Checks the entries of a list against those of the default, where all of these are numbers."""
    default = setting.default
    numbers = isinstance(default, list) and default and all(isinstance(one, int | float) for one in default)
    wrong = [one for one in value if isinstance(one, bool) or not isinstance(one, int | float)]
    if numbers and wrong:
        raise envoi.EnvoiError(
            f"{name}: expected a list of numbers, such as RLlib's default {format_value(default)}; "
            f"got {format_value(wrong[0])} in {format_value(value)}"
        )
    return value


def apply_overrides(config: AlgorithmConfig, values: Mapping[str, Any], algo: str) -> None:
    """Sets settings on a config, by the methods that RLlib has for them.

    A nested setting changes its entry alone. `lr` sets each of the rates that the algorithm has.

    Args:
        config: The config.
        values: Values by name, as `check_overrides` returns them, without search spaces.
        algo: Name of the algorithm.

    Raises:
        envoi.EnvoiError: RLlib refuses a value.
    """
    known, algorithm = settings_of(algo), find(algo)
    model = {name.removeprefix(MODEL): value for name, value in values.items() if name.startswith(MODEL)}
    for name, value in values.items():
        if name.startswith(MODEL):
            continue
        head, dot, inner = name.partition(".")
        setting = known.get(head)
        names = algorithm.rates if name == "lr" else (head,)
        for one in names:
            method = "training" if setting is None else setting.method
            given = _merged(getattr(config, one, None) or {}, inner.split("."), value) if dot else value
            given = tuple(given) if one in TUPLES and isinstance(given, list) else given
            _call(config, method, one, given)
    if model:
        # `model_config` is complete: with what the algorithm adds, and with a preset of envoi's.
        _call(config, "rl_module", "model_config", {**config.model_config, **model})


def _merged(whole: Mapping[str, Any], path: list[str], value: Any) -> dict[str, Any]:
    """Returns a nested mapping with one entry replaced."""
    key, *rest = path
    return {**whole, key: _merged(whole.get(key) or {}, rest, value) if rest else value}


def _call(config: AlgorithmConfig, method: str, name: str, value: Any) -> None:
    try:
        getattr(config, method)(**{name: value})
    except Exception as error:
        reason = " ".join(str(error).split())
        raise envoi.EnvoiError(f"{name}: RLlib refuses {format_value(value)}: {reason}") from error
