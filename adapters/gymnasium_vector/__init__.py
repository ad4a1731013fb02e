"""Exports to gymnasium's vector environments and imports from them.

| core | gymnasium |
|---|---|
| specs of one lane | `single_observation_space`, `single_action_space`; batched: `observation_space`, `action_space` |
| values with a leading axis of n lanes | the same; a tuple of n entries for `Text`, `Sequence`, `Graph`, `OneOf` |
| `step(actions, restart=over)` | `NEXT_STEP`: a lane that has ended is reset in the following step |
| `step(actions)`, then `reset(mask=over)` | `SAME_STEP`: at once; the end is in info, as `final_obs` and `final_info` |
| `step(actions)`, `reset(mask=…)` | `DISABLED`: `reset(options={"reset_mask": mask})` |
| infos, one dict per lane | one dict of arrays, each with a mask `_key`; the form's `infos` has the originals |
| `discount` that is not the default (0 if terminated, else 1) | `info["discount"]` of these lanes |
| the origin of a lane, and its wrappers | `spec`, see `envoi.adapters.gymnasium.env_spec` |

`reset(options={"reset_mask": mask})` resets the lanes of a mask in every mode, and these lanes are not reset again
automatically. Info keys that are not strings are kept, although some of gymnasium's wrappers cannot read them. Closing
a form closes the core environment; deleting it does not.

What is lost:

| what | field | how |
|---|---|---|
| complex `Array` leaves | dtype | refused |
| `MultiBinary` leaves with a size of 0 | shape | refused |
| `Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic | dtype | refused |
| leaves that only another framework knows | type | refused |
| a batch whose lanes cannot be reset as the auto-reset mode requires | restarts | refused |
| several agents of different spaces | spaces | refused |
| several agents that take turns | turns | refused |

An import of a `SyncVectorEnv` consists of its sub-environments, so that it supports every mode. The lanes of any other
source can only be stepped together, see `FromGymnasiumVector`; lanes with different spaces are refused.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gymnasium.vector import AutoresetMode, VectorEnv

from envoi import AgentLanes, Env, LossyConversion, MultiEnv, SpecError, batch
from envoi.protocol.batch_env import BatchEnv

from ..conversion import acts_at_once, imported, losses_for
from ..gymnasium import losses as lane_losses
from ..registry import from_env, home, is_of
from ..shared.arrival import Copy
from ..shared.loss import Loss
from .form import ToGymnasiumVector, check_restarts, mode_named
from .source import FromGymnasiumVector, FromSyncVector, loops_only, mode_of
from .specs import NAME

__all__ = ["FORM", "IMPORTER", "AutoresetMode", "FromGymnasiumVector", "FromSyncVector", "ToGymnasiumVector"]
__all__ += ["from_gymnasium_vector", "losses", "recognises", "to_gymnasium_vector"]

FORM, IMPORTER = ToGymnasiumVector, FromGymnasiumVector
"""The form and the importer of a batch."""


def recognises(env: object) -> bool:
    """Returns True for an environment of this framework."""
    return isinstance(env, VectorEnv)


def to_gymnasium_vector(
    env: Any, n: int | None = None, autoreset_mode: AutoresetMode | str | None = None, *, validate: bool = False
) -> VectorEnv[Any, Any, Any]:
    """Converts any environment to a gymnasium vector environment.

    Args:
        env: A core environment or batch, any environment that `envoi.adapters.from_env` recognises, or a function that
            makes one. A single environment is copied for each lane and is not changed. Multiple agents become lanes.
        n: The number of lanes; by default as many as `env` has, or 1.
        autoreset_mode: The auto-reset mode; by default that of `env` if it is a vector environment of gymnasium or
            Stable-Baselines3, else `NEXT_STEP`.
        validate: If True, every value is checked against its spec, with errors that name leaf, step and lane.

    Returns:
        A `gymnasium.vector.VectorEnv` with `.core`. Without `validate`, and in the same mode, a gymnasium vector
        environment is returned unchanged, and an imported one as its source.

    Raises:
        SpecError: `env` has a number of lanes other than `n`, or cannot be copied.
        LossyConversion: gymnasium cannot express a part of it, or its lanes cannot be reset as the mode requires.
    """
    mode = None if autoreset_mode is None else mode_named(autoreset_mode)
    if is_of(env, NAME) and not validate and n in (None, env.num_envs) and mode in (None, mode_of(env)):
        return env
    core: Any = batch_of(env, n)
    is_import = isinstance(core, (FromGymnasiumVector, FromSyncVector)) and isinstance(core.source, VectorEnv)
    if is_import and mode in (None, core.mode) and core.is_unchanged and not validate:
        return core.source
    return ToGymnasiumVector(core, mode or getattr(core, "mode", AutoresetMode.NEXT_STEP), validate)


def batch_of(env: Any, n: int | None, target: str = NAME) -> BatchEnv:
    """Returns a core batch for the argument of `to_gymnasium_vector`."""
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
    """Returns the agents of an environment as the lanes of a batch."""
    # If it is unknown at this point, the first step in which an agent waits raises an error.
    if acts_at_once(env) is False:
        names = ", ".join(map(str, env.possible_agents))
        raise LossyConversion("agents", "turns", names, target, "use a form of several agents")
    try:
        return AgentLanes(env)
    except SpecError as error:
        raise LossyConversion("agents", "spaces", str(error), target, "use a form of several agents") from error


def from_gymnasium_vector(env: VectorEnv[Any, Any, Any], *, copy: Copy = "auto") -> BatchEnv:
    """Imports a gymnasium vector environment.

    Args:
        env: The environment, possibly wrapped.
        copy: `True` to copy all observations, `False` to copy none, `"auto"` to copy those that the source still
            holds.

    Returns:
        A core batch with `.source`; if `env` is a form made by envoi, its own core.

    Raises:
        SpecError: The environment belongs to another framework.
        LossyConversion: A `Sequence` space stacks elements that are not arrays, or the lanes have different spaces.
    """
    importer = FromSyncVector if loops_only(env) else FromGymnasiumVector
    return imported(env, NAME, ToGymnasiumVector, lambda source: importer(source, copy))


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Lists the parts of a core environment that a vector environment in its default mode cannot express."""
    return losses_for(env, _losses, lambda env: batch_of_agents(env) if isinstance(env, MultiEnv) else env)


def _losses(core: Any) -> list[Loss]:
    found = lane_losses(core)
    if core.batch_size is not None:
        try:
            check_restarts(core, getattr(core, "mode", AutoresetMode.NEXT_STEP))
        except LossyConversion as error:
            found.append(Loss.of(error))
    return found
