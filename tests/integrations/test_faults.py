"""Algorithms whose env fails, in the processes of RLlib: each stops soon, with the env's own error."""

import contextlib
import re
from functools import partial

import pytest
import ray
from faulty import Failing, FailingGame
from ray import tune
from ray.experimental.internal_kv import _internal_kv_list
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig

from envoi.integrations.errors import EnvFailure
from envoi.integrations.rllib import configure

pytestmark = [
    pytest.mark.usefixtures("ray_session"),
    pytest.mark.filterwarnings("ignore:.*already in registry:UserWarning"),  # each env runner of RLlib's registers
]
SMALL = {"train_batch_size_per_learner": 200, "minibatch_size": 100, "num_epochs": 1}


def config_of(env, runners, kind=PPOConfig, **options):
    config = kind().env_runners(num_env_runners=runners, num_envs_per_env_runner=2)
    config.resources(num_cpus_for_main_process=0)
    config.debugging(log_level="CRITICAL")
    if kind is PPOConfig:
        config.training(**SMALL)
    return configure(config, env, **options)


def failure_of(config, iterations=30):
    """Trains until the env fails; returns the error."""
    before = {*_internal_kv_list("", namespace="envoi")}  # jobs of other tests in this Ray were killed
    algorithm = config.build_algo()
    try:
        with pytest.raises(EnvFailure) as raised:
            [algorithm.train() for _ in range(iterations)]
        return str(raised.value)
    finally:
        algorithm.stop()
        assert {*_internal_kv_list("", namespace="envoi")} == before


@pytest.mark.parametrize("runners", [0, 1])
def test_error_of_an_env_stops_the_algorithm(runners):
    line, _, trace = failure_of(config_of(Failing, runners)).partition("\n\n")
    assert "ZeroDivisionError: the pole has no length (faulty.py:" in line
    assert line.endswith(f"worker {runners}, lane 0, step 5 of episode 3")
    assert 'raise ZeroDivisionError("the pole has\\nno length")' in trace


@pytest.mark.deep
def test_error_stops_a_tune_trial(tmp_path):
    config = config_of(Failing, 1)
    run = tune.RunConfig(stop={"training_iteration": 20}, storage_path=str(tmp_path), verbose=0)
    with contextlib.suppress(tune.TuneError):
        result = tune.Tuner(config.algo_class, param_space=config, run_config=run).fit()[0]
    assert isinstance(result.error, EnvFailure | ray.exceptions.RayTaskError)
    assert "worker 1, lane 0, step 5 of episode 3" in str(result.error)
    assert "ZeroDivisionError: the pole has no length" in str(result.error)


AT, HANGS = "lane 0, step 5 of episode 3", "a call of the env took longer than 2 s"
EVALUATED = {"evaluation_interval": 1, "evaluation_num_env_runners": 1, "evaluation_duration": 50}
BOTH = {"policies": {"both"}, "policy_mapping_fn": lambda *_, **__: "both"}
DEEP = {
    "APPO": (Failing, 1, {"kind": APPOConfig}, {}, f"worker 1, {AT}"),
    "DQN": (Failing, 1, {"kind": DQNConfig}, {}, f"worker 1, {AT}"),
    "game": (FailingGame, 1, {}, {"multi_agent": BOTH}, "ValueError: no such move"),
    "evaluation": (partial(Failing, at=230), 0, {}, {"evaluation": EVALUATED},
                   "evaluation worker 1, lane 0, step 10 of episode 23"),
    "process of gymnasium's": (Failing, 1, {}, {"env_runners": {"gym_env_vectorize_mode": "async"}},
                               "ZeroDivisionError: the pole .*worker 1, lane [01], step 5 of episode 3\n"),
    "hangs here": (partial(Failing, "sleep"), 0, {"step_timeout": 2}, {},
                   rf"^{HANGS}; env (.|\n)*worker 0, {AT}(.|\n)*time.sleep\(1000"),
    "hangs in a worker": (partial(Failing, "sleep"), 1, {"step_timeout": 2}, {},
                          rf"^{HANGS}; env (.|\n)*worker 1, {AT}(.|\n)*time.sleep\(1000"),
    "ends again and again": (partial(Failing, "exit"), 1, {"max_env_restarts": 1}, {},
                             "the process of worker 1 ended 2 times in a row.*max_env_restarts=1"),
    "hangs again and again": (partial(Failing, "sleep"), 1,
                              {"max_env_restarts": 1, "on_env_error": "restart", "step_timeout": 2}, {},
                              f"the process of worker 1 ended 2 times in a row.*{HANGS}"),
}  # fmt: skip


@pytest.mark.deep
@pytest.mark.parametrize("case", DEEP)
def test_failure_of_an_env_is_named_wherever_it_runs(case):
    env, runners, options, settings, named = DEEP[case]
    config = config_of(env, runners, **options)
    for part, arguments in settings.items():
        getattr(config, part)(**arguments)
    assert re.search(named, failure_of(config))


@pytest.mark.deep
def test_loss_that_is_not_finite_stops_the_algorithm():
    config = config_of(Failing, 0).environment(env_config={"at": 10**9}).training(lr=1e30)
    assert re.search(r"policy 'default_policy': \w*loss\w* is (nan|inf|-inf) in iteration", failure_of(config, 5))
