"""Makes environments of gymnasium's registry by id."""

from __future__ import annotations

from typing import Any

import gymnasium

from envoi import MissingBackend, SpecError, UnknownName
from envoi.errors import nearest


def load(scheme: str, name: str, **arguments: Any) -> gymnasium.Env[Any, Any]:
    """Makes an environment of gymnasium's registry.

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
        near = nearest(f"{scheme}:{name}", (f"{scheme}:{known}" for known in gymnasium.registry))
        why = str(error) if isinstance(error, gymnasium.error.NamespaceNotFound) else "no such environment"
        raise UnknownName(f"{scheme}:{name}: {why}; {near}") from error
    except ModuleNotFoundError as error:
        raise MissingBackend(f"{scheme}:{name}: {error}; install what it needs") from error
    except (TypeError, gymnasium.error.Error) as error:
        raise SpecError(f"{scheme}:{name}: {error}") from error


def names(scheme: str) -> list[str]:
    """Returns the ids in gymnasium's registry, of each name the latest version.

    Args:
        scheme: `"gymnasium"`.
    """
    del scheme
    latest: dict[str, gymnasium.envs.registration.EnvSpec] = {}
    for spec in gymnasium.registry.values():
        name = f"{spec.namespace}/{spec.name}"
        if name not in latest or (latest[name].version or 0) < (spec.version or 0):
            latest[name] = spec
    return sorted((spec.id for spec in latest.values()), key=lambda one: ("/" in one, one))
