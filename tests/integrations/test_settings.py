import pytest

import envoi
from envoi.integrations.rllib import ALGORITHMS, Settings
from envoi.integrations.rllib.algorithms import find


def test_settings_round_trip_through_a_file():
    settings = Settings("envoi:catch", set={"lr": 1e-3}, stop_return=3.0, num_env_runners=2)
    assert Settings.from_dict(settings.to_dict()) == settings


def test_settings_of_an_earlier_version_are_read():
    stored = {"env": "envoi:catch", "lr": [], "samples": 2, "scheduler": "median", "stop_return": 1.0, "versions": {}}
    stored |= {"set": {"model.fcnet_hiddens": [8], "gamma": "uniform(0.9,0.99)", "lr": "log(1e-5,1e-3)"}}
    stored |= {"trials": [{"seed": 0, "gamma": 0.9, "lr": 1e-4}, {"seed": 1, "gamma": 0.91, "lr": 1e-3}]}
    settings = Settings.from_dict(stored)
    assert settings.set == {"model_config.fcnet_hiddens": [8]}
    assert [trial.overrides["gamma"] for trial in settings.trials] == [0.9, 0.91]
    assert settings.trials[1].lr == 1e-3


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
        {"seed": "many"},
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
