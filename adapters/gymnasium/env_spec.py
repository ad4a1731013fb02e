"""The `EnvSpec` of a gymnasium form, from which `gymnasium.make` makes an equal environment.

    gymnasium.make(form.spec)
    gymnasium.make(EnvSpec.from_json(form.spec.to_json()))

| the core environment | its `EnvSpec` |
|---|---|
| imported from gymnasium | the source's own |
| made by name, with `envoi.adapters.load` | makes it by that name, with the same arguments |
| a model whose class can be imported and has no constructor | makes an instance of that class |
| anything else | None, as for an environment that is not in gymnasium's registry |
| a core wrapper around one of these | one `WrapperSpec` more, innermost first |
| core wrappers around the result of a `vector_entry_point` | a `vector_entry_point` that makes and wraps it |
| lanes in workers | a `vector_entry_point` that makes them, in as many workers |

If a wrapper has an argument that cannot be serialised (a lambda, an object), its `WrapperSpec` has `kwargs=None`, and
`make` refuses it, as for gymnasium's own wrappers. The same holds for an entry `Rewarder`, which shows that another
rewarder was set, and for a `Contextual` around a batch, whose lanes share one selector. A context that was set on an
environment is an entry `Context`. Attributes changed by hand, and `validate=True`, are not in a spec.

`max_episode_steps` is the maximal number of steps in an episode of the form. `make` puts a `TimeLimit` of that many
steps around the bare environment, inside all wrappers. If that would end episodes at other steps than the form does,
because a wrapper changes the number of steps or reacts to truncations, an entry `BaseLimit` restores the right limit.
It is None for a `FixedLength` made by `load`, which has no wrapper entry to put a limit inside of.

A spec is computed each time it is read.
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

from ..registry import is_of
from ..shared.introspection import own_names
from ..shared.origin import Origin, context_of, core_layers, mark, origin_of, rewarder_of
from .written_values import UnwrittenValue, place_of, written

ENTRY_POINTS = "envoi.adapters.gymnasium.entry_points"
VECTOR_ENTRY_POINTS = "envoi.adapters.gymnasium_vector.entry_points"
BASE_LIMIT = "BaseLimit"


# Reading a spec.


def spec_of(core: Any) -> EnvSpec | None:
    """Returns the `EnvSpec` of the gymnasium form of a core environment.

    Args:
        core: The core environment, of one agent, or a `MultiEnv` of a single one.

    Returns:
        A spec of its own, which the caller may change; None if no spec can describe the environment.
    """
    return _spec(core, any(isinstance(layer, Contextual) for layer in core_layers(core)))


def vector_spec_of(core: Any, mode: AutoresetMode) -> EnvSpec | None:
    """Returns the `EnvSpec` of the vector form of a core batch, for `gymnasium.make_vec`.

    Args:
        core: The core batch.
        mode: The auto-reset mode.

    Returns:
        A spec; None if no spec can describe the environment, its lanes are made differently, or they are agents.
    """
    spec, base, n = spec_of(core), core_layers(core)[-1], core.batch_size
    if (
        spec is None or spec.vector_entry_point == f"{VECTOR_ENTRY_POINTS}:make_lanes"
    ):  # made by `make_vec` from such a spec
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
        vector_entry_point=f"{VECTOR_ENTRY_POINTS}:make_lanes",
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
    """Records the spec that `gymnasium.make` assigns to an environment.

    Args:
        core: The core environment of the form.
        spec: The spec; None for none.
    """
    mark(core, spec=spec)


def _spec(core: Any, contextual: bool) -> EnvSpec | None:
    """Returns the spec of a core environment; `contextual` is True if it may be inside a `Contextual`."""
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
    """Returns the spec of the environment inside all wrappers; None if `core` is a wrapper, or it is not known."""
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
        spec.max_episode_steps = limit  # if not exact, `make`'s `TimeLimit` would end episodes differently
    return spec


def _source_spec(core: Any) -> EnvSpec | None:
    """Returns the spec of the gymnasium source of an import, or None."""
    source = getattr(core, "source", None)
    spec = _copied(source) if isinstance(source, (gymnasium.Env, VectorEnv)) else None
    if spec is not None and spec.vector_entry_point == f"{VECTOR_ENTRY_POINTS}:make_wrapped":
        return spec_inside(**spec.kwargs)  # `make_vec` has made it from such a spec
    return spec


def _copied(source: Any) -> EnvSpec | None:
    try:
        return deepcopy(source.spec)
    except Exception:  # any that an author's property, or a copy of their arguments, may raise
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
        order_enforce=False,  # forms check the order of calls themselves
        disable_env_checker=True,
        kwargs={"name": name, **kwargs},
    )


def _written_or_not(value: Any) -> Any:
    try:
        return written(value)
    except UnwrittenValue:
        return value  # `make` accepts it as it is; only `to_json` fails


def _class_alone(model: Any) -> str | None:
    """Returns the place of a model's class if it describes the model: no constructor, no attributes set by hand."""
    kind = type(model)
    set_here = [name for name in own_names(model) if not name.startswith("_") and name not in ("reward_spec", "origin")]
    if kind.__init__ is not object.__init__ or kind.__new__ is not object.__new__ or set_here:
        return None
    return place_of(kind)


