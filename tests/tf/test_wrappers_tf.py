"""TF-Agents' wrappers around their environments, and ours around the same: equal trajectories for equal actions."""

from functools import partial

import numpy as np
import pytest
from tf_agents.environments import random_py_environment, test_envs, wrappers
from tf_agents.specs.array_spec import ArraySpec, BoundedArraySpec

import envoi
from envoi.adapters import from_env, to_tf_agents

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")

SEEN = {"z": BoundedArraySpec((2,), np.float32, -1, 1), "a": ArraySpec((3, 1), np.int32)}
ROW = BoundedArraySpec((4,), np.float32, -1, 1)  # a filter of theirs knows one bound for all elements only
TABLE = BoundedArraySpec((5, 2), np.float32, -1, 1)
INTEGER = BoundedArraySpec((), np.int32, -1, 1)
HOT = BoundedArraySpec((1,), np.int32, 1, 3)
BOX = BoundedArraySpec((2,), np.float32, -10, [10, 20])


def paid_by_action(step_type, action, observation):
    """A reward that shows the action that the environment received."""
    numbers = np.concatenate([np.ravel(leaf) for _, leaf in sorted(envoi.tree.leaves(action))])
    return np.float32(numbers @ 7.0 ** np.arange(len(numbers)))


def random(action, seen=SEEN, **arguments):
    return random_py_environment.RandomPyEnvironment(seen, action, reward_fn=paid_by_action, **arguments)


def counting(steps=6):
    return test_envs.CountingEnv(steps_per_episode=steps)


def integers(low, high, shape=()):
    return lambda rng: rng.integers(low, high + 1, shape).astype(np.int32)


def floats(low, high, shape=()):
    return lambda rng: rng.uniform(low, high, shape).astype(np.float32)


def one_hot(rng):
    return np.eye(3, dtype=np.int32)[[rng.integers(3)]]


class TheirGoal(wrappers.GoalReplayEnvWrapper):
    def get_goal_from_trajectory(self, trajectory):
        return trajectory.observation["z"]

    def get_trajectory_with_goal(self, trajectory, goal):
        return trajectory._replace(observation={**trajectory.observation, "z": goal})


class OurGoal(envoi.GoalReplay):
    def desired(self, observation):
        return observation["z"]

    def achieved(self, observation):
        return observation["z"]

    def with_goal(self, observation, goal):
        return {**observation, "z": goal}


def pair(make, theirs, ours, draw, *arguments, **named):
    """Returns what is inside, their wrapper, ours, and random actions; `arguments` are the wrappers' own."""
    wraps = (lambda env, wrapper=wrapper: wrapper(env, *arguments, **named) for wrapper in (theirs, ours))
    return (make, *wraps, draw)


def discretize(env, counts):
    return envoi.ActionDiscretize(env, counts, dtype="int32")


