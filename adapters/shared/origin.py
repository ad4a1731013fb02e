"""The origin of a core environment, from which a form describes itself in its framework's terms (`EnvSpec`)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envoi import BatchEnv, Env, Lanes, MultiEnv, Rewarder
from envoi.wrapping.delegate import Around
from envoi.wrapping.one_agent import OneOfMany, Sole


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
    """Returns the environment inside all core wrappers; for a loop over lanes, that of the first lane."""
    base = core_layers(core)[-1]
    return innermost(base.envs[0]) if isinstance(base, Lanes) else base


def rewarder_of(core: Any) -> Rewarder | None:
    """Returns the rewarder that was set on an environment, or None if it has its own."""
    found: Rewarder | None = innermost(core).given_rewarder
    return found


def context_of(core: Any) -> Mapping[str, Any] | None:
    """Returns the context that was set on an environment; None if none was, or if lanes may have different ones."""
    base = innermost(core)
    return None if isinstance(base, BatchEnv) else getattr(base, "given_context", None) or None


def mark(core: Env | MultiEnv, name: str = "", arguments: Mapping[str, Any] | None = None, spec: Any = None) -> None:
    """Records on an environment how it was made. Copies, pickles and batches of it keep the record."""
    while isinstance(core, (OneOfMany, Sole)):  # conversions may remove these, so the record goes inside them
        core = core.env
    core.made_by = Origin(name, dict(arguments or {}), spec, rewarder_of(core), context_of(core))
