"""Exports to gymnasium and imports from it.

| core | gymnasium |
|---|---|
| `Array`, bounds or none | `Box`; "no bound" is ±inf for each element, or the ends of an unsigned dtype |
| `Discrete`, `MultiDiscrete`, `MultiBinary` | the same |
| `Text`, `Sequence`, `Graph`, `OneOf` | the same |
| dict; tuple, list, named tuple | `Dict` in insertion order; `Tuple` |
| `discount` that is not the default (0 if terminated, else 1) | `info["discount"]` |
| the origin of the environment, and its wrappers | `spec`, see `envoi.adapters.gymnasium.env_spec` |

A space that is made from a spec remembers it, so that names, types of containers and the difference between no bound
and an infinite one are not lost. If the values of a source's space are unchanged, the form has a copy of it, which
samples the same values.

What is lost:

| what | field | how |
|---|---|---|
| complex `Array` leaves | dtype | refused |
| `MultiBinary` leaves with a size of 0 | shape | refused |
| `Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic | dtype | refused |
| leaves that only another framework knows | type | refused |
| several agents | number | refused |

Importing this module registers envoi's models with gymnasium; an id that names the module imports it, in a script too:
`gymnasium.make("envoi.adapters.gymnasium:envoi/CartPole-v0")`.

A batch becomes a vector env (`envoi.adapters.gymnasium_vector`). An import refuses stacked sequences of elements that
are not arrays; a space of a class that only its author knows becomes a `Foreign` spec.
"""

from __future__ import annotations

from typing import Any

import gymnasium

from envoi import Env, MultiEnv

from ..conversion import exported, imported, losses_for, losses_in, one_agent
from ..shared.arrival import Copy
from ..shared.loss import Loss
from .form import ToGymnasium
from .names import load, model_in, names, register_models
from .source import FromGymnasium, bare
from .specs import NAME, from_space, to_space

__all__ = ["FORM", "IMPORTER", "FromGymnasium", "ToGymnasium", "from_gymnasium", "from_space", "load", "losses"]
__all__ += ["names", "recognises", "to_gymnasium", "to_space"]

FORM, IMPORTER = ToGymnasium, FromGymnasium
"""The form and the importer of an environment of one agent and one lane."""

register_models()


def recognises(env: object) -> bool:
    """Returns True for an environment of this framework."""
    return isinstance(env, gymnasium.Env)


def to_gymnasium(env: Any, *, validate: bool = False) -> gymnasium.Env[Any, Any]:
    """Converts any environment to a gymnasium environment.

    Args:
        env: A core environment, or any environment that `envoi.adapters.from_env` recognises.
        validate: If True, every value is checked against its spec, with errors that name leaf, step and episode.

    Returns:
        A `gymnasium.Env` with `.core`. Without `validate`, a gymnasium environment is returned unchanged, and an
        imported one as its source.

    Raises:
        LossyConversion: gymnasium cannot express a part of the environment.
    """
    return exported(env, NAME, FromGymnasium, lambda core: ToGymnasium(core, validate), as_it_is=not validate)


def from_gymnasium(env: gymnasium.Env[Any, Any], *, copy: Copy = "auto") -> Env:
    """Imports a gymnasium environment.

    Args:
        env: The environment, possibly wrapped.
        copy: `True` to copy all observations, `False` to copy none, `"auto"` to copy those that the source still
            holds.

    Returns:
        A core environment with `.source`; if `env` is a form made by envoi, its own core; if it is one of envoi's
        models that `gymnasium.make` made, the model in its time limit.

    Raises:
        SpecError: The environment belongs to another framework, such as a `MultiAgentEnv` of RLlib.
        LossyConversion: A `Sequence` space stacks elements that are not arrays.
    """
    return model_in(env) or imported(env, NAME, ToGymnasium, lambda source: importer(source)(source, copy))


def importer(env: Any) -> type[FromGymnasium]:
    """Returns the importer class for a gymnasium environment; environments of qgym have one of their own."""
    if any(kind.__module__ == "qgym.templates.environment" for kind in type(bare(env)).__mro__):
        from .qgym import FromQgym

        return FromQgym
    return FromGymnasium


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Lists the parts of a core environment that gymnasium cannot express."""
    return losses_for(env, _losses, lambda env: one_agent(env, NAME))


def _losses(env: Env) -> list[Loss]:
    return losses_in({"observation": env.observation_spec, "action": env.action_spec}, to_space)
