"""Plays random actions in an env as RLlib sees it, before a job starts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np

import envoi
from envoi.adapters import to_rllib
from envoi.adapters.rllib.masks import Masks, can_mask

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
    action_masks: bool | Literal["auto"] = "auto",
) -> tuple[gymnasium.Space[Any], gymnasium.Space[Any]]:
    """Plays random actions on this machine, before a job starts.

    Args:
        env: As in `register`.
        check_specs: Check every value against its spec.
        steps: Stop after this many steps, over as many episodes as it takes, …
        seconds: … or after this much time.
        seed: Seed of the env and of the actions.
        num_envs: How many envs a runner is asked to step together; None for no preference.
        action_masks: As in `register`.

    Returns:
        The observation space and the action space that RLlib will see. Those of several agents are a `Dict` from
        agents; those of a batch are of one lane. Action masks are left out unless True asks for them.

    Raises:
        envoi.EnvoiError: The env breaks its spec, raised an error of its own, is a batch of other than `num_envs`
            lanes, or has no action that can be masked.
    """
    with one_line():
        masks = action_masks is True
        form: Any = to_rllib(env, validate=check_specs, canonical="structured", action_masks=masks)({})
        is_batch = isinstance(form, VectorEnv)
        try:
            if is_batch:
                check_lanes(form, num_envs)
            _play(form, steps, time.monotonic() + seconds, seed)
        except envoi.SpecError as error:
            hint = "; --check-specs off trains all the same" if check_specs else ""
            raise envoi.SpecError(f"{error}{hint}") from error
        finally:
            form.close()
    if is_batch:
        return form.single_observation_space, form.single_action_space
    return form.observation_space, form.action_space


def check_lanes(batch: VectorEnv[Any, Any, Any], num_envs: int | None) -> int:
    """Returns the number of lanes of a batch."""
    if num_envs not in (None, batch.num_envs):
        raise envoi.EnvoiError(
            f"num_envs: expected {batch.num_envs}, the lanes of the batch, got {num_envs} envs per runner; "
            "leave it out, or make a batch of as many lanes"
        )
    return batch.num_envs


def _play(form: Any, steps: int, deadline: float, seed: int) -> None:
    """Steps an env of one agent, of several, or a batch, with random legal actions."""
    env = form.unwrapped
    if isinstance(form, VectorEnv):
        choose = _Legal(form.single_action_space, env, seed)
        form.reset(seed=seed)
        for _ in range(-(-steps // form.num_envs)):  # ended lanes are auto-reset
            form.step([choose(info, lane) for lane, info in enumerate(env.last.info)])
            if time.monotonic() > deadline:
                return
        return
    is_multi = hasattr(form, "action_spaces")
    spaces = form.action_spaces if is_multi else {None: form.action_space}
    choosers = {agent: _Legal(space, env, seed + i, agent) for i, (agent, space) in enumerate(spaces.items())}
    observations, infos = form.reset(seed=seed)
    acting: list[Any] = list(observations) if is_multi else [None]
    for _ in range(steps):
        actions = {agent: choosers[agent](infos.get(agent, {}) if is_multi else infos) for agent in acting}
        observations, _, terminated, truncated, infos = form.step(actions if is_multi else actions[None])
        ended = (terminated["__all__"] or truncated["__all__"]) if is_multi else terminated or truncated
        if ended:
            observations, infos = form.reset()
        if is_multi:
            acting = [agent for agent in observations if ended or not (terminated.get(agent) or truncated.get(agent))]
        if time.monotonic() > deadline:
            return


class _Legal:
    """Samples random actions, among those that the action mask allows where there is one."""

    def __init__(self, space: gymnasium.Space[Any], form: Any, seed: int, agent: Any = None) -> None:
        spec = form.core.action_spec if agent is None else form.core.action_spec[agent]
        self._space, self._form, self._agent = space, form, agent
        self._masks = Masks(spec) if can_mask(spec) else None
        space.seed(seed)

    def __call__(self, info: Mapping[Any, Any], lane: int | None = None) -> Any:
        if self._masks is None:
            return self._space.sample()
        last, agent = self._form.last, self._agent
        mask = self._masks.find(info, last.observation if agent is None else last.observations.get(agent), lane)
        if mask is None:
            return self._space.sample()
        if isinstance(self._space, gymnasium.spaces.MultiDiscrete):
            ends = np.cumsum(self._space.nvec)
            return self._space.sample(mask=tuple(np.split(mask.astype(np.int8), ends[:-1])))
        return self._space.sample(mask=mask.astype(np.int8))
