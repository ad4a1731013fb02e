"""The bundled models: gymnasium's physics step for step, a ball to catch, and rooms to walk through."""

import math

import gymnasium
import numpy as np
import pytest
from depth import examples
from gymnasium.utils.env_checker import check_env
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import exact

import envoi
from envoi import Snapshot, TimeLimit
from envoi.adapters import to_gymnasium
from envoi.models import MODELS, CartPole, Catch, GridWorld, Pendulum, make
from envoi.models.cartpole import ANGLE_LIMIT, X_LIMIT, CartPoleState
from envoi.models.gridworld import WALLS, GridState
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


def random_pendulums(rng, n):
    return rng.uniform([-4 * np.pi, -8], [4 * np.pi, 8], (n, 2))


def torques(dtype):
    """Random torques, some beyond the bounds, and the largest differences of rewards: a unit in the last place of each.

    gymnasium squares single numbers, for which numpy calls the C library's `pow`; an array is multiplied by itself,
    which is the exact square rounded once.
    """
    one_unit = np.spacing(np.dtype(dtype).type(0.001 * MAX_TORQUE**2))
    return (
        lambda rng: rng.uniform(-1.5 * MAX_TORQUE, 1.5 * MAX_TORQUE, (STATES, 1)).astype(dtype),
        lambda rewards: one_unit + 2 * np.spacing(np.abs(rewards)),
    )


SIDES = lambda rng: rng.integers(0, 2, STATES), lambda rewards: 0
PHYSICS = {
    "cartpole": (CartPole, "CartPole-v1", CartPoleState, random_cart_poles, SIDES, (1000, STATES - 1000)),
    "pendulum, float32": (Pendulum, "Pendulum-v1", PendulumState, random_pendulums, torques("float32"), (-1, 1)),
    "pendulum, float64": (Pendulum, "Pendulum-v1", PendulumState, random_pendulums, torques("float64"), (-1, 1)),
}
"""The model, gymnasium's, the class of states, random states, random actions, and between which numbers are ends."""


@pytest.mark.parametrize("name", PHYSICS)
@settings(max_examples=3)
@given(seeds)
def test_ten_thousand_steps_are_gymnasiums(name, seed):
    """States, observations and ends bit for bit, and rewards but for a unit in the last place."""
    model, id_, state_of, random_states, (random_actions, differences), (fewest, most) = PHYSICS[name]
    rng = np.random.default_rng(seed)
    states, actions = random_states(rng, STATES), random_actions(rng)
    ours = envoi.batch(model(), STATES)
    ours.reset(seed=0)
    put_into(ours, state_of(states, ours.state.physics))
    step = ours.step(actions)
    theirs = gymnasium.make(id_, disable_env_checker=True).unwrapped
    theirs.reset(seed=0)
    results, following = [], np.empty(states.shape)
    for i in range(STATES):
        theirs.state, theirs.steps_beyond_terminated = states[i], None
        results.append(theirs.step(actions[i]))
        following[i] = theirs.state
    observations, rewards, terminated, truncated, _ = map(np.array, zip(*results, strict=True))
    assert np.array_equal(ours.state.motion, following)
    assert np.array_equal(step.observation, observations)
    assert step.observation.dtype == results[0][0].dtype
    assert (np.abs(step.reward - rewards) <= differences(rewards)).all()
    assert np.array_equal(step.terminated, terminated)
    assert np.array_equal(step.truncated, truncated)
    assert fewest < step.terminated.sum() < most


@given(seeds)
def test_episodes_begin_where_gymnasiums_do(seed):
    cart = CartPole()
    assert (np.abs(cart.reset(seed=seed).observation) <= 0.05).all()
    pendulum = Pendulum()
    pendulum.reset(seed=seed)
    assert (np.abs(pendulum.state.motion) <= [math.pi, 1]).all()


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


@pytest.mark.filterwarnings("ignore:.*we recommend using a symmetric and normalized space:UserWarning")
@pytest.mark.filterwarnings("ignore:.*A Box observation space (minimum|maximum) value is -?infinity:UserWarning")
@pytest.mark.parametrize("name", MODELS)
def test_the_models_pass_gymnasiums_own_check(name):
    check_env(to_gymnasium(make(name)), skip_render_check=True)


@pytest.mark.parametrize("name", MODELS)
@examples(30)
@given(seeds, st.data())
def test_values_lie_in_their_specs_in_ordinary_contexts(name, seed, data):
    env = make(name)
    space = env.unwrapped.context_space
    if space is not None:  # half of each default to twice
        env.context = {
            feature: data.draw(st.sampled_from([0.5 * value, value, min(2 * value, space.features[feature].high)]))
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
    env = envoi.batch(GridWorld(), 1)
    env.reset(seed=seed)
    far, state, depth = distances(env.state.goal[0]), env.state, 0
    while not env.model.terminal(state).any():
        tiled = GridState(*(np.repeat(part, 4, 0) for part in state))
        state = env.model.transition(tiled, np.tile(np.arange(4), len(state.agent)), env.rng)
        _, first = np.unique(state.agent, axis=0, return_index=True)
        state, depth = GridState(*(part[first] for part in state)), depth + 1
    assert depth == far[tuple(env.state.agent[0])]
    assert env.model.reward(None, None, state).sum() == 1


@pytest.mark.parametrize("model", [Catch, CartPole, Pendulum, GridWorld])
def test_transition_never_changes_its_state(model):
    env = envoi.batch(model(), 4)
    env.reset(seed=0)
    state = env.state
    was = exact(state)
    for _ in range(5):
        env.model.transition(state, env.sample_action(), np.random.default_rng(0))
        env.step(env.sample_action())
    assert exact(state) == was
