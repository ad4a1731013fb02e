"""TF-Agents' wrappers around their environments, and ours around the same: equal trajectories for equal actions."""

import numpy as np
import pytest
from tf_agents.environments import random_py_environment, test_envs, wrappers
from tf_agents.specs.array_spec import ArraySpec, BoundedArraySpec

import envoi
from envoi.adapters import from_env, to_tf_agents

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")

SEEN = {"z": BoundedArraySpec((2,), np.float32, -1, 1), "a": ArraySpec((3, 1), np.int32)}
ROW = BoundedArraySpec((4,), np.float32, -1, 1)  # a filter of theirs knows one bound for all elements only
INTEGER = BoundedArraySpec((), np.int32, -1, 1)
HOT = BoundedArraySpec((1,), np.int32, 1, 3)
BOX = BoundedArraySpec((2,), np.float32, -10, [10, 20])


def paid_by_action(step_type, action, observation):
    """A reward that shows the action that the environment received."""
    return np.float32(np.sum(np.asarray(action, np.float64) * [1, 7][: np.size(action)]))


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


# What is inside, their wrapper, ours, and random actions.
PAIRS = {
    "TimeLimit": (
        counting,
        lambda env: wrappers.TimeLimit(env, 4),
        lambda env: envoi.TimeLimit(env, 4),
        integers(0, 1),
    ),
    "TimeLimit, ended before": (
        counting,
        lambda env: wrappers.TimeLimit(env, 9),
        lambda env: envoi.TimeLimit(env, 9),
        integers(0, 1),
    ),
    "ActionRepeat": (
        lambda: random(BOX),
        lambda env: wrappers.ActionRepeat(env, 3),
        lambda env: envoi.ActionRepeat(env, 3),
        floats(0, 1, 2),
    ),
    "ObservationFilter": (
        lambda: random(INTEGER, ROW),
        lambda env: wrappers.ObservationFilterWrapper(env, [3, 0]),
        lambda env: envoi.ObservationFilter(env, [3, 0]),
        integers(-1, 1),
    ),
    "ActionDiscretize": (
        lambda: random(BOX),
        lambda env: wrappers.ActionDiscretizeWrapper(env, np.array([5, 3])),
        lambda env: envoi.ActionDiscretize(env, [5, 3], dtype="int32"),
        integers(0, 2, 2),
    ),
    "ActionDiscretize, one": (
        lambda: random(BoundedArraySpec((1,), np.float32, -10, 10)),
        lambda env: wrappers.ActionDiscretizeWrapper(env, 5),
        lambda env: envoi.ActionDiscretize(env, 5, dtype="int32"),
        integers(0, 4),
    ),
    "ActionClip": (
        lambda: random(BOX),
        wrappers.ActionClipWrapper,
        envoi.ActionClip,
        floats(-30, 30, 2),
    ),
    "ActionOffset": (
        lambda: random(INTEGER),
        wrappers.ActionOffsetWrapper,
        envoi.ActionOffset,
        integers(0, 2),
    ),
    "GoalReplay": (
        lambda: random(INTEGER),
        lambda env: TheirGoal(env, handle_auto_reset=True),  # or the goal of the first episode remains
        OurGoal,
        integers(-1, 1),
    ),
    "History": (
        counting,
        lambda env: wrappers.HistoryWrapper(env, 3),
        lambda env: envoi.History(env, 3),
        integers(0, 1),
    ),
    "History, nested": (
        lambda: random(INTEGER),
        lambda env: wrappers.HistoryWrapper(env, 4, include_actions=True),
        lambda env: envoi.History(env, 4, include_actions=True),
        integers(-1, 1),
    ),
    "History, tiled": (
        lambda: random(INTEGER, ROW),
        lambda env: wrappers.HistoryWrapper(env, 3, tile_first_step_obs=True),
        lambda env: envoi.History(env, 3, tile_first_step_obs=True),
        integers(-1, 1),
    ),
    "OneHotAction": (
        lambda: random(HOT),
        wrappers.OneHotActionWrapper,
        envoi.OneHotAction,
        one_hot,
    ),
    "OneHotAction, continuous": (
        lambda: random(BOX),
        wrappers.OneHotActionWrapper,
        envoi.OneHotAction,
        floats(-10, 10, 2),
    ),
}


