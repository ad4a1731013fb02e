"""How a core environment was made, so that a form can say it in its framework's own words."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from envoi import BatchEnv, Env, Lanes, MultiEnv
from envoi.wrapping.delegate import Around
from envoi.wrapping.one_agent import OneOfMany, Sole


@dataclass(frozen=True)
class Origin:
    """The way to make an environment once more, as far as it was when this was written down.

    Attributes:
        name: The name for `envoi.adapters.load`, without arguments; empty where a framework says how.
        arguments: The arguments for `load`.
        spec: The description of a framework, such as an `EnvSpec` of gymnasium.
        rewarder: The rewarder that was set on the environment; None for its own.
        context: The context that was set on it; None for the default.
    """

    name: str = ""
    arguments: Mapping[str, Any] = field(default_factory=dict[str, Any])
    spec: Any = None
    rewarder: Any = None
    context: Mapping[str, Any] | None = None


def core_layers(core: Any) -> list[Any]:
    """A core environment and all that it is wrapped around, outermost first; the last is no wrapper."""
    found = [core]
    while isinstance(found[-1], Around):
        found.append(found[-1].env)
    return found


def innermost(core: Any) -> Any:
    """The environment under all core wrappers; of a loop over lanes that of the first."""
    base = core_layers(core)[-1]
    return innermost(base.envs[0]) if isinstance(base, Lanes) else base


def rewarder_of(core: Any) -> Any:
    """The rewarder that was set on an environment; None for its own."""
    base = innermost(core)
    return None if base._rewarder is None else base.rewarder


def context_of(core: Any) -> Mapping[str, Any] | None:
    """The context that was set on an environment; None where none was, or where each lane may have another."""
    base = innermost(core)
    return None if isinstance(base, BatchEnv) else getattr(base, "_context", None) or None


def origin_of(core: Any) -> Origin | None:
    """How an environment was made, as `mark` has written it down."""
    return core._made_by


def mark(core: Env | MultiEnv, name: str = "", arguments: Mapping[str, Any] | None = None, spec: Any = None) -> None:
    """Writes down on an environment how it was made. Copies, pickles and batches of it keep that.

    Args:
        core: The environment, as it was made.
        name: The name for `envoi.adapters.load`.
        arguments: The arguments for `load`.
        spec: The description of a framework, in the place of a name.
    """
    while isinstance(core, (OneOfMany, Sole)):  # which another conversion takes off
        core = core.env
    core._made_by = Origin(name, dict(arguments or {}), spec, rewarder_of(core), context_of(core))
