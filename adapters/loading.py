"""Environments by name: `scheme:name?argument=value`."""

from __future__ import annotations

import ast
import copy
import importlib
import importlib.util
import re
from collections.abc import Callable
from types import ModuleType
from typing import Any, cast

from envoi import Env, MissingBackend, MultiEnv, SpecError, UnknownName
from envoi.errors import nearest

from .registry import FRAMEWORKS, Framework, from_env

Loader = Callable[..., Any]


def load(name: str, **arguments: Any) -> Env:
    """Makes a core environment by name.

        load("gymnasium:CartPole-v1")
        load("gymnasium:FrozenLake-v1?map_name=8x8&is_slippery=False")
        load("envoi:catch")
        load("python:my_module:make_env")

    Args:
        name: `scheme:name`, with optional `?argument=value&…`; values are Python literals, or else strings.
        **arguments: More arguments for the function that makes the environment; they override those in the name.

    Returns:
        The core environment, a `MultiEnv` if it is multi-agent; `load_multi` declares that type for type checkers.

    Raises:
        UnknownName: There is no such scheme or environment; the message suggests similar names.
        MissingBackend: Its framework is not installed.
        SpecError: The arguments cannot be parsed or do not fit the environment, or a factory returns no environment.
    """
    if not isinstance(name, str):
        raise SpecError(f"name: expected 'scheme:name', such as 'gymnasium:CartPole-v1', got {name!r}")
    scheme, colon, rest = name.partition(":")
    if not colon or scheme not in SCHEMES:
        guess = nearest(scheme, SCHEMES) if colon else f"did you mean {_guess(name)!r}?"
        raise UnknownName(f"{name}: expected 'scheme:name' with a scheme of {', '.join(SCHEMES)}; {guess}")
    if not rest:
        example = next(iter(names_of(scheme)), f"{scheme}:my_module:make_env")
        raise UnknownName(f"{name}: expected 'scheme:name', such as {example!r}")
    rest, _, query = rest.partition("?")
    arguments = {**_arguments(name, query), **arguments}
    core = from_env(SCHEMES[scheme](rest, **arguments))
    from .conversion import mark  # imports the wrappers, which `import envoi.adapters` leaves out

    mark(core, f"{scheme}:{rest}", arguments)
    return cast("Env", core)


def load_multi(name: str, **arguments: Any) -> MultiEnv:
    """Makes a multi-agent core environment by name; see `load`. A single-agent one becomes a `MultiEnv` of one agent.

    Args:
        name: As for `load`.
        **arguments: As for `load`.

    Raises:
        EnvoiError: As for `load`, or the environment is a batch.
    """
    from envoi import as_multi  # imports the wrappers, which `import envoi.adapters` leaves out

    core: Any = load(name, **arguments)
    return core if isinstance(core, MultiEnv) else as_multi(core)


def names_of(scheme: str) -> list[str]:
    """Lists a scheme's names for `load`, such as "gymnasium:CartPole-v1"; the list is empty for "python".

    Lists only the latest version of each environment.

    Raises:
        UnknownName: There is no such scheme.
        MissingBackend: Its framework is not installed.
    """
    if scheme not in SCHEMES:
        raise UnknownName(f"{scheme}: no such scheme; {nearest(scheme, SCHEMES)}")
    if scheme == "envoi":
        from envoi import models

        return [f"envoi:{name}" for name in models.NAMES]
    rows = [row for row in FRAMEWORKS.values() if scheme in row.schemes]
    return [f"{scheme}:{name}" for row in rows for name in row.load().names(scheme)]


def _guess(name: str) -> str:
    """Returns the full name that a name without a scheme may be short for."""
    import difflib  # only errors need it

    from envoi import models

    close = difflib.get_close_matches(name.lower(), models.NAMES, 1)
    return f"envoi:{close[0]}" if close and not re.search(r"-v\d+$", name) else f"gymnasium:{name}"


WORDS = {"true": True, "false": False, "none": None, "null": None}
"""Values of arguments that are recognised in any case, besides Python literals."""


def _arguments(name: str, query: str) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for part in filter(None, query.split("&")):
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier():
            raise SpecError(f"{name}: expected '?argument=value&…', got {part!r}")
        try:
            found[key] = WORDS[value.lower()] if value.lower() in WORDS else ast.literal_eval(value)
        except (ValueError, SyntaxError):
            found[key] = value
    return found


def _load_envoi(name: str, **arguments: Any) -> Any:
    from envoi import models  # takes longer to import than the rest of this module

    try:
        return models.make(name, **arguments)
    except TypeError as error:
        raise SpecError(f"envoi:{name}: {error}") from error


def _load_python(name: str, **arguments: Any) -> Any:
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or module_name.startswith("."):
        raise UnknownName(f"python:{name}: expected 'python:module:factory'")
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name is not None and not f"{module_name}.".startswith(f"{error.name}."):
            raise MissingBackend(f"python:{name}: {module_name} needs {error.name}, which is not installed") from error
        raise UnknownName(f"python:{name}: {error}; run it from the folder of the module, or install it") from error
    made = module
    for part in attribute.split("."):
        if not hasattr(made, part):
            public = [known for known in vars(made) if not known.startswith("_")]
            raise UnknownName(f"python:{name}: {module_name} has no {part!r}; {nearest(part, public)}")
        made = getattr(made, part)
    env = made(**arguments) if callable(made) else made
    if env is None or isinstance(env, (str, int, float, ModuleType)):
        got = "None; does it end with a return?" if env is None else repr(env)
        raise SpecError(f"python:{name}: expected a function that returns an environment, got {got}")
    # A ready environment is copied, so that each call of `load` returns a separate one.
    return env if callable(made) else copy.deepcopy(env)


def _load_with(row: Framework, scheme: str) -> Loader:
    return lambda name, **arguments: row.load().load(scheme, name, **arguments)


SCHEMES: dict[str, Loader] = {
    **{scheme: _load_with(row, scheme) for row in FRAMEWORKS.values() for scheme in row.schemes},
    "envoi": _load_envoi,
    "python": _load_python,
}
"""Functions that make an environment, by the scheme of its name."""
