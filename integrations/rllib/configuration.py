"""Adapts RLlib's `AlgorithmConfig` to an environment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal

from gymnasium import spaces
from gymnasium.vector import VectorEnv

import envoi
from envoi.adapters.shared.loss import warn_user
from envoi.batching.loop import Lanes

from ..errors import missing_rllib
from .algorithms import ACTIONS, Algorithm, check_actions, find
from .multi_agent.grouping import FixedMapping, Policies, group_spaces
from .settings import EnvOptions, Runner

try:
    from ray.rllib.algorithms.algorithm import Algorithm as RLlibAlgorithm
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
    from ray.rllib.callbacks.callbacks import RLlibCallback
    from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
    from ray.rllib.core.rl_module.rl_module import RLModuleSpec
    from ray.rllib.policy.policy import PolicySpec
    from ray.rllib.utils import force_list

    from envoi.adapters.rllib.creator import FORM, arguments_of
    from envoi.adapters.rllib.masks import has_masks, unmasked

    from .batched_runner import use_runner
    from .callbacks import EnvoiCallbacks
    from .curriculum import CHOSEN, ChosenContexts, choose
    from .exact_resume import save_exactly
    from .modules import check_module, has_own_module, networks_of, set_modules
    from .modules.catalogs import is_flat
    from .modules.choice import ALGORITHMS_WITH_MASKS, is_own_module
    from .multi_agent.league import SelfPlayMapping
    from .registration import CARRIED, OPTIONS, CarriedEnv, RegisteredEnv, check_lanes, register_for
except ImportError as error:
    raise missing_rllib(error) from error


def load_algorithm(algo: str) -> type[RLlibAlgorithm]:
    """Returns the RLlib class of an algorithm; imports RLlib."""
    name = find(algo).name
    return getattr(import_module(f"ray.rllib.algorithms.{name.lower()}"), name)


def configure(
    config: Any = None,
    env: Any = None,
    *,
    contexts: Any = None,
    curriculum: Any = None,
    eval_contexts: Any = None,
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
    training: Mapping[str, Any] | None = None,
    policies: Policies | None = None,
    runner: Runner = "auto",
    module: Any = None,
) -> AlgorithmConfig:
    """Adapts an RLlib config to an env, or makes a config for an env.

        config = configure(BCConfig().training(lr=1e-3), "gymnasium:CartPole-v1")
        config = configure("gymnasium:CartPole-v1", algo="PPO", lr=1e-3)

    Your own config may be of any algorithm; it is changed in place. It keeps settings that differ from the defaults of
    its class, and all callbacks, whether you set them before or later.

    Args:
        config: An `AlgorithmConfig`; or the env, for a config that starts from the values of `ALGORITHMS`.
        env: The env: its name as in `envoi.adapters.load`, an env class, a factory that takes no argument, or an env;
            single-agent, multi-agent, or a batch, whose lanes a runner steps in one call. Or the name of an env that
            `register` or `ray.tune.register_env` has registered; then the options of `register` apply, except for those
            that differ from the defaults here. None for the config's env. If `config` is the env, `env` may be the name
            of the algorithm.
        contexts: The training contexts. They replace the set and the selector of an `envoi.Contextual`; any other env
            is wrapped in one that hides them. A set, the path of a file, or a text such as `"length=0.3..0.7:8"`, see
            `envoi.context.read_contexts`; 100 samples of a range. None for those of the env, which chooses them itself
            unless there is a curriculum.
        curriculum: An object of `envoi.curricula` that chooses the contexts of all env runners, and learns after each
            iteration how their episodes ended; see `curriculum_of`. None uses the contexts in turn.
        eval_contexts: The only contexts of evaluation, used in turn; None for those of training.
        action_masks: See `EnvOptions`. This option and the next five are stored in `env_config` if they differ from the
            defaults, so that other configs of the same env can have other values.
        vectorize: See `EnvOptions`.
        check_specs: See `EnvOptions`.
        on_env_error: See `EnvOptions`.
        max_env_restarts: See `EnvOptions`.
        step_timeout: See `EnvOptions`.
        exact: True makes checkpoints from which training continues bit for bit as if it had not stopped; see
            `envoi.integrations.rllib.exact_resume`.
        algo: Only without a config of your own: the name of an algorithm in `ALGORITHMS`; "PPO" if left out.
        lr: Only without a config of your own: the learning rate; None for the default of `ALGORITHMS`.
        num_envs: Only without a config of your own: the envs that each runner steps together; None for the default of
            `ALGORITHMS`, or the lanes of a batch.
        num_env_runners: Only without a config of your own: the processes that step envs; 0 for the algorithm's process.
        seed: Only without a config of your own: the seed of the initial weights, the exploration and the envs.
        training: Only without a config of your own: more settings for `AlgorithmConfig.training`.
        policies: The policies of several agents, see `envoi.integrations.rllib.multi_agent.grouping.group_agents`.
        runner: The env runner, RLlib's own or a faster one; see `envoi.integrations.rllib.batched_runner.use_runner`.
        module: A subclass of RLlib's `RLModule` for all policies, for a config that has none of its own.

    Returns:
        The config, to be changed further as needed.

    Raises:
        envoi.EnvoiError: An unknown env or algorithm, an option without effect, actions that the algorithm cannot
            choose from, or a batch with another number of lanes than requested.
    """
    options = EnvOptions.of(locals())
    chosen = (contexts, curriculum, eval_contexts)
    if isinstance(config, AlgorithmConfig):
        given = {"lr": lr, "num_envs": num_envs, "num_env_runners": num_env_runners or None, "seed": seed}
        _check_own(config, {"algo": algo, "module": module, **given, "training": training})
        known = _set_env(config, env, options, chosen)
        described = _describe_fitting(config, known, None)
    else:
        env, algorithm = _env_and_algorithm(config, env, algo)
        config = load_algorithm(algorithm.name).get_default_config()
        if module is not None:
            config.rl_module(rl_module_spec=RLModuleSpec(module_class=module))
        known = _set_env(config, env, options, chosen)
        described = _describe_fitting(config, known, num_envs)
        config.env_runners(num_env_runners=num_env_runners)
        config.debugging(seed=seed)
        _set_table_defaults(config, described, algorithm, lr, num_envs, training)
    # Each leaves the settings of the user.
    _set_environment(config, described)
    _set_networks(config, described)
    config.__class__ = _keeping(type(config))
    for name in ("callbacks_class", "evaluation_config"):
        setattr(config, name, getattr(config, name))  # which now adds envoi's
    _set_policies(config, described, policies)
    use_runner(config, runner)
    if exact:
        save_exactly(config)
    return config


def _check_own(config: AlgorithmConfig, given: Mapping[str, Any]) -> None:
    """Checks a user's config, and that no argument is given that belongs on the config itself."""
    for name, value in given.items():
        if value is not None:
            raise envoi.EnvoiError(
                f"{name}: expected it on the config itself, as it is your own, got {value!r}; {name}=… is for a config "
                "that starts from the values of ALGORITHMS, configure(env, algo=…)"
            )
    if not (config.enable_rl_module_and_learner and config.enable_env_runner_and_connector_v2):
        raise envoi.EnvoiError(
            "config: expected RLlib's new API stack, got the old one, whose env runners envoi does not serve; call "
            "config.api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)"
        )


