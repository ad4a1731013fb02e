"""Wrappers around environments of several agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from .around import Around
from .multi import MultiEnv, MultiReset, MultiStep
from .process import Snapshot
from .rewarder import Rewarder, RewardFunction
from .spec import SpecTree


class MultiWrapper(Around, MultiEnv):
    """An environment of several agents that behaves as `env` does; subclass it and change what differs.

    Args:
        env: What to wrap.

    Attributes:
        env: The inner environment.
        memory: The names of the attributes that change during an episode; snapshots hold their values.
    """

    memory: ClassVar[tuple[str, ...]] = ()

    def __init__(self, env: MultiEnv) -> None:
        super().__init__(env)
        self.possible_agents = env.possible_agents
        self.observation_spec, self.action_spec = env.observation_spec, env.action_spec
        self.discount_spec, self.state_spec = env.discount_spec, env.state_spec

    @property
    def reward_spec(self) -> SpecTree:
        """The inner environment's, which follows its rewarder."""
        return self.env.reward_spec

    @property
    def declared_reward_spec(self) -> SpecTree:
        return self.env.declared_reward_spec

    @property
    def rewarder(self) -> Rewarder:
        """The inner environment's rewarder; settable there through here."""
        return self.env.rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self.env.rewarder = rewarder

    @property
    def agents(self) -> tuple[Any, ...]:
        return self.env.agents

    @property
    def turn(self) -> tuple[Any, ...] | None:
        return self.env.turn

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        return self.env.reset(seed=seed, options=options)

    def step(self, actions: Mapping[Any, Any]) -> MultiStep:
        return self.env.step(actions)

    def observation(self, agent: Any) -> Any:
        return self.env.observation(agent)

    def snapshot(self) -> Snapshot:
        return Snapshot(type(self), (self.env.snapshot(), {name: getattr(self, name) for name in self.memory}))

    def restore(self, snapshot: Snapshot) -> None:
        inner, memory = cast("tuple[Snapshot, dict[str, Any]]", self._content(snapshot))
        self.env.restore(inner)
        for name, value in memory.items():
            setattr(self, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.env!r})"
