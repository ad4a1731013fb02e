"""The common rules of `to_<framework>`, `from_<framework>` and `losses`, for all frameworks.

Export: an environment of the framework is returned as it is; an import of one that was not changed since gives its
source; any other environment gets a form. An argument that requires more than the conversion, such as `validate`,
always makes a form. Import: a form gives its core; an environment of another framework is refused by name; any other
gets an importer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from envoi import Env, LossyConversion, MultiEnv
from envoi.spec import SpecTree
from envoi.tree import leaves
from envoi.wrapping.one_agent import Sole

from .registry import from_env, is_of, refuse_others
from .shared.agent_count import one_agent
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
    """Returns the source of an import from a framework that was not changed since, or None."""
    inner = core.env if isinstance(core, Sole) else core
    if isinstance(inner, importers) and isinstance(inner, FromSource) and inner.is_unchanged:
        return inner.source
    return None


def imported(env: Any, framework: str, forms: Kinds, importer: Callable[[Any], Any]) -> Any:
    """Imports an environment; the rule of `from_<framework>`."""
    if isinstance(env, forms) and isinstance(env, CoreHolder):
        return env.core
    refuse_others(env, framework)
    return importer(env)


def losses_in(specs: Mapping[str, SpecTree], convert: Callable[[Any, str], Any]) -> list[Loss]:
    """Returns a loss for each leaf that a framework refuses."""
    found: list[Loss] = []
    for what, spec in specs.items():
        for path, leaf in leaves(spec, what):
            try:
                convert(leaf, path)
            except LossyConversion as error:
                found.append(Loss.of(error))
    return found


def losses_for(
    env: Env | MultiEnv, losses: Callable[[Core], list[Loss]], to_core: Callable[[Env | MultiEnv], Core]
) -> list[Loss]:
    """Returns the losses of an environment in a framework, with its number of agents adapted."""
    try:
        core = to_core(env)
    except LossyConversion as error:
        return [Loss.of(error)]
    return losses(core)
