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
from typing import Any

from gymnasium.envs.registration import EnvSpec, WrapperSpec

import envoi
from envoi import Contextual, Lanes, Model, ModelBatch, MultiEnv, MultiModel
from envoi.wrapping.delegate import Around
from envoi.wrapping.one_agent import OneOfMany, Sole

from ..shared.introspection import own_names
from ..shared.origin import Origin, context_of, core_layers, mark, origin_of, rewarder_of
from .entry_point_names import MAKE_BY_NAME, SET_CONTEXT, WRAP
from .episode_limits import limit_of, set_limit
from .source_spec import copied_spec, source_spec
from .written_values import UnwrittenValue, place_of, written


def spec_of(core: Any) -> EnvSpec | None:
    """Returns the `EnvSpec` of the gymnasium form of a core environment.

    Args:
        core: The core environment, of one agent, or a `MultiEnv` of a single one.

    Returns:
        A spec of its own, which the caller may change; None if no spec can describe the environment.
    """
    return _spec(core, any(isinstance(layer, Contextual) for layer in core_layers(core)))


def assign(core: Any, spec: EnvSpec | None) -> None:
    """Records the spec that `gymnasium.make` assigns to an environment.

    Args:
        core: The core environment of the form.
        spec: The spec; None for none.
    """
    mark(core, spec=spec)


def _spec(core: Any, contextual: bool) -> EnvSpec | None:
    """Returns the spec of a core environment; `contextual` is True if it may be inside a `Contextual`."""
    if isinstance(core, Lanes) and origin_of(core) is None and source_spec(core) is None:
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
    set_limit(spec, core)
    return spec


def _base_spec(core: Any) -> EnvSpec | None:
    """Returns the spec of the environment inside all wrappers; None if `core` is a wrapper, or it is not known."""
    spec, origin = source_spec(core), origin_of(core)
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


def _as_made(origin: Origin) -> EnvSpec | None:
    if not origin.name:
        return copied_spec(origin)
    scheme, _, rest = origin.name.partition(":")
    return _by_name(origin.name, origin.arguments, f"{scheme}/{rest}")


def _by_name(name: str, arguments: Mapping[str, Any], title: str) -> EnvSpec:
    namespace, slash, rest = title.rpartition("/") if title.count("/") < 2 else title.partition("/")
    title = "".join((namespace, slash, re.sub(r"[^\w:.-]+", "-", rest)))
    kwargs = {key: _written_or_not(value) for key, value in arguments.items()}
    return EnvSpec(
        title,
        entry_point=MAKE_BY_NAME,
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
        found.append(WrapperSpec("Context", SET_CONTEXT, kwargs))
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
    return WrapperSpec(kind.__name__, WRAP, kwargs)


def _named(kind: type, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> tuple[dict[str, Any], list[Any]]:
    """Returns arguments by name, and separately those that can only be passed by position."""
    parameters = list(inspect.signature(kind.__init__).parameters.values())[2:]  # after `self` and `env`
    by_name = [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]
    if len(args) > len(by_name) or any(one.kind is one.POSITIONAL_ONLY for one in parameters):
        return dict(kwargs), list(args)
    return {**dict(zip(by_name, args, strict=False)), **kwargs}, []
