"""Every context feature of gymnasium's MuJoCo tasks changes what happens; its default changes nothing."""

import numpy as np
import pytest
from context_features import actions_of, each_feature_changes_the_trajectory

from envoi.adapters import load

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")  # version 4

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
NAMES = [f"{task}-v{version}" for task in BODIES for version in (4, 5) if (task, version) != ("Pusher", 4)]
STEPS = 15


REACHING = [-1.32, 1.083, 1.621, -1.877, 1.109, -0.45, -0.169]
"""The angles of the pusher's arm at which its tip is as high as the thing to be pushed, which it seldom finds."""


def _touching(native):
    position, still = native.data.qpos.copy(), np.zeros_like(native.data.qvel)
    position[:7] = REACHING
    native.set_state(position, still)
    way = native.get_body_com("tips_arm") - native.get_body_com("object")
    position[7:9] += way[:2] + np.array([0.05, 0.03])
    native.set_state(position, still)


@pytest.fixture(autouse=True)
def _logs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # where MuJoCo writes what it has to say of old models


@pytest.mark.parametrize("name", NAMES)
def test_each_feature_changes_the_trajectory_and_is_forgotten_after_it(name):
    env, task = load(f"gymnasium:{name}"), name.split("-")[0]
    masses = {feature for feature in env.context if feature.startswith("mass_")}
    assert env.context.keys() - masses == COMMON - IDLE.get(task, set())
    assert len(masses) == BODIES[task]
    defaults = env.context

    def another(feature):
        return VALUES.get(feature, defaults[feature] * (0.5 if feature == "timestep" else 1.5))

    touching = _touching if task == "Pusher" else None
    each_feature_changes_the_trajectory(env, another, actions_of(name, STEPS), touching)


def test_defaults_are_gymnasiums():
    context = load("gymnasium:Hopper-v5").context
    assert (context["gravity"], context["timestep"], context["mass_leg"]) == (-9.81, 0.002, pytest.approx(2.7813567))
    assert load("gymnasium:Pusher-v5").context["gravity"] == 0
    assert load("gymnasium:Swimmer-v5").context["density"] == 4000


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
