"""The entry points in specs of `envoi.adapters.gymnasium.env_spec`: the functions that `gymnasium.make` calls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
from gymnasium.wrappers import TimeLimit

import envoi
from envoi import as_multi

from ..loading import load
from ..registry import from_env
from ..shared.origin import mark
from . import to_gymnasium
from .episode_limits import limit_of
from .written_values import imported, read


def make_by_name(name: str, **arguments: Any) -> gymnasium.Env[Any, Any]:
    """Makes the form of an environment that `envoi.adapters.load` makes.

    Args:
        name: The environment's name.
        **arguments: Its arguments, as serialised in a spec.
    """
    return to_gymnasium(load(name, **{key: read(value) for key, value in arguments.items()}))


def wrap(
    env: gymnasium.Env[Any, Any],
    *,
    wrapper: str,
    arguments: Mapping[str, Any],
    positional: Any = (),
    agent: Any = None,
) -> gymnasium.Env[Any, Any]:
    """Makes a form with a core wrapper around its core.

    Args:
        env: The form, or another environment of gymnasium.
        wrapper: The wrapper's class, `"module:name"`.
        arguments: Its arguments by name, without the environment, as serialised in a spec.
        positional: Its arguments that can only be passed by position.
        agent: The agent, if the class wraps an environment of several agents; otherwise None.
    """
    core: Any = core_of(env)
    if agent is not None:
        core = as_multi(core, read(agent))
    return to_gymnasium(wrapped(core, wrapper, arguments, positional))


def wrapped(core: Any, wrapper: str, arguments: Mapping[str, Any], positional: Any = ()) -> Any:
    """Returns a core environment with a core wrapper around it.

    Args:
        core: The core environment.
        wrapper: The wrapper's class, `"module:name"`.
        arguments: Its arguments by name, as serialised in a spec.
        positional: Its arguments that can only be passed by position.
    """
    return imported(wrapper)(core, *read(list(positional)), **read(dict(arguments)))


def set_context(env: gymnasium.Env[Any, Any], *, context: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """Makes a form whose environment has another context from the next reset on.

    Args:
        env: The form, or another environment of gymnasium.
        context: The context, as serialised in a spec.
    """
    core: Any = core_of(env)
    core.context = read(dict(context))
    return to_gymnasium(core)


def limit_base(
    env: gymnasium.Env[Any, Any], *, max_episode_steps: int | None, instead_of: int | None
) -> gymnasium.Env[Any, Any]:
    """Replaces the `TimeLimit` that `gymnasium.make` put around an environment by the environment's own limit.

    Args:
        env: The environment, as `make` has it inside the additional wrappers.
        max_episode_steps: Its own limit; None for none.
        instead_of: The limit of the spec. If `env` has another one, it was an argument of `make`, and is kept.
    """
    found = None
    if isinstance(env, TimeLimit) and env.spec is not None:
        found = env.spec.max_episode_steps
    if found != instead_of:
        return env
    bare = env.env if isinstance(env, TimeLimit) else env
    return bare if max_episode_steps is None else TimeLimit(bare, max_episode_steps)


def core_of(env: gymnasium.Env[Any, Any]) -> Any:
    """Returns the core of an environment that `gymnasium.make` has made, with its `TimeLimit` as a core wrapper."""
    from .form import ToGymnasium

    if not (type(env) is TimeLimit and isinstance(env.env, ToGymnasium) and env.spec is not None):
        return from_env(env)
    core, steps = env.env.core, env.spec.max_episode_steps
    limit, exact = limit_of(core)
    if steps is None or (limit is not None and (limit < steps or (exact and limit == steps))):
        return core
    limited = envoi.TimeLimit(core, steps)
    mark(limited, spec=env.spec)
    return limited
