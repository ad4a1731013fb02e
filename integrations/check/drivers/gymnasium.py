"""The driver for gymnasium environments."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from envoi import Array
from envoi.protocol.multi_env import Agent

from .base import SINGLE, Driver, Reply, is_set, unpack

REWARD = Array((), "float64", name="reward")
"""The reward spec of an API that declares none."""


class GymnasiumDriver(Driver):
    """Plays a `gymnasium.Env`."""

    api = "gymnasium"

    def __init__(self, env: Any) -> None:
        from envoi.adapters.gymnasium.source import bare
        from envoi.adapters.gymnasium.specs import encoder, from_space

        super().__init__(env)
        self.observation_specs = {SINGLE: from_space(env.observation_space, "observation_space")}
        self.action_specs = {SINGLE: from_space(env.action_space, "action_space")}
        rewards = getattr(bare(env), "reward_space", None)
        self.reward_specs = {SINGLE: REWARD if rewards is None else from_space(rewards, "reward_space")}
        self._encoders = {SINGLE: encoder(self.action_specs[SINGLE], fresh=True)}

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        observation, info = unpack(self.env.reset(seed=seed, options=options), 2, "reset")
        return Reply({SINGLE: observation}, {SINGLE: info}, (SINGLE,), (SINGLE,))

    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        observation, reward, terminated, truncated, info = unpack(self.env.step(actions[SINGLE]), 5, "step")
        left = () if is_set(terminated) or is_set(truncated) else (SINGLE,)
        return Reply(
            {SINGLE: observation}, {SINGLE: info}, left, left, {SINGLE: reward}, {SINGLE: terminated},
            {SINGLE: truncated},
        )  # fmt: skip

    def sample_actions(self) -> None:
        self.env.action_space.sample()

    def spaces(self) -> dict[str, Callable[[], Any]]:
        return {name: lambda name=name: getattr(self.env, name) for name in ("observation_space", "action_space")}
