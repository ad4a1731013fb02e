"""Every context feature of gymnasium's environments changes what happens; its default changes nothing."""

import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import gymnasium
import numpy as np
import pytest
from absent import needs
from context_features import actions_of, alone, each_feature_changes_the_trajectory, imported, trajectory
from depth import examples
from hypothesis import given
from hypothesis import strategies as st

from envoi import ContextError, Contextual, UniformFloat, UniformInteger, validate
from envoi.adapters import from_gymnasium, load
from envoi.context import Sampled

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")  # version 4 of MuJoCo's

STEPS = 40
CLASSIC = ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"]

_CAR_CHANGES = {
    "min_position": -0.52, "max_position": -0.575, "max_speed": 0.001, "goal_position": -0.575,
    "goal_velocity": ({"goal_position": -0.6}, 0.5), "min_position_start": -0.7, "max_position_start": -0.3,
    "min_velocity_start": -0.05, "max_velocity_start": 0.05,
}  # fmt: skip
CHANGES = {
    "CartPole-v1": {
        "gravity": 3.7, "masscart": 2.0, "masspole": 0.5, "length": 1.0, "force_mag": 5.0, "tau": 0.01,
        "initial_state_lower": -0.01, "initial_state_upper": 0.1,
    },
    "Pendulum-v1": {
        "max_speed": 1.0, "dt": 0.1, "g": 3.7, "m": 2.0, "l": 0.5, "initial_angle_max": 1.0,
        "initial_velocity_max": 4.0,
    },
    "Acrobot-v1": {
        "LINK_LENGTH_1": 2.0, "LINK_MASS_1": 2.0, "LINK_MASS_2": 2.0, "LINK_COM_POS_1": 0.7, "LINK_COM_POS_2": 0.7,
        "LINK_MOI": 2.0, "MAX_VEL_1": ({"INITIAL_VELOCITY_UPPER": 5.0}, 1.5),
        "MAX_VEL_2": ({"INITIAL_VELOCITY_LOWER": 5.0, "INITIAL_VELOCITY_UPPER": 9.0}, 3.0), "torque_noise_max": 1.0,
        "INITIAL_ANGLE_LOWER": -1.0, "INITIAL_ANGLE_UPPER": 1.0, "INITIAL_VELOCITY_LOWER": -1.0,
        "INITIAL_VELOCITY_UPPER": 1.0,
    },
    "MountainCar-v0": {**_CAR_CHANGES, "force": 0.002, "gravity": 0.001},
    "MountainCarContinuous-v0": {**_CAR_CHANGES, "power": 0.003},
}  # fmt: skip


@pytest.mark.parametrize("name", CLASSIC)
def test_each_feature_changes_the_trajectory_and_is_forgotten_after_it(name):
    env = imported(name)
    assert env.context.keys() == CHANGES[name].keys()
    each_feature_changes_the_trajectory(env, CHANGES[name].__getitem__, actions_of(name, STEPS))


def test_a_context_is_what_writing_the_attributes_by_hand_does():
    actions = actions_of("Pendulum-v1", STEPS)
    source = gymnasium.make("Pendulum-v1")
    source.unwrapped.g, source.unwrapped.l = 3.7, 0.5
    expected = trajectory(from_gymnasium(source), actions)
    assert trajectory(imported("Pendulum-v1", {"g": 3.7, "l": 0.5}), actions) == expected


def test_the_arguments_that_an_environment_was_made_with_are_its_defaults():
    env = load("gymnasium:Pendulum-v1", g=9.81)
    assert env.context["g"] == 9.81
    env.context = {"m": 2}
    env.reset(seed=0)
    assert env.unwrapped.g == 9.81
    assert load("gymnasium:MountainCar-v0", goal_velocity=0.02).context["goal_velocity"] == 0.02


