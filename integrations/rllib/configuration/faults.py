"""The step of `configure` that sets what follows errors of the env."""

from __future__ import annotations

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from .described_env import DescribedEnv
from .user_settings import set_default


def set_faults(config: AlgorithmConfig, env: DescribedEnv) -> None:
    """Sets how RLlib restarts env runners and their envs.

    Args:
        config: The config.
        env: The env.
    """
    # A runner whose env failed would sleep for a minute before it dies, and the job waits for it.
    set_default(
        config,
        delay_between_env_runner_restarts_s=1.0,
        restart_failed_sub_environments=env.options.on_env_error == "restart",
    )