def _env_and_algorithm(first: Any, second: Any, algo: str | None) -> tuple[Any, Algorithm]:
    """Reads the env and the algorithm from the arguments of a call without a user's config."""
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


def _set_env(config: AlgorithmConfig, env: Any, options: EnvOptions, chosen: tuple[Any, Any, Any]) -> RegisteredEnv:
    """Stores the env's options in a config; returns the registered env with these options."""
    if env is None:
        env = config.env
    if env is None:
        raise envoi.EnvoiError("env: expected an env, its name or its factory, got None, and the config has no env")
    known = register_for(env)
    changes = options.changes()
    before = config.env_config.get(OPTIONS, {})
    if any(one is not None for one in chosen):
        training, evaluation = choose(known.env, arguments_of(config.env_config), *chosen)
        changes[CHOSEN] = training
        _set_contexts_of_evaluation(config, evaluation)
    config.env_config = {**config.env_config, OPTIONS: {**before, **changes, CARRIED: CarriedEnv(known)}}
    return known.with_config(config.env_config)


def _set_contexts_of_evaluation(config: AlgorithmConfig, chosen: ChosenContexts) -> None:
    """Sets the evaluation contexts of a config, because RLlib would otherwise evaluate in the training contexts."""
    given: Any = config.evaluation_config
    own = given.env_config if isinstance(given, AlgorithmConfig) else (given or {}).get("env_config") or {}
    own = {**own, OPTIONS: {**own.get(OPTIONS, {}), CHOSEN: chosen}}
    if isinstance(given, AlgorithmConfig):
        given.env_config = own
    else:
        config.evaluation_config = {**(given or {}), "env_config": own}


