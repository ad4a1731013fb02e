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

A spec that is made from a core one remembers it. In a foreign spec, a scalar bounded integer is read as a `Discrete`
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
    """Converts any environment to one of dm_env.

    In dm_env `reset` takes no arguments. Seed the first reset by `to_dm_env(env, seed=0)`, and any later one by calling
    the form's `seed(s)` before it; both correspond to the core's `reset(seed=s)`. For options, set the form's
    `reset_options` before a reset.

    Args:
        env: A core environment, or one of any framework that `envoi.adapters.from_env` recognises.
        validate: If True, every value is checked against its spec, with errors that name leaf, step and episode.
        seed: The seed of the next reset, an integer of at least 0, from which all randomness follows; None for no seed.

    Returns:
        A `dm_env.Environment` with `.core`, `.seed(s)`, `.reset_options` and `.info`, see `ToDmEnv`. Without `validate`
        and `seed`, an environment of dm_env is returned as it is, and an import of one gives its source.

    Raises:
        LossyConversion: dm_env cannot express a part of it.
        SpecError: The seed is not an integer of at least 0.
    """
    seed = check_seed(seed)
    as_it_is = not validate and (seed is None or isinstance(env, ToDmEnv))
    form = exported(env, NAME, FromDmEnv, lambda core: ToDmEnv(core, validate), as_it_is)
    if seed is not None:
        form.seed(seed)
    return form


def from_dm_env(env: Any, *, seed: Callable[[int], Any] | None = None, copy: Copy = "auto") -> Env:
    """Imports a dm_env environment.

    dm_env has no seeds. A reset with a seed seeds the source, before the source's own reset, in the first way that is
    available: the function `seed`; a method `seed` of the source; the random generators of the source, its task and its
    wrappers (dm_control, bsuite), as a constructor would from that seed. Without any, it warns.

    Args:
        env: The environment, possibly wrapped; or a function `(seed=…)` that makes one, which is called with None at
            once, and again for each seed.
        seed: A function that seeds the source; called with the integer before the source's reset.
        copy: Whether to copy observations; `"auto"` copies those that the source still holds.

    Returns:
        A core environment with `.source`; for a form of envoi its core, the same object.

    Raises:
        SpecError: The environment belongs to another framework.
        LossyConversion: A spec is not one of dm_env's own, or is of arrays of objects.
    """
    return imported(env, NAME, ToDmEnv, lambda source: FromDmEnv(source, seed, copy))


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Lists the parts of a core environment that dm_env cannot express."""
    return losses_for(env, _losses, lambda env: one_agent(env, NAME))


def _losses(env: Env) -> list[Loss]:
    specs = {"observation": env.observation_spec, "action": env.action_spec, "reward": env.reward_spec}
    return losses_in({**specs, "discount": env.discount_spec}, to_spec)
