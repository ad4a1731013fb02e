"""RLlib's own evaluation of held-out contexts: separate from the training contexts, and equal each time."""

import pytest

import envoi
from envoi import ContextError, Contextual, TimeLimit
from envoi.adapters.rllib import bind_worker
from envoi.context import ContextSet
from envoi.integrations.rllib import configure, register

pytestmark = [
    pytest.mark.usefixtures("ray_session"),
    pytest.mark.filterwarnings("ignore:.*already in registry:UserWarning"),  # each env runner of RLlib's registers
]

TRAIN, HELD_OUT = {"light": {"m": 0.5}, "heavy": {"m": 2.0}}, {"between": {"m": 1.0}, "more": {"m": 1.5}}
SMALL = {"train_batch_size_per_learner": 100, "minibatch_size": 50, "num_epochs": 1}


def swinging(contexts=None):
    return TimeLimit(Contextual(envoi.models.Pendulum(), contexts, state_context_features=["m"]), 50)


def configured():
    return configure(swinging, "PPO", lr=0.0, num_envs=2, seed=3, check_specs=False, training=SMALL)


def registered(mode):
    from ray.rllib.algorithms.ppo import PPOConfig

    register("envoi-held-out", swinging)
    config = PPOConfig().environment("envoi-held-out", disable_env_checking=True).training(lr=0.0, **SMALL)
    config.env_runners(num_env_runners=0, num_envs_per_env_runner=2, gym_env_vectorize_mode=mode)
    return config.debugging(seed=3, log_level="ERROR").callbacks(on_environment_created=bind_worker)


def evaluating(config, training, held_out):
    config.environment(env_config={"contexts": training})
    evaluation = {"explore": False, "env_config": {"contexts": held_out}}
    return config.evaluation(evaluation_interval=1, evaluation_duration=4, evaluation_config=evaluation)


@pytest.mark.parametrize(
    "make", [configured, lambda: registered("sync"), lambda: registered("vector_entry_point")], ids=[0, 1, 2]
)
def test_rllib_evaluation_of_held_out_contexts_repeats_while_nothing_is_learnt(make):
    algorithm = evaluating(make(), ContextSet(TRAIN), ContextSet(HELD_OUT)).build_algo()
    try:
        means = [algorithm.train()["evaluation"]["env_runners"]["episode_return_mean"] for _ in range(3)]
        assert means == [means[0]] * 3
        sets = []
        for runner in (algorithm.env_runner, algorithm.eval_env_runner):
            vector = runner.env.unwrapped
            forms = [env.unwrapped for env in getattr(vector, "envs", [vector])]
            sets.append([list(form.core.env.contexts) for form in forms])
            assert {form.place.in_evaluation for form in forms} == {runner is algorithm.eval_env_runner}
        assert all(held == list(TRAIN) for held in sets[0])
        assert all(held == list(HELD_OUT) for held in sets[1])
    finally:
        algorithm.stop()


@pytest.mark.parametrize("make", [configured, lambda: registered("sync")], ids=[0, 1])
def test_contexts_that_rllib_would_merge_are_refused_when_the_algorithm_is_built(make):
    with pytest.raises(ContextError, match=r"env_config\['contexts'\]\['light'\].*envoi\.context\.ContextSet"):
        evaluating(make(), TRAIN, HELD_OUT).build_algo()
