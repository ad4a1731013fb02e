"""Makes environments of gymnasium's registry by id, and registers envoi's single-agent models as `envoi/CartPole-v0`.

Importing `envoi.adapters.gymnasium` registers them. A script that takes an id imports it by the id, before the colon:
`gymnasium.make("envoi.adapters.gymnasium:envoi/CartPole-v0")`. There is no entry point, because gymnasium has read none
since 1.0.

The time limit is in the `EnvSpec`, so that `gymnasium.make(…, max_episode_steps=…)` replaces it. Further arguments are
those of the model, and for `gymnasium.make_vec` also `autoreset_mode`.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import warnings
from contextlib import suppress
from typing import Any

import gymnasium
from gymnasium import wrappers
from gymnasium.envs.registration import EnvSpec

from envoi import MissingBackend, SpecError, TimeLimit, UnknownName
from envoi.errors import nearest

from .. import loading
from ..registry import FRAMEWORKS
from .env_spec import check_render_mode
from .form import ToGymnasium

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


MAKE = f"{__name__}:make_model"

LIMITS = {"Catch": None, "CartPole": 500, "Pendulum": 200, "GridWorld": 100, "Maze": None}
"""The models, each with the time limit in steps of its `EnvSpec`."""


def make_model(
    model: str,
    num_envs: int | None = None,
    *,
    max_episode_steps: int | None = None,
    render_mode: str | None = None,
    autoreset_mode: Any = None,
    **arguments: Any,
) -> Any:
    """Makes a model in gymnasium's form, or for `gymnasium.make_vec` a batch in its vector form."""
    core: Any = loading.load(f"python:envoi.models:{model}", **arguments)
    check_render_mode(core, render_mode)
    if num_envs is None:
        return ToGymnasium(core)
    core = core if max_episode_steps is None else TimeLimit(core, max_episode_steps)
    return FRAMEWORKS["gymnasium_vector"].adapter.to_gymnasium_vector(core, num_envs, autoreset_mode)


def model_in(env: Any) -> TimeLimit | None:
    """Returns the model, in its time limit, that `gymnasium.make` put into an environment; None if it holds none.

    As a core environment it has features for contexts, and lanes that compile.
    """
    if type(env) is not wrappers.TimeLimit or not isinstance(env.env, ToGymnasium):
        return None
    made = env.spec is not None and env.spec.entry_point == MAKE
    return TimeLimit(env.env.core, env._max_episode_steps) if made else None


def register_models() -> None:
    """Registers the models."""
    for model, limit in LIMITS.items():
        gymnasium.register(
            f"envoi/{model}-v0",
            entry_point=MAKE,
            vector_entry_point=MAKE,
            max_episode_steps=limit,
            order_enforce=False,  # forms check the order of calls themselves
            disable_env_checker=True,
            kwargs={"model": model},
        )
