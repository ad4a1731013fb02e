"""Reads the settings of a job from a YAML file, which the command line may override."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import envoi
from envoi.errors import UnknownName, nearest

from .algorithms import find
from .overrides import check_overrides
from .search_space import parse_value
from .settings import Settings

WRITTEN = frozenset({"versions", "trials"})
"""Keys of the `config.yaml` of a run that are no settings, so that one can be given as it is."""
_KINDS: Mapping[str, tuple[type, ...]] = {
    "str": (str,),
    "Literal": (str,),
    "Runner": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
}
_WORDS: Mapping[type, str] = {str: "a word", int: "a whole number", float: "a number", bool: "true or false"}


def read_config_file(path: Path) -> dict[str, Any]:
    """Reads the settings in a YAML file.

    Args:
        path: The file: keys are the names of `Settings`, also with dashes, and `set`.

    Returns:
        The settings by name.

    Raises:
        envoi.EnvoiError: The file does not exist or is no YAML, a key is unknown, or a value is of a wrong kind; the
            message names the line.
    """
    import yaml

    try:
        text = path.read_text(encoding="utf-8")
        node = yaml.compose(text, Loader=yaml.SafeLoader)
        values = yaml.safe_load(text)
    except OSError as error:
        raise envoi.EnvoiError(f"--config {path}: {error.strerror or error}") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f", line {mark.line + 1}"
        problem = getattr(error, "problem", None) or " ".join(str(error).split())
        raise envoi.EnvoiError(f"--config {path}{line}: {problem}") from error
    if values is None:
        return {}
    if not isinstance(values, dict):
        raise envoi.EnvoiError(f"--config {path}: expected settings as `name: value`, got {type(values).__name__}")
    lines = _lines(node)
    known = [one.name for one in fields(Settings) if one.init]
    settings: dict[str, Any] = {}
    for key, value in values.items():
        name = str(key).replace("-", "_")
        place = f"--config {path}, line {lines.get((key,), 1)}"
        if name in WRITTEN:
            continue
        if name not in known:
            raise UnknownName(f"{place}: unknown setting {key!r}; {_hint(name, known)}")
        if name == "set":
            settings[name] = _overrides(value, path, lines)
        else:
            settings[name] = _read(name, value, place)
        if name == "algo":
            _at(place, find, settings[name])
    if isinstance(settings.get("set"), dict):
        _check_overrides(settings, path, lines)
    return settings


def _hint(name: str, known: list[str]) -> str:
    near = nearest(name, known)
    if near.endswith("?"):
        return near
    return "settings of RLlib, such as clip_param, go under `set:`"


def _overrides(value: Any, path: Path, lines: Mapping[tuple[Any, ...], int]) -> dict[str, Any]:
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise envoi.EnvoiError(
            f"--config {path}, line {lines.get(('set',), 1)}: `set` takes settings of RLlib as `name: value`, "
            f"got {value!r}"
        )
    return {str(name): _numbers(one) for name, one in value.items()}


def _numbers(value: Any) -> Any:
    """Returns a value of YAML with the numbers that it takes for texts, such as 1e-4."""
    if isinstance(value, list):
        return [_numbers(one) for one in value]
    if isinstance(value, dict):
        return {key: _numbers(one) for key, one in value.items()}
    if isinstance(value, str) and isinstance(parsed := parse_value(value), int | float):
        return parsed
    return value


def _check_overrides(settings: Mapping[str, Any], path: Path, lines: Mapping[tuple[Any, ...], int]) -> None:
    algo = settings.get("algo", "PPO")
    for name, value in settings["set"].items():
        place = f"--config {path}, line {lines.get(('set', name), 1)}"
        _at(place, check_overrides, {name: value}, algo, own_module=settings.get("module") is not None)


def _at(place: str, check: Callable[..., Any], *arguments: Any, **options: Any) -> None:
    """Calls a check, whose error gets the place in front."""
    try:
        check(*arguments, **options)
    except envoi.EnvoiError as error:
        raise type(error)(f"{place}: {error}") from None


def _read(name: str, value: Any, place: str) -> Any:
    value = _numbers(value)
    if name == "check_specs" and value == "full":  # as on the command line
        return True
    if name in ("lr", "track"):
        items = value if isinstance(value, list) else [value]
        if name == "lr" and all(isinstance(one, int | float) for one in items):
            return tuple(map(float, items))
        if name == "track" and all(isinstance(one, str) for one in items):
            return tuple(items)
    else:
        kind = str(Settings.__dataclass_fields__[name].type)
        kinds = tuple(one for word, classes in _KINDS.items() if word in kind for one in classes)
        if isinstance(value, float) and float not in kinds and int in kinds and value.is_integer():  # such as 1e5
            value = int(value)
        # A bool is an int to Python, and no number to one who writes a config.
        fits = isinstance(value, kinds) and (bool in kinds or not isinstance(value, bool))
        if fits or (value is None and "None" in kind) or (isinstance(value, dict) and "Mapping" in kind):
            return value
        wanted = [words for one, words in _WORDS.items() if one in kinds and not (one is int and float in kinds)]
        raise envoi.EnvoiError(f"{place}: {name}: expected {' or '.join(wanted)}, got {value!r}")
    wanted = "numbers" if name == "lr" else "names"
    raise envoi.EnvoiError(f"{place}: {name}: expected a list of {wanted}, got {value!r}")


def _lines(node: Any, path: tuple[Any, ...] = ()) -> dict[tuple[Any, ...], int]:
    """Returns the line of each key of a YAML document, from 1, by the keys that lead to it."""
    found: dict[tuple[Any, ...], int] = {}
    if type(node).__name__ != "MappingNode":
        return found
    for key, value in node.value:
        place = (*path, key.value)
        found[place] = key.start_mark.line + 1
        found |= _lines(value, place)
    return found
