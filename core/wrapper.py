"""Wrappers: environments made of another environment.

A wrapper forwards everything and changes what it must. One class serves single environments and batches alike:
values of a batch have a leading lane axis, and `mask` and `restart` say which lanes begin a new episode.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray

from .env import Env, Reset, Step
from .lanes import stack
from .process import Snapshot
from .rewarder import Rewarder, RewardFunction
from .spec import SpecTree, sample
from .streams import Streams


class _Inner:
    """An attribute that is read from the inner environment until the wrapper sets its own."""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, wrapper: Wrapper | None, owner: type) -> Any:
        return self if wrapper is None else getattr(wrapper.env, self._name)


class Wrapper(Env):
    """An environment that behaves as `env` does; subclass it and change what differs.

    A subclass calls `super().__init__(env)`, and sets the specs that it changes.

    Args:
        env: What to wrap.

    Attributes:
        env: The inner environment.
        memory: The names of the attributes that change during an episode; snapshots hold their values.
    """

    memory: ClassVar[tuple[str, ...]] = ()

    observation_spec = cast("Any", _Inner())
    action_spec = cast("Any", _Inner())
    reward_spec = cast("Any", _Inner())
    discount_spec = cast("Any", _Inner())
    state_spec = cast("Any", _Inner())
    batch_size = cast("Any", _Inner())
    restarts = cast("Any", _Inner())
    metadata = cast("Any", _Inner())
    render_mode = cast("Any", _Inner())
    context_space = cast("Any", _Inner())

    _arguments: tuple[tuple[Any, ...], dict[str, Any]]

    def __new__(cls, *args: Any, **kwargs: Any) -> Self:
        self = super().__new__(cls)
        self._arguments = args[1:], {name: value for name, value in kwargs.items() if name != "env"}
        return self

    def __init__(self, env: Env) -> None:
        self.env = env

    def over(self, env: Env) -> Self:
        """The same wrapper around another environment, such as a batch of the first."""
        args, kwargs = self._arguments
        return type(self)(env, *args, **kwargs)

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: NDArray[np.bool_] | None = None,
    ) -> Reset:
        if mask is None:
            return self.env.reset(seed=cast("int | None", seed), options=options)
        return cast("Any", self.env).reset(seed=seed, options=options, mask=mask)

    def step(self, action: Any, restart: NDArray[np.bool_] | None = None) -> Step:
        if restart is None:
            return self.env.step(action)
        return cast("Any", self.env).step(action, restart)

    @property
    def state(self) -> Any:
        """The inner environment's state; settable there, where it is settable."""
        return self.env.state

    @state.setter
    def state(self, state: Any) -> None:
        cast("Any", self.env).state = state

    @property
    def observation(self) -> Any:
        return self.env.observation

    @property
    def rewarder(self) -> Rewarder:
        """The inner environment's rewarder; settable there through here."""
        return self.env.rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self.env.rewarder = rewarder

    @property
    def declared_reward_spec(self) -> SpecTree:
        return self.env.declared_reward_spec

    @property
    def streams(self) -> Streams:
        return self.env.streams

    @property
    def rng(self) -> np.random.Generator:
        """The inner environment's generator; settable there through here."""
        return self.env.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self.env.rng = generator

    @property
    def context(self) -> Mapping[str, Any]:
        """The inner environment's context, where it has one; settable there through here."""
        return cast("Any", self.env).context

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        cast("Any", self.env).context = context

    def sample_action(self) -> Any:
        if self.action_spec is self.env.action_spec:
            return self.env.sample_action()
        rng, n = self.streams.action, self.batch_size
        if n is None:
            return sample(self.action_spec, rng)
        return stack(self.action_spec, [sample(self.action_spec, rng) for _ in range(n)])

    def snapshot(self) -> Snapshot:
        return Snapshot(type(self), (self.env.snapshot(), {name: getattr(self, name) for name in self.memory}))

    def restore(self, snapshot: Snapshot) -> None:
        inner, memory = self._content(snapshot)
        self.env.restore(inner)
        for name, value in memory.items():
            setattr(self, name, value)

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    @property
    def unwrapped(self) -> Any:
        return self.env.unwrapped

    def __repr__(self) -> str:
        args, kwargs = self._arguments
        said = [repr(self.env), *map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        return f"{type(self).__name__}({', '.join(said)})"
