"""Builds an `AlgorithmConfig` for an env, with working values where RLlib's defaults do not work."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gymnasium.vector import VectorEnv

import envoi

from .algorithms import check_actions, find
from .env_preflight import check_lanes
from .multi_agent.grouping import Policies, group_spaces
from .multi_agent.policies import add_policies
from .multi_agent.returns import log_returns
from .registration import register

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm as RLlibAlgorithm
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

RETURNS = "episode_returns"
"""Key of a result, under `env_runners`, for the returns of the episodes that ended in its iteration."""


def load_algorithm(algo: str) -> type[RLlibAlgorithm]:
    """Returns the RLlib class of an algorithm; imports RLlib.

    Raises:
        envoi.EnvoiError: There is no such algorithm.
        envoi.MissingBackend: Ray or torch is not installed.
    """
    algorithm = find(algo)
    try:
        return getattr(import_module(algorithm.module), algorithm.name)
    except ImportError as error:
        reason = " ".join(str(error).split())
        raise envoi.MissingBackend(f"RLlib cannot be used ({reason}); pip install 'envoi[rllib]'") from error


def configure(
    env: Any,
    algo: str = "PPO",
    *,
    lr: float | None = None,
    num_envs: int | None = None,
    num_env_runners: int = 0,
    seed: int | None = None,
    check_specs: bool = True,
    failure: Path | None = None,
    training: Mapping[str, Any] | None = None,
    policies: Policies | None = None,
) -> AlgorithmConfig:
    """Registers an env and returns an `AlgorithmConfig` for it.

    Its `on_environment_created` is `envoi.adapters.rllib.bind_worker`, which gives each env its worker, lane and
    evaluation flag. RLlib replaces a callback that is set again, so keep it beside one of your own:
    `config.callbacks(on_environment_created=[bind_worker, own])`.

    Args:
        env: Name of an env as in `envoi.adapters.load`, an env class, or a factory that takes no argument. It may be a
            batch, whose lanes a runner then steps in one call.
        algo: Name of an algorithm, see `envoi.integrations.rllib.ALGORITHMS`.
        lr: Learning rate; None for the default of `ALGORITHMS`.
        num_envs: Envs that each runner steps together; None for the default of `ALGORITHMS`, or the lanes of a batch.
        num_env_runners: Processes that step envs; 0 steps them where the algorithm runs.
        seed: Fixes the initial weights, the exploration and the envs.
        check_specs: Check each observation against the spec while training.
        failure: A file that the env writes its error to; None for no such file.
        training: Further settings for `AlgorithmConfig.training`, which override the defaults of `ALGORITHMS`.
        policies: The policies of several agents, see `envoi.integrations.rllib.multi_agent.grouping.group_agents`.

    Returns:
        The config, to be changed further as needed.

    Raises:
        envoi.EnvoiError: An unknown env or algorithm, actions that the algorithm cannot choose from, or a batch of
            other than `num_envs` lanes.
    """
    from envoi.adapters.rllib import bind_worker

    algorithm = find(algo)
    config = load_algorithm(algo).get_default_config()
    name = f"envoi-{env if isinstance(env, str) else getattr(env, '__qualname__', type(env).__qualname__)}"
    made = register(name, env, check_specs=check_specs, failure=failure)({})
    lanes = check_lanes(made, num_envs) if isinstance(made, VectorEnv) else None
    seen = "" if lanes is None else "single_"
    observations, actions = getattr(made, f"{seen}observation_space"), getattr(made, f"{seen}action_space")
    made.close()
    grouping = group_spaces(policies, observations, actions)
    check_actions(algorithm, actions)
    kinds = {type(space).__name__ for space in (actions.values() if grouping else [actions])}
    kind = min(kinds)  # of several agents, Box before Discrete: the lower of two learning rates

    rate = lr if lr is not None else algorithm.lr.get(kind)
    rates = {} if rate is None else dict.fromkeys(algorithm.rates, rate)
    config.environment(
        name,
        disable_env_checking=True,  # it advances the envs' random streams; envoi checks more
        normalize_actions=not kinds.isdisjoint({"Box", "Tuple"}),  # for other actions it only costs a deep copy of each
    )
    config.env_runners(
        num_env_runners=num_env_runners,
        num_envs_per_env_runner=lanes or num_envs or algorithm.num_envs,
    )
    if lanes is not None:
        config.env_runners(gym_env_vectorize_mode="vector_entry_point")
    config.training(**{**algorithm.training, **rates, **(training or {})})
    config.debugging(seed=seed, log_level="ERROR")
    # A runner whose env failed would sleep for a minute before it dies, and the job waits for it.
    config.fault_tolerance(delay_between_env_runner_restarts_s=1)
    config.callbacks(on_environment_created=bind_worker, on_episode_end=_log_return)
    if grouping is not None:
        add_policies(config, grouping, algorithm)
        config.callbacks(on_episode_end=[_log_return, log_returns])
    elif algorithm.model and len(observations.shape or ()) == 1:
        from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig

        config.rl_module(model_config=DefaultModelConfig(**algorithm.model))
    if algorithm.name in {"APPO", "IMPALA"}:
        config.reporting(min_time_s_per_iteration=2)  # RLlib would report every 10 s
    return config


def _log_return(*, episode: Any, prev_episode_chunks: Any, metrics_logger: Any, **_: Any) -> None:
    """Logs the return of a whole episode; `episode` itself is only its last chunk."""
    total = episode.get_return() + sum(chunk.get_return() for chunk in prev_episode_chunks)
    metrics_logger.log_value(RETURNS, float(total), reduce="item_series")
