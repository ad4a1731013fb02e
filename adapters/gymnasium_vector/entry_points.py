"""The entry points in vector specs of `envoi.adapters.gymnasium.env_spec`: functions for `gymnasium.make_vec`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import AutoresetMode, VectorEnv

import envoi

from ..gymnasium.entry_points import core_of, wrapped
from ..gymnasium.source_spec import spec_inside
from ..registry import from_env
from . import to_gymnasium_vector


def make_lanes(
    num_envs: int = 1,
    *,
    lane: str | EnvSpec,
    autoreset_mode: str = AutoresetMode.NEXT_STEP.value,
    max_episode_steps: int | None = None,
    processes: Mapping[str, Any] | None = None,
    streams: Literal["lanes", "batch"] | None = None,
    **arguments: Any,
) -> VectorEnv[Any, Any, Any]:
    """Makes the vector form of environments that `gymnasium.make` makes one by one.

    Args:
        num_envs: The number of lanes.
        lane: The spec of one lane, possibly as JSON.
        autoreset_mode: The auto-reset mode.
        max_episode_steps: The time limit, which replaces the spec's.
        processes: The arguments of `envoi.batch` for lanes in workers; None for a loop.
        streams: As for `envoi.batch`.
        **arguments: More arguments for each lane.
    """
    spec = EnvSpec.from_json(lane) if isinstance(lane, str) else lane
    limit = None if max_episode_steps == spec.max_episode_steps else max_episode_steps
    make = partial(_made, spec, limit, arguments)
    if processes is None and streams is None:
        return to_gymnasium_vector(make, num_envs, autoreset_mode)
    batch = envoi.batch(make, num_envs, **(processes or {}), streams=streams)
    return to_gymnasium_vector(batch, autoreset_mode=autoreset_mode)


def _made(spec: EnvSpec, limit: int | None, arguments: Mapping[str, Any]) -> Any:
    """Makes one lane; a function of this module, because workers are sent its name."""
    return core_of(gymnasium.make(spec, limit, **arguments))


def make_wrapped(*, wrappers_inside: Sequence[Mapping[str, Any]], **arguments: Any) -> VectorEnv[Any, Any, Any]:
    """Makes the vector form of core wrappers around a vector environment that `gymnasium.make_vec` makes.

    Args:
        wrappers_inside: The class and the arguments of each wrapper, as `wrap` takes them, innermost first.
        **arguments: The description of the vector environment, see `spec_inside`.
    """
    from . import to_gymnasium_vector
    from .sync_source import mode_of

    envs = gymnasium.make_vec(spec_inside(**arguments))
    core: Any = from_env(envs)
    for entry in wrappers_inside:
        core = wrapped(core, **entry)
    return to_gymnasium_vector(core, autoreset_mode=mode_of(envs))
