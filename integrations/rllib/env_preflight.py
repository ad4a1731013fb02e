"""Plays random actions in an env as RLlib sees it, before a job starts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import numpy as np

import envoi
from envoi.adapters import to_rllib
from envoi.protocol.multi_env import MASK

from ..errors import one_line

try:
    import gymnasium
    from gymnasium.vector import VectorEnv
except ImportError as error:
    raise envoi.MissingBackend("gymnasium is not installed; pip install 'envoi[rllib]'") from error


def preflight(
    env: Any,
    *,
    check_specs: bool = True,
    steps: int = 1000,
    seconds: float = 5.0,
    seed: int = 0,
    num_envs: int | None = None,
) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """Plays random actions on this machine, before a job starts.

    Args:
        env: As in `register`.
        check_specs: Check every value against its spec.
        steps: Stop after this many steps, over as many episodes as it takes, …
        seconds: … or after this much time.
        seed: Seed of the env and of the actions.
        num_envs: How many envs a runner is asked to step together; None for no preference.

    Returns:
        The observation space and the action space that RLlib will see: a `Dict` from agents for several agents, the
        spaces of one lane for a batch.

    Raises:
        envoi.EnvoiError: The env breaks its spec, raised an error of its own, or is a batch of other than `num_envs`
            lanes.
    """
    with one_line():
        form: Any = to_rllib(env, validate=check_specs)({})
        is_batch = isinstance(form, VectorEnv)
        play: Any = _play_lanes if is_batch else _play_agents if hasattr(form, "action_spaces") else _play
        try:
            if is_batch:
                check_lanes(form, num_envs)
            play(form, steps, time.monotonic() + seconds, seed)
        except envoi.SpecError as error:
            hint = "; --no-check-specs trains all the same" if check_specs else ""
            raise envoi.SpecError(f"{error}{hint}") from error
        finally:
            form.close()
    if is_batch:
        return form.single_observation_space, form.single_action_space
    return form.observation_space, form.action_space


def check_lanes(batch: VectorEnv[Any, Any, Any], num_envs: int | None) -> int:
    """Returns the number of lanes of a batch.

    Args:
        batch: The batch in RLlib's form.
        num_envs: How many envs a runner is asked to step together; None for no preference.

    Raises:
        envoi.EnvoiError: It differs from `num_envs`.
    """
    if num_envs not in (None, batch.num_envs):
        raise envoi.EnvoiError(
            f"num_envs: expected {batch.num_envs}, the lanes of the batch, got {num_envs} envs per runner; "
            "leave it out, or make a batch of as many lanes"
        )
    return batch.num_envs


def _play(env: gymnasium.Env[Any, Any], steps: int, deadline: float, seed: int) -> None:
    env.action_space.seed(seed)
    env.reset(seed=seed)
    for _ in range(steps):
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()
        if time.monotonic() > deadline:
            return


def _play_lanes(env: VectorEnv[Any, Any, Any], steps: int, deadline: float, seed: int) -> None:
    env.action_space.seed(seed)
    env.reset(seed=seed)
    for _ in range(-(-steps // env.num_envs)):  # ended lanes are auto-reset
        env.step(env.action_space.sample())
        if time.monotonic() > deadline:
            return


def _play_agents(env: Any, steps: int, deadline: float, seed: int) -> None:
    for index, space in enumerate(env.action_spaces.values()):
        space.seed(seed + index)
    observations, infos = env.reset(seed=seed)
    acting = list(observations)
    for _ in range(steps):
        actions = {agent: _legal(env.action_spaces[agent], infos.get(agent, {})) for agent in acting}
        observations, _, terminateds, truncateds, infos = env.step(actions)
        if terminateds["__all__"] or truncateds["__all__"]:
            observations, infos = env.reset()
            acting = list(observations)
        else:
            acting = [agent for agent in observations if not (terminateds.get(agent) or truncateds.get(agent))]
        if time.monotonic() > deadline:
            return


def _legal(space: gymnasium.Space[Any], info: Mapping[Any, Any]) -> Any:
    """Samples a random action, among those that the action mask allows where there is one."""
    mask = info.get(MASK)
    if mask is None or not isinstance(space, gymnasium.spaces.Discrete):
        return space.sample()
    return space.sample(mask=np.asarray(mask, np.int8))
