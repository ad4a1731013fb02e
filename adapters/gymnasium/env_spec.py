"""gymnasium's `spec` of a form: how `gymnasium.make` makes an environment like it once more.

    gymnasium.make(form.spec)
    gymnasium.make(EnvSpec.from_json(form.spec.to_json()))

| the core environment | its `EnvSpec` |
|---|---|
| came from gymnasium | the source's own |
| came by name, from `envoi.adapters.load` | makes it by that name, with the same arguments |
| is a model whose class can be imported and has no constructor | makes one of that class |
| anything else | None, as of an environment that gymnasium's registry does not know |
| a core wrapper around one of these | one `WrapperSpec` more, innermost first |
| core wrappers around what a `vector_entry_point` makes | a `vector_entry_point` that makes and wraps it |

A wrapper with an argument that cannot be written down (a lambda, an object) has `kwargs=None` in its `WrapperSpec`, and
`make` then refuses, as for such wrappers of gymnasium's own. So has an entry `Rewarder`, which says that another
rewarder was set, and a `Contextual` around a batch, whose lanes share one selector. A context that was set on an
environment is an entry `Context`. Attributes that were changed by hand, and `validate=True`, are not in a spec.

`max_episode_steps` is the most steps that an episode of the form has. `make` puts a `TimeLimit` of as many steps around
the bare environment, beneath all wrappers. Where that would end episodes elsewhere than the form does, because a
wrapper changes the pace or notices truncations, an entry `BaseLimit` puts the right limit back. It is None for what
`load` gives if that is a `FixedLength`, for there is no wrapper around it to put one beneath.

A spec is computed when it is read.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, cast

import gymnasium
from gymnasium.envs.registration import EnvSpec, VectorizeMode, WrapperSpec
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.wrappers import OrderEnforcing, PassiveEnvChecker, TimeLimit

import envoi
from envoi import ActionRepeat, Contextual, FixedLength, Lanes, Model, ModelBatch, MultiEnv, MultiModel
from envoi.wrapping.delegate import Around
from envoi.wrapping.lifted_single import LiftedEnv
from envoi.wrapping.one_agent import OneOfMany, Sole

from ..shared.introspection import own_names
from ..shared.origin import Origin, context_of, core_layers, mark, origin_of, rewarder_of
from .written_values import UnwrittenValue, place_of, written

ENTRY_POINTS = "envoi.adapters.gymnasium.entry_points"
VECTOR_ENTRY_POINTS = "envoi.adapters.gymnasium_vector.entry_points"
BASE_LIMIT = "BaseLimit"


# Reading a spec.


def spec_of(core: Any) -> EnvSpec | None:
    """The spec of the gymnasium form of a core environment; one that the caller may change.

    Args:
        core: The core environment: of one agent, or of several of whom there is one.

    Returns:
        None where nothing says how to make the environment.
    """
    return _spec(core, any(isinstance(layer, Contextual) for layer in core_layers(core)))


def vector_spec_of(core: Any, mode: AutoresetMode) -> EnvSpec | None:
    """The spec of the vector form of a core batch, for `gymnasium.make_vec`.

    Args:
        core: The core batch.
        mode: How a lane that has ended is reset.

    Returns:
        None where nothing says how to make the environment, or its lanes are made differently or are agents.
    """
    spec, base, n = spec_of(core), core_layers(core)[-1], core.batch_size
    if spec is None or spec.vector_entry_point == f"{VECTOR_ENTRY_POINTS}:make_lanes":  # as `make_vec` has made it
        return spec
    looped = isinstance(base, Lanes)
    if isinstance(getattr(base, "source", None), VectorEnv):
        if looped:  # a `SyncVectorEnv`, which seeds its environments in a way of its own
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
    except (TypeError, ValueError):  # an argument that JSON has no word for, but a copy serves
        lane = spec
    kwargs = {"lane": lane, "autoreset_mode": mode.value, "vectorization_mode": "vector_entry_point"}
    if n != 1:
        kwargs["num_envs"] = n
    if spec.max_episode_steps is not None:
        kwargs["max_episode_steps"] = spec.max_episode_steps
    return EnvSpec(
        spec.id,
        vector_entry_point=f"{VECTOR_ENTRY_POINTS}:make_lanes",
        reward_threshold=spec.reward_threshold,
        nondeterministic=spec.nondeterministic,
        max_episode_steps=spec.max_episode_steps,
        order_enforce=spec.order_enforce,
        disable_env_checker=spec.disable_env_checker,
        kwargs=kwargs,
    )


def _wrapped_batch(spec: EnvSpec, base: Any) -> EnvSpec:
    """The spec of core wrappers around a vector environment that a vector entry point made.

    Args:
        spec: That of the source, with an entry for each wrapper, which `make_vec` refuses beside such an entry point.
        base: The core batch inside the wrappers.

    Returns:
        One that makes the vector environment, then the wrappers. `spec` itself where lanes are made one by one, where
        there is no wrapper, and where one cannot be written down.
    """
    mode = VectorizeMode.VECTOR_ENTRY_POINT.value
    wrappers = [entry for entry in spec.additional_wrappers if entry.entry_point != f"{ENTRY_POINTS}:limit_base"]
    by_itself = spec.vector_entry_point is not None and spec.kwargs.get("vectorization_mode", mode) == mode
    if not by_itself or not wrappers or any(one.kwargs is None for one in wrappers):
        return spec
    batch = cast("EnvSpec", _source_spec(base))
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
    spec.vector_entry_point, spec.additional_wrappers = f"{VECTOR_ENTRY_POINTS}:make_wrapped", ()
    return spec


def assign(core: Any, spec: EnvSpec | None) -> None:
    """Takes over the spec that gymnasium's `make` gives an environment when it has made one."""
    mark(core, spec=spec)


