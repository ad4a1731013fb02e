"""Entry points of the specs that `envoi.adapters.gymnasium.env_spec` writes: what `gymnasium.make` calls."""

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
from .env_spec import limit_of
from .written_values import imported, read


def make_by_name(name: str, **arguments: Any) -> gymnasium.Env[Any, Any]:
    """The form of an environment that `envoi.adapters.load` makes.

    Args:
        name: Its name.
        **arguments: Its arguments, as a spec has them.
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
    """A form with a core wrapper around its core.

    Args:
        env: The form, or another environment of gymnasium.
        wrapper: The class, `"module:name"`.
        arguments: Its arguments by name, but for the environment, as a spec has them.
        positional: Its arguments that have a place only.
        agent: The agent, where the class wraps it as one of several.
    """
    core: Any = core_of(env)
    if agent is not None:
        core = as_multi(core, read(agent))
    return to_gymnasium(wrapped(core, wrapper, arguments, positional))


def wrapped(core: Any, wrapper: str, arguments: Mapping[str, Any], positional: Any = ()) -> Any:
    """Returns a core environment with a core wrapper around it; arguments are as `wrap` takes them."""
    return imported(wrapper)(core, *read(list(positional)), **read(dict(arguments)))


def set_context(env: gymnasium.Env[Any, Any], *, context: Mapping[str, Any]) -> gymnasium.Env[Any, Any]:
    """A form whose environment plays in another context from the next reset on.

    Args:
        env: The form, or another environment of gymnasium.
        context: The context, as a spec has it.
    """
    core: Any = core_of(env)
    core.context = read(dict(context))
    return to_gymnasium(core)


def limit_base(
    env: gymnasium.Env[Any, Any], *, max_episode_steps: int | None, instead_of: int | None
) -> gymnasium.Env[Any, Any]:
    """An environment with its own time limit, in the place of the one that `gymnasium.make` has put around it.

    Args:
        env: The environment, as `make` has it beneath additional wrappers.
        max_episode_steps: Its limit; None for none.
        instead_of: The limit of the spec. Another one was given to `make`, and stays.
    """
    found = None
    if isinstance(env, TimeLimit) and env.spec is not None:
        found = env.spec.max_episode_steps
    if found != instead_of:
        return env
    bare = env.env if isinstance(env, TimeLimit) else env
    return bare if max_episode_steps is None else TimeLimit(bare, max_episode_steps)


def core_of(env: gymnasium.Env[Any, Any]) -> Any:
    """The core of what `gymnasium.make` has made; where it has put a `TimeLimit` around a form, the core with it."""
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
