"""Makes environments of PettingZoo's families by name."""

from __future__ import annotations

import importlib
import importlib.util
import pkgutil
import re
import warnings
from typing import Any

from gymnasium.error import DependencyNotInstalled
from pettingzoo import AECEnv, ParallelEnv

from envoi import MissingBackend, SpecError, UnknownName
from envoi.errors import nearest

FAMILIES = ("atari", "butterfly", "classic", "mpe", "sisl")


def load(scheme: str, name: str, **arguments: Any) -> ParallelEnv[Any, Any, Any] | AECEnv[Any, Any, Any]:
    """Makes an environment of one of PettingZoo's families.

    Args:
        scheme: `"pettingzoo"`.
        name: `"classic/tictactoe_v3"`, or without its version; the family `mpe` is the package mpe2.
        **arguments: Arguments for its `parallel_env`, or for `env` if it has no `parallel_env`.

    Returns:
        A Parallel environment if there is one of that name, else an AEC one.

    Raises:
        UnknownName: There is no such environment; the message suggests similar ones.
        MissingBackend: A package that the environment needs is not installed.
        SpecError: The environment does not take these arguments.
    """
    family, _, wanted = name.replace("-v", "_v").partition("/")
    if family == "mpe" and importlib.util.find_spec("mpe2") is None:
        raise MissingBackend(f"{scheme}:{name}: mpe2 is not installed; pip install 'envoi[pettingzoo]'")
    found = [one for one in _names(family) if wanted in (one, one.rpartition("_v")[0])]
    if not found:
        known = (f"{scheme}:{one}/{its}" for one in FAMILIES for its in _names(one))
        raise UnknownName(f"{scheme}:{name}: no such environment; {nearest(f'{scheme}:{name}', known)}")
    try:
        with warnings.catch_warnings():
            # PettingZoo announces that environments will be made in another way.
            warnings.simplefilter("ignore", DeprecationWarning)
            module = importlib.import_module(f"{_package(family)}.{found[-1]}")
        return (module.parallel_env if hasattr(module, "parallel_env") else module.env)(**arguments)
    except (ImportError, DependencyNotInstalled) as error:
        install = "pip install 'envoi[pettingzoo]'" if family == "mpe" else f"pip install 'pettingzoo[{family}]'"
        raise MissingBackend(f"{scheme}:{name}: {error}; {install}") from error
    except TypeError as error:
        raise SpecError(f"{scheme}:{name}: {error}") from error


def names(scheme: str) -> list[str]:
    """Returns the names in PettingZoo's families, only the latest version of each environment.

    Args:
        scheme: `"pettingzoo"`.
    """
    del scheme
    latest = {(family, name.rpartition("_v")[0]): f"{family}/{name}" for family in FAMILIES for name in _names(family)}
    return sorted(latest.values())


def _package(family: str) -> str:
    return "mpe2" if family == "mpe" else f"pettingzoo.{family}"


def _names(family: str) -> list[str]:
    """Finds the environments of a family without importing them; the latest version of a name comes last."""
    spec = importlib.util.find_spec(_package(family)) if family in FAMILIES else None
    modules = pkgutil.iter_modules(spec.submodule_search_locations if spec else [])
    names = [module.name for module in modules if re.fullmatch(r"\w+_v\d+", module.name)]
    return sorted(names, key=lambda name: int(name.rpartition("_v")[2]))
