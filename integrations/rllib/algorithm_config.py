"""Makes RLlib's `AlgorithmConfig` and an env fit each other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import envoi

from .algorithms import find
from .batched_runner import Runner
from .env_options import EnvOptions
from .multi_agent.grouping import Policies

try:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    from .callbacks import RETURNS
    from .configuration.callbacks import add_callbacks
    from .configuration.described_env import DescribedEnv
    from .configuration.env_runner import set_env_runner
    from .configuration.environment import set_environment
    from .configuration.faults import set_faults
    from .configuration.networks import describe_fitting, set_networks
    from .configuration.policies import set_policies
    from .configuration.table_defaults import set_table_defaults
    from .exact_resume.checkpoint import save_exactly
    from .registration import RegisteredEnv, register, registered
except ImportError as error:
    raise envoi.MissingBackend(f"RLlib cannot be used ({error}); pip install 'envoi[rllib]'") from error

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm import Algorithm as RLlibAlgorithm

__all__ = ["RETURNS", "STEPS", "configure", "load_algorithm"]

STEPS: tuple[Callable[[AlgorithmConfig, DescribedEnv], None], ...] = (
    set_environment,
    set_networks,
    set_faults,
    add_callbacks,
)
"""The steps by which `configure` changes a config, in this order; each leaves the settings of the user."""


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
    config: Any = None,
    env: Any = None,
    *,
    action_masks: bool | Literal["auto"] = "auto",
    vectorize: bool | Literal["auto"] = "auto",
    check_specs: bool | Literal["sample"] = "sample",
    on_env_error: Literal["stop", "restart"] = "stop",
    max_env_restarts: int = 3,
    step_timeout: float = 60.0,
    exact: bool = False,
    algo: str | None = None,
    lr: float | None = None,
    num_envs: int | None = None,
    num_env_runners: int = 0,
    seed: int | None = None,
    failure: Path | None = None,
    training: Mapping[str, Any] | None = None,
    policies: Policies | None = None,
    runner: Runner = "auto",
    module: Any = None,
) -> AlgorithmConfig:
    """Makes a config of RLlib's and an env fit each other, or makes a config for an env.

        config = configure(BCConfig().training(lr=1e-3), "gymnasium:CartPole-v1")
        config = configure("gymnasium:CartPole-v1", algo="PPO", lr=1e-3)

    A config of the user's own may be of any algorithm. Settings that differ from the defaults of its class stay as they
    are, and so do callbacks, whether they were set before or are set later. The config itself is changed.

    Args:
        config: An `AlgorithmConfig`; or the env, for a config that starts from the values of `ALGORITHMS`.
        env: The env: its name as in `envoi.adapters.load`, an env class, a factory that takes no argument, or an env;
            of one agent, of several, or a batch, whose lanes a runner steps in one call. Or the name of an env that
            `register` or `ray.tune.register_env` has registered; then its options are those of `register`, apart from
            those that differ from the defaults here. None for the env that the config has. If `config` is the env,
            `env` may be the name of the algorithm.
        action_masks: See `EnvOptions`.
        vectorize: See `EnvOptions`.
        check_specs: See `EnvOptions`.
        on_env_error: See `EnvOptions`.
        max_env_restarts: See `EnvOptions`.
        step_timeout: See `EnvOptions`.
        exact: True makes checkpoints from which training continues bit for bit as if it had not stopped; see
            `envoi.integrations.rllib.exact_resume`.
        algo: Without a config of the user's, the name of an algorithm in `ALGORITHMS`; "PPO" if left out.
        lr: Without a config of the user's, the learning rate; None for the default of `ALGORITHMS`.
        num_envs: Likewise, the envs that each runner steps together; None for the default of `ALGORITHMS`, or the lanes
            of a batch.
        num_env_runners: Likewise, the processes that step envs; 0 steps them where the algorithm runs.
        seed: Likewise, fixes the initial weights, the exploration and the envs.
        failure: A file that the env writes its error to; None for no such file.
        training: Without a config of the user's, further settings for `AlgorithmConfig.training`, which override the
            defaults of `ALGORITHMS`.
        policies: The policies of several agents, see `envoi.integrations.rllib.multi_agent.grouping.group_agents`.
        runner: The env runner, RLlib's own or one that is quicker; see
            `envoi.integrations.rllib.batched_runner.use_runner`.
        module: A subclass of RLlib's `RLModule` for all policies, for a config that has none of its own.

    Returns:
        The config, to be changed further as needed.

    Raises:
        envoi.EnvoiError: An unknown env or algorithm, an option without meaning, actions that the algorithm cannot
            choose from, or a batch of another number of lanes than asked for.
    """
    options = EnvOptions(action_masks, vectorize, check_specs, on_env_error, max_env_restarts, step_timeout)
    if isinstance(config, AlgorithmConfig):
        given = {"lr": lr, "num_envs": num_envs, "num_env_runners": num_env_runners, "seed": seed, "training": training}
        _refuse_settings({"algo": algo, "module": module, **given})
        described = describe_fitting(config, _registered(config, env, options, failure), config.env_config, None)
    else:
        env, name = (config, algo or env) if config is not None else (env, algo)
        algorithm = find(name or "PPO")
        config = load_algorithm(algorithm.name).get_default_config()
        if module is not None:
            config.rl_module(rl_module_spec=RLModuleSpec(module_class=module))
        described = describe_fitting(config, _registered(config, env, options, failure), {}, num_envs)
        config.env_runners(num_env_runners=num_env_runners)
        config.debugging(seed=seed)
        set_table_defaults(config, described, algorithm, lr, num_envs, training)
    for step in STEPS:
        step(config, described)
    set_policies(config, described, policies)
    set_env_runner(config, described, runner)
    if exact:
        save_exactly(config)
    return config


def _refuse_settings(given: Mapping[str, Any]) -> None:
    for name, value in given.items():
        if value not in (None, 0):
            raise envoi.EnvoiError(
                f"{name}: expected it on the config itself, as it is your own, got {value!r}; {name}=… is for a config "
                "that starts from the values of ALGORITHMS, configure(env, algo=…)"
            )


def _registered(config: AlgorithmConfig, env: Any, options: EnvOptions, failure: Path | None) -> RegisteredEnv:
    """Returns a registered env with the options of `configure`; registers it, if it has no name yet."""
    if env is None:
        env = config.env
    if env is None:
        raise envoi.EnvoiError("env: expected an env, its name or its factory, got None, and the config has no env")
    known = registered(env) if isinstance(env, str) else None
    if known is not None:
        return known.with_options(**options.changes())
    name = f"envoi-{env if isinstance(env, str) else getattr(env, '__qualname__', type(env).__qualname__)}"
    return register(name, env, **asdict(options), failure=failure)
