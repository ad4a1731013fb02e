"""Exports to dm_env and imports from it.

| core | dm_env |
|---|---|
| `Array` without bounds; with bounds | `Array`; `BoundedArray` (a missing one is ±inf, or the dtype's extreme) |
| `Discrete` from 0; from another start | `DiscreteArray`; `BoundedArray` |
| `MultiDiscrete`, `MultiBinary` | `BoundedArray` |
| `Text` | `StringArray` of shape () |
| `Strings` (of `envoi.adapters.dm_env.specs`) | `StringArray` |
| dict, tuple, list, named tuple; names | the same |
| reset: observation | `FIRST`, reward and discount None |
| neither flag | `MID` with the discount, whichever it is: a discount of 0 is no termination there |
| terminated | `LAST`, discount 0 |
| truncated only | `LAST`, the discount, or 1 if it is 0 |
| both flags; any other discount | as terminated or truncated; the form's `last` keeps all six values |
| `info` | the form's `info` |
| `reset(seed=s, options=…)` | `to_dm_env(env, seed=s)`; the form's `seed(s)`, `reset_options`, for the next reset |

A spec that is made from a core spec remembers that. In a foreign spec, a scalar bounded integer is read as a `Discrete`
if it is an action and as an `Array` if it is an observation; a `DiscreteArray` is always a `Discrete`. A number of
another type than its spec declares (an integer reward in a float64 spec) is cast if no information is lost.

What is lost:

| what | field | how |
|---|---|---|
| `Sequence`, `Graph`, `OneOf` leaves | type | refused |
| leaves that only another framework knows | type | refused |
| several agents | number | refused |

An import refuses arrays of objects. If a source cannot be seeded (see `from_dm_env`), its import is `unseeded`, and
warns at the first reset with a seed. Reset options reach only envoi's own forms; any other source warns at the first
options, and `validate=True` makes them an error.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import dm_env

from envoi import Env, MultiEnv
from envoi.seeding import check_seed

from ..conversion import exported, imported, losses_for, losses_in, one_agent
from ..shared.arrival import Copy
from ..shared.loss import Loss, UnseededWarning
from .form import ToDmEnv
from .names import load, names
from .source import FromDmEnv
from .specs import NAME, Strings, from_spec, to_spec

__all__ = ["FORM", "IMPORTER", "FromDmEnv", "Strings", "ToDmEnv", "UnseededWarning", "from_dm_env", "from_spec"]
__all__ += ["load", "losses", "names", "recognises", "to_dm_env", "to_spec"]

FORM, IMPORTER = ToDmEnv, FromDmEnv
"""The form and the importer of an environment of one agent and one lane."""


def recognises(env: object) -> bool:
    """Returns True for an environment of this framework."""
    return isinstance(env, dm_env.Environment)


def to_dm_env(env: Any, *, validate: bool = False, seed: int | None = None) -> dm_env.Environment:
    """Converts any environment to a dm_env environment.

    In dm_env, `reset` takes no arguments. Seed the first reset with `to_dm_env(env, seed=0)`; before a later reset,
    call the form's `seed(s)`. Both correspond to the core's `reset(seed=s)`. For options, set the form's
    `reset_options` before a reset.

    Args:
        env: A core environment, or any environment that `envoi.adapters.from_env` recognises.
        validate: If True, every value is checked against its spec, with errors that name leaf, step and episode.
        seed: The seed of the next reset, a non-negative integer that determines all randomness; None for no seed.

    Returns:
        A `dm_env.Environment` with `.core`, `.seed(s)`, `.reset_options` and `.info`, see `ToDmEnv`. Without `validate`
        and `seed`, a dm_env environment is returned unchanged, and an imported one as its source.

    Raises:
        LossyConversion: dm_env cannot express a part of the environment.
        SpecError: The seed is not a non-negative integer.
    """
    seed = check_seed(seed)
    as_it_is = not validate and (seed is None or isinstance(env, ToDmEnv))
    form = exported(env, NAME, FromDmEnv, lambda core: ToDmEnv(core, validate), as_it_is)
    if seed is not None:
        form.seed(seed)
    return form


def from_dm_env(env: Any, *, seed: Callable[[int], Any] | None = None, copy: Copy = "auto") -> Env:
    """Imports a dm_env environment.

    dm_env has no seeds. A reset with a seed first seeds the source, in the first way available: by the function `seed`,
    by the source's method `seed`, or by seeding the random generators of the source, its task and its wrappers
    (dm_control, bsuite) as their constructors would. If none is available, it warns.

    Args:
        env: The environment, possibly wrapped; or a function `(seed=…)` that makes one. It is called with None first,
            and again for each seed.
        seed: A function that seeds the source; called with the integer before the source's reset.
        copy: Whether to copy observations; `"auto"` copies those that the source still holds.

    Returns:
        A core environment with `.source`; if `env` is a form made by envoi, its own core.

    Raises:
        SpecError: The environment belongs to another framework.
        LossyConversion: A spec is not one of dm_env's own, or describes arrays of objects.
    """
    return imported(env, NAME, ToDmEnv, lambda source: FromDmEnv(source, seed, copy))


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Lists the parts of a core environment that dm_env cannot express."""
    return losses_for(env, _losses, lambda env: one_agent(env, NAME))


def _losses(env: Env) -> list[Loss]:
    specs = {"observation": env.observation_spec, "action": env.action_spec, "reward": env.reward_spec}
    return losses_in({**specs, "discount": env.discount_spec}, to_spec)
