"""Plays the episodes of an evaluation: one agent in a form of the env, several agents in RLlib's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from typing import Any

import envoi
from envoi.protocol.process import Process
from envoi.wrapping.delegate import Around

from ..errors import one_line
from ..rllib.multi_agent.joint_policy import JointPolicy
from ..rllib.multi_agent.play import play
from ..rllib.policy_values import PolicyValues, array_bytes
from .results import Episode


def play_episodes(
    env: Any,
    values: PolicyValues,
    policy: Any,
    seeds: Sequence[int],
    contexts: Sequence[Any],
    max_steps: int,
) -> Iterator[Episode]:
    """Plays an episode of one agent from each seed.

    Args:
        env: The env, in the core's form or in gymnasium's.
        values: Converts the env's observations and the policy's actions.
        policy: The policy, as `load_policy` returns it.
        seeds: Seed of each episode.
        contexts: Ids of the contexts that episodes take in turn; empty for none.
        max_steps: An episode longer than this is an error.

    Raises:
        envoi.EnvoiError: An episode did not end, or the env raised an error of its own.
    """
    for index, seed in enumerate(seeds):
        policy.reset(seed)
        with one_line():
            options = {"context_id": contexts[index % len(contexts)]} if contexts else None
            first, info = env.reset(seed=seed, options=options)
        observation = values.encode(first, info)
        trace = hashlib.sha256(b"".join(array_bytes(observation)))
        rewards: list[float] = []
        over = False
        while not over:
            if len(rewards) == max_steps:
                raise envoi.EnvoiError(
                    f"the episode of seed {seed} did not end within {max_steps} steps; raise --max-steps"
                )
            action = policy(observation, rewards[-1] if rewards else 0.0)
            with one_line():
                observed, reward, terminated, truncated, *_, last_info = env.step(values.decode(action))
                rewards.append(float(reward))
                over = bool(terminated or truncated)
            observation = values.encode(observed, last_info)
            trace.update(b"".join(array_bytes(observation)))
        yield Episode(seed, sum(rewards), len(rewards), trace.hexdigest(), info.get("context_id"))


def play_joint_episodes(env: Any, policy: JointPolicy, seeds: Sequence[int], max_steps: int) -> Iterator[Episode]:
    """Plays an episode of several agents from each seed, in RLlib's form.

    Args:
        env: The env, as `to_rllib` returns it.
        policy: The policies of all agents.
        seeds: Seed of each episode.
        max_steps: An episode longer than this is an error.

    Raises:
        envoi.EnvoiError: An episode did not end, or the env raised an error of its own.
    """
    contexts = context_ids(env.core)
    for index, seed in enumerate(seeds):
        options = {"context_id": contexts[index % len(contexts)]} if contexts else None
        played = play(env, policy, seed, policy.seats_of_episode(index), options, max_steps)
        returns = {str(agent): value for agent, value in played.returns.items()}
        seats = {str(agent): policy_id for agent, policy_id in policy.seats.items()}
        yield Episode(
            seed, sum(played.returns.values()), played.length, played.trace, played.context_id, returns, seats
        )


def context_ids(env: Any) -> Sequence[Any]:
    """Returns the ids of a set of contexts, to be taken in turn; empty where there is no such set."""
    contextual = _contextual(env)
    return list(contextual.contexts) if contextual is not None and len(contextual.contexts) > 1 else ()


def _contextual(env: Any) -> Any:
    """Returns the outermost `Contextual`, or None; looks through wrappers and through forms inside foreign wrappers."""
    while not isinstance(env, envoi.Contextual):
        if isinstance(env, Around):
            env = env.env
            continue
        native = env.unwrapped
        inner = getattr(native, "core", None)  # every form of envoi has one
        if native is env or not isinstance(inner, Process):
            return None
        env = inner
    return env
