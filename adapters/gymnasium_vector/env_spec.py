"""The `EnvSpec` of a vector form, from which `gymnasium.make_vec` makes an equal one.

The table of what is in a spec is in `envoi.adapters.gymnasium.env_spec`.
"""

from __future__ import annotations

from typing import Any, cast

from gymnasium.envs.registration import EnvSpec, VectorizeMode
from gymnasium.vector import AutoresetMode, VectorEnv

import envoi
from envoi import Lanes, ModelBatch

from ..gymnasium.entry_point_names import LIMIT_BASE, MAKE_LANES, MAKE_WRAPPED
from ..gymnasium.env_spec import spec_of
from ..gymnasium.source_spec import source_spec
from ..registry import is_of
from ..shared.origin import core_layers


def vector_spec_of(core: Any, mode: AutoresetMode) -> EnvSpec | None:
    """Returns the `EnvSpec` of the vector form of a core batch, for `gymnasium.make_vec`.

    Args:
        core: The core batch.
        mode: The auto-reset mode.

    Returns:
        A spec; None if no spec can describe the environment, its lanes are made differently, or they are agents.
    """
    spec, base, n = spec_of(core), core_layers(core)[-1], core.batch_size
    if spec is None or spec.vector_entry_point == MAKE_LANES:  # made by `make_vec` from such a spec
        return spec
    looped = isinstance(base, Lanes)
    source = getattr(base, "source", None)
    if isinstance(source, VectorEnv) and is_of(source, "gymnasium_vector"):
        if looped:  # a `SyncVectorEnv`, which seeds its environments differently
            spec.kwargs = {**spec.kwargs, "vectorization_mode": VectorizeMode.SYNC.value}
            if n != 1:
                spec.kwargs["num_envs"] = n
            if mode is not AutoresetMode.NEXT_STEP or "vector_kwargs" in spec.kwargs:
                own = spec.kwargs.get("vector_kwargs", {})
                spec.kwargs["vector_kwargs"] = {**own, "autoreset_mode": mode.value}
            return spec
        return _wrapped_batch(spec, base)
    if not looped and not isinstance(base, ModelBatch):
        return None
    try:
        lane: Any = spec.to_json()
    except (TypeError, ValueError):  # an argument that JSON cannot express; the spec itself serves as well
        lane = spec
    kwargs = {"lane": lane, "autoreset_mode": mode.value, "vectorization_mode": "vector_entry_point"}
    if n != 1:
        kwargs["num_envs"] = n
    if spec.max_episode_steps is not None:
        kwargs["max_episode_steps"] = spec.max_episode_steps
    if isinstance(base, envoi.WorkerLanes):
        kwargs["processes"] = base.settings
    if isinstance(base, Lanes) and base.shares_streams:
        kwargs["streams"] = "batch"
    return EnvSpec(
        spec.id,
        vector_entry_point=MAKE_LANES,
        reward_threshold=spec.reward_threshold,
        nondeterministic=spec.nondeterministic,
        max_episode_steps=spec.max_episode_steps,
        order_enforce=spec.order_enforce,
        disable_env_checker=spec.disable_env_checker,
        kwargs=kwargs,
    )


def _wrapped_batch(spec: EnvSpec, base: Any) -> EnvSpec:
    """Returns the spec of core wrappers around a vector environment that a vector entry point made.

    Args:
        spec: The source's spec, with an entry for each wrapper; `make_vec` refuses entries with such an entry point.
        base: The core batch inside the wrappers.

    Returns:
        A spec that makes the vector environment, then the wrappers. `spec` itself if lanes are made one by one, if
        there is no wrapper, or if one cannot be serialised.
    """
    mode = VectorizeMode.VECTOR_ENTRY_POINT.value
    wrappers = [entry for entry in spec.additional_wrappers if entry.entry_point != LIMIT_BASE]
    by_itself = spec.vector_entry_point is not None and spec.kwargs.get("vectorization_mode", mode) == mode
    if not by_itself or not wrappers or any(one.kwargs is None for one in wrappers):
        return spec
    batch = cast("EnvSpec", source_spec(base))
    limit = spec.max_episode_steps
    kwargs: dict[str, Any] = {"vectorization_mode": mode}
    if "num_envs" in batch.kwargs:
        kwargs["num_envs"] = batch.kwargs.pop("num_envs")
    if limit is not None:
        kwargs |= {"max_episode_steps": limit, "limit": limit}
    try:
        kwargs["batch"] = batch.to_json()
    except (TypeError, ValueError):  # as in `vector_spec_of`
        kwargs["batch"] = batch
    spec.kwargs = {**kwargs, "wrappers_inside": [one.kwargs for one in wrappers]}
    spec.vector_entry_point, spec.additional_wrappers = MAKE_WRAPPED, ()
    return spec