def same_observation(one, other):
    if isinstance(one, dict):
        assert set(one) == set(other)
        for key in one:
            same_observation(one[key], other[key])
        return
    if isinstance(one, tuple):
        assert len(one) == len(other)
        for mine, yours in zip(one, other, strict=True):
            same_observation(mine, yours)
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


@pytest.mark.parametrize("name", PAIRS)
def test_values_of_our_wrapper_have_the_shapes_and_dtypes_of_theirs(name):
    make, theirs, ours, _ = PAIRS[name]
    their_env, our_form = theirs(make()), to_tf_agents(ours(from_env(make())))

    def same(one, other):
        if isinstance(one, dict):
            assert set(one) == set(other)
            return [same(one[key], other[key]) for key in one]
        assert (tuple(one.shape), one.dtype) == (tuple(other.shape), other.dtype)
        return None

    same(their_env.action_spec(), our_form.action_spec())
    same(their_env.observation_spec(), our_form.observation_spec())


@pytest.mark.parametrize("name", [name for name in PAIRS if "Discretize" in name or name.endswith("continuous")])
def test_the_bounds_of_a_discretized_or_continuous_action_are_theirs(name):
    make, theirs, ours, _ = PAIRS[name]
    one, other = theirs(make()).action_spec(), to_tf_agents(ours(from_env(make()))).action_spec()
    for bound in ("minimum", "maximum"):
        expected = np.broadcast_to(getattr(one, bound), one.shape)
        np.testing.assert_array_equal(np.broadcast_to(getattr(other, bound), other.shape), expected)


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


def test_runs_are_counted_as_theirs_are():
    theirs, core = wrappers.RunStats(counting(3)), envoi.RunStats(from_env(counting(3)))
    form = to_tf_agents(core)
    theirs.reset()
    form.reset()
    for _ in range(11):
        theirs.step(np.int32(0))
        form.step(np.int32(0))
        for what in ("episodes", "resets", "total_steps", "episode_steps"):
            assert getattr(theirs, what) == getattr(core, what)


def test_profiles_come_as_often_as_theirs():
    profiles = {"theirs": [], "ours": []}
    theirs = wrappers.PerformanceProfiler(counting(100), profiles["theirs"].append, 5)
    ours = envoi.PerformanceProfiler(from_env(counting(100)), profiles["ours"].append, 5)
    theirs.reset()
    ours.reset()
    for number in range(1, 20):
        theirs.step(np.int32(0))
        ours.step(np.int32(0))
        assert len(profiles["theirs"]) == len(profiles["ours"]) == number // 5


def test_disabled_actions_are_masked_as_theirs_are():
    seen, action = {"x": ArraySpec((1,), np.int32)}, BoundedArraySpec((), np.int32, -10, 10)

    def make():
        return random_py_environment.RandomPyEnvironment(
            seen, action, reward_fn=lambda kind, action, seen: np.asarray(action, np.float32), batch_size=5
        )

    theirs, ours = wrappers.ExtraDisabledActionsWrapper(make(), 25), envoi.ExtraDisabledActions(from_env(make()), 25)
    assert (int(theirs.action_spec().minimum), int(theirs.action_spec().maximum)) == (-10, 35)
    assert (ours.action_spec.start, ours.action_spec.n) == (-10, 46)
    first, own = theirs.reset(), ours.reset()
    np.testing.assert_array_equal(first.observation[1], own.observation[1])
    actions = np.array([3, -7, 4, 2, 6], np.int32)
    step, own = theirs.step(actions), ours.step(actions)
    np.testing.assert_array_equal(step.observation[0]["x"], own.observation[0]["x"])
    np.testing.assert_array_equal(step.observation[1], own.observation[1])
    np.testing.assert_array_equal(step.reward, own.reward)