def _is_default(config: AlgorithmConfig, name: str) -> bool:
    """Returns True if a setting has the default of its config's class, so that it is free to change.

    A default that the user has set explicitly looks the same.
    """
    return bool(getattr(config, name) == getattr(type(config)(), name))


def _set_default(config: AlgorithmConfig, **values: Any) -> None:
    """Sets attributes of a config that its user has not set."""
    for name in [name for name in values if _is_default(config, name)]:
        setattr(config, name, values[name])


@dataclass(frozen=True)
class DescribedEnv:
    """A registered env, and the properties of one instance of it."""

    registered: RegisteredEnv
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    lanes: int | None
    has_own_batch: bool
    has_masks: bool
    is_multi_agent: bool
    form: Mapping[str, Any]

    @property
    def spaces_of_agents(self) -> Mapping[Any, tuple[spaces.Space[Any], spaces.Space[Any]]]:
        """The observation space and the action space of each agent; the key of a single agent is None."""
        observations, actions = self.observation_space, self.action_space
        if not self.is_multi_agent:
            return {None: (observations, actions)}
        assert isinstance(observations, spaces.Dict)
        assert isinstance(actions, spaces.Dict)
        return {agent: (observations[agent], actions[agent]) for agent in actions.spaces}


def _describe_env(
    registered: RegisteredEnv, env_config: Mapping[str, Any], num_envs: int | None, form: Mapping[str, Any]
) -> DescribedEnv:
    """Makes one instance of a registered env, looks at it, and closes it."""
    made = registered.make({**env_config, FORM: form})
    is_batch = isinstance(made, VectorEnv)
    try:
        lanes = check_lanes(made, num_envs) if is_batch else None
        is_multi_agent = hasattr(made, "action_spaces")
        of_one = "single_" if lanes is not None else ""
        return DescribedEnv(
            registered,
            getattr(made, f"{of_one}observation_space"),
            getattr(made, f"{of_one}action_space"),
            lanes,
            lanes is not None or (not is_multi_agent and _has_own_batch(made.core)),
            has_masks(made.core),
            is_multi_agent,
            form,
        )
    finally:
        made.close()


def _has_own_batch(core: Any) -> bool:
    """Returns True if a core environment is a model whose batch steps all lanes together, natively or compiled."""
    if not isinstance(core.unwrapped, envoi.Model):
        return False
    inside: Any = envoi.batch(core, 1)
    while not isinstance(inside, Lanes):
        if not hasattr(inside, "env"):
            return True
        inside = inside.env
    obstacle: Any = getattr(inside, "obstacle", None)
    return obstacle is not None and not obstacle()


class UnmaskedWarning(UserWarning):
    """An env has action masks, and the algorithm has no module that respects them."""


VECTOR = "vector_entry_point"


