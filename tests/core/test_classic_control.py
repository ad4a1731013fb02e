"""The bundled models: gymnasium's physics step for step, in fewer than eighty lines each."""

import inspect
import math

import gymnasium
import numpy as np
import pytest
from depth import examples
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st

import envoi
from envoi import Snapshot, TimeLimit
from envoi.adapters import to_gymnasium
from envoi.models import MODELS, CartPole, Pendulum, make
from envoi.models.cartpole import ANGLE_LIMIT, X_LIMIT, CartPoleState
from envoi.models.pendulum import MAX_TORQUE, PendulumState

STATES = 10_000
seeds = st.integers(0, 2**32)


def put_into(env, state):
    """A batch, put into a state of the episodes."""
    kind, n, held = env.snapshot().content
    env.restore(Snapshot(type(env), (kind, n, (state, *held[1:]))))


def random_cart_poles(rng, n):
    """States all over, many of them close to the limits."""
    wide = rng.uniform([-2.5, -5, -0.25, -5], [2.5, 5, 0.25, 5], (n, 4))
    edge = np.array([X_LIMIT, 0, ANGLE_LIMIT, 0]) * rng.choice([-1, 1], (n, 4)) + rng.normal(0, 0.01, (n, 4))
    return np.where(rng.random((n, 1)) < 0.2, edge, wide)


@settings(max_examples=3)
@given(seeds)
def test_cart_pole_is_gymnasiums_from_ten_thousand_states(seed):
    """Exactly: states, observations, rewards and ends, bit for bit."""
    rng = np.random.default_rng(seed)
    states, actions = random_cart_poles(rng, STATES), rng.integers(0, 2, STATES)
    ours = envoi.batch(CartPole(), STATES)
    ours.reset(seed=0)
    put_into(ours, CartPoleState(states, ours.state.physics))
    step = ours.step(actions)
    theirs = gymnasium.make("CartPole-v1", disable_env_checker=True).unwrapped
    theirs.reset(seed=0)
    results, following = [], np.empty((STATES, 4))
    for i in range(STATES):
        theirs.state, theirs.steps_beyond_terminated = states[i], None
        results.append(theirs.step(actions[i]))
        following[i] = theirs.state
    observations, rewards, terminated, truncated, _ = zip(*results, strict=True)
    assert np.array_equal(ours.state.motion, following)
    assert np.array_equal(step.observation, np.array(observations))
    assert step.observation.dtype == observations[0].dtype
    assert np.array_equal(step.reward, rewards)
    assert np.array_equal(step.terminated, terminated)
    assert np.array_equal(step.truncated, truncated)
    assert 1000 < step.terminated.sum() < STATES - 1000


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@settings(max_examples=3)
@given(seeds)
def test_pendulum_is_gymnasiums_from_ten_thousand_states(dtype, seed):
    """States and observations exactly. Rewards to one unit in the last place of the torque's dtype.

    gymnasium squares single numbers, for which numpy calls the C library's `pow`; an array is multiplied by itself,
    which is the exact square rounded once.
    """
    rng = np.random.default_rng(seed)
    states = rng.uniform([-4 * np.pi, -8], [4 * np.pi, 8], (STATES, 2))
    actions = rng.uniform(-1.5 * MAX_TORQUE, 1.5 * MAX_TORQUE, (STATES, 1)).astype(dtype)
    ours = envoi.batch(Pendulum(), STATES)
    ours.reset(seed=0)
    put_into(ours, PendulumState(states, ours.state.physics))
    step = ours.step(actions)
    theirs = gymnasium.make("Pendulum-v1", disable_env_checker=True).unwrapped
    theirs.reset(seed=0)
    results, following = [], np.empty((STATES, 2))
    for i in range(STATES):
        theirs.state = states[i]
        results.append(theirs.step(actions[i]))
        following[i] = theirs.state
    observations, rewards, terminated, _, _ = zip(*results, strict=True)
    assert np.array_equal(ours.state.motion, following)
    assert np.array_equal(step.observation, np.array(observations))
    assert step.observation.dtype == observations[0].dtype
    cost_of_torque = 0.001 * MAX_TORQUE**2
    one_unit = np.spacing(np.dtype(dtype).type(cost_of_torque)) + 2 * np.spacing(np.abs(rewards))
    assert (np.abs(step.reward - np.array(rewards)) <= one_unit).all()
    assert not step.terminated.any()
    assert not any(terminated)


@settings(max_examples=10)
@given(seeds)
def test_whole_episodes_of_cart_pole_are_gymnasiums(seed):
    ours, theirs = make("cartpole"), gymnasium.make("CartPole-v1")
    theirs.reset(seed=0)
    ours.reset(seed=seed)
    theirs.unwrapped.state = ours.state.motion
    rng = np.random.default_rng(seed)
    while True:
        # Mostly towards the fall of the pole, so that episodes are long.
        action = int(ours.state.motion[2] + ours.state.motion[3] > 0) if rng.random() < 0.95 else int(rng.integers(2))
        step, other = ours.step(action), theirs.step(action)
        assert np.array_equal(step.observation, other[0])
        assert (step.reward, step.terminated, step.truncated) == other[1:4]
        if step.terminated or step.truncated:
            break


