"""Steps environments with random actions, to find errors before a job starts."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium.vector import VectorEnv

from envoi.adapters.rllib.masks import Masks, can_mask


def play_at_random(form: Any, steps: int, deadline: float, seed: int) -> None:
    """Steps a single-agent env, a multi-agent env or a batch with random legal actions."""
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
    """Samples random actions; if there is an action mask, only among the actions that it allows."""

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
