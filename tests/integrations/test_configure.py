"""`configure` on configs of the user's own: what it sets, what it leaves, and callbacks of both."""

import inspect
import math
import pickle
import re
import sys
import warnings
from pathlib import Path
from types import ModuleType

import gymnasium
import pytest
from ray import cloudpickle, tune
from ray.rllib.algorithms.bc import BCConfig
from ray.rllib.algorithms.cql import CQLConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.marwil import MARWILConfig
from ray.rllib.algorithms.ppo import PPO, PPOConfig
from ray.rllib.algorithms.sac import SACConfig
from ray.rllib.callbacks.callbacks import RLlibCallback
from ray.tune.registry import ENV_CREATOR, _global_registry

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # RLlib makes an env while this is imported
    from ray.rllib.algorithms.dreamerv3 import DreamerV3Config

import envoi
from envoi.integrations.errors import missing_rllib
from envoi.integrations.rllib import EnvOptions, configure, register
from envoi.integrations.rllib.callbacks import EnvoiCallbacks
from envoi.integrations.rllib.env_guard import GuardedEnv
from envoi.integrations.rllib.registration import env_of_config, registered


class Own(RLlibCallback):
    pass


class Other(RLlibCallback):
    pass


@pytest.mark.parametrize("kind", [PPOConfig, DQNConfig, BCConfig, MARWILConfig, DreamerV3Config, SACConfig, CQLConfig])
def test_config_of_any_algorithm_gets_the_env(kind):
    config, has_real_actions = kind(), kind in (SACConfig, CQLConfig)
    env = "envoi:pendulum" if has_real_actions else "envoi:catch"
    assert configure(config, env) is config
    assert isinstance(config, kind)
    assert config.env == f"envoi-{env}"
    assert config.disable_env_checking is True
    assert config.normalize_actions is has_real_actions
    assert config.algo_class is kind().algo_class


def test_settings_of_the_user_stay():
    config = PPOConfig().training(lr=0.123, gamma=0.5)
    config.env_runners(num_env_runners=2, num_envs_per_env_runner=7, gym_env_vectorize_mode="async")
    config.fault_tolerance(delay_between_env_runner_restarts_s=5, max_num_env_runner_restarts=9)
    configure(config, "envoi:catch")
    assert (config.lr, config.gamma, config.num_env_runners, config.num_envs_per_env_runner) == (0.123, 0.5, 2, 7)
    assert config.gym_env_vectorize_mode == "async"
    assert config.delay_between_env_runner_restarts_s == 5
    assert config.max_num_env_runner_restarts == 9


@pytest.mark.parametrize(
    ("env", "vectorize", "mode"),
    [
        ("envoi:catch", "auto", "vector_entry_point"),
        ("envoi:cartpole", "auto", "vector_entry_point"),  # inside a wrapper
        ("envoi:catch", False, "sync"),
        ("gymnasium:CartPole-v1", "auto", "sync"),
        ("gymnasium:CartPole-v1", True, "vector_entry_point"),
        ("envoi:nim", "auto", "sync"),
    ],
)
def test_lanes_are_stepped_as_a_batch_where_the_env_has_a_step_for_them(env, vectorize, mode):
    assert configure(PPOConfig(), env, vectorize=vectorize).gym_env_vectorize_mode == mode


def four_lanes():
    return envoi.batch(envoi.models.Catch(), 4)


@pytest.mark.parametrize(
    ("env", "lanes", "vectorize", "message"),
    [
        ("envoi:nim", 1, True, "vectorize: expected False or 'auto' for an env of several agents"),
        (four_lanes, 3, "auto", "expected 4, the lanes of the batch, got 3"),
        (four_lanes, 4, False, "vectorize: expected True or 'auto' for a batch, whose 4 lanes"),
    ],
)
def test_lanes_that_an_env_cannot_have_are_refused(env, lanes, vectorize, message):
    assert configure(PPOConfig(), four_lanes).num_envs_per_env_runner == 4
    with pytest.raises(envoi.EnvoiError, match=message):
        configure(PPOConfig().env_runners(num_envs_per_env_runner=lanes), env, vectorize=vectorize)


# Callbacks.


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("given", [Own, [Own, Other], RLlibCallback, None])
def test_classes_of_the_user_join_envois_before_and_after(given, after):
    own = [each for each in (given if isinstance(given, list) else [given]) if each not in (None, RLlibCallback)]
    config = PPOConfig()
    if not after:
        config.callbacks(given, on_episode_end=print)
    configure(config, "envoi:catch")
    if after:
        config.callbacks(Other)
        config.callbacks(given, on_episode_end=print)
    config.evaluation(evaluation_interval=1, evaluation_config={"callbacks": Own, "explore": False})
    config = config if after else configure(config, "envoi:catch")
    assert config.callbacks_class == ([EnvoiCallbacks, *own] if own else EnvoiCallbacks)
    assert config.callbacks_on_episode_end is print
    assert config.get_evaluation_config_object().callbacks_class == [EnvoiCallbacks, Own]


