"""The functions that the steps of a loop over lanes call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .. import tree
from ..lane_values import lane, splitter, stack, stacker
from ..protocol.batch_env import default_discounts
from ..protocol.env import Env
from ..protocol.fast_steps import fast_step
from ..protocol.process import Info
from ..spec import Array

if TYPE_CHECKING:
    from .lanes import Lanes

LaneCall: TypeAlias = Callable[[Any], tuple[Any, Any, bool, bool, Any, Info]]
"""`action -> six values` of a lane, with the discount None for the default."""


class LoopPlan:
    """Functions of the lanes and of their values, which the steps of a loop call; made once.

    Attributes:
        envs: The environments that it was made for.
        reward_spec: The reward spec that it was made for.
        steps: The step of each lane.
        restarts: For each lane, a function in place of its step that resets it and returns its first step.
        pauses: For each lane, a function in place of its step that leaves it where it is.
    """

    def __init__(self, lanes: Lanes) -> None:
        self.envs, self.reward_spec, self._discount_spec = lanes.envs, lanes.reward_spec, lanes.discount_spec
        self._is_one_discount = isinstance(lanes.discount_spec, Array) and lanes.discount_spec.shape == ()
        self._nothing = tree.map_leaves(lambda leaf: np.zeros(leaf.shape, leaf.dtype)[()], lanes.reward_spec)
        self.steps: tuple[LaneCall, ...] = tuple(fast_step(env) for env in lanes.envs)
        self.restarts: tuple[LaneCall, ...] = tuple(partial(self._restart, env) for env in lanes.envs)
        self.pauses: tuple[LaneCall, ...] = tuple(partial(self._pause, env) for env in lanes.envs)
        self.split = splitter(lanes.action_spec, lanes.batch_size)
        self.stack_observations, self.stack_rewards = stacker(lanes.observation_spec), stacker(lanes.reward_spec)

    def _restart(self, env: Env, action: Any) -> tuple[Any, Any, bool, bool, Any, Info]:
        observation, info = env.reset()
        return observation, self._nothing, False, False, None, info

    def _pause(self, env: Env, action: Any) -> tuple[Any, Any, bool, bool, Any, Info]:
        return env.observation, self._nothing, False, False, None, {}

    def stack_discounts(self, discounts: Sequence[Any], terminated: Sequence[bool]) -> Any:
        """Returns the discounts of all lanes; None if all have the default."""
        n = len(discounts)
        if self._is_one_discount and discounts.count(None) == n:  # arrays do not compare with None
            return None
        usual = default_discounts(self._discount_spec, np.array(terminated, bool))
        each = enumerate(discounts)
        return stack(
            self._discount_spec, [lane(self._discount_spec, usual, i) if one is None else one for i, one in each]
        )