@pytest.mark.parametrize(
    ("name", "context", "low", "high"),
    [
        ("CartPole-v1", {"initial_state_lower": 0.1, "initial_state_upper": 0.2}, 0.1, 0.2),
        ("MountainCar-v0", {"min_position_start": -1.0, "max_position_start": -0.9}, [-1, 0], [-0.9, 0]),
        ("Acrobot-v1", {"INITIAL_ANGLE_LOWER": 1, "INITIAL_ANGLE_UPPER": 2}, [1, 1, -0.1, -0.1], [2, 2, 0.1, 0.1]),
        ("Pendulum-v1", {"initial_angle_max": 0.1}, [-0.1, -1], [0.1, 1]),
    ],
)
def test_the_initial_state_lies_between_its_bounds_and_varies(name, context, low, high):
    env = imported(name, context)
    states = []
    for seed in range(20):
        observation, _ = env.reset(seed=seed)
        states.append(np.array(env.unwrapped.state))
        assert env.observation is observation
    assert np.all(np.array(states) >= np.subtract(low, 1e-6))
    assert np.all(np.array(states) <= np.add(high, 1e-6))
    assert len({state.tobytes() for state in states}) == 20


def test_options_of_a_reset_go_before_the_initial_state_of_the_context():
    env = imported("CartPole-v1", {"initial_state_lower": 0.1, "initial_state_upper": 0.2})
    observation, _ = env.reset(seed=0, options={"low": -0.01, "high": 0.01})
    assert np.abs(observation).max() <= 0.01


@pytest.mark.parametrize(
    ("name", "context", "feature"),
    [
        ("CartPole-v1", {"initial_state_lower": 0.2}, "initial_state_lower"),
        ("MountainCar-v0", {"min_position": 0.7}, "min_position"),
        ("Acrobot-v1", {"INITIAL_VELOCITY_UPPER": -0.2}, "INITIAL_VELOCITY_LOWER"),
    ],
)
def test_bounds_in_the_wrong_order_are_refused(name, context, feature):
    with pytest.raises(ContextError, match=rf"context\['{feature}'\]: expected at most"):
        imported(name, context)


def test_ranges_that_may_be_in_the_wrong_order_are_refused():
    starts = UniformFloat("min_position_start", -0.9, -0.2), UniformFloat("max_position_start", -0.7, -0.1)
    with pytest.raises(ContextError, match=r"expected at most max_position_start \(-0.7\), got -0.2"):
        Contextual(load("gymnasium:MountainCar-v0"), context_selector=Sampled(starts))


def _contexts(name):
    """Any values, between finite bounds, in order."""
    env = load(f"gymnasium:{name}")
    far = {"tau": 0.2, "dt": 0.5, "force_mag": 100, "max_speed": 20, "power": 1, "force": 1}
    # gymnasium's integrator lets faster arms turn 10⁸ times in a step, which it takes off one by one.
    far |= {"MAX_VEL_1": 15, "MAX_VEL_2": 30}
    values = {}
    for feature in env.context_space.features.values():
        reach = far.get(feature.name, max(2.0, 3 * abs(feature.default_value)))
        values[feature.name] = st.floats(max(feature.low, -reach), min(feature.high, reach))

    def ordered(context):
        for low, high in env._bindable.ordered:
            context[low], context[high] = sorted((context[low], context[high]))
        return context

    defaults = env.context
    return st.fixed_dictionaries({}, optional=values).map(lambda context: ordered({**defaults, **context}))


@pytest.mark.parametrize("name", CLASSIC)
@given(data=st.data())
@examples(40)
def test_observations_lie_in_the_spec_under_a_context(name, data):
    context = data.draw(_contexts(name))
    env = load(f"gymnasium:{name}")
    spec = env.spec_under([context])
    env.context = context
    observation, _ = env.reset(seed=data.draw(st.integers(0, 99)))
    validate(spec, observation)
    # The same action for long gathers the most speed.
    often = data.draw(st.integers(1, 30))
    for index in range(60):
        if index % often == 0:
            action = env.sample_action()
        observation, _, terminated, truncated, _, _ = env.step(action)
        validate(spec, observation)
        if terminated or truncated:
            env.reset()


