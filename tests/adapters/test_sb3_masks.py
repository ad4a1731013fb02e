"""Action masks of a `VecEnv` form, as MaskablePPO of sb3-contrib takes them."""

import numpy as np
import pytest
from stable_baselines3.common.vec_env import VecMonitor

# isort: split
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.evaluation import evaluate_policy
from sb3_contrib.common.maskable.utils import get_action_masks, is_masking_supported

import envoi
from envoi.adapters import load, to_sb3

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")


class Countdown(envoi.Model):
    """Takes one to three of the rest, never more than are left."""

    observation_spec = envoi.Array((1,), "float32", 0, 9)
    action_spec = envoi.Discrete(3)

    def initial(self, rng, context):
        return int(rng.integers(4, 10))

    def transition(self, state, action, rng):
        assert action < state, "an action that the mask forbids"
        return state - int(action) - 1

    def observe(self, state, rng):
        return np.array([state], np.float32)

    def reward(self, state, action, next_state):
        return 1.0

    def terminal(self, state):
        return state == 0

    def info(self, state):
        return {"action_mask": np.arange(3) < state}


class Told(Countdown):
    """Gives the mask that a class attribute has."""

    mask = None

    def info(self, state):
        return {} if self.mask is None else {"action_mask": self.mask}


def test_learning_never_takes_a_masked_action():
    envs = to_sb3(Countdown(), 4)
    model = MaskablePPO("MlpPolicy", VecMonitor(envs), n_steps=64, batch_size=64, device="cpu", seed=0)
    model.learn(512)
    evaluate_policy(model, to_sb3(Countdown(), 2), n_eval_episodes=4, warn=False)
    assert model.num_timesteps == 512


def test_masks_follow_automatic_resets():
    envs = to_sb3(Countdown(), 3)
    envs.seed(0)
    observation, ends = envs.reset(), 0
    for _ in range(40):
        masks = get_action_masks(envs)
        assert masks.dtype == bool
        assert masks.tolist() == (np.arange(3) < observation).tolist()
        observation, _, over, _ = envs.step(masks.sum(1) - 1)
        ends += over.sum()
    assert ends > 9
    assert [one.tolist() for one in envs.env_method("action_masks", indices=1)] == [
        (np.arange(3) < observation[1]).tolist()
    ]


def test_asking_before_a_reset_changes_nothing():
    envs = to_sb3(Countdown(), 2)
    envs.seed(0)
    assert is_masking_supported(envs)
    other = to_sb3(Countdown(), 2)
    other.seed(0)
    assert envs.reset().tolist() == other.reset().tolist()


def test_has_no_masks_without_any():
    envs = to_sb3(load("envoi:catch"), 2)
    assert not is_masking_supported(envs)
    envs.reset()
    assert not envs.has_attr("action_masks")
    with pytest.raises(AttributeError, match="action_masks"):
        envs.env_method("action_masks")


def test_lanes_in_workers_have_masks():
    envs = to_sb3(envoi.batch(Countdown, 2, workers=2))
    try:
        observation = envs.reset()
        assert get_action_masks(envs).tolist() == (np.arange(3) < observation).tolist()
    finally:
        envs.close()


@pytest.mark.parametrize(
    ("spec", "mask", "flat"),
    [
        (envoi.MultiDiscrete([2, 3]), (np.array([1, 0], np.int8), np.array([0, 1, 1], np.int8)), [1, 0, 0, 1, 1]),
        (envoi.MultiDiscrete([2, 3]), (None, np.array([0, 1, 1])), [1, 1, 0, 1, 1]),
        (envoi.MultiDiscrete([2, 3]), np.array([1, 0, 0, 1, 1]), [1, 0, 0, 1, 1]),
        (envoi.MultiBinary(3), np.array([0, 1, 2]), [1, 0, 0, 1, 1, 1]),
        (envoi.Discrete(3), [1, 0, 0.5], [1, 0, 1]),
    ],
)
def test_masks_become_flat(spec, mask, flat):
    kind = type("Kind", (Told,), {"action_spec": spec, "mask": mask})
    envs = to_sb3(kind(), 2)
    envs.reset()
    assert get_action_masks(envs).tolist() == [[bool(one) for one in flat]] * 2
