"""gymnasium's vector environments, both ways.

| core | gymnasium |
|---|---|
| specs of one lane | `single_observation_space`, `single_action_space`; batched: `observation_space`, `action_space` |
| values with a leading lane axis | the same; a tuple with one entry a lane for `Text`, `Sequence`, `Graph`, `OneOf` |
| `step(actions, restart=over)` | `NEXT_STEP`: a lane that has ended begins anew in the following step |
| `step(actions)`, then `reset(mask=over)` | `SAME_STEP`: at once; `final_obs` and `final_info` in info tell the end |
| `step(actions)`, `reset(mask=…)` | `DISABLED`: `reset(options={"reset_mask": mask})` |
| infos, one dict a lane | one dict of arrays, each with a mask `_key`; as they were in `infos` |
| `discount` that is not the default (0 if terminated, else 1) | `info["discount"]` of the lanes that say so |
| how the environments were made, and their wrappers | `spec`, see `envoi.adapters.gymnasium.env_spec` |

`reset(options={"reset_mask": mask})` begins the lanes of a mask anew in every mode, and no lane that it began is begun
again by itself. Info keys that are not strings are kept, though some of gymnasium's wrappers cannot read them. Closing
a form closes the core environment; a form that is only forgotten does not.

What is lost:

| what | field | how |
|---|---|---|
| complex `Array` leaves | dtype | refused |
| `MultiBinary` leaves with a size of 0 | shape | refused |
| `Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic | dtype | refused |
| leaves that only another framework knows | type | refused |
| a batch whose lanes cannot begin anew as the auto-reset mode needs | restarts | refused |
| several agents of different spaces | spaces | refused |
| several agents that take turns | turns | refused |

On the way here, a `SyncVectorEnv` becomes its sub-environments, so that every mode can be had from it. Of any other
source only the lanes together can be stepped, see `FromGymnasiumVector`; lanes of different spaces are refused.

At construction a form decides which values need another container. What is left per step is the mode, the infos, and a
look at the discounts.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv

from envoi import (
    AgentLanes,
    Env,
    LossyConversion,
    MultiEnv,
    SpecError,
    batch,
)
from envoi.protocol.batch_env import BatchEnv

from ..conversion import imported, losses_for
from ..gymnasium import losses as lane_losses
from ..registry import from_env, home, is_of
from ..shared.agent_count import acts_at_once, agent_lanes
from ..shared.arrival import Copy
from ..shared.loss import Loss
from .form import ToGymnasiumVector, check_restarts, mode_named
from .source import FromGymnasiumVector
from .specs import NAME
from .sync_source import FromSyncVector, loops_only, mode_of

__all__ = [
    "FORM",
    "IMPORTER",
    "AutoresetMode",
    "FromGymnasiumVector",
    "FromSyncVector",
    "ToGymnasiumVector",
    "from_gymnasium_vector",
    "losses",
    "recognises",
    "to_gymnasium_vector",
]

FORM, IMPORTER = ToGymnasiumVector, FromGymnasiumVector
"""The form and the importer of a batch."""


def recognises(env: object) -> bool:
    """Returns True for an environment of this framework."""
    return isinstance(env, VectorEnv)


def to_gymnasium_vector(
    env: Any,
    n: int | None = None,
    autoreset_mode: AutoresetMode | str | None = None,
    *,
    validate: bool = False,
) -> VectorEnv[Any, Any, Any]:
    """Returns any environment as a gymnasium vector environment.

    Args:
        env: A core environment, single or batched, or one of any framework that `envoi.adapters.from_env` recognises,
            or a function that makes one. A single one is copied for each lane and left as it is. Several agents
            become the lanes.
        n: How many lanes; None for 1, or for as many as `env` has.
        autoreset_mode: How a lane that has ended begins anew. None for `NEXT_STEP`, or for what a vector environment
            of gymnasium does already.
        validate: Check every value against its spec, with an error that names leaf, step and lane.

    Returns:
        A `gymnasium.vector.VectorEnv` with `.core`; the very same object for what came from gymnasium.

    Raises:
        SpecError: `env` has another number of lanes, or cannot be copied.
        LossyConversion: gymnasium cannot express a part of it, or its lanes cannot begin anew as the mode needs.
    """
    mode = None if autoreset_mode is None else mode_named(autoreset_mode)
    if is_of(env, NAME) and not validate and n in (None, env.num_envs) and mode in (None, mode_of(env)):
        return env
    core = batch_of(env, n)
    if isinstance(core, (FromGymnasiumVector, FromSyncVector)) and isinstance(core.source, VectorEnv):
        if mode in (None, core.mode) and core.is_unchanged and not validate:
            return core.source
        mode = mode or core.mode
    return ToGymnasiumVector(core, mode or AutoresetMode.NEXT_STEP, validate)


def batch_of(env: Any, n: int | None, target: str = NAME) -> BatchEnv:
    """Returns the core batch of whatever `to_gymnasium_vector` takes.

    Args:
        env: As for `to_gymnasium_vector`.
        n: As for `to_gymnasium_vector`.
        target: The framework that it goes to, for the errors.

    Raises:
        SpecError: `env` has another number of lanes, or cannot be copied.
        LossyConversion: It has several agents that cannot be lanes.
    """
    made: Callable[[], Any] | None = None
    if isinstance(env, type) or (callable(env) and not hasattr(env, "reset") and home(env) is None):
        first = [from_env(env())]
        core: Any = first[0]
        made = lambda: first.pop() if first else from_env(env())  # noqa: E731
    else:
        core = from_env(env)
    if isinstance(core, MultiEnv):
        core = batch_of_agents(core, target)
    if core.batch_size is None:
        return batch(made or core, 1 if n is None else n)
    if n not in (None, core.batch_size):
        raise SpecError(f"n: expected None or {core.batch_size}, the lanes that env has, got {n}")
    return core


def batch_of_agents(env: MultiEnv, target: str = NAME) -> AgentLanes:
    """Returns the agents of an environment as the lanes of a batch.

    Args:
        env: The environment.
        target: The framework that it goes to, for the errors.

    Raises:
        LossyConversion: The agents differ, or take turns.
    """
    # Where it cannot be known beforehand, the first step in which somebody waits is refused.
    if acts_at_once(env) is False:
        raise LossyConversion("agents", "turns", repr(env), target, "use a form of several agents")
    return agent_lanes(env, target)


def from_gymnasium_vector(env: VectorEnv[Any, Any, Any], *, copy: Copy = "auto") -> BatchEnv:
    """Returns a gymnasium vector environment as a core batch.

    Args:
        env: The environment, wrappers and all.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Returns:
        A core batch with `.source`; the very same object for what came from the core.

    Raises:
        SpecError: It is of another framework.
        LossyConversion: A space is of a kind that only its author knows, or the lanes have different spaces.
    """
    return imported(env, NAME, ToGymnasiumVector, lambda source: _import(source, copy))


def _import(env: Any, copy: Copy) -> BatchEnv:
    return FromSyncVector(env, copy) if loops_only(env) else FromGymnasiumVector(env, copy)


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Returns what of a core environment would not survive the way to a vector env in its default mode, and back."""
    return losses_for(env, _losses, lambda env: batch_of_agents(env) if isinstance(env, MultiEnv) else env)


def _losses(core: Any) -> list[Loss]:
    found = lane_losses(core)
    if core.batch_size is not None:
        try:
            check_restarts(core, getattr(core, "mode", AutoresetMode.NEXT_STEP))
        except LossyConversion as error:
            found.append(Loss.of(error))
    return found
