"""The bundled models: gymnasium's physics step for step, a ball to catch, and rooms to walk through."""

import math

import gymnasium
import numpy as np
import pytest
from depth import examples
from hypothesis import given, settings
from hypothesis import strategies as st

import envoi
from envoi import TimeLimit
from envoi.adapters import to_gymnasium
from envoi.models import MODELS, CartPole, Catch, GridWorld, Pendulum, make
from envoi.models.cartpole import ANGLE_LIMIT, X_LIMIT
from envoi.models.gridworld import WALLS
from envoi.models.pendulum import MAX_TORQUE

STATES = 10_000
POINTS = np.random.default_rng(0).normal(0, 3, 1000).tolist()
seeds = st.integers(0, 2**32)


def random_cart_poles(rng, n):
    """States all over, many of them close to the limits."""
    wide = rng.uniform([-2.5, -5, -0.25, -5], [2.5, 5, 0.25, 5], (n, 4))
    edge = np.array([X_LIMIT, 0, ANGLE_LIMIT, 0]) * rng.choice([-1, 1], (n, 4)) + rng.normal(0, 0.01, (n, 4))
    return np.where(rng.random((n, 1)) < 0.2, edge, wide)


def random_pendulums(rng, n):
    return rng.uniform([-4 * np.pi, -8], [4 * np.pi, 8], (n, 2))


def torques(dtype):
    """Random torques, some beyond the bounds, and the largest differences of rewards: a unit in the last place of each.

    gymnasium squares by numpy's power, which need not round as a product does.
    """
    one_unit = np.spacing(np.dtype(dtype).type(0.001 * MAX_TORQUE**2))
    return (
        lambda rng: rng.uniform(-1.5 * MAX_TORQUE, 1.5 * MAX_TORQUE, (STATES, 1)).astype(dtype),
        lambda rewards: one_unit + 2 * np.spacing(np.abs(rewards)),
    )


SIDES = lambda rng: rng.integers(0, 2, STATES), lambda rewards: 0
PHYSICS = {
    "cartpole": (CartPole, "CartPole-v1", random_cart_poles, SIDES, (1000, STATES - 1000)),
    "pendulum, float32": (Pendulum, "Pendulum-v1", random_pendulums, torques("float32"), (-1, 1)),
    "pendulum, float64": (Pendulum, "Pendulum-v1", random_pendulums, torques("float64"), (-1, 1)),
}
"""The model, gymnasium's, random states, random actions, and between which numbers are ends."""

NUMPY_CALLS_C = all(getattr(np, name)(x) == getattr(math, name)(x) for name in ("sin", "cos") for x in POINTS)
"""True if numpy has C's sine and cosine, as the models have; its own on some processors may differ by one unit."""


@pytest.mark.parametrize("name", PHYSICS)
@settings(max_examples=3)
@given(seeds)
def test_ten_thousand_steps_are_gymnasiums(name, seed):
    """States, observations and ends bit for bit, and rewards but for a unit in the last place."""
    model, id_, random_states, (random_actions, differences), (fewest, most) = PHYSICS[name]
    rng = np.random.default_rng(seed)
    states, actions = random_states(rng, STATES), random_actions(rng)
    ours, theirs = model(), gymnasium.make(id_, disable_env_checker=True).unwrapped
    ours.reset(seed=0)
    theirs.reset(seed=0)
    size, kind = states.shape[1], type(ours.state)
    found, expected, following = [], [], np.empty((2, *states.shape))
    for i in range(STATES):
        ours.state = kind(*states[i].tolist(), *ours.state[size:])
        theirs.state, theirs.steps_beyond_terminated = states[i], None
        if ours.terminal(ours.state):  # from here gymnasium steps on
            ours.resume(ours.state, None, over=False)
        found.append(ours.step(actions[i])[:4])
        expected.append(theirs.step(actions[i])[:4])
        following[:, i] = ours.state[:size], theirs.state
    unit = 0 if NUMPY_CALLS_C else 1e-14
    np.testing.assert_allclose(*following, rtol=unit, atol=unit)
    (observed, reward, *ends), (observations, rewards, *others) = (
        map(np.array, zip(*steps, strict=True)) for steps in (found, expected)
    )
    assert observed.dtype == observations.dtype
    np.testing.assert_allclose(observed, observations, rtol=0 if NUMPY_CALLS_C else 1e-6, atol=0)
    assert (np.abs(reward - rewards) <= differences(rewards)).all()
    assert np.array_equal(ends, others)
    assert fewest < ends[0].sum() < most


