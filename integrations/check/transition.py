"""A transition: one call of an environment with its actions and its reply, as objects and as copies."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from envoi.protocol.multi_env import Agent

from .drivers.base import Reply


@dataclass(frozen=True)
class Transition:
    """One reset or step.

    Attributes:
        episode: Number of the episode, from 1.
        step: Number of the step, from 1; 0 for the reset.
        actions: The very actions that were passed, by agent; empty for a reset.
        actions_copy: Copies of them from before the call.
        reply: The very reply of the environment.
        reply_copy: A copy of it, which later calls cannot change.
    """

    episode: int
    step: int
    actions: Mapping[Agent, Any]
    actions_copy: Mapping[Agent, Any]
    reply: Reply
    reply_copy: Reply

    @property
    def where(self) -> str:
        """The place of the transition for a message, such as "step 3 of episode 1"."""
        end = ", its last" if self.step and self.reply.over else ""
        when = f"step {self.step}" if self.step else "the reset"
        return f"{when} of episode {self.episode}{end}"


def copy_reply(reply: Reply) -> Reply:
    """Returns a copy of a reply that later calls cannot change."""
    names = ("observations", "infos", "rewards", "terminated", "truncated", "discounts")
    return Reply(
        **{name: {agent: copy_value(value) for agent, value in getattr(reply, name).items()} for name in names},
        agents=tuple(reply.agents),
        acting=tuple(reply.acting),
        restarted=reply.restarted,
    )


_IMMUTABLE = (bool, int, float, str, bytes, type(None), np.generic)


def copy_value(value: Any) -> Any:
    """Returns a deep copy of a value; the value itself where it cannot be copied."""
    if isinstance(value, np.ndarray) and value.dtype != object:
        return value.copy()
    if isinstance(value, _IMMUTABLE):
        return value
    if type(value) is dict and all(isinstance(part, _IMMUTABLE) for part in value.values()):
        return dict(value)
    try:
        return copy.deepcopy(value)
    except Exception:
        return value