def test_callbacks_survive_copies_pickles_and_dicts():
    config = configure(PPOConfig(), "envoi:catch")
    for same in (
        pickle.loads(pickle.dumps(config)),
        config.copy(),
        cloudpickle.loads(cloudpickle.dumps(config)),
        PPOConfig.from_state(config.get_state()),
        config,
    ):
        same.callbacks(Own)
        assert same.callbacks_class == [EnvoiCallbacks, Own]
    assert PPOConfig().update_from_dict(config.to_dict()).callbacks_class == [EnvoiCallbacks, Own]


@pytest.mark.parametrize("env", ["envoi:catch", "pettingzoo:classic/tictactoe_v3"])  # the latter has masks
def test_configured_twice_is_as_configured_once(env):
    config = configure(PPOConfig(), env)
    before, kind = vars(config).copy(), type(config)
    shown = {name: str(value) for name, value in before.items()}
    configure(config, env)
    assert type(config) is kind
    assert config.policy_mapping_fn is before["policy_mapping_fn"]
    assert {name: str(value) for name, value in vars(config).items()} == shown


def test_policies_of_an_earlier_call_stay_until_others_are_given():
    config = configure(PPOConfig(), "envoi:nim", policies="self-play")
    assert "opponent_0" in configure(config, "envoi:nim").policies
    assert {*configure(config, "envoi:nim", policies="per-agent").policies} == {"first", "second"}
    assert {*configure(config, "envoi:rps").policies} == {"shared"}  # of other agents


# Options and names.


def test_options_of_a_registered_env_are_those_of_register_and_the_changes():
    register("envoi-own-options", "envoi:catch", check_specs=True, step_timeout=5)
    config = configure(PPOConfig(), "envoi-own-options", max_env_restarts=1)
    assert config.env == "envoi-own-options"
    assert env_of_config(config).options == EnvOptions(check_specs=True, step_timeout=5, max_env_restarts=1)
    assert registered("envoi-own-options").options == EnvOptions(check_specs=True, step_timeout=5)


def test_env_that_is_registered_with_tune_is_taken_with_its_env_config():
    tune.register_env("envoi-foreign", lambda config: gymnasium.make("CartPole-v1", max_episode_steps=config["most"]))
    config = PPOConfig().environment("envoi-foreign", env_config={"most": 7})
    configure(config)
    assert config.env == "envoi-envoi-foreign"  # others may use the name and expect the user's own creator
    env = _made(config)
    assert isinstance(env, GuardedEnv)
    env.reset()
    ended = [env.step(env.action_space.sample())[3] for _ in range(7)]
    assert ended == [False] * 6 + [True]


def _made(config):
    """The env as RLlib makes it, by what is registered with Tune."""
    return _global_registry.get(ENV_CREATOR, config.env)(config.env_config)


def test_configs_of_one_env_have_options_of_their_own():
    strict = configure(PPOConfig(), "envoi:catch", step_timeout=5)
    plain = configure(DQNConfig(), "envoi:catch")
    assert strict.env == plain.env
    assert (_made(strict).guard.limit, _made(plain).guard.limit) == (5, 60)
    again = configure(strict, max_env_restarts=7)
    assert env_of_config(again).options == EnvOptions(step_timeout=5, max_env_restarts=7)


def test_factories_of_one_name_are_different_envs():
    def catch(size):
        return lambda: envoi.TimeLimit(envoi.models.Catch(), size)

    first, second, third = catch(5), catch(7), catch(9)
    configs = [configure(PPOConfig(), factory) for factory in (first, second, first, third)]
    assert [_made(config).unwrapped.core.max_episode_steps for config in configs] == [5, 7, 5, 9]
    assert configs[0].env == configs[2].env
    assert len({config.env for config in configs}) == 3


def _loaded_elsewhere(config):
    """The config as another process loads it, in which nothing is registered."""
    pickled = cloudpickle.dumps(config)
    _global_registry.unregister(ENV_CREATOR, config.env)
    return cloudpickle.loads(pickled)


@pytest.mark.parametrize("env", ["envoi:catch", lambda: envoi.models.Catch()])
def test_env_travels_with_its_config(env):
    config = _loaded_elsewhere(PPOConfig().update_from_dict(configure(PPOConfig(), env, step_timeout=5).to_dict()))
    assert isinstance(_made(config).unwrapped.core.unwrapped, envoi.models.Catch)
    assert env_of_config(config).options == EnvOptions(step_timeout=5)


