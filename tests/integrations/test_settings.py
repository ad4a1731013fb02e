import pytest

import envoi
from envoi.integrations.rllib import ALGORITHMS, Settings
from envoi.integrations.rllib.algorithms import find


def test_sweep_is_the_grid_of_rates_and_samples_with_distinct_seeds():
    trials = Settings("envoi:catch", lr=(1e-4, 1e-3), samples=2, seed=5).trials
    assert [(t.lr, t.seed) for t in trials] == [(1e-4, 5), (1e-3, 6), (1e-4, 7), (1e-3, 8)]


def test_settings_round_trip_through_a_file():
    settings = Settings("envoi:catch", lr=(1e-3,), stop_return=3.0, num_env_runners=2)
    assert Settings.from_dict(settings.to_dict()) == settings


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
        {"lr": (0.0,)},
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
