"""Plays whole episodes of several agents with trained policies."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import envoi

from ...errors import one_line
from ..policy_values import array_bytes
from .joint_policy import JointPolicy


@dataclass(frozen=True)
class Played:
    """An episode of several agents.

    Args:
        returns: Sum of the rewards of each possible agent, not discounted.
        length: Steps of the env.
        trace: SHA-256 of all observations, with the agents that they are of.
        context_id: Id of the episode's context; None where the env has no contexts.
    """

    returns: dict[Any, float]
    length: int
    trace: str
    context_id: Any = None


def play(
    env: Any,
    policy: JointPolicy,
    seed: int,
    seats: Mapping[Any, str] | None = None,
    options: dict[str, Any] | None = None,
    max_steps: int = 100_000,
) -> Played:
    """Plays an episode of several agents.

    Args:
        env: The env in RLlib's form, an `RLlibMultiEnv`.
        policy: The policies.
        seed: Seed of the reset, and of sampled actions.
        seats: The policy of each agent; None for those that learn.
        options: Options of the reset.
        max_steps: A longer episode is an error.

    Raises:
        envoi.EnvoiError: The episode did not end, or the env raised an error of its own.
    """
    policy.reset(seed, seats)
    with one_line():
        env.forget_seeds()
        observations, infos = env.reset(seed=seed, options=options)
    trace = hashlib.sha256()
    returns = dict.fromkeys(env.possible_agents, 0.0)
    rewards: Mapping[Any, float] = {}
    ended: dict[Any, bool] = {}
    length, over = 0, False
    _trace(trace, observations)
    while not over:
        if length == max_steps:
            raise envoi.EnvoiError(
                f"the episode of seed {seed} did not end within {max_steps} steps; raise --max-steps"
            )
        actions = policy(observations, rewards, ended)
        with one_line():
            observations, rewards, terminateds, truncateds, _ = env.step(actions)
        for agent, reward in rewards.items():
            returns[agent] += float(reward)
        ended = {agent: bool(terminateds.get(agent) or truncateds.get(agent)) for agent in observations}
        over = terminateds["__all__"] or truncateds["__all__"]
        length += 1
        _trace(trace, observations)
    context_id = next((info["context_id"] for info in infos.values() if "context_id" in info), None)
    return Played(returns, length, trace.hexdigest(), context_id)


def _trace(trace: Any, observations: Mapping[Any, Any]) -> None:
    for agent, value in observations.items():
        trace.update(str(agent).encode())
        for array in array_bytes(value):
            trace.update(array)