def test_the_spec_is_no_wider_than_it_must_be():
    env = load("gymnasium:Pendulum-v1")
    assert env.spec_under([{"max_speed": 4.0}, {"g": 3.0}]) is env.observation_spec
    wide = env.spec_under([{"max_speed": 12.0}, {"max_speed": 16.0}])
    assert wide.high.tolist() == [1, 1, 16]
    assert wide.low.tolist() == [-1, -1, -16]
    assert (wide.dtype, wide.name) == (env.observation_spec.dtype, env.observation_spec.name)
    car = load("gymnasium:MountainCar-v0")
    wide = car.spec_under([{"min_position": -2.0}, {"max_position_start": 0.9}])
    np.testing.assert_allclose(wide.low, [-2.0, -0.07])
    np.testing.assert_allclose(wide.high, [0.9, 0.07])
    pole = load("gymnasium:CartPole-v1")
    assert pole.spec_under([{"length": 2.0}, {"gravity": 20.0}, {"masspole": 1.0}]) is pole.observation_spec


@pytest.mark.parametrize("name", CLASSIC)
@given(data=st.data())
@examples(25)
def test_what_lies_between_declared_contexts_is_declared(name, data):
    one, other, share = data.draw(_contexts(name)), data.draw(_contexts(name)), data.draw(st.floats(0, 1))
    env = load(f"gymnasium:{name}")
    env.spec_under([one, other])
    # Each feature anywhere between its two values, as a sampler over these ends returns them.
    ends = {feature: sorted((one[feature], other[feature])) for feature in one}
    for choice in (lambda low, high: low + share * (high - low), min, max):
        between = {feature: min(max(choice(low, high), low), high) for feature, (low, high) in ends.items()}
        env.context = between
        assert env.context == pytest.approx(between)
    mixed = {feature: data.draw(st.sampled_from(pair)) for feature, pair in ends.items()}
    if all(mixed[low] <= mixed[high] for low, high in env._bindable.ordered):
        env.context = mixed


# Box2D, each of whose environments has features of its own.

BOX2D = ["LunarLander-v3", "LunarLanderContinuous-v3", "BipedalWalker-v3", "BipedalWalkerHardcore-v3", "CarRacing-v3"]


def box2d_actions(name):
    steps = 8 if name == "CarRacing-v3" else 60
    return [np.array([0.1, 1, 0], "float32")] * steps if name == "CarRacing-v3" else actions_of(name, steps)


@pytest.fixture(scope="module")
def plain():
    return {name: alone(name, box2d_actions(name)) for name in BOX2D}


@pytest.mark.parametrize("name", BOX2D)
def test_each_feature_of_box2d_changes_the_trajectory(name, plain):
    env = imported(name)
    known = env.context_space.features

    def another(feature):
        """Halfway from the default to a bound."""
        end = known[feature].high if known[feature].high != known[feature].default_value else known[feature].low
        value = (known[feature].default_value + end) / 2
        return int(value) if isinstance(known[feature], UniformInteger) else value

    if name.startswith("LunarLander"):
        each_feature_changes_the_trajectory(env, another, box2d_actions(name))
    else:  # these worlds outlive an episode, and remember some of it also without contexts
        for feature in known:
            assert trajectory(imported(name, {feature: another(feature)}), box2d_actions(name)) != plain[name], feature


@pytest.mark.parametrize("name", BOX2D)
def test_the_default_context_gives_the_sources_trajectory(name, plain):
    env = imported(name)
    assert trajectory(env, box2d_actions(name)) == plain[name]
    # One that was set and taken back before it came into force.
    env = imported(name, {"FPS": 60})
    env.context = {}
    assert trajectory(env, box2d_actions(name)) == plain[name]
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
    name = "LunarLander-v3"
    actions, contexts = actions_of("LunarLander-v3", 60), [None, {"FPS": 60}, {"FPS": 25}, {"SCALE": 20.0}]
    apart = [trajectory(imported(name, context), actions) for context in contexts]
    envs = [imported(name, context) for context in contexts]
    start = threading.Barrier(len(envs))

    def play(env):
        start.wait()
        return [trajectory(env, actions) for _ in range(5)]

    with ThreadPoolExecutor(len(envs)) as pool:
        assert [*pool.map(play, envs)] == [[each] * 5 for each in apart]


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

    class Mine(LunarLander):
        def step(self, action):
            return super().step(action)

    assert from_gymnasium(Mine()).context_space is None


# MuJoCo.

