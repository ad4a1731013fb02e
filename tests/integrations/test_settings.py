"""Settings of a job and of RLlib: their texts, their checks, and their way to the config."""

import pytest

import envoi
from envoi.integrations.rllib import ALGORITHMS, Settings
from envoi.integrations.rllib.algorithms import find
from envoi.integrations.rllib.configuration import load_algorithm
from envoi.integrations.rllib.settings import (
    apply_overrides,
    make_space,
    parse_assignments,
    parse_value,
    read_overrides,
)


def test_settings_of_an_earlier_version_are_read():
    stored = {"env": "envoi:catch", "lr": [], "samples": 2, "scheduler": "median", "stop_return": 1.0, "versions": {}}
    stored |= {"set": {"model.fcnet_hiddens": [8], "gamma": "uniform(0.9,0.99)", "lr": "log(1e-5,1e-3)"}}
    stored |= {"trials": [{"seed": 0, "gamma": 0.9, "lr": 1e-4}, {"seed": 1, "gamma": 0.91, "lr": 1e-3}]}
    settings = Settings.from_dict(stored)
    assert settings.set == {"model_config.fcnet_hiddens": [8]}
    assert [trial.overrides["gamma"] for trial in settings.trials] == [0.9, 0.91]
    assert settings.trials[1].overrides["lr"] == 1e-3


def test_job_without_a_goal_gets_the_default():
    assert Settings("envoi:catch").stop_steps == 1_000_000
    assert Settings("envoi:catch", stop_return=1.0).stop_steps is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"samples": 0},
        {"seed": -1},
        {"num_env_runners": -1},
        {"num_envs_per_runner": 0},
        {"stop_steps": 0},
        {"stop_minutes": -1.0},
        {"gpus": -1},
        {"evaluate_every": 0},
        {"stop_steps": 1.5},
        {"stop_return": True},
        {"algo": "nope"},
    ],
)
def test_invalid_values_are_refused(wrong):
    with pytest.raises(envoi.EnvoiError):
        Settings("envoi:catch", **wrong)


def test_resume_may_change_the_goal_and_no_training_setting():
    settings = Settings("envoi:catch", stop_return=1.0)
    assert settings.resumed({"stop_steps": 5}) == Settings("envoi:catch", stop_steps=5)
    assert settings.resumed({"algo": "ppo"}) == settings
    with pytest.raises(envoi.EnvoiError, match="cannot change seed from 0 to 3"):
        settings.resumed({"seed": 3})


def test_unknown_algorithm_lists_near_names_first_and_then_all():
    with pytest.raises(envoi.EnvoiError, match=r"did you mean 'PPO'.* There are: PPO, APPO, IMPALA, DQN, SAC, TQC"):
        find("PPOO")
    with pytest.raises(envoi.EnvoiError, match=r"there are: PPO, APPO"):
        find("xyz")


def test_algorithms_are_those_of_rllib_that_learn_from_an_env():
    from ray.rllib.algorithms import registry

    offline = {"BC", "CQL", "IQL", "MARWIL"}
    heavy = {"DreamerV3"}  # needs Pillow and a GPU to be of use
    assert set(registry.ALGORITHMS) - offline - heavy <= set(ALGORITHMS)


def applied(values, algo="PPO"):
    config = load_algorithm(algo).get_default_config()
    apply_overrides(config, read_overrides(values), algo)
    return config


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1e-4", 1e-4),
        ("5e3", 5000.0),
        ("4_096", 4096),
        ("-.5", -0.5),
        ("null", None),
        ("None", None),
        ("False", False),
        ("complete_episodes", "complete_episodes"),
        ("[[0, 1.0], [5000, 1e-1]]", [[0, 1.0], [5000, 0.1]]),
        ("[relu, tanh]", ["relu", "tanh"]),
        ("{capacity: 1e5}", {"capacity": 1e5}),
    ],
)
def test_texts_are_values_of_yaml(text, value):
    read = parse_value(text)
    assert read == value
    assert type(read) is type(value)


