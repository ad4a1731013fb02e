"""The frameworks there are, looked at only when they are asked for."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from envoi import Env, MissingBackend, MultiEnv, SpecError, UnknownName
from envoi.errors import nearest

from .shared.loss import Loss


@dataclass(frozen=True)
class Framework:
    """A row of the registry.

    Attributes:
        name: The name of the spoke, `envoi.adapters.<name>`, and of `to_<name>` and `from_<name>`.
        package: What must be importable.
        extra: What to install: `pip install 'envoi[<extra>]'`.
        schemes: The schemes of names that its `load(scheme, name, **arguments)` makes environments of.
        extends: The frameworks whose environments its own are by inheritance; such an environment is its own first.
        takes_lanes: Whether batches go there as such.
        is_target: Whether environments go there too; otherwise they only come from there.
        stands_alone: The spoke works, on types of its own, where the framework is not installed.
    """

    name: str
    package: str
    extra: str = ""
    schemes: tuple[str, ...] = ()
    extends: tuple[str, ...] = ()
    takes_lanes: bool = False
    is_target: bool = True
    stands_alone: bool = False

    @property
    def in_use(self) -> bool:
        """Whether one of its environments can exist: somebody imported the framework, or its spoke."""
        if self.package in sys.modules and sys.modules[self.package] is None:  # how an import is forbidden
            return False
        return self.package in sys.modules or f"envoi.adapters.{self.name}" in sys.modules

    def load(self) -> ModuleType:
        """The spoke's module.

        Raises:
            MissingBackend: The framework is not installed.
        """
        if not self.stands_alone and importlib.util.find_spec(self.package) is None:
            raise MissingBackend(f"{self.package} is not installed; pip install 'envoi[{self.extra}]'")
        return importlib.import_module(f"envoi.adapters.{self.name}")


FRAMEWORKS = {
    framework.name: framework
    for framework in (
        Framework("gymnasium", "gymnasium", "gymnasium", ("gymnasium",)),
        Framework("gymnasium_vector", "gymnasium", "gymnasium", takes_lanes=True),
        Framework("dm_env", "dm_env", "dm-env", ("dm_control", "bsuite")),
        Framework("tf_agents", "tf_agents", "tf-agents", takes_lanes=True, stands_alone=True),
        Framework("pettingzoo", "pettingzoo", "pettingzoo", ("pettingzoo",)),
        Framework("pettingzoo_aec", "pettingzoo", "pettingzoo"),
        Framework("rllib", "ray", "rllib", extends=("gymnasium", "gymnasium_vector"), takes_lanes=True),
        # By its methods, so whatever is imported.
        Framework("gridverse", "envoi", is_target=False),
    )
}
TARGETS = tuple(name for name, row in FRAMEWORKS.items() if row.is_target)


def framework(name: str) -> Framework:
    """The framework of a name.

    Raises:
        UnknownName: There is none; the message lists near names.
    """
    if name not in FRAMEWORKS:
        raise UnknownName(f"{name}: no such framework; {nearest(name, FRAMEWORKS)}")
    return FRAMEWORKS[name]


def _target(name: str) -> Framework:
    row = framework(name)
    if not row.is_target:
        raise UnknownName(f"{name}: environments only come from there; {nearest(name, TARGETS)}")
    return row


def home(env: Any) -> Framework | None:
    """The framework of an environment, of those that are imported already; None where none recognises it."""
    return next((row for row in reversed(FRAMEWORKS.values()) if is_of(env, row.name)), None)


def is_of(env: Any, name: str) -> bool:
    """Whether an environment is of a framework, and not of a more specific one that extends it.

    A `MultiAgentEnv` of RLlib inherits from `gymnasium.Env`; it is of RLlib, and not of gymnasium.

    Args:
        env: Anything.
        name: The framework's name.
    """
    row = FRAMEWORKS[name]
    if not (row.in_use and row.load().recognises(env)):
        return False
    return not any(is_of(env, other.name) for other in FRAMEWORKS.values() if name in other.extends)


def refuse_others(env: Any, name: str) -> None:
    """Refuses the environment of another framework, for `from_<name>`.

    Args:
        env: What `from_<name>` was given. What no framework recognises passes: it may behave like its environments.
        name: The framework that it should be of.

    Raises:
        SpecError: It is of another framework, whose `from_…` the message names.
    """
    row = None if is_of(env, name) else home(env)
    if row is not None:
        kind = type(env)
        raise SpecError(
            f"env: expected an environment of {name}, got one of {row.name}, a {kind.__module__}.{kind.__qualname__}; "
            f"use from_{row.name}(env)"
        )


def from_env(env: Any) -> Env | MultiEnv:
    """An environment of any framework as a core one. Looks only at frameworks that are imported already.

    Args:
        env: The environment; a core one is returned as it is.

    Raises:
        SpecError: Nothing recognises it.
    """
    if isinstance(env, (Env, MultiEnv)):
        return env
    row = home(env)
    if row is not None:
        return getattr(row.load(), f"from_{row.name}")(env)
    if isinstance(env, str):
        raise SpecError(f"env: expected an environment, got a name; load({env!r}) makes one of it")
    if isinstance(env, type):
        raise SpecError(f"env: expected an environment, got the class {env.__qualname__}; make an instance of it")
    kinds = ["a core envoi.Env or envoi.MultiEnv", *(f"an environment of {row.name}" for row in FRAMEWORKS.values())]
    looked = ", ".join(name for name in dir(env) if not name.startswith("_"))[:200]
    raise SpecError(
        f"env: expected one of: {', '.join(kinds)}; got a {type(env).__module__}.{type(env).__qualname__} "
        f"with {looked or 'no public attributes'}"
    )


def convert(env: Any, target: str, **arguments: Any) -> Any:
    """Any environment in the form of a framework: `convert(env, "gymnasium")` is `to_gymnasium(env)`.

    Args:
        env: A core environment or one of any framework.
        target: The framework's name.
        **arguments: For its `to_…`.

    Raises:
        UnknownName: There is no such target.
    """
    return getattr(_target(target).load(), f"to_{target}")(env, **arguments)


def losses(env: Any, target: str) -> list[Loss]:
    """What of an environment would not survive the way to a framework and back; empty is lossless.

    Args:
        env: A core environment or one of any framework. What one that was brought here cannot do (be seeded,
            where nothing can seed its source; be reset with options, where that knows none) is lost on every way.
        target: The framework's name.

    Raises:
        UnknownName: There is no such target.
    """
    from .shared.reset_options import options_lost  # which imports what forms share

    core, row = from_env(env), _target(target)
    spokes = [one.load() for one in FRAMEWORKS.values() if one.in_use]
    arrived = [loss for spoke in spokes if hasattr(spoke, "arrival_losses") for loss in spoke.arrival_losses(core)]
    if isinstance(core, Env) and core.batch_size is not None and not row.takes_lanes:
        hint = "use a form of many lanes, such as gymnasium_vector"
        lanes = Loss("lanes", "number", f"a batch of {core.batch_size}", target, True, hint)
        return [*arrived, *options_lost(core), lanes]
    return [*arrived, *options_lost(core), *row.load().losses(core)]
