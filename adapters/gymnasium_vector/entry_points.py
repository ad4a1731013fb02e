"""The functions that `gymnasium.make` and `make_vec` call for the specs of `envoi.adapters.gymnasium.env_spec`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Any, Literal

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import AutoresetMode, VectorEnv

import envoi
from envoi import MultiEnv, as_multi

from ..gymnasium.env_spec import MAKE, from_text, limit_of, made_spec, made_vector_spec
from ..gymnasium.form import ToGymnasium
from ..loading import load
from ..registry import from_env
from ..shared.origin import mark
from .form import ToGymnasiumVector


def make_form(
    name: str = "", *, source: str | EnvSpec | None = None, around: Iterable[Any] = (), **arguments: Any
) -> gymnasium.Env[Any, Any]:
    """Makes the form of an environment that `load`, or `gymnasium.make` of `source`, makes, with core wrappers."""
    core: Any = load(name, **arguments) if source is None else from_env(gymnasium.make(from_text(source), **arguments))
    core = _wrapped(core, around)
    # Now, because gymnasium assigns the spec to a source inside.
    given = {"name": name} if source is None else {"source": source}
    mark(core, spec=made_spec(**given, **arguments, **({"around": [*around]} if around else {})))
    return ToGymnasium(core if not isinstance(core, MultiEnv) else envoi.as_single(core))


def make_vector_form(
    num_envs: int = 1,
    *,
    lane: str | EnvSpec | None = None,
    batch: str | EnvSpec | None = None,
    around: Iterable[Any] = (),
    autoreset_mode: str = AutoresetMode.NEXT_STEP.value,
    max_episode_steps: int | None = None,
    processes: Mapping[str, Any] | None = None,
    streams: Literal["lanes", "batch"] | None = None,
    **arguments: Any,
) -> VectorEnv[Any, Any, Any]:
    """Makes the vector form of lanes that `gymnasium.make` makes, or of what `gymnasium.make_vec` makes of `batch`."""
    if batch is not None:
        spec = from_text(batch)
        spec.kwargs |= {**arguments, "num_envs": num_envs}
        core: Any = _wrapped(from_env(gymnasium.make_vec(spec)), around)
        kwargs: dict[str, Any] = {"batch": batch, "around": [*around], **arguments, "autoreset_mode": autoreset_mode}
        mark(core, spec=made_vector_spec(spec, num_envs, kwargs))
        limit = limit_of(core)
    else:
        spec = from_text(lane)
        limit = spec.max_episode_steps
        core = envoi.batch(partial(_lane, spec, arguments), num_envs, **(processes or {}), streams=streams)
    if max_episode_steps not in (None, limit):
        core = envoi.TimeLimit(core, max_episode_steps)
    return ToGymnasiumVector(core, autoreset_mode)


def _lane(spec: EnvSpec, arguments: Mapping[str, Any]) -> Any:
    """Makes one lane; a function of this module, because workers are sent its name."""
    limit = -1 if spec.entry_point == MAKE else None  # what `make` makes has its limits
    return from_env(gymnasium.make(spec, limit, **arguments))


def _wrapped(core: Any, around: Iterable[Any]) -> Any:
    for entry in around:
        if "agent" in entry and not isinstance(core, MultiEnv):
            core = as_multi(core, entry["agent"])
        kind: Any = entry["wrapper"] if isinstance(entry["wrapper"], type) else load_env_creator(entry["wrapper"])
        core = kind(core, *entry["args"], **entry["kwargs"])
    return core