def _set_environment(config: AlgorithmConfig, env: DescribedEnv) -> None:
    """Sets a config's env, its restarts, the way its lanes are stepped, and whether actions are normalised."""
    config.env = env.registered.name
    # RLlib's checks advance the envs' random streams, and envoi checks more. A runner whose env failed would sleep for
    # a minute before it dies, and the job waits for it.
    _set_default(
        config,
        disable_env_checking=True,
        delay_between_env_runner_restarts_s=1.0,
        restart_failed_sub_environments=env.registered.options.on_env_error == "restart",
    )
    actions = [action for _, action in env.spaces_of_agents.values()]
    parts = [part for action in actions for part in (action.spaces if isinstance(action, spaces.Tuple) else [action])]
    if not any(isinstance(part, spaces.Box) for part in parts):
        _set_default(config, normalize_actions=False)  # for other actions it only costs a deep copy of each
    if env.lanes is not None:
        if env.registered.options.vectorize is False:
            raise envoi.EnvoiError(
                f"vectorize: expected True or 'auto' for a batch, whose {env.lanes} lanes take one step together, got "
                "False; leave it out, or register an env of one lane"
            )
        if not _is_default(config, "num_envs_per_env_runner") and config.num_envs_per_env_runner != env.lanes:
            raise envoi.EnvoiError(
                f"num_envs_per_env_runner: expected {env.lanes}, the lanes of the batch, got "
                f"{config.num_envs_per_env_runner}; leave it out, or make a batch of as many lanes"
            )
        config.num_envs_per_env_runner = env.lanes
        config.gym_env_vectorize_mode = VECTOR
    elif env.registered.options.vectorize is True or (env.registered.options.vectorize == "auto" and env.has_own_batch):
        if env.is_multi_agent:
            raise envoi.EnvoiError(
                "vectorize: expected False or 'auto' for an env of several agents, as RLlib steps them one by one, "
                "got True"
            )
        _set_default(config, gym_env_vectorize_mode=VECTOR)


def _describe_fitting(config: AlgorithmConfig, registered: RegisteredEnv, num_envs: int | None) -> DescribedEnv:
    """Describes an env in the form that the algorithm's networks take."""
    networks, is_own = networks_of(config), has_own_module(config)
    form: dict[str, Any] = {"canonical": "structured"} if networks is not None or is_own else {}
    described = _describe_env(registered, config.env_config, num_envs, {**form, "action_masks": False})
    bases = [base.__name__ for base in getattr(config.algo_class, "__mro__", ())]
    known = next((name for name in bases if name in ACTIONS), None)
    if known is not None and not is_own:
        check_actions(known, described.action_space)
    asked = registered.options.action_masks
    if asked is False or (asked == "auto" and (is_own or not described.has_masks)):
        return described
    if not is_own and (networks is None or networks.masked is None):
        _warn_unmasked(config.algo_class.__name__ if config.algo_class else type(config).__name__, registered)
        return described
    return _describe_env(registered, config.env_config, num_envs, {**form, "action_masks": True})


def _warn_unmasked(algorithm: str, registered: RegisteredEnv) -> None:
    """Warns that an algorithm has no module with action masks; raises an error if the user has requested masks."""
    able = f"these have one: {', '.join(ALGORITHMS_WITH_MASKS)}"
    if registered.options.action_masks is True:
        raise envoi.EnvoiError(
            f"action_masks: {algorithm} has no module with masks; {able}; or give a module of your own"
        )
    warn_user(
        f"{registered.name}: the env has action masks, and {algorithm} has no module that respects them, so that it "
        f"chooses illegal actions too; {able}",
        UnmaskedWarning,
    )


def _set_networks(config: AlgorithmConfig, env: DescribedEnv) -> None:
    """Sets the form of the env. Sets the module that its observations need, unless the user has set one."""
    config.env_config = {**config.env_config, FORM: dict(env.form)}
    set_modules(config, env.spaces_of_agents.values())
    given: Any = config.rl_module_spec
    # Which agents each of several modules plays is not known yet.
    if isinstance(given, RLModuleSpec) and is_own_module(config, given):
        checked: list[Any] = []  # spaces have no hash
        for observations, actions in env.spaces_of_agents.values():
            pair = (given.observation_space or observations, given.action_space or actions)
            if pair not in checked:
                checked.append(pair)
                settings = {"model_config": given.model_config, "catalog_class": given.catalog_class}
                check_module(given.module_class, *pair, **settings, config=config)


_BUFFERS = {
    "EpisodeReplayBuffer": "MultiAgentEpisodeReplayBuffer",
    "PrioritizedEpisodeReplayBuffer": "MultiAgentPrioritizedEpisodeReplayBuffer",
}
"""RLlib's replay buffers of one agent, and those of several, which it does not choose by itself."""


