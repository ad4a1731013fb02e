"""The table of supported frameworks, each imported on first use."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from envoi import Env, MissingBackend, MultiEnv, SpecError, UnknownName
from envoi.errors import nearest

from .shared.loss import Loss, options_lost


@dataclass(frozen=True)
class Framework:
    """A framework in the registry, with its adapter and its properties.

    Attributes:
        name: The name of the adapter, `envoi.adapters.<name>`, and of `to_<name>` and `from_<name>`.
        package: The Python package that must be importable.
        extra: The extra that installs it: `pip install 'envoi[<extra>]'`.
        schemes: Name schemes that the adapter's `load(scheme, name, **arguments)` and `names(scheme)` support.
        extends: Frameworks that this one inherits from. An environment of both belongs to this one.
        takes_lanes: True if a batch is exported as one environment of n lanes.
        only_lanes: True if all of its environments have lanes; `to_<name>` takes their number as `n`.
        resets_at_end: True if the step that ends a lane's episode also begins its next one; resetting all lanes then
            begins yet another.
        is_target: True if environments can be exported to it; False if they can only be imported from it.
        stands_alone: True if the adapter works without the framework, with types of its own.
    """

    name: str
    package: str
    extra: str = ""
    schemes: tuple[str, ...] = ()
    extends: tuple[str, ...] = ()
    takes_lanes: bool = False
    only_lanes: bool = False
    resets_at_end: bool = False
    is_target: bool = True
    stands_alone: bool = False

    @property
    def in_use(self) -> bool:
        """True if the framework or its adapter has been imported; if not, no object can be one of its environments."""
        if self.package in sys.modules and sys.modules[self.package] is None:  # how an import is forbidden
            return False
        return self.package in sys.modules or f"envoi.adapters.{self.name}" in sys.modules

    @property
    def is_installed(self) -> bool:
        """True if the adapter can be imported."""
        return self.stands_alone or importlib.util.find_spec(self.package) is not None

    def load(self) -> ModuleType:
        """Returns the adapter, `envoi.adapters.<name>`.

        Raises:
            MissingBackend: The framework is not installed.
        """
        if not self.is_installed:
            text = f"{self.package} is not installed; pip install 'envoi[{self.extra}]'"
            raise MissingBackend(text, name=self.package)
        return self.adapter

    @property
    def adapter(self) -> ModuleType:
        """The module `envoi.adapters.<name>`; some can be imported without their framework."""
        return importlib.import_module(f"envoi.adapters.{self.name}")


_POOLS = {"takes_lanes": True, "only_lanes": True, "is_target": False}

FRAMEWORKS = {
    framework.name: framework
    for framework in (
        Framework("gymnasium", "gymnasium", "gymnasium", ("gymnasium",)),
        Framework("gymnasium_vector", "gymnasium", "gymnasium", takes_lanes=True, only_lanes=True),
        Framework("dm_env", "dm_env", "dm-env", ("dm_control", "bsuite")),
        Framework("tf_agents", "tf_agents", "tf-agents", takes_lanes=True, stands_alone=True),
        Framework("pettingzoo", "pettingzoo", "pettingzoo", ("pettingzoo",)),
        Framework("pettingzoo_aec", "pettingzoo", "pettingzoo"),
        Framework("rllib", "ray", "rllib", extends=("gymnasium", "gymnasium_vector"), takes_lanes=True),
        Framework("sb3", "stable_baselines3", "sb3", takes_lanes=True, only_lanes=True, resets_at_end=True),
        Framework("envpool", "envpool", "envpool", ("envpool",), ("gymnasium", "gymnasium_vector", "dm_env"), **_POOLS),
        # Recognised by its methods, so no package of its own has to be importable.
        Framework("gridverse", "envoi", is_target=False),
    )
}
TARGETS = tuple(name for name, row in FRAMEWORKS.items() if row.is_target)


def framework(name: str) -> Framework:
    """Returns a row of the registry by name."""
    if name not in FRAMEWORKS:
        raise UnknownName(f"{name}: no such framework; {nearest(name, FRAMEWORKS)}")
    return FRAMEWORKS[name]


def _target(name: str) -> Framework:
    row = framework(name)
    if not row.is_target:
        raise UnknownName(f"{name}: environments only come from there; {nearest(name, TARGETS)}")
    return row


def home(env: Any) -> Framework | None:
    """Returns the framework of an environment, among those already imported, or None if none recognises it."""
    return next((row for row in reversed(FRAMEWORKS.values()) if is_of(env, row.name)), None)


def is_of(env: Any, name: str) -> bool:
    """Returns True if an environment belongs to a framework, and to no more specific one that extends it.

    RLlib's `MultiAgentEnv` inherits from `gymnasium.Env`; it belongs to RLlib, not to gymnasium.
    """
    row = FRAMEWORKS[name]
    if not (row.in_use and row.adapter.recognises(env)):
        return False
    return not any(is_of(env, other.name) for other in FRAMEWORKS.values() if name in other.extends)


def refuse_others(env: Any, name: str) -> None:
    """Refuses an environment of another framework in `from_<name>`."""
    row = None if is_of(env, name) else home(env)
    if row is not None:
        kind = type(env)
        raise SpecError(
            f"env: expected an environment of {name}, got one of {row.name}, a {kind.__module__}.{kind.__qualname__}; "
            f"use from_{row.name}(env)"
        )


def from_env(env: Any) -> Env | MultiEnv:
    """Imports an environment of any framework. Considers only frameworks that have been imported already.

    Args:
        env: The environment; a core environment is returned unchanged.

    Returns:
        The core environment.

    Raises:
        SpecError: No framework recognises it.
    """
    if isinstance(env, (Env, MultiEnv)):
        return env
    row = home(env)
    if row is not None:
        return getattr(row.adapter, f"from_{row.name}")(env)
    if isinstance(env, str):
        raise SpecError(f"env: expected an environment, got a name; load({env!r}) makes one of it")
    if isinstance(env, type):
        raise SpecError(f"env: expected an environment, got the class {env.__qualname__}; make an instance of it")
    raise SpecError(
        f"env: expected one of: an envoi.Env or envoi.MultiEnv, an environment of {', '.join(FRAMEWORKS)}, "
        f"got a {type(env).__module__}.{type(env).__qualname__}"
    )


def convert(env: Any, target: str, **arguments: Any) -> Any:
    """Converts an environment to a framework: `convert(env, "gymnasium")` is `to_gymnasium(env)`.

    Args:
        env: A core environment, or an environment of any framework.
        target: The framework's name.
        **arguments: Arguments for its `to_…` function.

    Returns:
        The environment of that framework.

    Raises:
        UnknownName: There is no export target of that name.
    """
    return getattr(_target(target).load(), f"to_{target}")(env, **arguments)


def losses(env: Any, target: str) -> list[Loss]:
    """Lists the parts of an environment that a framework cannot express.

    Args:
        env: A core environment, or an environment of any framework. The limits of an import (a source that cannot be
            seeded, or that takes no reset options) are losses for every target.
        target: The framework's name.

    Returns:
        The losses; an empty list if the conversion is lossless.

    Raises:
        UnknownName: There is no export target of that name.
    """
    core, row = from_env(env), _target(target)
    found: list[Loss] = [*getattr(core, "arrival_losses", []), *options_lost(core)]
    if not isinstance(core, Env) or core.batch_size is None or row.takes_lanes:
        return [*found, *row.load().losses(core)]
    hint = "use a form of many lanes, such as gymnasium_vector"
    return [*found, Loss("lanes", "number", f"a batch of {core.batch_size}", target, True, hint)]
