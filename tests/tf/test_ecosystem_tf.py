"""TF-Agents' own validation, environments of TensorFlow, drivers and metrics, on our forms of real environments.

The cells of `tests/adapters/test_ecosystem.py` that need TensorFlow. dm_control, bsuite and MiniGrid have no place
beside its pins: their forms are validated there, on light types; MiniGrid's missions are refused. What comes from
dm_env comes here from a real environment behind one of dm_env.
"""

import numpy as np
import pytest
import tensorflow as tf
from dm_sources import Wrapping
from tf_agents.drivers.dynamic_episode_driver import DynamicEpisodeDriver
from tf_agents.drivers.py_driver import PyDriver
from tf_agents.environments import utils
from tf_agents.metrics import tf_metrics
from tf_agents.policies.random_py_policy import RandomPyPolicy
from tf_agents.policies.random_tf_policy import RandomTFPolicy
from tf_agents.replay_buffers.tf_uniform_replay_buffer import TFUniformReplayBuffer

import envoi
from envoi.adapters import from_env, load, to_dm_env, to_tf_agents
from envoi.adapters.dm_env import FromDmEnv

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")


class OfDmEnv(Wrapping):
    """A real environment as one of dm_env whose author we do not know."""

    def __init__(self, name):
        super().__init__(to_dm_env(load(name, max_episode_steps=25)))

    def seed(self, seed):
        self._env.seed(seed)


def of_dm_env(name):
    core = from_env(OfDmEnv(name))
    assert isinstance(core, FromDmEnv)
    return core


NAMES = ["CartPole-v1", "FrozenLake-v1", "Taxi-v3", "Pendulum-v1", "MountainCar-v0"]
SOURCES = {
    **{f"gymnasium:{name}": lambda name=name: load(f"gymnasium:{name}", max_episode_steps=25) for name in NAMES},
    "gymnasium:Blackjack-v1": lambda: load("gymnasium:Blackjack-v1"),
    **{
        f"dm_env of {name}": lambda name=name: of_dm_env(f"gymnasium:{name}") for name in ("CartPole-v1", "Pendulum-v1")
    },
    **{f"envoi:{name}": lambda name=name: load(f"envoi:{name}", max_episode_steps=25) for name in envoi.models.MODELS},
    "envoi:catch, one agent of several": lambda: envoi.as_multi(load("envoi:catch"), "player"),
}
LANES = [pytest.param(n, id="one" if n is None else f"{n} lanes") for n in (None, 3)]


def make(name, n):
    core = SOURCES[name]()
    if n is not None and isinstance(core, envoi.MultiEnv):
        core = envoi.as_single(core)
    return to_tf_agents(core if n is None else envoi.batch(core, n))


@pytest.mark.parametrize("n", LANES)
@pytest.mark.parametrize("name", SOURCES)
def test_tf_agents_validates_a_form_of_a_real_environment(name, n):
    utils.validate_py_environment(make(name, n), episodes=5)


@pytest.mark.parametrize("n", LANES)
@pytest.mark.parametrize("name", SOURCES)
def test_a_driver_of_tensorflow_fills_a_replay_buffer_and_metrics(name, n, tensors):
    env, twin, lanes = tensors(make(name, n)), make(name, n), n or 1
    policy = RandomTFPolicy(env.time_step_spec(), env.action_spec())
    buffer = TFUniformReplayBuffer(policy.trajectory_spec, batch_size=lanes, max_length=500)
    steps, ends, returns = (
        tf_metrics.EnvironmentSteps(),
        tf_metrics.NumberOfEpisodes(),
        tf_metrics.AverageReturnMetric(batch_size=lanes, buffer_size=100),
    )
    seen = []
    observers = [buffer.add_batch, steps, ends, returns, lambda one: seen.append(one) or tf.no_op()]
    (env.pyenv.envs[0] if n is None else env.pyenv).seed(2)
    twin.seed(2)
    tf.config.run_functions_eagerly(True)  # so that `seen` holds values
    try:
        DynamicEpisodeDriver(env, policy, observers, num_episodes=3).run(env.reset())
    finally:
        tf.config.run_functions_eagerly(False)
    assert ends.result() >= 3
    assert steps.result() == sum(int(np.sum(~one.is_boundary().numpy())) for one in seen)
    assert buffer.num_frames() == len(seen) * lanes

    # What the driver saw is what the same form says when it is stepped alone.
    told, total = twin.reset(), np.zeros(lanes)
    for one in seen:
        tf.nest.map_structure(
            lambda tensor, value: np.testing.assert_array_equal(tensor.numpy(), np.reshape(value, tensor.shape)),
            one.observation,
            told.observation,
        )
        action = tf.nest.map_structure(lambda tensor: tensor.numpy() if n else tensor.numpy()[0], one.action)
        told = twin.step(action)
        np.testing.assert_array_equal(one.reward.numpy(), np.reshape(told.reward, lanes))
        np.testing.assert_array_equal(one.discount.numpy(), np.reshape(told.discount, lanes))
        np.testing.assert_array_equal(one.next_step_type.numpy(), np.reshape(told.step_type, lanes))
        total += np.reshape(told.reward, lanes)
    if lanes == 1:
        np.testing.assert_allclose(returns.result(), total[0] / int(ends.result()), rtol=1e-5)


@pytest.mark.parametrize("name", SOURCES)
def test_a_driver_of_python_collects_whole_episodes(name):
    form, seen = make(name, None), []
    policy = RandomPyPolicy(form.time_step_spec(), form.action_spec())
    PyDriver(form, policy, [seen.append], max_episodes=4).run(form.reset())
    kinds = [(bool(one.is_first()), bool(one.is_last()), bool(one.is_boundary())) for one in seen]
    assert np.sum(kinds, 0).tolist() == [4, 4, 4]
    assert kinds[-1] == (False, False, True)