COMMON = {"gravity", "friction", "viscosity", "density", "timestep", "actuator_strength", "joint_damping"}
IDLE = {
    "InvertedPendulum": {"friction"},
    "InvertedDoublePendulum": {"friction"},
    "Pusher": {"friction"},
    "Reacher": {"gravity", "friction"},
    "Swimmer": {"gravity", "friction", "joint_damping"},
}
BODIES = {"Ant": 9, "HalfCheetah": 7, "Hopper": 4, "Walker2d": 7, "Humanoid": 13, "HumanoidStandup": 13}
BODIES |= {"InvertedPendulum": 2, "InvertedDoublePendulum": 3, "Reacher": 3, "Pusher": 11, "Swimmer": 3}
"""The number of bodies whose masses are features."""

VALUES = {"gravity": -5.0, "friction": 2.0, "viscosity": 0.5, "density": 100.0, "actuator_strength": 0.5}
# gymnasium's Pusher-v4 does not run with MuJoCo 3.
MUJOCO = [f"{task}-v{version}" for task in BODIES for version in (4, 5) if (task, version) != ("Pusher", 4)]


REACHING = [-1.32, 1.083, 1.621, -1.877, 1.109, -0.45, -0.169]
"""The angles of the pusher's arm at which its tip is as high as the thing to be pushed, which it seldom finds."""


def _touching(native):
    position, still = native.data.qpos.copy(), np.zeros_like(native.data.qvel)
    position[:7] = REACHING
    native.set_state(position, still)
    way = native.get_body_com("tips_arm") - native.get_body_com("object")
    position[7:9] += way[:2] + np.array([0.05, 0.03])
    native.set_state(position, still)


@pytest.fixture
def logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes what it has to say of old models


@pytest.mark.usefixtures("logs")
@pytest.mark.parametrize("name", MUJOCO)
def test_each_feature_of_mujoco_changes_the_trajectory(name):
    env, task = load(f"gymnasium:{name}"), name.split("-")[0]
    masses = {feature for feature in env.context if feature.startswith("mass_")}
    assert env.context.keys() - masses == COMMON - IDLE.get(task, set())
    assert len(masses) == BODIES[task]
    defaults = env.context

    def another(feature):
        return VALUES.get(feature, defaults[feature] * (0.5 if feature == "timestep" else 1.5))

    touching = _touching if task == "Pusher" else None
    each_feature_changes_the_trajectory(env, another, actions_of(name, 15), touching)


@pytest.mark.usefixtures("logs")
def test_defaults_are_gymnasiums():
    context = load("gymnasium:Hopper-v5").context
    assert (context["gravity"], context["timestep"], context["mass_leg"]) == (-9.81, 0.002, pytest.approx(2.7813567))
    assert load("gymnasium:Pusher-v5").context["gravity"] == 0
    assert load("gymnasium:Swimmer-v5").context["density"] == 4000


@pytest.mark.usefixtures("logs")
def test_what_the_features_mean_for_the_model():
    env = load("gymnasium:HalfCheetah-v5")
    model = env.unwrapped.model
    plain = {name: np.array(getattr(model, name)) for name in ("geom_friction", "dof_damping", "body_inertia")}
    arms, mass = np.array(model.body_subtreemass), env.context["mass_bfoot"]
    env.context = {
        "gravity": -3.7,
        "friction": 2.0,
        "joint_damping": 0.5,
        "actuator_strength": 0.25,
        "timestep": 0.005,
        "mass_bfoot": 2 * mass,
    }
    assert model.opt.gravity[2] == -9.81  # until the next episode
    env.reset(seed=0)
    assert model.opt.gravity.tolist() == [0, 0, -3.7]
    assert env.unwrapped.dt == 0.025
    np.testing.assert_array_equal(model.geom_friction, plain["geom_friction"] * [2, 1, 1])
    np.testing.assert_array_equal(model.dof_damping, plain["dof_damping"] / 2)
    np.testing.assert_array_equal(model.actuator_gainprm[:, 0], 0.25)
    foot = model.body("bfoot").id
    np.testing.assert_allclose(model.body_inertia[foot], 2 * plain["body_inertia"][foot])
    # Derived by MuJoCo: the whole weighs more by what the foot does.
    np.testing.assert_allclose(model.body_subtreemass[0], arms[0] + mass)
