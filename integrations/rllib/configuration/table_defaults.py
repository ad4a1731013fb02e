"""The config that `configure` starts from where the user has none: RLlib's, with the values of `ALGORITHMS`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from envoi.adapters.rllib.codec.masks import unmasked

from ..algorithms import Algorithm
from ..modules.observation_parts import is_flat
from .described_env import DescribedEnv


def set_table_defaults(
    config: AlgorithmConfig,
    env: DescribedEnv,
    algorithm: Algorithm,
    lr: float | None = None,
    num_envs: int | None = None,
    training: Mapping[str, Any] | None = None,
) -> None:
    """Sets the values of `ALGORITHMS`, which work where RLlib's defaults do not, and those of the user.

    Args:
        config: The config.
        env: The env.
        algorithm: The row of the table.
        lr: Learning rate; None for the default of the table.
        num_envs: Envs that each runner steps together; None for the default of the table, or the lanes of a batch.
        training: Further settings for `AlgorithmConfig.training`.
    """
    observations, actions = zip(*env.spaces_of_agents.values(), strict=True)
    kinds = {type(space).__name__ for space in actions}
    rate = lr if lr is not None else min((algorithm.lr[kind] for kind in kinds if kind in algorithm.lr), default=None)
    rates = {} if rate is None else dict.fromkeys(algorithm.rates, rate)
    config.training(**{**algorithm.training, **rates, **(training or {})})
    config.env_runners(num_envs_per_env_runner=env.lanes or num_envs or algorithm.num_envs)
    config.debugging(log_level="ERROR")
    if algorithm.model and all(is_flat(unmasked(space)) for space in observations):
        from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

        config.rl_module(model_config=DefaultModelConfig(**algorithm.model))
    if algorithm.name in {"APPO", "IMPALA"}:
        config.reporting(min_time_s_per_iteration=2)  # RLlib would report every 10 s
