"""Every context feature of gymnasium's Box2D environments changes what happens, and only in its own environment."""

import sys
import threading

import numpy as np
import pytest
from absent import needs
from context_features import actions_of, alone, each_feature_changes_the_trajectory, imported, trajectory

from envoi import ContextError, UniformInteger, validate
from envoi.adapters import load

NAMES = ["LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3", "BipedalWalkerHardcore-v3", "CarRacing-v3"]
STEPS = {"CarRacing-v3": 8}


def _actions(name):
    steps = STEPS.get(name, 60)
    return [np.array([0.1, 1, 0], "float32")] * steps if name == "CarRacing-v3" else actions_of(name, steps)


@pytest.fixture(scope="module")
def plain():
    return {name: alone(name, _actions(name)) for name in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_each_feature_changes_the_trajectory_and_is_forgotten_after_it(name, plain):
    env = imported(name)
    known = env.context_space.features

    def another(feature):
        """Halfway from the default to a bound."""
        end = known[feature].high if known[feature].high != known[feature].default_value else known[feature].low
        value = (known[feature].default_value + end) / 2
        return int(value) if isinstance(known[feature], UniformInteger) else value

    if name.startswith("LunarLander"):
        each_feature_changes_the_trajectory(env, another, _actions(name))
    else:  # these worlds outlive an episode, and remember some of it also without contexts
        for feature in known:
            assert trajectory(imported(name, {feature: another(feature)}), _actions(name)) != plain[name], feature


@pytest.mark.parametrize("name", NAMES)
def test_the_default_context_gives_the_sources_trajectory(name, plain):
    env = imported(name)
    assert trajectory(env, _actions(name)) == plain[name]
    # One that was set and taken back before it came into force.
    env = imported(name, {"FPS": 60})
    env.context = {}
    assert trajectory(env, _actions(name)) == plain[name]
    assert load("gymnasium:CarRacing-v3").context == {
        "FPS": 50, "TRACK_RAD": 150.0, "TRACK_TURN_RATE": 0.31, "TRACK_WIDTH": 40 / 6, "ENGINE_POWER": 40000.0,
        "WHEEL_MOMENT_OF_INERTIA": 1.6, "FRICTION_LIMIT": 400.0,
    }  # fmt: skip


def test_what_a_feature_does_not_touch_stays_exactly_as_it_is():
    # The width of the window scales one element of the observation; parts that are made again must be the same parts.
    env, other = load("gymnasium:BipedalWalker-v3"), imported("BipedalWalker-v3", {"VIEWPORT_W": 900})
    for one in (env, other):
        one.reset(seed=4)
    for action in actions_of("BipedalWalker-v3", 60):
        ours, theirs = other.step(action), env.step(action)
        np.testing.assert_array_equal(np.delete(ours.observation, 2), np.delete(theirs.observation, 2))
        np.testing.assert_allclose(ours.observation[2], 1.5 * theirs.observation[2], rtol=1e-5, atol=1e-7)


def test_gravity_pulls_where_it_points():
    for name in ("LunarLander-v3", "BipedalWalker-v3"):
        env = imported(name, {"GRAVITY_X": 3.0, "GRAVITY_Y": -5.0})
        for seed in (0, 1):  # a world of its own for each episode of the lander
            env.reset(seed=seed)
            assert tuple(env.unwrapped.world.gravity) == (3.0, -5.0)


def test_only_a_lander_in_the_wind_has_features_of_it():
    assert "wind_power" not in load("gymnasium:LunarLander-v3").context
    actions = actions_of("LunarLander-v3", 20)
    windy = {"enable_wind": True, "wind_power": 5.0}
    env = imported("LunarLander-v3", **windy)
    assert (env.context["wind_power"], env.context["turbulence_power"]) == (5.0, 1.5)
    before = trajectory(env, actions)
    assert before == alone("LunarLander-v3", actions, **windy)
    for feature, value in (("wind_power", 15.0), ("turbulence_power", 0.5)):
        assert trajectory(imported("LunarLander-v3", {feature: value}, **windy), actions) != before


def test_environments_of_different_contexts_stay_apart_in_threads():
    name, results = "LunarLander-v3", {}
    actions, contexts = actions_of("LunarLander-v3", 60), [None, {"FPS": 60}, {"FPS": 25}, {"SCALE": 20.0}]
    apart = [trajectory(imported(name, context), actions) for context in contexts]
    envs = [imported(name, context) for context in contexts]
    start = threading.Barrier(len(envs))

    def play(index):
        start.wait()
        results[index] = [trajectory(envs[index], actions) for _ in range(5)]

    threads = [threading.Thread(target=play, args=(index,)) for index in range(len(envs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [results[index] for index in range(len(envs))] == [[each] * 5 for each in apart]


@needs("Box2D")
def test_the_modules_of_gymnasium_stay_as_they_are():
    modules = [
        sys.modules[f"gymnasium.envs.box2d.{m}"]
        for m in ("lunar_lander", "bipedal_walker", "car_racing", "car_dynamics")
    ]
    kinds = [modules[0].LunarLander, modules[1].BipedalWalker, modules[2].CarRacing, modules[3].Car]
    before = [dict(vars(one)) for one in (*modules, *kinds)]
    for name in ("LunarLander-v3", "BipedalWalker-v3", "CarRacing-v3"):
        imported(name, {"FPS": 60}).reset(seed=0)
        assert [dict(vars(one)) for one in (*modules, *kinds)] == before


@pytest.mark.parametrize("name", ["LunarLander-v3", "BipedalWalker-v3"])
def test_other_constants_than_the_sources_leave_speeds_without_bounds(name):
    env = load(f"gymnasium:{name}")
    with pytest.raises(ContextError, match=r"context\['FPS'\]: with 5 an observation could lie outside"):
        env.context = {"FPS": 5}
    spec = env.spec_under([{"FPS": 5}])
    bounded = np.isfinite(spec.high)
    np.testing.assert_array_equal(spec.high[bounded], env.observation_spec.high[bounded])
    assert bounded.sum() == {"LunarLander-v3": 2, "BipedalWalker-v3": 12}[name]
    env.context = {"FPS": 5}
    env.reset(seed=0)
    outside = False
    for action in actions_of(name, 60):
        step = env.step(action)
        validate(spec, step.observation)
        outside |= not env.observation_spec.contains(step.observation)
        if step.terminated:
            env.reset()
    assert outside


def test_pixels_keep_their_bounds():
    env = load("gymnasium:CarRacing-v3")
    assert env.spec_under([{"FPS": 100}, {"TRACK_WIDTH": 3}]) is env.observation_spec
    env.context = {"TRACK_WIDTH": 3}


def test_a_subclass_with_methods_of_its_own_is_in_no_catalogue():
    from gymnasium.envs.box2d.lunar_lander import LunarLander

    from envoi.adapters import from_gymnasium

    class Mine(LunarLander):
        def step(self, action):
            return super().step(action)

    assert from_gymnasium(Mine()).context_space is None
