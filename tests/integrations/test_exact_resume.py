"""A run that continues from an exact checkpoint has the weights of one that never stopped, bit for bit."""

import hashlib
import os
import re
import signal
import threading
import time
from contextlib import contextmanager

import numpy as np
import pytest
from gymnasium.envs.classic_control import CartPoleEnv

import envoi
from envoi.context import ContextSpace, UniformFloat
from envoi.integrations.rllib import RunFolder, Settings, configure

pytest.importorskip("ray")
from ray.rllib.algorithms.appo import APPOConfig
from ray.rllib.algorithms.dqn import DQNConfig
from ray.rllib.algorithms.ppo import PPOConfig
from ray.rllib.algorithms.sac import SACConfig

from envoi.integrations.rllib.exact_resume import FILE

pytestmark = [
    pytest.mark.usefixtures("ray_session"),
    pytest.mark.filterwarnings("ignore:.*Overriding environment rllib:UserWarning"),  # RLlib registers it per runner
]

# RLlib's own checkpoints leave out what becomes of the two coefficients.
ON_POLICY = {
    "train_batch_size_per_learner": 48,
    "minibatch_size": 16,
    "num_epochs": 2,
    "kl_coeff": 0.3,
    "entropy_coeff": [[0, 0.1], [400, 0.0]],
}
OFF_POLICY = {
    "num_steps_sampled_before_learning_starts": 20,
    "train_batch_size_per_learner": 8,
    "replay_buffer_config": {"type": "EpisodeReplayBuffer", "capacity": 2000},
}


def in_contexts():
    space = ContextSpace([UniformFloat("length", 0.3, 0.8, default=0.5)])
    return envoi.wrappers.Contextual(envoi.models.CartPole(), contexts=space.sample(5, seed=1))


def in_a_loop():
    return envoi.batch(lambda: envoi.TimeLimit(envoi.models.Catch(), 5), 2)


def build(env, kind=PPOConfig, exact=True, runners=0, callbacks=None):
    settings = ON_POLICY if kind is PPOConfig else OFF_POLICY
    config = kind().training(**settings).debugging(seed=3, log_level="ERROR")
    config.env_runners(num_env_runners=runners, num_envs_per_env_runner=2)
    # SAC's iterations last a second by default, so their steps would depend on the machine.
    config.reporting(
        min_time_s_per_iteration=0, min_sample_timesteps_per_iteration=60, min_train_timesteps_per_iteration=0
    )
    config = configure(config, env, exact=exact)
    config.callbacks(**(callbacks or {}))
    return config.build_algo()


def weights(algorithm):
    digest = hashlib.sha256()

    def add(tree):
        for name in sorted(tree):
            add(tree[name]) if isinstance(tree[name], dict) else digest.update(np.ascontiguousarray(tree[name]))

    add(algorithm.learner_group.get_weights())
    return digest.hexdigest()


def train(algorithm, iterations):
    found = []
    for _ in range(iterations):
        algorithm.train()
        found.append(weights(algorithm))
    return found


@contextmanager
def running(*arguments, **options):
    algorithm = build(*arguments, **options)
    try:
        yield algorithm
    finally:
        algorithm.stop()


def uninterrupted_and_resumed(folder, *arguments, **options):
    """Returns the weights of two iterations after a checkpoint: of the run that went on, and of one restored."""
    with running(*arguments, **options) as first:
        train(first, 2)
        first.save_to_path(str(folder))
        went_on = train(first, 2)
    with running(*arguments, **options) as second:
        second.restore_from_path(str(folder))
        return went_on, train(second, 2)


@pytest.mark.parametrize(
    ("env", "options"),
    [
        ("gymnasium:CartPole-v1", {}),
        ("envoi:catch", {"callbacks": {"on_train_result": lambda **_: None}}),
        (in_contexts, {}),
        (in_a_loop, {}),
        pytest.param("gymnasium:CartPole-v1", {"kind": DQNConfig}, marks=pytest.mark.deep),
        pytest.param("envoi:pendulum", {"kind": SACConfig}, marks=pytest.mark.deep),
        pytest.param("gymnasium:CartPole-v1", {"runners": 2}, marks=pytest.mark.deep),
    ],
    ids=["foreign", "native batch", "contexts", "loop", "replay buffer", "temperature", "remote env runners"],
)
def test_resumed_weights_are_those_of_an_uninterrupted_run(env, options, tmp_path):
    went_on, resumed = uninterrupted_and_resumed(tmp_path, env, **options)
    assert resumed == went_on
    assert len({*went_on}) == 2


def test_only_exact_checkpoints_repeat_what_followed(tmp_path, caplog):
    went_on, resumed = uninterrupted_and_resumed(tmp_path, "envoi:catch", exact=False)
    assert resumed != went_on
    assert not (tmp_path / FILE).exists()
    with running("envoi:catch") as exact:
        exact.restore_from_path(str(tmp_path))
        assert f"{tmp_path} was not saved with exact=True" in caplog.text
        train(exact, 1)
        exact.save_to_path(str(tmp_path))
        first = train(exact, 2)
        exact.restore_from_path(str(tmp_path))
        assert train(exact, 2) == first


class Uncopyable(CartPoleEnv):
    """An env that has no snapshot, because of a lock."""

    def __init__(self):
        super().__init__()
        self.lock = threading.Lock()


def test_env_without_snapshot_is_resumed_with_the_reason(tmp_path, caplog):
    with running(Uncopyable) as first, running(Uncopyable) as second:
        train(first, 1)
        first.save_to_path(str(tmp_path))
        assert re.search("this checkpoint is not exact.*Uncopyable", caplog.text)
        caplog.clear()
        second.restore_from_path(str(tmp_path))
        assert re.search("the run starts new episodes.*Uncopyable", caplog.text)
        assert weights(second) == weights(first)


def test_algorithms_that_do_not_wait_for_their_runners_are_refused():
    with pytest.raises(envoi.EnvoiError, match=r"exact: expected an algorithm that waits for its env runners.*APPO"):
        configure(APPOConfig(), "envoi:catch", exact=True)
    with pytest.raises(envoi.EnvoiError, match="IMPALA"):
        Settings("envoi:catch", "impala", exact=True)


@pytest.mark.deep
@pytest.mark.parametrize(("env", "runners"), [("envoi:cartpole", 0), ("envoi:rps", 2)])
def test_killed_job_ends_with_the_weights_of_an_uninterrupted_one(spawn, env, runners, tmp_path):
    options = ("--exact", "--stop-steps", 5000, "--set", "train_batch_size_per_learner=1000")
    whole, killed = (
        spawn("train", env, *options, "--num-env-runners", runners, "--out", tmp_path / name)
        for name in ("whole", "killed")
    )
    folder = RunFolder(tmp_path / "killed")
    deadline = time.monotonic() + 120
    while not folder.checkpoint.exists():
        assert time.monotonic() < deadline
        assert killed.poll() is None, killed.communicate()
        time.sleep(0.2)
    os.killpg(killed.pid, signal.SIGKILL)
    killed.wait()
    resumed = spawn("train", "--resume", "--out", folder.path)
    for process in (whole, resumed):
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, out + err
    assert saved_weights(tmp_path / "killed") == saved_weights(tmp_path / "whole")


def saved_weights(folder):
    from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule

    root = RunFolder(folder).checkpoint.resolve() / "learner_group" / "learner" / "rl_module"
    module = MultiRLModule.from_checkpoint(root)
    return {
        (name, key): value.numpy().tobytes()
        for name in module.keys()  # noqa: SIM118
        for key, value in module[name].state_dict().items()
    }