def test_env_that_is_missing_elsewhere_names_the_call(monkeypatch):
    monkeypatch.setitem(sys.modules, "local_envs", module := ModuleType("local_envs"))
    exec("import envoi\nclass Own(envoi.models.Catch): pass", vars(module))
    config = configure(PPOConfig(), module.Own)
    pickled = cloudpickle.dumps(config)
    monkeypatch.delitem(sys.modules, "local_envs")
    _global_registry.unregister(ENV_CREATOR, config.env)
    config = cloudpickle.loads(pickled)
    with pytest.raises(envoi.EnvoiError, match=r"No module named 'local_envs'.*call .*register\('envoi-Own', env\)"):
        _made(config)


@pytest.mark.parametrize(
    ("arguments", "options", "message"),
    [
        ((DQNConfig(), "envoi:pendulum"), {}, "DQN cannot choose from .* Box.*; these can: PPO, APPO, IMPALA, SAC"),
        ((CQLConfig(), "envoi:catch"), {}, r"CQL cannot choose from the actions Discrete\(3\)"),
        (("envoi:catch", "DQN"), {"algo": "PPO"}, "algo: got two algorithms, 'DQN' and 'PPO'"),
        (("envoi:catch", 3), {}, "expected an instance of AlgorithmConfig beside the env 3"),
        ((PPOConfig, "envoi:catch"), {}, r"got the class PPOConfig; give PPOConfig\(\)"),
        ((PPO, "envoi:catch"), {}, r"got the class PPO; give PPOConfig\(\), or .* configure\(env, 'PPO'\)"),
        ((PPOConfig(),), {}, "env: expected an env, its name or its factory"),
        ((PPOConfig(), "envoi:catchh"), {}, "envoi:catch"),
        (("envoi:catch", "PP0"), {}, "'PP0'; did you mean 'PPO'"),
        *(
            ((PPOConfig(), "envoi:catch"), option, f"{next(iter(option))}: expected it on the config itself")
            for option in ({"lr": 1.0}, {"seed": 0}, {"num_env_runners": 2}, {"training": {}}, {"algo": "PPO"})
        ),
    ],
)
def test_mistaken_arguments_are_named(arguments, options, message):
    with pytest.raises(envoi.EnvoiError, match=message):
        configure(*arguments, **options)


@pytest.mark.parametrize("old", [(False, False), (True, False), (False, True)])
def test_old_api_stack_is_refused(old):
    config = PPOConfig().api_stack(enable_rl_module_and_learner=old[0], enable_env_runner_and_connector_v2=old[1])
    new = "api_stack(enable_rl_module_and_learner=True, enable_env_runner_and_connector_v2=True)"
    with pytest.raises(envoi.EnvoiError, match=re.escape(f"call config.{new}")):
        configure(config, "envoi:catch")


def test_supported_versions_of_ray_are_named():
    root = Path(__file__).parents[2]
    version = re.search(r"ray\[rllib\]>=([\d.]+)", (root / "pyproject.toml").read_text())[1]
    error = missing_rllib(ImportError("No module named 'ray'"))
    for text in (str(error), (root / "README.md").read_text(), (root / "docs" / "rllib.md").read_text()):
        assert f"Ray {version}" in text


@pytest.mark.parametrize("function", [configure, register])
def test_options_are_the_same_wherever_they_are_given(function):
    taken, options = (inspect.signature(one, eval_str=True).parameters for one in (function, EnvOptions))
    for name, option in options.items():
        assert (taken[name].default, taken[name].annotation) == (option.default, option.annotation)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"check_specs": "sampel"}, "check_specs: expected 'sample' or True or False, got 'sampel'; did you mean"),
        ({"on_env_error": "ignore"}, "on_env_error: expected 'stop' or 'restart', got 'ignore'"),
        ({"vectorize": 1}, "vectorize: expected 'auto' or True or False, got 1"),
        ({"action_masks": "auto "}, "action_masks: expected"),
        ({"max_env_restarts": -1}, "max_env_restarts: expected at least 0, got -1"),
        ({"max_env_restarts": True}, "max_env_restarts: expected"),
        ({"step_timeout": 0}, "step_timeout: expected a number above 0, got 0; inf for no limit"),
        ({"step_timeout": math.nan}, "step_timeout: expected"),
    ],
)
def test_options_without_meaning_are_refused(options, message):
    for make in (lambda: EnvOptions(**options), lambda: register("envoi-bad", "envoi:catch", **options)):
        with pytest.raises(envoi.EnvoiError, match=message):
            make()