@given(seeds)
def test_episodes_begin_where_gymnasiums_do(seed):
    cart = CartPole()
    assert (np.abs(cart.reset(seed=seed).observation) <= 0.05).all()
    pendulum = Pendulum()
    pendulum.reset(seed=seed)
    assert (np.abs(pendulum.state[:2]) <= [math.pi, 1]).all()


def test_specs_and_limits_are_gymnasiums_but_for_some_bounds():
    # The other bounds are those that a context may move.
    for name, id_, bounded in (("cartpole", "CartPole-v1", []), ("pendulum", "Pendulum-v1", [0, 1])):
        ours, theirs = to_gymnasium(make(name)), gymnasium.make(id_)
        assert ours.action_space == theirs.action_space
        assert make(name).max_episode_steps == theirs.spec.max_episode_steps
        assert ours.observation_space.shape == theirs.observation_space.shape
        assert ours.observation_space.dtype == theirs.observation_space.dtype
        high = np.full(theirs.observation_space.shape, np.inf)
        high[bounded] = theirs.observation_space.high[bounded]
        assert np.array_equal(ours.observation_space.high, high)
        assert np.array_equal(ours.observation_space.low, -high)


@pytest.mark.parametrize("name", MODELS)
@examples(30)
@given(seeds, st.data())
def test_values_lie_in_their_specs_in_ordinary_contexts(name, seed, data):
    env = make(name)
    space = env.unwrapped.context_space
    if space is not None:  # half of each default to twice
        env.context = {
            feature: type(value)(
                data.draw(st.sampled_from([0.5 * value, value, min(2 * value, space.features[feature].high)]))
            )
            for feature, value in space.defaults.items()
        }
    env.reset(seed=seed)
    for _ in range(100):
        step = env.step(env.sample_action())
        envoi.validate(env.observation_spec, step.observation)
        envoi.validate(env.reward_spec, np.asarray(step.reward))
        assert env.reward_range[0] <= step.reward <= env.reward_range[1]
        if step.terminated or step.truncated:
            env.reset()


@pytest.mark.parametrize("name", ["catch", "gridworld", "maze"])
def test_pictures_are_drawn_of_one_lane_and_of_many(name):
    env = make(name)
    assert env.render_mode == "rgb_array"
    env.reset(seed=0)
    picture = env.render()
    assert (picture.ndim, picture.shape[-1], picture.dtype) == (3, 3, np.uint8)
    assert picture.min() < picture.max()
    lanes = envoi.batch(env, 2)
    lanes.reset(seed=[0, 1])
    assert [each.shape for each in lanes.render()] == [picture.shape] * 2


def test_an_unknown_model_suggests_near_ones():
    with pytest.raises(envoi.UnknownName, match="did you mean 'envoi:cartpole'"):
        make("cartpol")
    assert make("catch", max_episode_steps=4).max_episode_steps == 4
    assert isinstance(make("pendulum"), TimeLimit)


@given(seeds)
def test_a_paddle_catches_the_ball_where_it_goes_there(seed):
    for catches in (True, False):
        env = Catch()
        env.reset(seed=seed)
        step = env.step(1)
        while not step.terminated:
            assert step.reward == 0
            (row, ball, paddle), away = env.state, 0 if env.state.ball > 1 else 2
            assert np.argwhere(step.observation).tolist() == sorted([[row, ball], [9, paddle]])
            step = env.step(1 + np.sign(ball - paddle) if catches else away)
        assert step.reward == (1 if catches else -1)


def distances(goal):
    """Steps to the goal from every free cell, by breadth-first search on the map alone."""
    far = np.full(WALLS.shape, -1)
    far[tuple(goal)] = 0
    front = [tuple(goal)]
    while front:
        row, column = front.pop(0)
        for cell in ((row - 1, column), (row + 1, column), (row, column - 1), (row, column + 1)):
            if not WALLS[cell] and far[cell] < 0:
                far[cell] = far[row, column] + 1
                front.append(cell)
    return far


@settings(max_examples=10)
@given(seeds)
def test_four_rooms_are_as_far_apart_as_on_their_map(seed):
    env = GridWorld()
    env.reset(seed=seed)
    first, states, depth = env.state, {env.state}, 0
    while not any(map(env.terminal, states)):
        states = {env.transition(state, action, env.rng) for state in states for action in range(4)}
        depth += 1
    assert depth == distances(first[2:4])[first[:2]]
    assert sum(env.reward(first, 0, state) for state in states) == 1
