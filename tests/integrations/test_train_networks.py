"""Whole jobs on Ray with images and action masks: trained, evaluated, loaded. Each takes seconds to minutes."""

import sys
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("ray.rllib")

from envoi.integrations.evaluation import evaluate_run
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
        found = evaluate_run(tmp_path / "run", episodes=3, explore=explore, forms=("core", "gymnasium"))
        assert found.forms_agree
        assert found.length.mean == 23


@pytest.mark.parametrize(
    ("env", "steps", "least"),
    [
        ("python:pictures:BesideVector", 30_000, 6.0),  # 2.5 by chance, 10 at most
        ("gymnasium:minigrid:MiniGrid-Empty-5x5-v0", 30_000, 0.5),  # 0.2 by chance
    ],
)
def test_images_are_learned_from(ray_session, tmp_path, env, steps, least):
    train(Settings(env, stop_steps=steps, stop_return=least + 0.1, seed=1), tmp_path / "run")
    found = evaluate_run(tmp_path / "run", episodes=10, explore=True)
    assert found.episode_return.mean >= 0.8 * least
    policy = load_policy(tmp_path / "run")
    policy.observation_space.seed(0)
    assert np.isscalar(policy(policy.observation_space.sample()).item())
