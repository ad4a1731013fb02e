"""The step of `configure` that sets the env, its lanes and its connectors."""

from __future__ import annotations

from gymnasium import spaces
from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

import envoi

from .described_env import DescribedEnv
from .user_settings import is_default, set_default

VECTOR = "vector_entry_point"


def set_environment(config: AlgorithmConfig, env: DescribedEnv) -> None:
    """Sets the env of a config, how its lanes are stepped, and whether its actions are normalised.

    Args:
        config: The config.
        env: The env.

    Raises:
        envoi.EnvoiError: The env is a batch of another number of lanes than the user has set; or `vectorize` is False
            for a batch, or True for several agents.
    """
    config.env = env.name
    # RLlib's checks advance the envs' random streams, and envoi checks more.
    set_default(config, disable_env_checking=True)
    if not any(_has_box(action) for _, action in env.spaces_of_agents.values()):
        set_default(config, normalize_actions=False)  # for other actions it only costs a deep copy of each
    if env.lanes is not None:
        if env.options.vectorize is False:
            raise envoi.EnvoiError(
                f"vectorize: expected True or 'auto' for a batch, whose {env.lanes} lanes take one step together, got "
                "False; leave it out, or register an env of one lane"
            )
        if not is_default(config, "num_envs_per_env_runner") and config.num_envs_per_env_runner != env.lanes:
            raise envoi.EnvoiError(
                f"num_envs_per_env_runner: expected {env.lanes}, the lanes of the batch, got "
                f"{config.num_envs_per_env_runner}; leave it out, or make a batch of as many lanes"
            )
        config.num_envs_per_env_runner = env.lanes
        config.gym_env_vectorize_mode = VECTOR
    elif env.options.vectorize is True or (env.options.vectorize == "auto" and env.has_own_batch):
        if env.is_multi_agent:
            raise envoi.EnvoiError(
                "vectorize: expected False or 'auto' for an env of several agents, as RLlib steps them one by one, "
                "got True"
            )
        set_default(config, gym_env_vectorize_mode=VECTOR)


def _has_box(space: spaces.Space[object]) -> bool:
    """Returns True if RLlib would scale a part of the actions."""
    parts = space.spaces if isinstance(space, spaces.Tuple) else [space]
    return any(isinstance(part, spaces.Box) for part in parts)
