"""The step of `configure` that sets the class of the env runners."""

from __future__ import annotations

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

from ..multi_agent_runner import BatchedMultiAgentEnvRunner
from .described_env import DescribedEnv
from .user_settings import set_default


def set_env_runner(config: AlgorithmConfig, env: DescribedEnv) -> None:
    """Sets envoi's env runner for several agents, whose episodes are those of RLlib's.

    Args:
        config: The config.
        env: The env.
    """
    if env.is_multi_agent:
        set_default(config, env_runner_cls=BatchedMultiAgentEnvRunner)