def _settings(core: Any, contextual: bool) -> tuple[WrapperSpec, ...]:
    """Returns entries for the rewarder and context that were set on an environment after its construction."""
    origin, found = origin_of(core) or Origin(), []
    rewarder, context = rewarder_of(core), context_of(core)
    if rewarder != origin.rewarder:
        kind = type(rewarder or envoi.NativeReward)
        found.append(WrapperSpec("Rewarder", f"{kind.__module__}:{kind.__qualname__}", None))
    if context != origin.context and not contextual:  # inside a `Contextual` it is that of the last episode
        try:
            kwargs: Any = {"context": written(dict(context or {}))}
        except UnwrittenValue:
            kwargs = None
        found.append(WrapperSpec("Context", f"{ENTRY_POINTS}:set_context", kwargs))
    return tuple(found)


def _entry(wrapper: Any) -> WrapperSpec:
    """Returns the entry of a core wrapper."""
    kind, args, given = wrapper.construction
    place = place_of(kind)
    try:
        arguments, positional = _named(kind, args, given)
        kwargs: dict[str, Any] = {"wrapper": place, "arguments": written(arguments)}
        if positional:
            kwargs["positional"] = written(positional)
        if isinstance(wrapper, MultiEnv):
            kwargs["agent"] = written(wrapper.possible_agents[0])
    except UnwrittenValue:
        place = None
    if isinstance(wrapper, Contextual) and getattr(wrapper, "batch_size", None) is not None:
        place = None  # its lanes share one selector, but `make_vec` makes lanes separately
    if place is None:
        return WrapperSpec(kind.__name__, f"{kind.__module__}:{kind.__qualname__}", None)
    return WrapperSpec(kind.__name__, f"{ENTRY_POINTS}:wrap", kwargs)


def _named(kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Returns arguments by name, and separately those that can only be passed by position."""
    parameters = list(inspect.signature(kind.__init__).parameters.values())[2:]  # after `self` and `env`
    by_name = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(args) > len(by_name) or any(one.kind is one.POSITIONAL_ONLY for one in parameters):
        return dict(kwargs), list(args)
    return {**dict(zip(by_name, args, strict=False)), **kwargs}, []


# How long episodes are.


def limit_of(core: Any) -> tuple[int | None, bool]:
    """Returns the maximal number of steps in an episode of a core environment.

    Returns:
        The limit, or None; and True if a `TimeLimit` of that many steps around the environment would change nothing.
    """
    if isinstance(core, Lanes) and _source_spec(core) is None:
        return limit_of(core.envs[0])
    if not isinstance(core, Around):
        spec = _source_spec(core)
        return (None if spec is None else spec.max_episode_steps), True
    limit, exact = limit_of(core.env)
    if isinstance(core, FixedLength):
        return core.fix_length, False  # at its end, an episode that has terminated before is not truncated
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
    """Returns True if a lower limit on the bare environment truncates at the same steps as that limit around `core`."""
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
    """Sets a spec's `max_episode_steps`, with an entry by which the bare environment keeps its own limit."""
    entries = list(spec.additional_wrappers)
    known = next((one.kwargs for one in entries if one.entry_point == f"{ENTRY_POINTS}:limit_base"), None)
    if known is not None:
        known["instead_of"] = limit
    else:
        kwargs = {"max_episode_steps": spec.max_episode_steps, "instead_of": limit}
        entries.insert(_within(core_layers(core)[-1]), WrapperSpec(BASE_LIMIT, f"{ENTRY_POINTS}:limit_base", kwargs))
    spec.max_episode_steps, spec.additional_wrappers = limit, tuple(entries)


def _within(base: Any) -> int:
    """Returns the number of wrapper entries of a source inside the wrappers that `gymnasium.make` adds."""
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
