"""The common rules of `to_<framework>`, `from_<framework>` and `losses`, for all frameworks.

Export: an environment of the framework is returned unchanged; an unmodified import is replaced by its
source; any other environment gets a form. An argument that requires more than the conversion, such as `validate`,
always makes a form. Import: a form gives its core; an environment of another framework is refused by name; any other
gets an importer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

from envoi import (
    BatchEnv,
    Env,
    Lanes,
    LossyConversion,
    MultiEnv,
    MultiWrapper,
    Rewarder,
    as_single,
)
from envoi.spec import SpecTree
from envoi.tree import children, is_branch
from envoi.wrapping.delegate import Around
from envoi.wrapping.one_agent import OneOfMany, Sole

from .registry import from_env, is_of, refuse_others
from .shared.imported import CoreHolder, FromSource
from .shared.loss import Loss

Kinds = type | tuple[type, ...]
"""A class or several, as `isinstance` takes them."""

Core = TypeVar("Core")


def exported(
    env: Any,
    framework: str,
    importers: Kinds,
    form: Callable[[Any], Any],
    as_it_is: bool = True,
    to_core: Callable[[Any], Any] | None = None,
) -> Any:
    """Exports an environment; the rule of `to_<framework>`."""
    if as_it_is and is_of(env, framework):
        return env
    core = one_agent(from_env(env), framework) if to_core is None else to_core(env)
    source = source_of(core, importers) if as_it_is else None
    return form(core) if source is None else source


def source_of(core: Any, importers: Kinds) -> Any:
    """Returns the source of an import from a framework, or None if `core` is no such import or was modified."""
    inner = core.env if isinstance(core, Sole) else core
    is_import = isinstance(inner, importers) and isinstance(inner, FromSource)
    return inner.source if is_import and inner.is_unchanged else None


def imported(env: Any, framework: str, forms: Kinds, importer: Callable[[Any], Any]) -> Any:
    """Imports an environment; the rule of `from_<framework>`."""
    if isinstance(env, forms) and isinstance(env, CoreHolder):
        return env.core
    refuse_others(env, framework)
    return importer(env)


def losses_in(specs: Mapping[str, SpecTree], convert: Callable[[Any, str], Any]) -> list[Loss]:
    """Returns a loss for each refused leaf or branch, or one for the whole spec if only its nesting is refused."""

    def inside(spec: SpecTree, path: str) -> list[Loss]:
        found = refusal(spec, path, convert)
        if not is_branch(spec):
            return found
        own = [loss for loss in found if loss.path == path]
        return own + [loss for part, _, sub in children(spec) for loss in inside(sub, path + part)]

    return [loss for what, spec in specs.items() for loss in inside(spec, what) or refusal(spec, what, convert)]


def refusal(spec: SpecTree, path: str, convert: Callable[[Any, str], Any]) -> list[Loss]:
    """Returns a list with the loss if a spec cannot be converted, otherwise an empty list."""
    try:
        convert(spec, path)
    except LossyConversion as error:
        return [Loss.of(error)]
    return []


def losses_for(
    env: Env | MultiEnv, losses: Callable[[Core], list[Loss]], to_core: Callable[[Env | MultiEnv], Core]
) -> list[Loss]:
    """Returns the losses of an environment in a framework, after `to_core` has adapted the number of agents."""
    try:
        core = to_core(env)
    except LossyConversion as error:
        return [Loss.of(error)]
    return losses(core)


# The number of agents.


def one_agent(env: Env | MultiEnv, target: str) -> Env:
    """Converts an environment to a single-agent `Env`, for a framework that supports only one agent."""
    if isinstance(env, Env):
        return env
    if len(env.possible_agents) == 1:
        return as_single(env)
    agents = ", ".join(map(str, env.possible_agents))
    raise LossyConversion(
        "agents", "number", agents, target, "use a form of several agents, such as pettingzoo or rllib"
    )


def acts_at_once(env: MultiEnv) -> bool | None:
    """Returns True if all agents in play act simultaneously in every step; None if that is unknown before a reset."""
    while isinstance(env, MultiWrapper):
        env = env.env
    return True if type(env).turn is MultiEnv.turn else getattr(env, "at_once", None)


# The origin of an environment, from which a form describes itself in its framework's terms (`EnvSpec`).


@dataclass(frozen=True)
class Origin:
    """A description from which an environment can be made again, as it was when `mark` recorded it."""

    name: str = ""  # for `envoi.adapters.load`; empty if `spec` describes the environment
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    spec: Any = None  # a framework's description, such as an `EnvSpec` of gymnasium
    rewarder: Any = None  # that was set on the environment; None for its own
    context: Mapping[str, Any] | None = None  # that was set on it; None for the default


def core_layers(core: Any) -> list[Any]:
    """Returns a core environment's wrappers, outermost first, and last the environment inside all of them."""
    found = [core]
    while isinstance(found[-1], Around):
        found.append(found[-1].env)
    return found


def innermost(core: Any) -> Any:
    """Returns the environment inside all core wrappers. For a loop over lanes, looks into the first lane."""
    base = core_layers(core)[-1]
    return innermost(base.members[0]) if isinstance(base, Lanes) else base


def rewarder_of(core: Any) -> Rewarder | None:
    """Returns the rewarder that was set on an environment, or None if it has its own."""
    return cast("Rewarder | None", innermost(core).given_rewarder)


def context_of(core: Any) -> Mapping[str, Any] | None:
    """Returns the context that was set on an environment. Returns None if there is none, and for native batches."""
    base = innermost(core)
    return None if isinstance(base, BatchEnv) else getattr(base, "given_context", None) or None


def mark(core: Env | MultiEnv, name: str = "", arguments: Mapping[str, Any] | None = None, spec: Any = None) -> None:
    """Records on an environment how it was made. Copies, pickles and batches of it keep the record."""
    while isinstance(core, (OneOfMany, Sole)):  # conversions may remove these, so the record goes inside them
        core = core.env
    core.made_by = Origin(name, dict(arguments or {}), spec, rewarder_of(core), context_of(core))
