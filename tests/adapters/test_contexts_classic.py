"""Every context feature of gymnasium's classic control changes what happens; its default changes nothing."""

import gymnasium
import numpy as np
import pytest
from context_features import actions_of, each_feature_changes_the_trajectory, imported, trajectory
from depth import examples
from hypothesis import given
from hypothesis import strategies as st

from envoi import ContextError, Contextual, UniformFloat, validate
from envoi.adapters import from_gymnasium, load
from envoi.context import Sampled

STEPS = 40
NAMES = ["CartPole-v1", "Pendulum-v1", "Acrobot-v1", "MountainCar-v0", "MountainCarContinuous-v0"]

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


@pytest.mark.parametrize("name", NAMES)
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


@pytest.mark.parametrize("name", NAMES)
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


def test_the_ends_of_features_cover_their_combinations():
    # The shortest pole is thrown furthest by the greatest force, and neither context has both.
    env = load("gymnasium:CartPole-v1")
    env.spec_under([{"length": 0.05, "force_mag": 1.0}, {"length": 5.0, "force_mag": 100.0}])
    env.context = {"length": 0.05, "force_mag": 100.0}
    with pytest.raises(ContextError, match="declares wider bounds"):
        load("gymnasium:CartPole-v1").context = {"length": 0.05, "force_mag": 100.0}


@pytest.mark.parametrize("name", NAMES)
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
