"""The reward that the source of an import computes in a step, for rewarders that contain a `NativeReward`."""

from __future__ import annotations

from typing import Any

from .. import tree
from .rewarder import REWARD_IN_PROGRESS, NativeReward, Rewarder


def asks_for_native_reward(rewarder: Any) -> bool:
    """Returns True for a `NativeReward`, and for a rewarder that contains one, such as a sum."""
    if isinstance(rewarder, NativeReward):
        return True
    if isinstance(rewarder, Rewarder):
        return any(asks_for_native_reward(part) for _, part in rewarder.parts())
    return tree.is_branch(rewarder) and any(asks_for_native_reward(part) for _, part in tree.leaves(rewarder))


def reward_step(rewarder: Rewarder, native: Any, state: Any, action: Any, next_state: Any) -> Any:
    """Returns the reward of a step of an imported environment.

    Args:
        rewarder: The rewarder, which may contain a `NativeReward`.
        native: The reward that the imported environment itself computed for the step.
        state: The state before the action.
        action: The action.
        next_state: The state after it.
    """
    token = REWARD_IN_PROGRESS.set(native)
    try:
        return rewarder(state, action, next_state)
    finally:
        REWARD_IN_PROGRESS.reset(token)