def _spec(core: Any, contextual: bool) -> EnvSpec | None:
    """The spec of a core environment, which may lie under a `Contextual`."""
    if isinstance(core, Lanes) and origin_of(core) is None and _source_spec(core) is None:
        specs = [_spec(env, contextual) for env in core.envs]
        return specs[0] if all(spec == specs[0] for spec in specs[1:]) else None
    spec = _base_spec(core)
    if spec is not None:
        spec.additional_wrappers += _settings(core, contextual)
        return spec
    if not isinstance(core, Around) or origin_of(core) is not None:
        return None
    spec = _spec(core.env, contextual)
    if spec is None or isinstance(core, (OneOfMany, Sole)):
        return spec
    spec.additional_wrappers += (_entry(core),)
    limit, exact = limit_of(core)
    if limit != spec.max_episode_steps:
        if exact and _unnoticed(core.env):
            spec.max_episode_steps = limit
        else:
            _limit_the_base(spec, limit, core)
    return spec


def _base_spec(core: Any) -> EnvSpec | None:
    """The spec of what the wrappers lie around; None where that lies further in, or is not known."""
    spec, origin = _source_spec(core), origin_of(core)
    if spec is not None and (origin is None or origin.name):
        return spec
    if origin is not None:
        spec = _as_made(origin)
    elif isinstance(core, (Model, MultiModel, ModelBatch)):
        place = _class_alone(core.model if isinstance(core, ModelBatch) else core)
        spec = None if place is None else _by_name(f"python:{place}", {}, place.rpartition(":")[2])
    limit, exact = limit_of(core)
    if spec is not None and spec.max_episode_steps is None and exact:
        spec.max_episode_steps = limit  # else `make` would end episodes differently by its `TimeLimit`
    return spec


def _source_spec(core: Any) -> EnvSpec | None:
    """The spec of the environment of gymnasium that a core one was made of."""
    source = getattr(core, "source", None)
    spec = _copied(source) if isinstance(source, (gymnasium.Env, VectorEnv)) else None
    if (
        spec is not None and spec.vector_entry_point == f"{VECTOR_ENTRY_POINTS}:make_wrapped"
    ):  # as `make_vec` has made it
        return spec_inside(**spec.kwargs)
    return spec


def _copied(source: Any) -> EnvSpec | None:
    try:
        return deepcopy(source.spec)
    except Exception:  # whatever an author's own property raises, or what a copy of their arguments does
        return None


def _as_made(origin: Origin) -> EnvSpec | None:
    if not origin.name:
        return _copied(origin)
    scheme, _, rest = origin.name.partition(":")
    return _by_name(origin.name, origin.arguments, f"{scheme}/{rest}")


def _by_name(name: str, arguments: Mapping[str, Any], title: str) -> EnvSpec:
    namespace, slash, rest = title.rpartition("/") if title.count("/") < 2 else title.partition("/")
    title = "".join((namespace, slash, re.sub(r"[^\w:.-]+", "-", rest)))
    kwargs = {key: _written_or_not(value) for key, value in arguments.items()}
    return EnvSpec(
        title,
        entry_point=f"{ENTRY_POINTS}:make_by_name",
        order_enforce=False,  # forms do that themselves
        disable_env_checker=True,
        kwargs={"name": name, **kwargs},
    )


def _written_or_not(value: Any) -> Any:
    try:
        return written(value)
    except UnwrittenValue:
        return value  # `make` takes it as it is, and only `to_json` refuses


def _class_alone(model: Any) -> str | None:
    """Where the class of a model is, if that says all: no constructor, and nothing set by hand."""
    kind = type(model)
    set_here = [name for name in own_names(model) if not name.startswith("_") and name not in ("reward_spec", "origin")]
    if kind.__init__ is not object.__init__ or kind.__new__ is not object.__new__ or set_here:
        return None
    return place_of(kind)


def _settings(core: Any, contextual: bool) -> tuple[WrapperSpec, ...]:
    """Entries for what was set on an environment after it had been made."""
    origin, found = origin_of(core) or Origin(), []
    rewarder, context = rewarder_of(core), context_of(core)
    if rewarder != origin.rewarder:
        kind = type(rewarder or envoi.NativeReward)
        found.append(WrapperSpec("Rewarder", f"{kind.__module__}:{kind.__qualname__}", None))
    if context != origin.context and not contextual:  # under a `Contextual` it is that of the last episode
        try:
            kwargs: Any = {"context": written(dict(context or {}))}
        except UnwrittenValue:
            kwargs = None
        found.append(WrapperSpec("Context", f"{ENTRY_POINTS}:set_context", kwargs))
    return tuple(found)