ONE = BoundedArraySpec((1,), np.float32, -10, 10)
PAIRS = {
    "TimeLimit": pair(counting, wrappers.TimeLimit, envoi.TimeLimit, integers(0, 1), 4),
    "TimeLimit, ended before": pair(counting, wrappers.TimeLimit, envoi.TimeLimit, integers(0, 1), 9),
    "ActionRepeat": pair(lambda: random(BOX), wrappers.ActionRepeat, envoi.ActionRepeat, floats(0, 1, 2), 3),
    "ObservationFilter": pair(
        lambda: random(INTEGER, ROW),
        wrappers.ObservationFilterWrapper,
        envoi.ObservationFilter,
        integers(-1, 1),
        [3, 0],
    ),
    "ActionDiscretize": pair(
        lambda: random(BOX), wrappers.ActionDiscretizeWrapper, discretize, integers(0, 2, 2), np.array([5, 3])
    ),
    "ActionDiscretize, one": pair(lambda: random(ONE), wrappers.ActionDiscretizeWrapper, discretize, integers(0, 4), 5),
    "ActionClip": pair(lambda: random(BOX), wrappers.ActionClipWrapper, envoi.ActionClip, floats(-30, 30, 2)),
    "ActionOffset": pair(lambda: random(INTEGER), wrappers.ActionOffsetWrapper, envoi.ActionOffset, integers(0, 2)),
    "FlattenObservation": pair(
        lambda: random(INTEGER, {"z": ROW, "a": TABLE, "m": ROW}),
        wrappers.FlattenObservationsWrapper,
        partial(envoi.FlattenObservation, order="sorted"),
        integers(-1, 1),
    ),
    "FlattenAction": pair(
        lambda: random({"z": BOX, "a": ONE}),
        wrappers.FlattenActionWrapper,
        partial(envoi.FlattenAction, order="sorted"),
        floats(-10, 10, 3),
    ),
    "GoalReplay": pair(
        lambda: random(INTEGER),
        lambda env: TheirGoal(env, handle_auto_reset=True),  # or the goal of the first episode remains
        OurGoal,
        integers(-1, 1),
    ),
    "History": pair(counting, wrappers.HistoryWrapper, envoi.History, integers(0, 1), 3),
    "History, nested": pair(
        lambda: random(INTEGER), wrappers.HistoryWrapper, envoi.History, integers(-1, 1), 4, include_actions=True
    ),
    "History, tiled": pair(
        lambda: random(INTEGER, ROW),
        wrappers.HistoryWrapper,
        envoi.History,
        integers(-1, 1),
        3,
        tile_first_step_obs=True,
    ),
    "OneHotAction": pair(lambda: random(HOT), wrappers.OneHotActionWrapper, envoi.OneHotAction, one_hot),
    "OneHotAction, continuous": pair(
        lambda: random(BOX), wrappers.OneHotActionWrapper, envoi.OneHotAction, floats(-10, 10, 2)
    ),
}


def same_observation(one, other):
    if isinstance(one, dict):
        assert set(one) == set(other)
    for key in one if isinstance(one, dict) else range(len(one)) if isinstance(one, tuple) else ():
        same_observation(one[key], other[key])
    if isinstance(one, (dict, tuple)):
        return
    np.testing.assert_array_equal(one, other)
    assert np.asarray(one).dtype == np.asarray(other).dtype


def same_step(one, other):
    assert int(one.step_type) == int(other.step_type)
    np.testing.assert_allclose(one.reward, other.reward, rtol=1e-6)  # theirs adds and maps in float64 here and there
    np.testing.assert_array_equal(one.discount, other.discount)
    same_observation(one.observation, other.observation)


@pytest.mark.parametrize("name", PAIRS)
def test_our_wrapper_does_what_theirs_does(name):
    make, theirs, ours, draw = PAIRS[name]
    their_env, our_form = theirs(make()), to_tf_agents(ours(from_env(make())))
    rng = np.random.default_rng(0)
    same_step(their_env.reset(), our_form.reset())
    for _ in range(60):
        action = draw(rng)
        same_step(their_env.step(action), our_form.step(action))


@pytest.mark.parametrize("steps", [2, 5, 9])
def test_episodes_of_one_length_have_the_values_of_theirs(steps):
    theirs = wrappers.FixedLength(counting(steps), 5)
    ours = envoi.FixedLength(from_env(counting(steps)), 5)
    for _ in range(3):
        first, observation = theirs.reset(), ours.reset().observation
        assert int(first.observation) == int(observation)
        for number in range(1, 6):
            step, own = theirs.step(np.int32(0)), ours.step(np.int32(0))
            assert (float(step.reward), float(step.discount)) == (float(own.reward), float(own.discount))
            assert int(step.observation) == int(own.observation)
            assert (own.terminated or own.truncated) == (number == 5)
            assert bool(step.is_last()) == (number >= min(steps, 5))
        if steps > 5:  # from here on, theirs no longer knows that the episode inside continues
            theirs, ours = wrappers.FixedLength(counting(steps), 5), envoi.FixedLength(from_env(counting(steps)), 5)


def test_an_episode_that_was_cut_off_is_padded_with_the_values_of_theirs():
    theirs = wrappers.FixedLength(wrappers.TimeLimit(counting(), 2), 4)
    ours = envoi.FixedLength(envoi.TimeLimit(from_env(counting()), 2), 4)
    theirs.reset()
    ours.reset()
    for _ in range(4):
        step, own = theirs.step(np.int32(0)), ours.step(np.int32(0))
        assert (float(step.reward), float(step.discount)) == (float(own.reward), float(own.discount))
        assert int(step.observation) == int(own.observation)
    assert own.truncated
