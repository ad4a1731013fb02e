"""Delegation to the environment inside."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from operator import attrgetter
from typing import Any, ClassVar, Generic, Self, TypeVar, cast

from ..errors import ContextError, SpecError
from ..protocol.fast_steps import program_of
from ..protocol.process import Process, Snapshot
from ..spec import SpecTree
from ..spec.base import shown
from ..steps.program import Program


def set_once(name: str, advice: str) -> Any:
    """Returns a property that cannot be set after construction, because specs and steps depend on it."""
    attribute = f"_{name}_inside"

    def put(holder: Any, value: Any) -> None:
        if getattr(holder, attribute, value) is not value:
            raise AttributeError(f"{name}: {type(holder).__name__} keeps the one that it was made with; {advice}")
        setattr(holder, attribute, value)

    return property(attrgetter(attribute), put)


@cache
def _declared(kind: type, names: str) -> list[str]:
    return [name for base in kind.__mro__ for name in vars(base).get(names, ())]


class Inner:
    """An attribute that is read from the inner environment until the outer environment sets its own."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, outer: Any, owner: type) -> Any:
        return self if outer is None else getattr(outer._env_inside, self._name)


def inner_property(name: str) -> Any:
    """Returns a property that reads and sets an attribute of the inner environment."""

    def put(outer: Any, value: Any) -> None:
        setattr(outer._env_inside, name, value)

    return property(attrgetter(f"_env_inside.{name}"), put)


Inside = TypeVar("Inside", bound=Process)
"""The type of the inner environment."""


class Around(Process, Generic[Inside]):
    """An environment that delegates everything except resets and steps to an inner environment.

    Attributes:
        env: The environment inside.
        memory: The names of attributes that change during an episode, for snapshots to include.
        fixed: The names of attributes on which `memory` depends; snapshots restore only where they are equal.
    """

    env: Inside = set_once("env", "make a new wrapper, as by wrapper.over(env)")
    memory: ClassVar[tuple[str, ...]] = ()
    fixed: ClassVar[tuple[str, ...]] = ("observation_spec", "action_spec")

    observation_spec: Any = Inner()
    action_spec: Any = Inner()
    reward_spec: Any = Inner()
    discount_spec: Any = Inner()
    state_spec: Any = Inner()
    metadata: Any = Inner()
    render_mode: Any = Inner()
    context_space: Any = Inner()
    takes_options: Any = Inner()
    untaken: Any = Inner()
    put_context: Any = Inner()
    assign_lane: Any = Inner()
    render: Any = Inner()
    close: Any = Inner()
    reports_ends: Any = Inner()
    ended_outside: Any = Inner()
    state = inner_property("state")  # pyright: ignore[reportIncompatibleMethodOverride]
    rewarder = inner_property("rewarder")  # pyright: ignore[reportIncompatibleMethodOverride]
    rng = inner_property("rng")  # pyright: ignore[reportIncompatibleMethodOverride]
    streams = inner_property("streams")  # pyright: ignore[reportIncompatibleMethodOverride]
    is_unchanged = inner_property("is_unchanged")  # pyright: ignore[reportIncompatibleMethodOverride]
    declared_reward_spec = inner_property("declared_reward_spec")  # pyright: ignore[reportIncompatibleMethodOverride]
    unwrapped = inner_property("unwrapped")  # pyright: ignore[reportIncompatibleMethodOverride]

    wrapper_depth: int = 1  # the number of wrappers, with this one
    _env_inside: Any  # the same as `env`, for members that only some kinds of environments have
    _arguments: tuple[tuple[Any, ...], dict[str, Any]]
    _given: Any = None  # the first argument, for subclasses that need its kind before `env` is set

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        self._arguments = args[1:], {name: value for name, value in kwargs.items() if name != "env"}
        self._given = args[0] if args else kwargs.get("env")
        return self

    def __init__(self, env: Inside) -> None:
        if not isinstance(cast("object", env), Process):
            raise SpecError(
                f"env: expected a core environment, got {shown(env)}; bring it by envoi.adapters.from_env(env), "
                "and make an instance of a class"
            )
        layers, inner = 1, cast("Any", env)
        while isinstance(inner, Around):
            layers, inner = layers + 1, inner._env_inside
        # Resets, steps and copies are recursive calls, which need up to ten frames per layer.
        if layers > (most := sys.getrecursionlimit() // 10):
            raise SpecError(
                f"env: expected at most {most} wrappers around each other, got {layers}; combine some, or call "
                "sys.setrecursionlimit first"
            )
        self.env, self.wrapper_depth, self._given = env, layers, None

    def spec_under(self, contexts: Iterable[Mapping[str, Any]]) -> SpecTree:
        spec = self.env.spec_under(contexts)
        if self.observation_spec is self.env.observation_spec:
            return spec
        if spec != self.env.observation_spec:
            raise ContextError(
                f"contexts: some of these move the bounds of the observation inside {type(self).__name__}, which makes "
                "something else of it; put Contextual inside of it"
            )
        return self.observation_spec

    @property
    def context(self) -> Mapping[str, Any]:
        """The inner environment's context, if it has one; settable."""
        return self._env_inside.context

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        if not hasattr(self._env_inside, "context"):
            raise ContextError(
                f"context: {self._env_inside!r} takes no contexts; make a Contextual(env, contexts, bind=…), which "
                "says how a context reaches it"
            )
        self._env_inside.context = context

    def hold_episode(self) -> Callable[[], None]:
        inside = self.env.hold_episode()
        own = {**self._named("memory"), **self._named("_of_episode")}

        def take_back() -> None:
            inside()
            self._put_back(own)

        return take_back

    def snapshot(self) -> Snapshot:
        kind, held = type(self), vars(self)  # without the specs inside, which contexts may change
        own = [n for n in _declared(kind, "fixed") if n in held or not isinstance(getattr(kind, n, None), Inner)]
        return Snapshot(self._kind, (self.env.snapshot(), self._named("memory")), {n: getattr(self, n) for n in own})

    def _named(self, names: str) -> dict[str, Any]:
        """Returns the attributes that the class and its bases name in a class attribute."""
        return {name: getattr(self, name) for name in _declared(type(self), names)}

    def restore(self, snapshot: Snapshot) -> None:
        inner, memory = self._content(snapshot)
        self.env.restore(inner)
        self._put_back(memory)

    def _put_back(self, held: Mapping[str, Any]) -> None:
        """Sets attributes back to earlier values, after the inner environment has been taken back."""
        for name, value in held.items():
            setattr(self, name, value)

    @property
    def construction(self) -> tuple[type, tuple[Any, ...], dict[str, Any]]:
        """The class of this wrapper with its positional and keyword arguments after `env`, to make an equal wrapper."""
        return (self._kind, *self._arguments)

    def program_inside(self) -> Program:
        """Returns the inner environment's program. A subclass may add stages."""
        return program_of(self._env_inside)

    def over(self, env: Inside) -> Any:
        """Makes an equal wrapper around another environment, such as a batch."""
        args, kwargs = self._arguments
        return self._kind(env, *args, **kwargs)

    def __repr__(self) -> str:
        args, kwargs = self._arguments
        arguments = [repr(self.env), *map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        return f"{type(self).__name__}({', '.join(arguments)})"
