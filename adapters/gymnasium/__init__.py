"""gymnasium, both ways.

| core | gymnasium |
|---|---|
| `Array`, bounds or none | `Box`; "no bound" is ±inf for each element, or the ends of an unsigned dtype |
| `Discrete`, `MultiDiscrete`, `MultiBinary` | the same |
| `Text`, `Sequence`, `Graph`, `OneOf` | the same |
| dict; tuple, list, named tuple | `Dict` in insertion order; `Tuple` |
| `discount` that is not the default (0 if terminated, else 1) | `info["discount"]` |
| how the environment was made, and its wrappers | `spec`, see `envoi.adapters.gymnasium.env_spec` |

A space that comes from a spec remembers it, so names, kinds of branches and the difference between no bound and an
infinite one come back. Where the wrappers of a source leave one of its spaces as it is, the form has a copy of it, so
that it draws what the source's would.

What is lost:

| what | field | how |
|---|---|---|
| complex `Array` leaves | dtype | refused |
| `MultiBinary` leaves with a size of 0 | shape | refused |
| `Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic | dtype | refused |
| leaves that only another framework knows | type | refused |
| several agents | number | refused |

A batch is a vector env (`envoi.adapters.gymnasium_vector`). On the way here, spaces of kinds that only their authors
know, and stacked sequences of what no array holds, are refused.

At construction each form decides which values need another container or type. A step of `ToGymnasium` then only drops
the discount, or says it in `info`; a step of `FromGymnasium` looks whether the observation is as declared and nobody
else's, and converts or copies it where it is not.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from envoi import (
    Env,
    LossyConversion,
    MultiEnv,
)
from envoi.tree import leaves

from ..registry import from_env, is_of, refuse_others
from ..shared.agent_count import one_agent
from ..shared.arrival import Copy
from ..shared.loss import Loss
from .form import ToGymnasium
from .names import load
from .source import FromGymnasium, bare
from .specs import NAME, from_space, to_space

__all__ = [
    "FromGymnasium",
    "ToGymnasium",
    "from_gymnasium",
    "from_space",
    "load",
    "losses",
    "recognises",
    "to_gymnasium",
    "to_space",
]


def recognises(env: object) -> bool:
    """Whether `env` is an environment of this framework."""
    return isinstance(env, gymnasium.Env)


def to_gymnasium(env: Any, *, validate: bool = False) -> gymnasium.Env[Any, Any]:
    """Any environment as a gymnasium one.

    Args:
        env: A core environment, or one of any framework that `envoi.adapters.from_env` recognises.
        validate: Check every value against its spec, with an error that names leaf, step and episode.

    Returns:
        A `gymnasium.Env` with `.core`; the very same object for what came from gymnasium.

    Raises:
        LossyConversion: gymnasium cannot express a part of it.
    """
    if is_of(env, NAME) and not validate:
        return env
    core = one_agent(from_env(env), NAME)
    if isinstance(core, FromGymnasium) and core._rewarder is None and core._context is None and not validate:
        return core.source
    return ToGymnasium(core, validate)


def from_gymnasium(env: gymnasium.Env[Any, Any], *, copy: Copy = "auto") -> Env:
    """A gymnasium environment as a core one.

    Args:
        env: The environment, wrappers and all.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Returns:
        A core environment with `.source`; the very same object for what came from the core.

    Raises:
        SpecError: It is of another framework, such as a `MultiAgentEnv` of RLlib.
        LossyConversion: A space is of a kind that nobody but its author knows.
    """
    if isinstance(env, ToGymnasium):
        return env.core
    refuse_others(env, NAME)
    if any(kind.__module__ == "qgym.templates.environment" for kind in type(bare(env)).__mro__):
        from .qgym import FromQgym

        return FromQgym(env, copy)
    return FromGymnasium(env, copy)


def losses(env: Env | MultiEnv) -> list[Loss]:
    """What of a core environment would not survive the way to gymnasium and back."""
    try:
        env = one_agent(env, NAME)
    except LossyConversion as error:
        return [Loss.of(error)]
    found: list[Loss] = []
    for what, spec in (("observation", env.observation_spec), ("action", env.action_spec)):
        for path, leaf in leaves(spec, what):
            try:
                to_space(leaf, path)
            except LossyConversion as error:
                found.append(Loss.of(error))
    return found
