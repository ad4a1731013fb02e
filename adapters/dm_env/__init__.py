"""dm_env, both ways.

| core | dm_env |
|---|---|
| `Array` without bounds; with bounds | `Array`; `BoundedArray` (a missing one is ±inf, or the dtype's extreme) |
| `Discrete` from 0; from another start | `DiscreteArray`; `BoundedArray` |
| `MultiDiscrete`, `MultiBinary` | `BoundedArray` |
| `Text` | `StringArray` of shape () |
| `Strings` (of `envoi.adapters.dm_env.string_arrays`) | `StringArray` |
| dict, tuple, list, named tuple; names | the same |
| reset: observation | `FIRST`, reward and discount None |
| neither flag | `MID` with the discount, whichever it is: 0 is no termination there |
| terminated | `LAST`, discount 0 |
| truncated only | `LAST`, the discount, or 1 where it is 0 |
| both flags; any other discount | as terminated or truncated; our form keeps all six values in `last` |
| `info` | our form's `info` |
| `reset(seed=s, options=…)` | `to_dm_env(env, seed=s)`; our form's `seed(s)`, `reset_options`, for its next reset |

A spec that comes from a core one remembers it. Of a foreign one, a scalar bounded integer is a `Discrete` as an action
and an `Array` as an observation; a `DiscreteArray` is always a `Discrete`. A number of another type than its spec
declares (an integer reward in a float64 spec) is cast to it where no information is lost.

What is lost:

| what | field | how |
|---|---|---|
| `Sequence`, `Graph`, `OneOf` leaves | type | refused |
| leaves that only another framework knows | type | refused |
| several agents | number | refused |

Refused on the way here: arrays of objects. A source that nothing can seed (see `from_dm_env`) comes with
`unseeded`, and warns at the first reset with a seed. Options of a reset reach envoi's forms alone; a source of others
warns of the first, and `validate=True` makes them an error.

Decided at construction: specs, which values need another container or type, how each is copied. Left for a step: the
core's or the source's own step, the kind of step that it is, and one tuple.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import dm_env

from envoi import Env, MultiEnv
from envoi.seeding import check_seed

from ..conversion import exported, imported, losses_for, losses_in
from ..shared.agent_count import one_agent
from ..shared.arrival import Copy
from ..shared.loss import Loss, UnseededWarning
from .form import ToDmEnv
from .names import load
from .source import FromDmEnv
from .specs import NAME, from_spec, to_spec
from .string_arrays import Strings

__all__ = [
    "FORM",
    "IMPORTER",
    "FromDmEnv",
    "Strings",
    "ToDmEnv",
    "UnseededWarning",
    "from_dm_env",
    "from_spec",
    "load",
    "losses",
    "recognises",
    "to_dm_env",
    "to_spec",
]

FORM, IMPORTER = ToDmEnv, FromDmEnv
"""The form and the importer of an environment of one agent and one lane."""


def recognises(env: object) -> bool:
    """Returns True for an environment of this framework."""
    return isinstance(env, dm_env.Environment)


def to_dm_env(env: Any, *, validate: bool = False, seed: int | None = None) -> dm_env.Environment:
    """Returns any environment as a dm_env one.

    A reset takes no arguments in dm_env. Seed the first one by `to_dm_env(env, seed=0)`, and any later one by calling
    the form's `seed(s)` before it; both are the core's `reset(seed=s)`. Options go the same way, by `reset_options`.

    Args:
        env: A core environment, or one of any framework that `envoi.adapters.from_env` recognises.
        validate: Check every value against its spec, with an error that names leaf, step and episode.
        seed: The seed of the next reset, an integer of at least 0, which fixes everything random from then on; None
            for none.

    Returns:
        A `dm_env.Environment` with `.core`, `.seed(s)`, `.reset_options` and `.info`, see `ToDmEnv`. Without `validate`
        and `seed`, what came from dm_env is returned as the very same object.

    Raises:
        LossyConversion: dm_env cannot express a part of it.
        SpecError: The seed is not an integer of at least 0.
    """
    seed = check_seed(seed)
    if seed is not None and isinstance(env, ToDmEnv) and not validate:
        form = env  # which can be seeded
    else:
        as_it_is = seed is None and not validate
        form = exported(env, NAME, FromDmEnv, lambda core: ToDmEnv(core, validate), as_it_is)
    if seed is not None:
        form.seed(seed)
    return form


def from_dm_env(env: Any, *, seed: Callable[[int], Any] | None = None, copy: Copy = "auto") -> Env:
    """Returns a dm_env environment as a core one.

    dm_env knows no seeds. A reset with one seeds the source, before the source's own reset, in the first of these ways
    that there is: `seed`; a method `seed` of the source; the random generators that the source, its task and its
    wrappers hold (dm_control, bsuite), each as its owner's constructor would. Else it warns.

    Args:
        env: The environment, wrappers and all; or a function `(seed=…)` that makes one, which is called with None now
            and again for every seed.
        seed: Seeds the source: is called with the integer before the source's reset.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Returns:
        A core environment with `.source`; the very same object for what came from the core.

    Raises:
        SpecError: It is of another framework.
        LossyConversion: A spec is of a kind that only its author knows.
    """
    return imported(env, NAME, ToDmEnv, lambda source: _import(source, seed, copy))


def _import(env: Any, seed: Callable[[int], Any] | None, copy: Copy) -> FromDmEnv:
    if callable(env) and not recognises(env):
        factory = cast("Callable[..., dm_env.Environment]", env)
        return FromDmEnv(factory(seed=None), seed, copy, factory)
    return FromDmEnv(cast("dm_env.Environment", env), seed, copy)


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Returns what of a core environment would not survive the way to dm_env and back."""
    return losses_for(env, _losses, lambda env: one_agent(env, NAME))


def _losses(env: Env) -> list[Loss]:
    specs = {"observation": env.observation_spec, "action": env.action_spec, "reward": env.reward_spec}
    return losses_in({**specs, "discount": env.discount_spec}, to_spec)