def _entry(wrapper: Any) -> WrapperSpec:
    """The entry of a core wrapper."""
    kind = wrapper._kind
    place = place_of(kind)
    try:
        arguments, positional = _named(kind, *wrapper._arguments)
        kwargs: dict[str, Any] = {"wrapper": place, "arguments": written(arguments)}
        if positional:
            kwargs["positional"] = written(positional)
        if isinstance(wrapper, MultiEnv):
            kwargs["agent"] = written(wrapper.possible_agents[0])
    except UnwrittenValue:
        place = None
    if isinstance(wrapper, Contextual) and getattr(wrapper, "batch_size", None) is not None:
        place = None  # its one selector serves all lanes, which `make_vec` makes each by itself
    if place is None:
        return WrapperSpec(kind.__name__, f"{kind.__module__}:{kind.__qualname__}", None)
    return WrapperSpec(kind.__name__, f"{ENTRY_POINTS}:wrap", kwargs)


def _named(kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Arguments by their names, and beside them those that can only be given by their place."""
    parameters = list(inspect.signature(kind.__init__).parameters.values())[2:]  # after `self` and `env`
    by_name = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(args) > len(by_name) or any(one.kind is one.POSITIONAL_ONLY for one in parameters):
        return dict(kwargs), list(args)
    return {**dict(zip(by_name, args, strict=False)), **kwargs}, []


# How long episodes are.


def limit_of(core: Any) -> tuple[int | None, bool]:
    """The most steps that an episode has, if there is a limit.

    Returns:
        The limit, and whether a `TimeLimit` of as many steps around the environment would change nothing.
    """
    if isinstance(core, Lanes) and _source_spec(core) is None:
        return limit_of(core.envs[0])
    if not isinstance(core, Around):
        spec = _source_spec(core)
        return (None if spec is None else spec.max_episode_steps), True
    limit, exact = limit_of(core.env)
    if isinstance(core, FixedLength):
        return core.fix_length, False  # where it ends an episode that has terminated, nothing is truncated
    own = _own_limit(core)
    if own is not None and (limit is None or own <= limit):
        return own, True
    return limit, exact or isinstance(core, ActionRepeat)


def _own_limit(wrapper: Any) -> int | None:
    if isinstance(wrapper, envoi.TimeLimit):
        return int(wrapper.max_episode_steps)
    limit = wrapper.max_episode_length if isinstance(wrapper, Contextual) else None
    return None if limit is None else int(limit)


def _unnoticed(core: Any) -> bool:
    """Whether a lower limit on the bare environment cuts episodes off just where the same limit around `core` does."""
    for layer in core_layers(core):
        if origin_of(layer) is not None or not isinstance(layer, Around):
            spec = _source_spec(layer)
            return spec is None or not spec.additional_wrappers
        if not isinstance(layer, LiftedEnv) or type(layer).step is not LiftedEnv.step:
            return False
        if layer.truncates and _own_limit(layer) is None:
            return False
    return False


def _limit_the_base(spec: EnvSpec, limit: int | None, core: Any) -> None:
    """Sets `max_episode_steps`, while the bare environment keeps the limit that it has."""
    entries = list(spec.additional_wrappers)
    known = next((one.kwargs for one in entries if one.entry_point == f"{ENTRY_POINTS}:limit_base"), None)
    if known is not None:
        known["instead_of"] = limit
    else:
        kwargs = {"max_episode_steps": spec.max_episode_steps, "instead_of": limit}
        entries.insert(_within(core_layers(core)[-1]), WrapperSpec(BASE_LIMIT, f"{ENTRY_POINTS}:limit_base", kwargs))
    spec.max_episode_steps, spec.additional_wrappers = limit, tuple(entries)


def _within(base: Any) -> int:
    """How many wrappers the entry point of a source brings, beneath those that gymnasium's `make` adds."""
    layer, found = getattr(base, "source", None), 0
    while isinstance(layer, gymnasium.Wrapper):
        if isinstance(layer, (TimeLimit, OrderEnforcing, PassiveEnvChecker)):
            spec = _copied(layer.env)
            found = 0 if spec is None else len(spec.additional_wrappers)
        layer = layer.env
    return found


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
    """The spec of the vector environment inside core wrappers.

    Args:
        batch: It, without its number of lanes, which may be in JSON.
        num_envs: How many lanes.
        limit: The time limit of the form that the spec was read from.
        max_episode_steps: Another one in the place of the vector environment's.
        vectorization_mode: Of the form; not needed here.
        wrappers_inside: The wrappers; not needed here.
        **arguments: More arguments for the vector environment.
    """
    spec = EnvSpec.from_json(batch) if isinstance(batch, str) else deepcopy(batch)
    spec.kwargs = {**spec.kwargs, **arguments}
    if num_envs != 1:
        spec.kwargs["num_envs"] = num_envs
    if max_episode_steps != limit:
        spec.kwargs["max_episode_steps"] = max_episode_steps
    return spec
