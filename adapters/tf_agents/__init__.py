"""TF-Agents, both ways. Where `tf_agents` is not installed, on the types of `envoi.adapters.tf_agents.types`.

| core | TF-Agents |
|---|---|
| `Array` without bounds, or of bool | `ArraySpec` |
| `Array` with bounds | `BoundedArraySpec`, a bound of ±inf being the largest finite number of the dtype |
| `Discrete`, `MultiDiscrete`, `MultiBinary` | `BoundedArraySpec` |
| dict; tuple, list, named tuple | `OrderedDict` in insertion order; the same |
| names | the same, with `_` for what a tensor's name cannot hold |
| reset: observation | `FIRST`, reward 0, discount 1 |
| neither flag | `MID` with the discount, whichever it is: 0 is no termination there |
| terminated | `LAST`, discount 0 |
| truncated only | `LAST`, the discount, or 1 where it is 0 |
| both flags; a discount of another value | as terminated or truncated; all six values are kept in `last` of our form |
| `info` | `get_info()`, of a batch stacked over its lanes; `infos` is one dict a lane |
| `reset(seed=s, options=…)` | `to_tf_agents(env, seed=s)`; `seed(s)`, `reset_options`, for the next reset |
| snapshots | `get_state()`, `set_state(token)` |
| a batch | `batched`; each lane begins anew in the step after its `LAST` |

A spec that comes from a core one remembers it. Of a foreign one, a scalar bounded integer is a `Discrete` as an action
and an `Array` as an observation; bounds at the largest finite numbers are none. Agents compute with float32, so rewards
and discounts are told in it; `to_tf_agents(env, exact=True)` leaves their dtypes as they are.

What is lost:

| what | field | how |
|---|---|---|
| `Text`, `Sequence`, `Graph`, `OneOf` leaves | type | refused |
| leaves that only another framework knows | type | refused |
| complex and longer than 64-bit leaves | dtype | refused |
| dicts whose keys cannot be sorted | keys | refused |
| float64, and 32-bit and wider integer, rewards and discounts | precision | narrowed |
| several agents | number | refused |

Refused on the way here: leaves that are no `ArraySpec`. A source that nothing can seed (see `from_tf_agents`) comes
with `unseeded`, and warns at the first reset with a seed. Options of a reset reach envoi's forms alone; a source of
others warns of the first, and `validate=True` makes them an error.

Decided at construction: specs, which values need another container or type, how each is copied. Left for a step: the
core's or the source's own step, the kind of step that it is, an array for the reward, and one tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from envoi import Env, MultiEnv

from ..conversion import exported, imported, losses_for
from ..shared.agent_count import one_agent
from ..shared.arrival import Copy
from ..shared.loss import Loss, UnseededWarning
from .batch_form import ToTFAgentsBatch
from .batch_source import FromTFAgentsBatch, FromTFAgentsLanes, from_source
from .form import ToTFAgents
from .source import FromTFAgents
from .specs import NAME, ArraySpec, BoundedArraySpec, PyEnvironment, StepType, TimeStep, from_spec, to_spec
from .specs import losses as _losses

__all__ = [
    "FORM",
    "IMPORTER",
    "ArraySpec",
    "BoundedArraySpec",
    "FromTFAgents",
    "FromTFAgentsBatch",
    "FromTFAgentsLanes",
    "PyEnvironment",
    "StepType",
    "TimeStep",
    "ToTFAgents",
    "ToTFAgentsBatch",
    "UnseededWarning",
    "from_spec",
    "from_tf_agents",
    "losses",
    "recognises",
    "to_spec",
    "to_tf_agents",
]

FORM, IMPORTER = ToTFAgents, FromTFAgents
"""The form and the importer of an environment of one agent and one lane."""


def recognises(env: object) -> bool:
    """Returns True for an environment of this framework."""
    return isinstance(env, PyEnvironment)


def to_tf_agents(
    env: Any, *, validate: bool = False, exact: bool = False, seed: int | Sequence[int | None] | None = None
) -> PyEnvironment:
    """Returns any environment as one of TF-Agents.

    A reset takes no arguments in TF-Agents. Seed the first one by `to_tf_agents(env, seed=0)`, and any later one by
    calling the form's `seed(s)` before it; both are the core's `reset(seed=s)`. Options go the same way, by
    `reset_options`.

    Args:
        env: A core environment or batch, or one of any framework that `envoi.adapters.from_env` recognises.
        validate: Check every value against its spec, with an error that names leaf, step and episode.
        exact: Leave rewards and discounts in their dtypes, and say so in the specs; agents expect float32.
        seed: The seed of the next reset, an integer of at least 0, which fixes everything random from then on; for a
            batch one for all lanes, or one a lane; None for none.

    Returns:
        A `PyEnvironment` with `.core`, `.seed(s)`, `.reset_options` and, batched, for a batch, `.infos`. Without
        `validate`, `exact` and `seed`, what came from TF-Agents is returned as the very same object.

    Raises:
        LossyConversion: TF-Agents cannot express a part of it.
        SpecError: The seed is not an integer of at least 0, or not one a lane.
    """
    if seed is not None and isinstance(env, ToTFAgents) and not (validate or exact):
        form = env  # which can be seeded
    else:
        as_it_is = seed is None and not (validate or exact)
        form = exported(env, NAME, _IMPORTERS, lambda core: _form(core, validate, exact), as_it_is)
    if seed is not None:
        form.seed(seed)
    return form


_IMPORTERS = (FromTFAgents, FromTFAgentsBatch, FromTFAgentsLanes)


def _form(core: Any, validate: bool, exact: bool) -> ToTFAgents:
    return (ToTFAgents if core.batch_size is None else ToTFAgentsBatch)(core, validate, exact)


def from_tf_agents(env: PyEnvironment, *, seed: Callable[[Any], Any] | None = None, copy: Copy = "auto") -> Env:
    """Returns an environment of TF-Agents as a core one.

    A reset with a seed seeds the source, before the source's own reset, in the first of these ways that there is:
    `seed`; the source's method `seed`; the random generators that the source and its wrappers hold. Else it warns.

    Args:
        env: The environment, wrappers and all; a batched one becomes a batch.
        seed: Seeds the source: is called with the integer before the source's reset.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Returns:
        A core environment with `.source`; the very same object for what came from the core.

    Raises:
        SpecError: It is of another framework.
        LossyConversion: A spec is of a kind that only its author knows.
    """
    return imported(env, NAME, ToTFAgents, lambda source: from_source(source, seed, copy))


def losses(env: Env | MultiEnv, exact: bool = False) -> list[Loss]:
    """Returns what of a core environment would not survive the way to TF-Agents and back.

    Args:
        env: The core environment.
        exact: As for `to_tf_agents`.
    """
    return losses_for(env, lambda core: _losses(core, exact), lambda env: one_agent(env, NAME))
