"""TF-Agents' own environments alone and through envoi: the same trajectories."""

from collections import OrderedDict

import gym
import numpy as np
import pytest
from tf_agents.bandits.environments.bernoulli_py_environment import BernoulliPyEnvironment
from tf_agents.bandits.environments.stationary_stochastic_py_environment import StationaryStochasticPyEnvironment
from tf_agents.environments import random_py_environment, suite_gym, test_envs, wrappers
from tf_agents.environments.batched_py_environment import BatchedPyEnvironment
from tf_agents.environments.examples.tic_tac_toe_environment import TicTacToeEnvironment
from tf_agents.environments.gym_wrapper import GymWrapper
from tf_agents.specs.array_spec import ArraySpec, BoundedArraySpec
from traces import exact

import envoi
from envoi import Array, Discrete
from envoi.adapters import from_env, from_tf_agents, load, to_tf_agents
from envoi.adapters.tf_agents import FromTFAgentsBatch, FromTFAgentsLanes
from envoi.steps.record import OVER

NESTED = OrderedDict(
    z=BoundedArraySpec((2,), np.float32, -1, 1), a=(BoundedArraySpec((), np.int64, 0, 4), [ArraySpec((3,), np.int32)])
)


def random(**kwargs):
    action = {"b": BoundedArraySpec((), np.int32, 0, 2), "a": BoundedArraySpec((2,), np.float32, 0, 1)}
    return random_py_environment.RandomPyEnvironment(NESTED, action, **kwargs)


def tic_tac_toe():
    return TicTacToeEnvironment(np.random.RandomState(0), discount=0.5)


class CartPole(gym.Env):
    """A gym environment of the old kind."""

    observation_space = gym.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gym.spaces.Discrete(2)

    def seed(self, seed=None):
        self.rng = np.random.RandomState(seed)
        return [seed]

    def __init__(self):
        self.seed(0)

    def reset(self):
        self.at = 0
        return self.rng.uniform(size=2).astype(np.float32)

    def step(self, action):
        self.at += 1
        return self.rng.uniform(size=2).astype(np.float32), self.at / 2, self.at == 4, {"at": self.at}


SOURCES = {
    "random": random,
    "random, discounted": lambda: random(discount=0.9, min_duration=2),
    "tic tac toe": tic_tac_toe,
    "counting": lambda: test_envs.CountingEnv(steps_per_episode=3),
    "counting, by gym": lambda: GymWrapper(CartPole()),
    "by suite_gym": lambda: suite_gym.wrap_env(CartPole(), max_episode_steps=3),
    "limited": lambda: wrappers.TimeLimit(random(), 3),
    "repeated": lambda: wrappers.ActionRepeat(test_envs.CountingEnv(steps_per_episode=5), 2),
    "fixed length": lambda: wrappers.FixedLength(test_envs.CountingEnv(steps_per_episode=5), 3),
    "counted": lambda: wrappers.RunStats(random()),
}


def observed(value):
    return exact(envoi.tree.map_leaves(np.array, value))


def plain(value):
    """A nested value without the kinds of its dicts."""
    return {key: plain(sub) for key, sub in value.items()} if isinstance(value, dict) else value


@pytest.mark.parametrize("name", SOURCES)
def test_a_source_through_envoi_is_the_source_alone(name):
    core, alone = from_env(SOURCES[name]()), SOURCES[name]()
    rng, ends = np.random.default_rng(0), 0
    for _ in range(3):
        assert observed(core.reset().observation) == observed(plain(alone.reset().observation))
        for _ in range(30):
            action = envoi.sample(core.action_spec, rng)
            step, told = core.step(action), alone.step(plain(action))
            assert observed(step.observation) == observed(plain(told.observation))
            assert step.reward == told.reward
            assert step.discount == told.discount
            assert (step.terminated or step.truncated) == bool(told.is_last())
            assert step.terminated == bool(told.is_last() and told.discount == 0)
            envoi.validate(core.observation_spec, step.observation)
            if told.is_last():
                ends += 1
                break
    assert ends


def test_specs_are_read():
    env = from_tf_agents(random())
    assert envoi.spec_equal(
        env.observation_spec,
        {"z": Array((2,), "float32", -1, 1), "a": (Array((), "int64", 0, 4), [Array((3,), "int32")])},
    )
    assert envoi.spec_equal(env.action_spec, {"b": Discrete(3, dtype="int32"), "a": Array((2,), "float32", 0, 1)})
    assert env.reward_spec == Array((), "float32", name="reward")
    assert env.discount_spec == Array((), "float32", 0, 1, "discount")
    assert env.render_mode == "rgb_array"
    assert env.render().shape == (2, 2, 3)


