"""Whole jobs on Ray with images and action masks: trained, evaluated, loaded. Each takes seconds to minutes."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray.rllib")

from envoi.integrations.evaluation import evaluate
from envoi.integrations.rllib import Settings, load_policy, train

sys.path.insert(0, str(Path(__file__).parent))  # where `python:pictures:…` is found

pytestmark = [
    pytest.mark.deep,
    pytest.mark.filterwarnings("ignore:.*Overriding environment"),
    pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning"),
]


@pytest.mark.parametrize("algo", ["PPO", "APPO", "IMPALA", "DQN"])
@pytest.mark.parametrize("env", ["python:pictures:GuardedCamera", "python:pictures:GuardedPair"])
def test_jobs_with_masks_choose_legal_actions(ray_session, tmp_path, algo, env):
    if algo == "DQN" and env.endswith("Pair"):
        pytest.skip("DQN has no MultiDiscrete actions")
    train(Settings(env, algo, stop_steps=2_000, check_specs=True), tmp_path / "run")
    for explore in (False, True):  # an illegal action is an error of the env
        found = evaluate(tmp_path / "run", episodes=3, explore=explore, forms=("core", "gymnasium"))
        assert found.forms_agree
        assert found.length.mean == 23


def test_a_board_game_is_trained_and_played_legally(ray_session, tmp_path):
    train(Settings("pettingzoo:classic/tictactoe_v3", policies="shared", stop_steps=2_000), tmp_path / "run")
    found = evaluate(tmp_path / "run", episodes=4)
    assert all(5 <= episode.length <= 9 for episode in found.episodes)  # an illegal move would end a game sooner


@pytest.mark.parametrize(
    ("env", "steps", "least"),
    [
        ("python:pictures:BesideVector", 30_000, 6.0),  # 2.5 by chance, 10 at most
        ("gymnasium:minigrid:MiniGrid-Empty-5x5-v0", 30_000, 0.5),  # 0.2 by chance
    ],
)
def test_images_are_learned_from(ray_session, tmp_path, env, steps, least):
    train(Settings(env, stop_steps=steps, stop_return=least + 0.1, seed=1), tmp_path / "run")
    found = evaluate(tmp_path / "run", episodes=10, explore=True)
    assert found.episode_return.mean >= 0.8 * least
    policy = load_policy(tmp_path / "run")
    policy.observation_space.seed(0)
    assert np.isscalar(policy(policy.observation_space.sample()).item())


def test_screen_of_an_atari_game_is_trained_on(ray_session, tmp_path):
    small = {"train_batch_size_per_learner": 160, "minibatch_size": 80, "num_epochs": 1}
    train(Settings("python:pictures:Screen", stop_steps=320, set=small), tmp_path / "run")
    assert evaluate(tmp_path / "run", episodes=2).length.mean == 10
