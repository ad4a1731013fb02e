"""The first lane of a batch as an env, for code that plays one episode at a time."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from envoi import BatchEnv, Env, Reset, Step
from envoi.lane_values import lane, stack
from envoi.wrapping.delegate import Around


class FirstLane(Around[BatchEnv], Env):
    """The first lane of a batch as an env. The other lanes take the same actions; their results are dropped."""

    memory = ("_restart",)

    def __init__(self, env: BatchEnv) -> None:
        super().__init__(env)
        self._restart: Any = None

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        observation, infos = self.env.reset(seed=seed, options=options)
        self._restart = None
        return Reset(lane(self.observation_spec, observation, 0), dict(infos[0]))

    def step(self, action: Any) -> Step:
        actions = stack(self.action_spec, [action] * self.env.batch_size)
        observation, reward, terminated, truncated, discount, infos = cast(
            "tuple[Any, ...]", self.env.step(actions, self._restart)
        )
        others = np.array(terminated | truncated)
        others[0] = False
        self._restart = others if others.any() else None
        return Step(
            lane(self.observation_spec, observation, 0),
            lane(self.reward_spec, reward, 0),
            bool(terminated[0]),
            bool(truncated[0]),
            lane(self.discount_spec, discount, 0),
            dict(infos[0]),
        )

    @property
    def observation(self) -> Any:
        return lane(self.observation_spec, self.env.observation, 0)
