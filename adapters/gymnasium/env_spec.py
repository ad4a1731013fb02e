"""The `EnvSpec` of a gymnasium form, from which `gymnasium.make` makes an equal environment.

| the core environment | its `EnvSpec` |
|---|---|
| imported from gymnasium | the source's own |
| loaded by name, such as `"python:my_module:make_env"` | calls `make_form` with that name and the same arguments |
| a model whose class can be imported and has no constructor | the same, with the name of the class |
| core wrappers around one of these | the same, with them in `kwargs["around"]` |
| a batch of one of these | the spec of one lane, as in a `SyncVectorEnv` |
| anything else | None, as for an environment that is not in gymnasium's registry |

It is also None if `make` could not repeat the environment: if the class of a wrapper cannot be imported, JSON would
change a wrapper's arguments, or a rewarder or a context was set on it. Attributes set by hand, and
`validate=True`, are not in a spec.

`max_episode_steps` is the maximal number of steps in an episode of the form; `gymnasium.make` puts a `TimeLimit` of
as many steps around it. It is None if that would truncate other episodes than the form does.

A spec is computed each time it is read.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from copy import deepcopy
from typing import Any

import gymnasium
from gymnasium.envs.registration import EnvSpec, load_env_creator
from gymnasium.vector import VectorEnv

import envoi
from envoi import (
    AgentLanes,
    Contextual,
    FixedLength,
    Lanes,
    Model,
    ModelBatch,
    MultiEnv,
    MultiModel,
    SpecError,
    as_single,
)
from envoi.structural_equality import structure
from envoi.wrapping.delegate import Around
from envoi.wrapping.one_agent import OneOfMany, Sole

from ..conversion import Origin, context_of, mark, rewarder_of
from ..loading import load
from ..registry import FRAMEWORKS, from_env
from ..shared.introspection import attributes

MAKE = f"{__name__}:make_form"


def spec_of(core: Any, contextual: bool = False) -> EnvSpec | None:
    """Returns the `EnvSpec` of a core environment's form; `contextual` if a `Contextual` around it sets its context."""
    if isinstance(core, AgentLanes):
        return None  # nothing makes such lanes
    origin: Origin | None = core.made_by
    source = source_spec(core)
    if isinstance(core, Lanes) and origin is None and source is None:
        specs = [spec_of(env, contextual) for env in core.members]
        return specs[0] if len({structure(spec and vars(spec)) for spec in specs}) == 1 else None
    if source is not None and (origin is None or origin.name):
        spec = source
    elif origin is not None:
        spec = made_spec(name=origin.name, **origin.arguments) if origin.name else deepcopy(origin.spec)
    elif isinstance(core, (Model, MultiModel, ModelBatch)):
        place = _class_alone(core.model if isinstance(core, ModelBatch) else core)
        spec = None if place is None else made_spec(place.partition(":")[2], name=f"python:{place}")
    else:
        return _spec_around(core, contextual) if isinstance(core, Around) else None
    made = origin or Origin()
    is_as_made = rewarder_of(core) == made.rewarder and (contextual or context_of(core) == made.context)
    if spec is None or not is_as_made:
        return None
    spec.max_episode_steps = spec.max_episode_steps or limit_of(core)
    return spec


def source_spec(core: Any) -> EnvSpec | None:
    """Returns a copy of the spec of the gymnasium source of an import, or None."""
    source = getattr(core, "source", None)
    if not isinstance(source, (gymnasium.Env, VectorEnv)):
        return None
    try:
        return deepcopy(source.spec)
    except Exception:  # any that an author's property, or a copy of their arguments, may raise
        return None


def made_spec(title: str = "", /, **kwargs: Any) -> EnvSpec:
    """Returns a spec that calls `make_form`. Copies the known properties of the environment inside."""
    given = kwargs.get("source")
    inside = EnvSpec("none") if given is None else from_text(given)
    if not title:
        title = inside.id if given is not None else kwargs["name"].partition("?")[0].replace(":", "/", 1)
    namespace, slash, rest = title.rpartition("/") if title.count("/") < 2 else title.partition("/")
    return EnvSpec(
        "".join((namespace, slash, re.sub(r"[^\w:.-]+", "-", rest))),
        entry_point=MAKE,
        reward_threshold=inside.reward_threshold,
        nondeterministic=inside.nondeterministic,
        order_enforce=False,  # forms check the order of calls themselves
        disable_env_checker=True,
        kwargs=kwargs,
    )


def _spec_around(core: Any, contextual: bool) -> EnvSpec | None:
    """Returns the spec of a core wrapper."""
    inner, spec = core.env, spec_of(core.env, contextual or isinstance(core, Contextual))
    if spec is None or isinstance(core, (OneOfMany, Sole)):
        return spec
    while isinstance(inner, (OneOfMany, Sole)):
        inner = inner.env
    entry = _entry(core)
    if entry is None or isinstance(getattr(inner, "source", None), VectorEnv):
        return None
    if spec.entry_point != MAKE or source_spec(inner) is not None:
        spec = made_spec(source=_as_text(spec))
    spec.kwargs["around"] = [*spec.kwargs.get("around", ()), entry]
    spec.max_episode_steps = limit_of(core)
    return spec