def test_values_reach_the_config():
    before = load_algorithm("DQN").get_default_config().replay_buffer_config
    config = applied(
        {
            "lr": "1e-4",
            "replay_buffer_config.capacity": "5e3",
            "train_batch_size_per_learner": "1e3",
            "epsilon": "[[0, 1.0], [5000, 0.1]]",
            "model.fcnet_hiddens": "[64,64]",
            "model_config": {"fcnet_activation": "relu"},
            "env_config.size": "5",
            "env_config.nested.deep": "true",
        },
        "DQN",
    )
    assert config.lr == 1e-4
    assert config.replay_buffer_config == {**before, "capacity": 5000}
    assert type(config.train_batch_size_per_learner) is int
    assert config.epsilon == [[0, 1.0], [5000, 0.1]]
    assert config.model_config["fcnet_hiddens"] == [64, 64]
    assert config.model_config["fcnet_activation"] == "relu"
    assert config.env_config == {"size": 5, "nested": {"deep": True}}
    assert applied({"lambda": "0.9"}).lambda_ == 0.9


def test_lr_sets_each_rate_of_an_algorithm():
    config = applied({"lr": 1e-3}, "SAC")
    assert (config.actor_lr, config.critic_lr, config.alpha_lr) == (1e-3, 1e-3, 1e-3)


WRONG = {
    "misspelt": ({"cip_param": 1}, "PPO has no setting 'cip_param'; did you mean 'clip_param'"),
    "a number": ({"clip_param": "much"}, "clip_param: expected a number, such as RLlib's 0.3, got 'much'"),
    "no flag": ({"use_gae": "1"}, "expected true or false"),
    "no list": ({"model.fcnet_hiddens": "64"}, "expected a list"),
    "misspelt model": ({"model.fcnet_hidens": "[1]"}, "did you mean 'fcnet_hiddens'"),
    "another algorithm": ({"epsilon": 0.1}, "PPO has no setting 'epsilon'"),
    "has an option": ({"num_env_runners": 2}, "--num-env-runners"),
    "twice": ({"lambda": 0.9, "lambda_": 0.9}, "same setting"),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_settings_are_named(case):
    values, hint = WRONG[case]
    with pytest.raises(envoi.EnvoiError) as caught:
        applied(values)
    assert hint in str(caught.value)


@pytest.mark.parametrize("text", ["loguniform(0,1)", "loguniform(1e-3)", "randint(a,b)", "choice(1,2)", "uniform(1"])
def test_space_that_tune_refuses_is_named(text):
    with pytest.raises(envoi.EnvoiError):
        make_space(text)


def test_trials_are_sampled_by_the_seed():
    swept = {"lr": "loguniform(1e-5,1e-3)", "clip_param": "grid_search([0.1,0.2])", "gamma": 0.98}
    first, again = (Settings("envoi:catch", set=swept, samples=2).trials for _ in range(2))
    other = Settings("envoi:catch", set=swept, samples=2, seed=7).trials
    assert first == again
    assert [trial.overrides["clip_param"] for trial in first] == [0.1, 0.2, 0.1, 0.2]
    assert {trial.overrides["gamma"] for trial in first} == {0.98}
    assert len({trial.overrides["lr"] for trial in (*first, *other)}) == 8
    assert all(1e-5 <= trial.overrides["lr"] <= 1e-3 for trial in first)
    assert [trial.seed for trial in other] == [7, 8, 9, 10]


@pytest.mark.parametrize("wrong", [["clip_param"], ["=3"], ["gamma="], ["gamma=1", "gamma=2"]])
def test_assignments_are_names_and_values(wrong):
    assert parse_assignments(["gamma=0.9", "lr = 1"]) == {"gamma": "0.9", "lr": "1"}
    with pytest.raises(envoi.EnvoiError, match="--set"):
        parse_assignments(wrong)
