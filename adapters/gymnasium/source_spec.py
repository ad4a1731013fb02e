"""The `EnvSpec` that an environment from gymnasium brings along."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec
from gymnasium.vector import VectorEnv

from .entry_point_names import MAKE_WRAPPED


def source_spec(core: Any) -> EnvSpec | None:
    """Returns the spec of the gymnasium source of an import, or None."""
    source = getattr(core, "source", None)
    spec = copied_spec(source) if isinstance(source, (gymnasium.Env, VectorEnv)) else None
    if spec is not None and spec.vector_entry_point == MAKE_WRAPPED:
        return spec_inside(**spec.kwargs)  # `make_vec` has made it from such a spec
    return spec


def copied_spec(source: Any) -> EnvSpec | None:
    """Returns a copy of the `spec` of an object; None if it has none, or none that can be read and copied."""
    try:
        return deepcopy(source.spec)
    except Exception:  # any that an author's property, or a copy of their arguments, may raise
        return None


def spec_inside(
    *,
    batch: str | EnvSpec,
    num_envs: int = 1,
    limit: int | None = None,
    max_episode_steps: int | None = None,
    vectorization_mode: str = "",
    wrappers_inside: Any = (),
    **arguments: Any,
) -> EnvSpec:
    """Returns the spec of the vector environment inside core wrappers, from the `kwargs` of their spec.

    Args:
        batch: The spec of the vector environment without its number of lanes, possibly as JSON.
        num_envs: The number of lanes.
        limit: The time limit of the form that the spec was read from.
        max_episode_steps: The time limit; if it differs from `limit`, it replaces the vector environment's.
        vectorization_mode: The form's mode; ignored.
        wrappers_inside: The wrappers; ignored.
        **arguments: More arguments for the vector environment.
    """
    spec = EnvSpec.from_json(batch) if isinstance(batch, str) else deepcopy(batch)
    spec.kwargs = {**spec.kwargs, **arguments}
    if num_envs != 1:
        spec.kwargs["num_envs"] = num_envs
    if max_episode_steps != limit:
        spec.kwargs["max_episode_steps"] = max_episode_steps
    return spec
