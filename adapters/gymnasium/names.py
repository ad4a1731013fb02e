"""Makes environments of gymnasium's registry by id."""

from __future__ import annotations

import importlib
import importlib.util
import re
import warnings
from contextlib import suppress
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec

from envoi import MissingBackend, SpecError, UnknownName
from envoi.errors import nearest

PACKAGES = ("ale_py", "flappy_bird_gymnasium", "gymnasium_robotics", "highway_env", "minigrid", "miniworld")
"""Packages that register environments when they are imported; ids of theirs are written `minigrid:MiniGrid-…`."""
_ATARI = re.compile(r"ALE/|\w+(NoFrameskip|Deterministic)-v\d+$")
"""Ids that ale_py registers."""
_PLACEHOLDERS = frozenset({"GymV21Environment", "GymV26Environment"})


def load(scheme: str, name: str, **arguments: Any) -> gymnasium.Env[Any, Any]:
    """Makes an environment from gymnasium's registry.

    Args:
        scheme: `"gymnasium"`.
        name: The id, such as `"CartPole-v1"`.
        **arguments: Arguments for `gymnasium.make`.

    Raises:
        UnknownName: There is no such id; the message suggests similar ones.
        MissingBackend: A package that the environment needs is not installed.
        SpecError: The environment does not take these arguments.
    """
    arguments = {"disable_env_checker": True, **arguments}
    try:
        return gymnasium.make(name, **arguments)
    except gymnasium.error.DependencyNotInstalled as error:
        raise MissingBackend(f"{scheme}:{name}: {error}") from error
    except (gymnasium.error.UnregisteredEnv, gymnasium.error.DeprecatedEnv) as error:
        if _ATARI.match(name) and importlib.util.find_spec("ale_py") is None:
            raise MissingBackend(f"{scheme}:{name}: ale_py is not installed; pip install 'gymnasium[atari]'") from error
        if isinstance(error, gymnasium.error.NamespaceNotFound):
            raise UnknownName(f"{scheme}:{name}: {error}") from error
        near = nearest(f"{scheme}:{name}", (f"{scheme}:{known}" for known in {*gymnasium.registry, *names(scheme)}))
        raise UnknownName(f"{scheme}:{name}: no such environment; {near}") from error
    except ModuleNotFoundError as error:
        raise MissingBackend(f"{scheme}:{name}: {error}; install what it needs") from error
    except (TypeError, gymnasium.error.Error) as error:
        raise SpecError(f"{scheme}:{name}: {error}") from error


def names(scheme: str) -> list[str]:
    """Returns the latest version of each id that gymnasium, or an installed package, has registered."""
    del scheme
    for package in PACKAGES:
        if importlib.util.find_spec(package) is not None:
            with suppress(Exception), warnings.catch_warnings(action="ignore"):  # one that is broken offers none
                importlib.import_module(package)
    latest: dict[str, EnvSpec] = {}
    for spec in gymnasium.registry.values():
        name = f"{spec.namespace}/{spec.name}"
        older = name not in latest or (latest[name].version or 0) < (spec.version or 0)
        if older and spec.name not in _PLACEHOLDERS and spec.namespace != "envoi":  # which has a scheme
            latest[name] = spec
    return sorted(map(_full_id, latest.values()), key=lambda one: (":" in one, "/" in one, one))


def _full_id(spec: EnvSpec) -> str:
    """Returns an id, behind the package that registers it if that is not gymnasium."""
    source = spec.entry_point if isinstance(spec.entry_point, str) else getattr(spec.entry_point, "__module__", "")
    package = source.partition(":")[0].partition(".")[0]
    return f"{package}:{spec.id}" if package in PACKAGES else spec.id
