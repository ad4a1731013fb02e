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

from envoi import Env, MultiEnv

from ..conversion import exported, imported, losses_for, losses_in
from ..shared.agent_count import one_agent
from ..shared.arrival import Copy
from ..shared.loss import Loss
from .form import ToGymnasium
from .names import load
from .source import FromGymnasium, bare
from .specs import NAME, from_space, to_space

__all__ = [
    "FORM",
    "IMPORTER",
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

FORM, IMPORTER = ToGymnasium, FromGymnasium
"""The form and the importer of an environment of one agent and one lane."""


def recognises(env: object) -> bool:
    """Returns True for an environment of this framework."""
    return isinstance(env, gymnasium.Env)


def to_gymnasium(env: Any, *, validate: bool = False) -> gymnasium.Env[Any, Any]:
    """Returns any environment as a gymnasium one.

    Args:
        env: A core environment, or one of any framework that `envoi.adapters.from_env` recognises.
        validate: Check every value against its spec, with an error that names leaf, step and episode.

    Returns:
        A `gymnasium.Env` with `.core`; the very same object for what came from gymnasium.

    Raises:
        LossyConversion: gymnasium cannot express a part of it.
    """
    return exported(env, NAME, FromGymnasium, lambda core: ToGymnasium(core, validate), as_it_is=not validate)


def from_gymnasium(env: gymnasium.Env[Any, Any], *, copy: Copy = "auto") -> Env:
    """Returns a gymnasium environment as a core one.

    Args:
        env: The environment, wrappers and all.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Returns:
        A core environment with `.source`; the very same object for what came from the core.

    Raises:
        SpecError: It is of another framework, such as a `MultiAgentEnv` of RLlib.
        LossyConversion: A space is of a kind that only its author knows.
    """
    return imported(env, NAME, ToGymnasium, lambda source: importer(source)(source, copy))


def importer(env: Any) -> type[FromGymnasium]:
    """Returns the importer of a gymnasium environment: there is one of its own for those of qgym."""
    if any(kind.__module__ == "qgym.templates.environment" for kind in type(bare(env)).__mro__):
        from .qgym import FromQgym

        return FromQgym
    return FromGymnasium


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Returns what of a core environment would not survive the way to gymnasium and back."""
    return losses_for(env, _losses, lambda env: one_agent(env, NAME))


def _losses(env: Env) -> list[Loss]:
    return losses_in({"observation": env.observation_spec, "action": env.action_spec}, to_space)