@pytest.mark.parametrize("make", [random, tic_tac_toe, lambda: wrappers.TimeLimit(random(), 3)])
def test_seeds_reach_the_source(make):
    env, seen = from_tf_agents(make()), []
    assert not env.unseeded
    for seed in (1, 1, 0):
        lived = [exact(env.reset(seed=seed))]
        for _ in range(3):
            for _ in range(20):
                step = env.step(env.sample_action())
                lived.append(exact(step))
                if step.terminated or step.truncated:
                    break
            lived.append(exact(env.reset()))
        seen.append(lived)
    assert seen[0] == seen[1] != seen[2]


@pytest.mark.parametrize("make", [random, tic_tac_toe, lambda: wrappers.TimeLimit(random(), 4), SOURCES["counting"]])
def test_snapshots_put_a_source_back_with_its_generator_and_counters(make):
    env = from_tf_agents(make())
    env.reset()
    held, seen, actions = env.snapshot(), [], [env.sample_action() for _ in range(12)]
    for _ in range(3):
        seen.append([exact(env.reset() if env._halt is OVER else env.step(action)) for action in actions])
        env.restore(held)
    assert seen[0] == seen[1] == seen[2]


def test_an_observation_of_tic_tac_toe_stays_what_it_was():
    env = from_tf_agents(tic_tac_toe())
    first = env.reset().observation
    env.step(np.array([1, 1], np.int32))
    assert not first.any()


def test_a_batched_source_is_a_batch():
    core, alone = from_tf_agents(random(batch_size=3)), random(batch_size=3)
    assert isinstance(core, FromTFAgentsBatch)
    assert observed(core.reset().observation) == observed(plain(alone.reset().observation))
    rng, over, ends = np.random.default_rng(0), np.zeros(3, bool), 0
    for _ in range(60):
        action = {"b": rng.integers(0, 3, 3, np.int32), "a": rng.random((3, 2), np.float32)}
        step, told = core.step(action, restart=over), alone.step(action)
        assert observed(step.observation) == observed(plain(told.observation))
        np.testing.assert_array_equal(step.reward, told.reward)
        np.testing.assert_array_equal(step.discount, told.discount)
        over = step.terminated | step.truncated
        np.testing.assert_array_equal(over, told.is_last())
        ends += over.all()
    assert ends


def test_third_party_batch_is_read_as_its_environments():
    source = BatchedPyEnvironment([tic_tac_toe() for _ in range(3)], multithreading=True)
    env = from_tf_agents(source)
    assert isinstance(env, FromTFAgentsLanes)
    assert to_tf_agents(env) is source
    first = env.reset(seed=[1, 2, 1]).observation
    assert first.shape == (3, 3, 3)
    step = env.step(np.array([[1, 1]] * 3, np.int32))
    np.testing.assert_array_equal(step.observation[0], step.observation[2])
    again = env.reset(mask=np.array([False, True, False])).observation
    np.testing.assert_array_equal(again[0], step.observation[0])
    assert not again[1].any()
    with env:
        env.close()


@pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")
@pytest.mark.parametrize("make", [tic_tac_toe, lambda: to_tf_agents(load("envoi:catch"))])
def test_a_wrapped_third_party_batch_is_exported_again(make):
    core = envoi.TimeLimit(from_tf_agents(BatchedPyEnvironment([make() for _ in range(2)], multithreading=False)), 2)
    form = to_tf_agents(core)
    action = np.stack([form.action_spec().minimum * np.ones(form.action_spec().shape, np.int64)] * 2)
    action = action.astype(form.action_spec().dtype)
    kinds = [form.reset().step_type, form.step(action).step_type]
    assert [list(kind) for kind in kinds] == [[0, 0], [1, 1]]


@pytest.mark.parametrize(
    "make",
    [
        lambda: BernoulliPyEnvironment([0.1, 0.9], batch_size=2),
        lambda: StationaryStochasticPyEnvironment(
            lambda: np.arange(6.0).reshape(2, 3), [lambda x: x.sum(), lambda x: 2 * x.sum()], batch_size=2
        ),
    ],
)
def test_a_bandit_is_a_batch_of_episodes_of_one_step(make):
    env = from_tf_agents(make())
    assert env.batch_size == 2
    observation = env.reset().observation
    for _ in range(3):
        step = env.step(np.array([0, 1], env.action_spec.dtype))
        assert (step.terminated | step.truncated).all()
        assert step.reward.shape == (2,)
        assert step.observation.shape == observation.shape
        env.step(np.array([0, 1], env.action_spec.dtype), restart=np.ones(2, bool))