@settings(max_examples=10)
@given(seeds)
def test_whole_episodes_of_pendulum_are_gymnasiums(seed):
    ours, theirs = make("pendulum"), gymnasium.make("Pendulum-v1")
    theirs.reset(seed=0)
    ours.reset(seed=seed)
    theirs.unwrapped.state = ours.state.motion
    for i in range(200):
        action = ours.sample_action()
        step, other = ours.step(action), theirs.step(action)
        assert np.array_equal(step.observation, other[0])
        assert step.reward == pytest.approx(other[1], abs=1e-9)
        assert (step.terminated, step.truncated) == other[2:4] == (False, i == 199)


@given(seeds)
def test_episodes_begin_where_gymnasiums_do(seed):
    cart = CartPole()
    assert (np.abs(cart.reset(seed=seed).observation) <= 0.05).all()
    pendulum = Pendulum()
    pendulum.reset(seed=seed)
    assert (np.abs(pendulum.state.motion) <= [math.pi, 1]).all()


def test_the_specs_are_gymnasiums_spaces_but_for_bounds_that_a_context_may_move():
    for name, id_, bounded in (("cartpole", "CartPole-v1", []), ("pendulum", "Pendulum-v1", [0, 1])):
        ours, theirs = to_gymnasium(make(name)), gymnasium.make(id_)
        assert ours.action_space == theirs.action_space
        assert ours.observation_space.shape == theirs.observation_space.shape
        assert ours.observation_space.dtype == theirs.observation_space.dtype
        high = np.full(theirs.observation_space.shape, np.inf)
        high[bounded] = theirs.observation_space.high[bounded]
        assert np.array_equal(ours.observation_space.high, high)
        assert np.array_equal(ours.observation_space.low, -high)


@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric and normalized space:UserWarning")
@pytest.mark.filterwarnings("ignore:.*A Box observation space (minimum|maximum) value is -?infinity:UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_the_models_pass_gymnasiums_own_check(name):
    check_env(to_gymnasium(make(name)), skip_render_check=True)


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=10)
@given(seeds)
def test_every_observation_and_reward_lies_in_its_spec(name, seed):
    env = make(name)
    env.reset(seed=seed)
    for _ in range(150):
        step = env.step(env.sample_action())
        envoi.validate(env.observation_spec, step.observation)
        envoi.validate(env.reward_spec, np.asarray(step.reward))
        assert env.reward_range[0] <= step.reward <= env.reward_range[1]
        if step.terminated or step.truncated:
            env.reset()


CONTEXTUAL = [name for name in MODELS if MODELS[name][0].context_space is not None]


@pytest.mark.parametrize("name", CONTEXTUAL)
@examples(30)
@given(seeds, st.data())
def test_observations_lie_in_their_spec_in_ordinary_contexts_too(name, seed, data):
    env = make(name)
    model = env.unwrapped
    half_and_double = {
        feature: data.draw(
            st.sampled_from([0.5 * value, value, min(2 * value, model.context_space.features[feature].high)])
        )
        for feature, value in model.context_space.defaults.items()
    }
    env.context = half_and_double
    env.reset(seed=seed)
    for _ in range(60):
        step = env.step(env.sample_action())
        envoi.validate(env.observation_spec, step.observation)
        if step.terminated or step.truncated:
            return


@pytest.mark.parametrize("name", MODELS)
def test_a_model_takes_fewer_than_eighty_lines(name):
    source = inspect.getsource(inspect.getmodule(MODELS[name][0]))
    assert sum(bool(line.strip()) for line in source.splitlines()) < 80


@pytest.mark.parametrize("name", ["catch", "gridworld"])
def test_pictures_are_drawn_of_one_lane_and_of_many(name):
    env = make(name)
    assert env.render_mode == "rgb_array"
    env.reset(seed=0)
    picture = env.render()
    assert (picture.ndim, picture.shape[-1], picture.dtype) == (3, 3, np.uint8)
    assert picture.min() < picture.max()
    lanes = envoi.batch(env, 2)
    lanes.reset(seed=[0, 1])
    assert lanes.render().shape == (2, *picture.shape)


def test_an_unknown_model_suggests_near_ones():
    with pytest.raises(envoi.UnknownName, match="did you mean 'envoi:cartpole'"):
        make("cartpol")
    assert make("catch", max_episode_steps=4).max_episode_steps == 4
    assert isinstance(make("pendulum"), TimeLimit)
