"""Steps several environments of several agents without copies of what they return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from ray.rllib.env.vector.sync_vector_multi_agent_env import SyncVectorMultiAgentEnv

from envoi.adapters.rllib.form_base import RLlibForm

__all__ = ["ALL", "SyncForms", "are_forms"]

ALL = "__all__"

EnvSteps = tuple[Any, Any, Any, Any, Any]
"""Observations, rewards, both flags and infos: a sequence each, with a mapping per environment."""


def are_forms(envs: Sequence[Any]) -> bool:
    """Returns True if all environments are envoi's, maybe inside of wrappers."""
    return all(isinstance(env.unwrapped, RLlibForm) for env in envs)


class SyncForms(SyncVectorMultiAgentEnv):
    """RLlib's vector environment of envoi's forms, which return new values in each step, so that none is copied.

    Args:
        made: RLlib's vector environment, whose environments and attributes it takes over.
    """

    def __init__(self, made: SyncVectorMultiAgentEnv) -> None:
        self.__dict__.update(made.__dict__)
        self.copy = False
        made.closed = True  # or it would close the environments when it is collected
        self._ended = [False] * self.num_envs

    def reset(self, *, seed: Any = None, options: Mapping[str, Any] | None = None) -> Any:
        self._ended = [False] * self.num_envs
        observations, infos = super().reset(seed=seed, options=cast("dict[str, Any]", options))
        return list(observations), list(infos)

    def step(self, actions: Sequence[Mapping[Any, Any]]) -> EnvSteps:
        """Acts once in each environment; one that has ended is reset instead.

        Args:
            actions: The actions by agent, for each environment.

        Returns:
            Observations, rewards, both flags and infos: a list each, with a mapping per environment. Those of a reset
            have no rewards and flags but `"__all__"`.
        """
        results: list[tuple[Any, ...]] = []
        for env, acts, ended in zip(cast("list[Any]", self.envs), actions, self._ended, strict=True):
            if ended:
                observations, infos = env.reset()
                results.append((observations, {}, {ALL: False}, {ALL: False}, infos))
            else:
                results.append(env.step(acts))
        columns = cast("EnvSteps", tuple(zip(*results, strict=True)))
        self._ended = [bool(one[ALL] or other[ALL]) for one, other in zip(columns[2], columns[3], strict=True)]
        self._autoreset_envs = np.array(self._ended)
        return columns
