"""The step of `configure` that sets the class of the env runners."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

import envoi

from ..batched_runner import Runner, check_runner, use_runner
from ..multi_agent_runner import BatchedMultiAgentEnvRunner
from .described_env import DescribedEnv
from .user_settings import set_default


def set_env_runner(config: AlgorithmConfig, env: DescribedEnv, runner: Runner) -> None:
    """Sets envoi's env runner for one agent or for several, whose episodes are those of RLlib's.

    Args:
        config: The config.
        env: The env.
        runner: See `Runner`.

    Raises:
        envoi.UnknownName: There is no env runner of that name.
        envoi.EnvoiError: `runner` is "batched", and the config cannot have such a runner.
    """
    if not env.is_multi_agent:
        use_runner(config, runner)
        return
    check_runner(runner)
    if runner == "sync":
        return
    set_default(config, env_runner_cls=BatchedMultiAgentEnvRunner)
    cls: Any = config.env_runner_cls
    if runner == "batched" and not issubclass(cls, BatchedMultiAgentEnvRunner):
        raise envoi.EnvoiError(
            f"runner: 'batched' cannot be used, because the config has the env runner {cls.__name__}; use 'auto' or "
            "'sync'"
        )
