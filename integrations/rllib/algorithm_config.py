"""Makes RLlib's `AlgorithmConfig` and an env fit each other."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Literal

import envoi

from ..errors import missing_rllib
from .algorithms import Algorithm, find
from .batched_runner import Runner
from .env_options import EnvOptions
from .multi_agent.grouping import Policies

try:
    from ray.rllib.algorithms.algorithm import Algorithm as RLlibAlgorithm
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec

    from .configuration import (
        add_callbacks,
        describe_fitting,
        set_env_runner,
        set_environment,
        set_faults,
        set_networks,
        set_policies,
        set_table_defaults,
    )
    from .exact_resume import save_exactly
    from .registration import CARRIED, OPTIONS, CarriedEnv, RegisteredEnv, register_for
except ImportError as error:
    raise missing_rllib(error) from error

__all__ = ["configure", "load_algorithm"]


def load_algorithm(algo: str) -> type[RLlibAlgorithm]:
    """Returns the RLlib class of an algorithm; imports RLlib."""
    algorithm = find(algo)
    try:
        return getattr(import_module(algorithm.module), algorithm.name)
    except ImportError as error:
        raise missing_rllib(error) from error


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
        action_masks: See `EnvOptions`. The config has this option and the next five in its `env_config`, where they
            differ from the defaults, so that other configs of the env may have others.
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
        training: Likewise, further settings for `AlgorithmConfig.training`, over the defaults of `ALGORITHMS`.
        failure: A file that the env writes its error to; None for no such file.
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
    options = EnvOptions.of(locals())
    if isinstance(config, AlgorithmConfig):
        given = {"lr": lr, "num_envs": num_envs, "num_env_runners": num_env_runners or None, "seed": seed}
        _check_own(config, {"algo": algo, "module": module, **given, "training": training})
        described = describe_fitting(config, _set_env(config, env, options, failure), None)
    else:
        env, algorithm = _env_and_algorithm(config, env, algo)
        config = load_algorithm(algorithm.name).get_default_config()
        if module is not None:
            config.rl_module(rl_module_spec=RLModuleSpec(module_class=module))
        described = describe_fitting(config, _set_env(config, env, options, failure), num_envs)
        config.env_runners(num_env_runners=num_env_runners)
        config.debugging(seed=seed)
        set_table_defaults(config, described, algorithm, lr, num_envs, training)
    for step in (set_environment, set_networks, set_faults, add_callbacks):  # each leaves the settings of the user
        step(config, described)
    set_policies(config, described, policies)
    set_env_runner(config, described, runner)
    if exact:
        save_exactly(config)
    return config


def _check_own(config: AlgorithmConfig, given: Mapping[str, Any]) -> None:
    """Checks a config of the user's own, and that no setting is given which belongs on it."""
    for name, value in given.items():
        if value is not None:
            raise envoi.EnvoiError(
                f"{name}: expected it on the config itself, as it is your own, got {value!r}; {name}=… is for a config "
                "that starts from the values of ALGORITHMS, configure(env, algo=…)"
            )
    if getattr(config, "_is_frozen", False):
        raise envoi.EnvoiError(
            "config: expected one that can be changed, got a frozen one, as an algorithm has it; give "
            "config.copy(copy_frozen=False)"
        )
    if not (config.enable_rl_module_and_learner and config.enable_env_runner_and_connector_v2):
        raise envoi.EnvoiError(
            "config: expected RLlib's new API stack, got the old one, whose env runners envoi does not serve; call "
            "config.api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)"
        )


def _env_and_algorithm(first: Any, second: Any, algo: str | None) -> tuple[Any, Algorithm]:
    """Returns the env and the algorithm of a call without a config of the user's."""
    if isinstance(first, type) and issubclass(first, (AlgorithmConfig, RLlibAlgorithm)):
        name = first.__name__.removesuffix("Config")
        raise envoi.EnvoiError(
            f"config: expected an instance of AlgorithmConfig, got the class {first.__name__}; give {name}Config(), or "
            f"the env and the name of the algorithm, configure(env, {name!r})"
        )
    if first is None or second is None:
        return (second if first is None else first), find(algo or "PPO")
    if not isinstance(second, str):
        raise envoi.EnvoiError(
            f"config: expected an instance of AlgorithmConfig beside the env {second!r}, got {first!r}; or else "
            "expected the name of an algorithm after the env"
        )
    if algo is not None:
        raise envoi.EnvoiError(f"algo: got two algorithms, {second!r} and {algo!r}; give one of them")
    return first, find(second)


def _set_env(config: AlgorithmConfig, env: Any, options: EnvOptions, failure: Path | None) -> RegisteredEnv:
    """Returns the registered env of a config, which receives the options of the env."""
    if env is None:
        env = config.env
    if env is None:
        raise envoi.EnvoiError("env: expected an env, its name or its factory, got None, and the config has no env")
    known = register_for(env)
    changes = options.changes() | ({} if failure is None else {"failure": str(failure)})
    before = config.env_config.get(OPTIONS, {})
    config.env_config = {**config.env_config, OPTIONS: {**before, **changes, CARRIED: CarriedEnv(known)}}
    return known.with_config(config.env_config)
