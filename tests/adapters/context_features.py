"""The effects of a context on an environment: trajectories with equal seeds and actions, to be compared exactly."""

import gymnasium
import numpy as np
from traces import exact

from envoi.adapters import load


def actions_of(name, steps):
    space = gymnasium.make(name, disable_env_checker=True).action_space
    space.seed(5)
    return [space.sample() for _ in range(steps)]


def alone(name, actions, seed=3, **arguments):
    """The trajectory of the source, of which nothing here knows."""
    source = gymnasium.make(name, disable_env_checker=True, **arguments)
    observation, _ = source.reset(seed=seed)
    seen = [exact(np.array(observation))]
    for action in actions:
        observation, reward, terminated, truncated, _ = source.step(action)
        seen.append((exact(np.array(observation)), float(reward), terminated))
        if terminated or truncated:
            break
    return seen


def trajectory(env, actions, seed=3, prepare=None):
    observation, _ = env.reset(seed=seed)
    seen = [exact(np.array(observation))]
    if prepare is not None:
        prepare(env.unwrapped)
    for action in actions:
        observation, reward, terminated, truncated, _, _ = env.step(action)
        seen.append((exact(np.array(observation)), float(reward), terminated))
        if terminated or truncated:
            break
    return seen


def imported(name, context=None, **arguments):
    """The environment with a context to come, under which observations may go wherever they do."""
    env = load(f"gymnasium:{name}", **arguments)
    if context is not None:
        env.spec_under([context])
        env.context = context
    return env


def each_feature_changes_the_trajectory(env, another, actions, prepare=None):
    """Each feature, with `another(feature)` in force, changes what happens, and the default then changes it back.

    The default gives the source's own trajectory. `another` returns a value, or a pair of a context beside which the
    feature has an effect, and a value.
    """
    before = trajectory(env, actions, prepare=prepare)
    assert prepare is not None or before == alone(env.unwrapped.spec.id, actions)
    for feature in env.context:
        change = another(feature)
        beside, value = change if isinstance(change, tuple) else ({}, change)
        env.spec_under([{**beside, feature: value}])
        env.context = beside
        without = trajectory(env, actions, prepare=prepare)
        env.context = {**beside, feature: value}
        assert trajectory(env, actions, prepare=prepare) != without, feature
        env.context = {}
        assert trajectory(env, actions, prepare=prepare) == before, feature
