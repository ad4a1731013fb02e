"""The rules of every `to_<framework>`, `from_<framework>` and `losses`, once for all frameworks.

An environment of a framework goes there as it is. A core one that came from there, and was not changed since, gives
its source. Any other gets a form. On the way here a form gives its core, an environment of another framework is
refused by name, and any other gets an importer. An argument that asks for more
than the conversion, such as validation, always makes a form.
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
from .shared.core_holder import CoreHolder
from .shared.imported import FromSource
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
    """Returns an environment of a framework that is `env` or represents it; the rule of `to_<framework>`.

    Args:
        env: A core environment, or one of any framework.
        framework: The name of the framework.
        importers: The classes of core environments that came from there.
        form: Makes a form of a core environment.
        as_it_is: Whether an environment of the framework will do as it is; False always makes a form.
        to_core: Makes of `env` a core environment that the framework can take; None for one agent.

    Raises:
        LossyConversion: The framework cannot express a part of it.
    """
    if as_it_is and is_of(env, framework):
        return env
    core = one_agent(from_env(env), framework) if to_core is None else to_core(env)
    source = source_of(core, importers) if as_it_is else None
    return form(core) if source is None else source


def source_of(core: Any, importers: Kinds) -> Any:
    """Returns the source of a core environment that came from a framework and was not changed since; else None.

    Args:
        core: The core environment.
        importers: The classes of core environments that came from there.
    """
    inner = core.env if isinstance(core, Sole) else core
    unchanged = isinstance(inner, importers) and isinstance(inner, FromSource) and inner.is_unchanged
    return inner.source if unchanged else None


def imported(env: Any, framework: str, forms: Kinds, importer: Callable[[Any], Any]) -> Any:
    """Returns a core environment that is `env` or represents it; the rule of `from_<framework>`.

    Args:
        env: An environment of the framework.
        framework: Its name.
        forms: The classes of its forms.
        importer: Makes a core environment of one that is no form.

    Raises:
        SpecError: It is of another framework.
    """
    if isinstance(env, forms) and isinstance(env, CoreHolder):
        return env.core
    refuse_others(env, framework)
    return importer(env)


def losses_in(specs: Mapping[str, SpecTree], convert: Callable[[Any, str], Any]) -> list[Loss]:
    """Returns a loss for each leaf that a framework refuses.

    Args:
        specs: What to convert, by the path that messages name it by.
        convert: `(leaf, path)`; raises a LossyConversion for a leaf that the framework cannot express.
    """
    found: list[Loss] = []
    for what, spec in specs.items():
        for path, leaf in leaves(spec, what):
            try:
                convert(leaf, path)
            except LossyConversion as error:
                found.append(Loss.of(error))
    return found


def losses_for(
    env: Env | MultiEnv,
    losses: Callable[[Core], list[Loss]],
    to_core: Callable[[Env | MultiEnv], Core],
) -> list[Loss]:
    """Returns the losses of an environment as a framework takes it, or the one loss for which none can be made.

    Args:
        env: A core environment.
        losses: The losses of one of as many agents as the framework takes.
        to_core: Makes such a one.
    """
    try:
        core = to_core(env)
    except LossyConversion as error:
        return [Loss.of(error)]
    return losses(core)
