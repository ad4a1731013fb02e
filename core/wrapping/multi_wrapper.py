"""Wrappers around environments of several agents."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ..errors import SpecError
from ..protocol.multi_env import MultiEnv, MultiReset, MultiStep
from ..spec.base import shown
from .delegate import Around


class MultiWrapper(Around[MultiEnv], MultiEnv):
    """An environment of several agents that behaves as `env` does; subclass it and override the differences.

    Args:
        env: The environment inside.
    """

    def __init__(self, env: MultiEnv) -> None:
        super().__init__(env)
        if not isinstance(cast("object", env), MultiEnv):
            raise SpecError(
                f"env: expected an environment of several agents, got {shown(env)} of one; "
                "make the wrapper a Lifted or a Wrapper, or give it as_multi(env)"
            )
        self.possible_agents = env.possible_agents

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
