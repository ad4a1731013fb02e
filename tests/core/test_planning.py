"""Planning with pure functions over an explicit state: looking ahead, and counterfactual steps."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Walk
from traces import exact

import envoi
from envoi.models import CartPole, Catch, GridWorld, Pendulum
from envoi.models.gridworld import WALLS, GridState


def best_value(model, state, actions, depth, rng):
    """The largest undiscounted return of one lane within `depth` steps, and the first action towards it."""
    if depth == 0 or model.terminal(state)[0]:
        return 0.0, None
    best = -np.inf, None
    for action in actions:
        chosen = np.array([action])
        following = model.transition(state, chosen, rng)
        reward = float(model.reward(state, chosen, following)[0])
        value = reward + best_value(model, following, actions, depth - 1, rng)[0]
        best = max(best, (value, action), key=lambda pair: pair[0])
    return best


def begun_catch(seed, steps):
    """One lane of Catch, some steps after its beginning."""
    env = envoi.batch(Catch(), 1)
    env.reset(seed=seed)
    for _ in range(steps):
        env.step(np.array([1]))
    return env


@settings(max_examples=5)
@given(st.integers(0, 2**32))
def test_search_finds_the_catch_where_it_is_possible(seed):
    env = begun_catch(seed, 5)  # four steps remain, enough for any distance
    untouched = exact((env.state, env.observation, env.streams.copy().dynamics.integers(2**62)))
    value, action = best_value(env.model, env.state, range(3), 4, env.rng)
    assert value == 1
    assert exact((env.state, env.observation, env.streams.copy().dynamics.integers(2**62))) == untouched
    for depth in range(4, 0, -1):
        value, action = best_value(env.model, env.state, range(3), depth, env.rng)
        step = env.step(np.array([action]))
    assert step.reward[0] == 1
    env = begun_catch(seed, 8)
    reachable = abs(int(env.state.ball[0]) - int(env.state.paddle[0])) <= 1
    assert best_value(env.model, env.state, range(3), 1, env.rng)[0] == (1 if reachable else -1)


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
@given(st.integers(0, 2**32))
def test_a_level_of_search_is_one_call(seed):
    env = envoi.batch(GridWorld(), 1)
    env.reset(seed=seed)
    far = distances(env.state.goal[0])
    state, depth = env.state, 0
    while not env.model.terminal(state).any():
        tiled = GridState(*(np.repeat(part, 4, 0) for part in state))
        state = env.model.transition(tiled, np.tile(np.arange(4), len(state.agent)), env.rng)
        _, first = np.unique(state.agent, axis=0, return_index=True)
        state, depth = GridState(*(part[first] for part in state)), depth + 1
        if depth <= 3:  # a search of one lane finds the goal exactly where it is near enough
            value, _ = best_value(env.model, env.state, range(4), depth, env.rng)
            assert value == (depth >= far[tuple(env.state.agent[0])])
    assert depth == far[tuple(env.state.agent[0])]


@given(st.integers(0, 2**32), st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=6))
def test_a_plan_is_what_the_episode_does(seed, actions):
    env = Walk()
    env.reset(seed=seed)
    state, rng = env.state, env.streams.copy().dynamics
    for action in actions:
        otherwise = env.transition(state, action - 1, env.streams.copy().dynamics)
        following = env.transition(state, action, rng)
        assert np.allclose(following.position - otherwise.position, 0.3)  # by the same noise
        reward = env.reward(state, action, following)
        step = env.step(action)
        assert exact(env.state) == exact(following)
        assert (step.reward, step.terminated) == (reward, env.terminal(following))
        state = following
        if step.terminated:
            return


@pytest.mark.parametrize("model", [Catch, CartPole, Pendulum, GridWorld])
def test_from_a_snapshot_every_action_can_be_tried(model):
    env = model()
    env.reset(seed=0)
    env.step(env.sample_action())
    snapshot, here = env.snapshot(), exact(env.state)
    actions = [env.sample_action() for _ in range(6)]
    outcomes = []
    for action in actions * 2:
        env.restore(snapshot)
        assert exact(env.state) == here
        outcomes.append(exact((env.step(action), env.state)))
    assert outcomes[:6] == outcomes[6:]


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