def _as_text(spec: EnvSpec) -> str | EnvSpec:
    try:
        return spec.to_json()
    except (TypeError, ValueError):  # an argument that JSON cannot express; the spec itself serves as well
        return spec


def from_text(spec: Any) -> EnvSpec:
    """Returns a spec from its JSON, or a copy of one."""
    return EnvSpec.from_json(spec) if isinstance(spec, str) else deepcopy(spec)


def _entry(wrapper: Any) -> dict[str, Any] | None:
    """Describes a core wrapper as a dict from which `_wrapped` makes it again, or None if JSON cannot express it."""
    kind, args, kwargs = wrapper.construction
    if isinstance(wrapper, Contextual) and getattr(wrapper, "batch_size", None) is not None:
        return None  # its lanes share one selector
    entry: dict[str, Any] = {"wrapper": place_of(kind), "args": [*args], "kwargs": dict(kwargs)}
    if isinstance(wrapper, MultiEnv):
        entry["agent"] = wrapper.possible_agents[0]
    try:
        is_json = json.loads(json.dumps(entry)) == entry
    except (TypeError, ValueError):
        return None
    return entry if is_json and entry["wrapper"] else None


def place_of(kind: Any) -> str | None:
    """Returns the place from which a class can be imported, `"module:name"`, or None."""
    module, name = kind.__module__, kind.__qualname__
    if getattr(envoi, name, None) is kind:
        return f"envoi:{name}"  # the public name, which does not move
    return f"{module}:{name}" if getattr(sys.modules.get(module), name, None) is kind else None


def _class_alone(model: Any) -> str | None:
    """Returns the place of a model's class, or None if the class has a constructor or attributes were set by hand."""
    kind = type(model)
    set_here = [name for name in attributes(model) if name[0] != "_" and name not in ("reward_spec", "made_by")]
    if kind.__init__ is not object.__init__ or kind.__new__ is not object.__new__ or set_here:
        return None
    return place_of(kind)


def limit_of(core: Any) -> int | None:
    """Returns the time limit of a core environment: the most steps of any episode. Returns None without a limit."""
    if isinstance(core, Lanes) and source_spec(core) is None:
        return limit_of(core.members[0])
    if not isinstance(core, Around):
        spec = source_spec(core)
        return None if spec is None else spec.max_episode_steps
    if isinstance(core, FixedLength):  # at its end, an episode that has terminated before is not truncated
        return None
    kind = core.construction[0]
    steps_alone = any("step" in vars(one) and not one.__module__.startswith("envoi.") for one in kind.__mro__)
    found = [None if steps_alone else limit_of(core.env)]
    if isinstance(core, envoi.TimeLimit):
        found.append(core.max_episode_steps)
    elif isinstance(core, Contextual):
        found.append(core.max_episode_length)
    return min((int(one) for one in found if one is not None), default=None)


# What `gymnasium.make` calls.


def make_form(
    name: str = "", *, source: str | EnvSpec | None = None, around: Iterable[Any] = (), **arguments: Any
) -> gymnasium.Env[Any, Any]:
    """Makes an environment by `load(name)` or `gymnasium.make(source)`; returns the form of it inside core wrappers."""
    core: Any = _load(name, **arguments) if source is None else from_env(gymnasium.make(from_text(source), **arguments))
    core = _wrapped(core, around)
    # Now, because gymnasium assigns the spec to a source inside.
    given = {"name": name} if source is None else {"source": source}
    mark(core, spec=made_spec(**given, **arguments, **({"around": [*around]} if around else {})))
    # By the registry, because the modules of the forms import this one.
    return FRAMEWORKS["gymnasium"].adapter.FORM(as_single(core) if isinstance(core, MultiEnv) else core)


def _load(name: str, **arguments: Any) -> Any:
    """Loads an environment. A model has a fixed `render_mode`, so the argument is only compared with that."""
    scheme, _, place = name.partition("?")[0].partition(":")
    is_model = scheme == "envoi"
    if scheme == "python" and "render_mode" in arguments:
        is_model = isinstance(kind := load_env_creator(place), type) and issubclass(kind, (Model, MultiModel))
    if not is_model:
        return load(name, **arguments)
    mode = arguments.pop("render_mode", None)
    core: Any = load(name, **arguments)
    check_render_mode(core, mode)
    return core


def check_render_mode(core: Any, mode: str | None) -> None:
    """Checks a `render_mode` that `gymnasium.make` was given; None accepts any mode."""
    if mode not in (None, core.render_mode):
        model = type(core.unwrapped).__name__
        raise SpecError(f"render_mode: expected {core.render_mode!r}, which {model} has, got {mode!r}")


def _wrapped(core: Any, around: Iterable[Any]) -> Any:
    for entry in around:
        if "agent" in entry and not isinstance(core, MultiEnv):
            core = envoi.as_multi(core, entry["agent"])
        kind: Any = load_env_creator(entry["wrapper"])
        core = kind(core, *entry["args"], **entry["kwargs"])
    return core