def _set_policies(config: AlgorithmConfig, env: DescribedEnv, policies: Policies | None) -> None:
    """Sets the policies of several agents, their mapping, and a fitting replay buffer.

    RLlib makes the module of each policy from the module that the user has set, or from its own.
    """
    mapping: Any = config.policy_mapping_fn
    is_replaced = isinstance(mapping, (FixedMapping, SelfPlayMapping)) and (
        policies is not None or set(mapping.agents) != env.spaces_of_agents.keys()
    )
    if config.is_multi_agent and not is_replaced:
        if policies is not None:
            raise envoi.EnvoiError(
                f"policies: the config has policies of its own, {', '.join(config.policies)}, so that policies="
                f"{policies!r} has no effect; leave it out, or leave out multi_agent(policies=…)"
            )
        return
    grouping = group_spaces(policies, env.observation_space, env.action_space)
    if grouping is None:
        return
    config.multi_agent(
        policies={name: PolicySpec() for name in (*grouping.policies, *grouping.frozen)},
        policy_mapping_fn=grouping.mapping,
        policies_to_train=list(grouping.policies) if grouping.frozen else None,
    )
    buffer: dict[str, Any] = getattr(config, "replay_buffer_config", None) or {}
    if buffer.get("type") in _BUFFERS:
        # With all of its settings, which RLlib drops where the type changes.
        config.training(replay_buffer_config={**buffer, "type": _BUFFERS[buffer["type"]]})  # pyright: ignore[reportCallIssue]


class KeepsCallbacks(AlgorithmConfig):
    """A config that adds envoi's callbacks to every callbacks class that is set, also for evaluations."""

    def __setattr__(self, key: str, value: Any) -> None:
        if key == "callbacks_class":
            value = _with_envois([*_envois(self.__dict__.get(key)), *force_list(value)])
        elif key == "evaluation_config" and isinstance(value, Mapping):
            kept = {name: _with_envois(value[name]) for name in ("callbacks", "callbacks_class") if name in value}
            value = {**value, **kept}
        super().__setattr__(key, value)

    def __reduce__(self) -> tuple[Any, ...]:
        # By the class of RLlib or the user, because pickle finds no class that was made here by its name.
        return _blank, (type(self).__bases__[1],), dict(self.__dict__)


def _with_envois(callbacks: Any) -> Any:
    """Returns callbacks classes with envoi's as the first: one class, or a list."""
    listed = force_list(callbacks)
    ours = next((each for each in _envois(listed) if each is not EnvoiCallbacks), EnvoiCallbacks)
    others = [each for each in listed if each is not RLlibCallback and each not in _envois(listed)]
    return [ours, *others] if others else ours


def _envois(callbacks: Any) -> list[type[EnvoiCallbacks]]:
    """Returns the classes among `callbacks` that are `EnvoiCallbacks` or extend it."""
    return [each for each in force_list(callbacks) if isinstance(each, type) and issubclass(each, EnvoiCallbacks)]


@cache
def _keeping(kind: type[AlgorithmConfig]) -> type[AlgorithmConfig]:
    if issubclass(kind, KeepsCallbacks):
        return kind
    return type(kind.__name__, (KeepsCallbacks, kind), {"__module__": kind.__module__, "__doc__": kind.__doc__})


def _blank(kind: type[AlgorithmConfig]) -> AlgorithmConfig:
    """Makes a config without attributes, of the class that keeps callbacks."""
    return object.__new__(_keeping(kind))


def _set_table_defaults(
    config: AlgorithmConfig,
    env: DescribedEnv,
    algorithm: Algorithm,
    lr: float | None,
    num_envs: int | None,
    training: Mapping[str, Any] | None,
) -> None:
    """Sets the values of `ALGORITHMS`, which replace defaults of RLlib that work badly, and the user's values."""
    observations, actions = zip(*env.spaces_of_agents.values(), strict=True)
    kinds = {type(space).__name__ for space in actions}
    rate = lr if lr is not None else min((algorithm.lr[kind] for kind in kinds if kind in algorithm.lr), default=None)
    rates = {} if rate is None else dict.fromkeys(algorithm.rates, rate)
    config.training(**{**algorithm.training, **rates, **(training or {})})
    config.env_runners(num_envs_per_env_runner=env.lanes or num_envs or algorithm.num_envs)
    config.debugging(log_level="ERROR")
    if algorithm.model and all(is_flat(unmasked(space)) for space in observations):
        config.rl_module(model_config=DefaultModelConfig(**algorithm.model))
    if algorithm.name in {"APPO", "IMPALA"}:
        config.reporting(min_time_s_per_iteration=2)  # RLlib would report every 10 s
