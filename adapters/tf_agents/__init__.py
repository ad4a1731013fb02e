"""Exports to TF-Agents and imports from it. Without `tf_agents`, uses the types of `envoi.adapters.tf_agents.types`.

| core | TF-Agents |
|---|---|
| `Array` without bounds, or of bool | `ArraySpec` |
| `Array` with bounds | `BoundedArraySpec`, a bound of ±inf being the largest finite number of the dtype |
| `Discrete`, `MultiDiscrete`, `MultiBinary` | `BoundedArraySpec` |
| dict; tuple, list, named tuple | `OrderedDict` in insertion order; the same |
| names | the same, with `_` for characters that names of tensors cannot have |
| reset: observation | `FIRST`, reward 0, discount 1 |
| neither flag | `MID` with the discount, whichever it is: a discount of 0 is no termination there |
| terminated | `LAST`, discount 0 |
| truncated only | `LAST`, the discount, or 1 if it is 0 |
| both flags; a discount of another value | as terminated or truncated; the form's `last` keeps all six values |
| `info` | `get_info()`, for a batch stacked over its lanes; `infos` is one dict per lane |
| `reset(seed=s, options=…)` | `to_tf_agents(env, seed=s)`; `seed(s)`, `reset_options`, for the next reset |
| snapshots | `get_state()`, `set_state(token)` |
| a batch | `batched`; each lane begins a new episode in the step after its `LAST` |

A spec that is made from a core spec remembers that. In a foreign spec, a scalar bounded integer is read as a `Discrete`
if it is an action and as an `Array` if it is an observation; bounds at the greatest finite numbers are read as none.
Agents compute with float32, so rewards and discounts are converted to it; `to_tf_agents(env, exact=True)` keeps their
dtypes.

What is lost:

| what | field | how |
|---|---|---|
| `Text`, `Sequence`, `Graph`, `OneOf` leaves | type | refused |
| leaves that only another framework knows | type | refused |
| complex and longer than 64-bit leaves | dtype | refused |
| dicts whose keys cannot be sorted | keys | refused |
| float64, and 32-bit and wider integer, rewards and discounts | precision | narrowed |
| several agents | number | refused |

An import refuses leaves that are not an `ArraySpec`. If a source cannot be seeded (see `from_tf_agents`), its import
is `unseeded`, and warns at the first reset with a seed. Reset options reach only envoi's own forms; any other source
warns at the first options, and `validate=True` makes them an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from envoi import Env, MultiEnv

from ..conversion import exported, imported, losses_for, one_agent
from ..shared.arrival import Copy
from ..shared.loss import Loss, UnseededWarning
from .form import ToTFAgents, ToTFAgentsBatch
from .source import FromTFAgents, FromTFAgentsBatch, FromTFAgentsLanes, from_source
from .specs import NAME, ArraySpec, BoundedArraySpec, PyEnvironment, StepType, TimeStep, from_spec, to_spec
from .specs import losses as _losses

__all__ = ["FORM", "IMPORTER", "ArraySpec", "BoundedArraySpec", "FromTFAgents", "FromTFAgentsBatch"]
__all__ += ["FromTFAgentsLanes", "PyEnvironment", "StepType", "TimeStep", "ToTFAgents", "ToTFAgentsBatch"]
__all__ += ["UnseededWarning", "from_spec", "from_tf_agents", "losses", "recognises", "to_spec", "to_tf_agents"]

FORM, IMPORTER = ToTFAgents, FromTFAgents
"""The form and the importer of an environment of one agent and one lane."""


def recognises(env: object) -> bool:
    """Returns True for an environment of this framework."""
    return isinstance(env, PyEnvironment)


def to_tf_agents(
    env: Any, *, validate: bool = False, exact: bool = False, seed: int | Sequence[int | None] | None = None
) -> PyEnvironment:
    """Converts any environment to a TF-Agents environment.

    In TF-Agents, `reset` takes no arguments. Seed the first reset with `to_tf_agents(env, seed=0)`; before a later
    reset, call the form's `seed(s)`. Both correspond to the core's `reset(seed=s)`. For options, set the form's
    `reset_options` before a reset.

    Args:
        env: A core environment or batch, or any environment that `envoi.adapters.from_env` recognises.
        validate: If True, every value is checked against its spec, with errors that name leaf, step and episode.
        exact: If True, rewards and discounts keep their dtypes, also in the specs; agents expect float32.
        seed: The seed of the next reset, a non-negative integer that determines all randomness; for a batch, one
            integer for all lanes or one per lane. None for no seed.

    Returns:
        A `PyEnvironment` with `.core`, `.seed(s)`, `.reset_options` and, for a batch, `.infos`. Without `validate`,
        `exact` and `seed`, a TF-Agents environment is returned unchanged, and an imported one as its source.

    Raises:
        LossyConversion: TF-Agents cannot express a part of the environment.
        SpecError: A seed is not a non-negative integer, or the number of seeds differs from the number of lanes.
    """

    def made(core: Any) -> ToTFAgents:
        return (ToTFAgents if core.batch_size is None else ToTFAgentsBatch)(core, validate, exact)

    # A form takes a seed, but a source of TF-Agents may not.
    as_it_is = not (validate or exact) and (seed is None or isinstance(env, ToTFAgents))
    form = exported(env, NAME, (FromTFAgents, FromTFAgentsBatch, FromTFAgentsLanes), made, as_it_is)
    if seed is not None:
        form.seed(seed)
    return form


def from_tf_agents(env: PyEnvironment, *, seed: Callable[[Any], Any] | None = None, copy: Copy = "auto") -> Env:
    """Imports a TF-Agents environment.

    A reset with a seed first seeds the source, in the first way available: by the function `seed`, by the source's
    method `seed`, or by seeding the random generators of the source and its wrappers. If none is available, it warns.

    Args:
        env: The environment, possibly wrapped; a batched one becomes a batch.
        seed: A function that seeds the source; called with the integer before the source's reset.
        copy: Whether to copy observations; `"auto"` copies those that the source still holds.

    Returns:
        A core environment with `.source`; if `env` is a form made by envoi, its own core.

    Raises:
        SpecError: The environment belongs to another framework.
        LossyConversion: A spec is not an `ArraySpec` of numbers.
    """
    return imported(env, NAME, ToTFAgents, lambda source: from_source(source, seed, copy))


def losses(env: Env | MultiEnv, exact: bool = False) -> list[Loss]:
    """Lists the parts of a core environment that TF-Agents cannot express.

    Args:
        env: The core environment.
        exact: As for `to_tf_agents`.
    """
    return losses_for(env, lambda core: _losses(core, exact), lambda env: one_agent(env, NAME))
