"""Every context feature of gymnasium's MuJoCo tasks changes what happens; its default changes nothing."""

import copy
import pickle

import numpy as np
import pytest
from context_features import actions_of, alone, imported, trajectory

from envoi import SnapshotUnsupported
from envoi.adapters import load

pytestmark = pytest.mark.filterwarnings("ignore:.*is out of date:DeprecationWarning")  # version 4

COMMON = ["gravity", "friction", "viscosity", "density", "timestep", "actuator_strength", "joint_damping"]
HUMANOID = [
    *(f"mass_{part}" for part in ("torso", "lwaist", "pelvis")),
    *(f"mass_{side}_{part}" for side in ("right", "left") for part in ("thigh", "shin", "foot")),
    *(f"mass_{side}_{part}_arm" for side in ("right", "left") for part in ("upper", "lower")),
]
ARM = ["shoulder_pan", "shoulder_lift", "upper_arm_roll", "upper_arm", "elbow_flex", "forearm_roll", "forearm"]
FEATURES = {
    "Ant": [
        *COMMON,
        "mass_torso",
        *(f"mass_{leg}" for leg in ("front_left_leg", "front_right_leg", "back_leg", "right_back_leg")),
        *(f"mass_aux_{i}" for i in range(1, 5)),
    ],
    "HalfCheetah": [*COMMON, *(f"mass_{p}" for p in ("torso", "bthigh", "bshin", "bfoot", "fthigh", "fshin", "ffoot"))],
    "Hopper": [*COMMON, "mass_torso", "mass_thigh", "mass_leg", "mass_foot"],
    "Walker2d": [
        *COMMON,
        "mass_torso",
        *(f"mass_{part}{side}" for side in ("", "_left") for part in ("thigh", "leg", "foot")),
    ],
    "Humanoid": [*COMMON, *HUMANOID],
    "HumanoidStandup": [*COMMON, *HUMANOID],
    "InvertedPendulum": [*(f for f in COMMON if f != "friction"), "mass_cart", "mass_pole"],
    "InvertedDoublePendulum": [*(f for f in COMMON if f != "friction"), "mass_cart", "mass_pole", "mass_pole2"],
    "Reacher": [*COMMON[2:], "mass_body0", "mass_body1", "mass_fingertip"],
    "Pusher": [
        *(f for f in COMMON if f != "friction"),
        *(f"mass_r_{link}_link" for link in (*ARM, "wrist_flex", "wrist_roll")),
        "mass_tips_arm",
        "mass_object",
    ],
    "Swimmer": [*COMMON[2:-1], "mass_torso", "mass_mid", "mass_back"],
}
VALUES = {
    "gravity": -5.0,
    "friction": 2.0,
    "viscosity": 0.5,
    "density": 100.0,
    "actuator_strength": 0.5,
    "joint_damping": 1.5,
}
# gymnasium's Pusher-v4 does not run with MuJoCo 3.
NAMES = [f"{task}-v{version}" for task in FEATURES for version in (4, 5) if (task, version) != ("Pusher", 4)]
STEPS = 15


def _another(env, feature):
    default = env.context[feature]
    return VALUES.get(feature, default / 2 if feature == "timestep" else default * 1.5)


REACHING = [-1.32, 1.083, 1.621, -1.877, 1.109, -0.45, -0.169]
"""The angles of the pusher's arm at which its tip is as high as the thing to be pushed, which it seldom finds."""


def _touching(native):
    if "Pusher" in type(native).__name__:
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
    actions = actions_of(name, STEPS)
    env = load(f"gymnasium:{name}")
    assert sorted(env.context) == sorted(FEATURES[name.split("-")[0]])
    before = trajectory(load(f"gymnasium:{name}"), actions, prepare=_touching)
    for feature in env.context:
        env.context = {feature: _another(env, feature)}
        assert trajectory(env, actions, prepare=_touching) != before, feature
        env.context = {}
        assert trajectory(env, actions, prepare=_touching) == before, feature


@pytest.mark.parametrize("name", NAMES)
def test_the_default_context_gives_the_sources_trajectory(name):
    actions = actions_of(name, STEPS)
    plain = alone(name, actions)
    env = imported(name)
    assert trajectory(env, actions) == plain
    env._bindable.apply(env.context)
    assert trajectory(env, actions) == plain


def test_defaults_are_gymnasiums():
    assert load("gymnasium:Hopper-v5").context == pytest.approx(
        {
            "gravity": -9.81,
            "friction": 1.0,
            "viscosity": 0.0,
            "density": 0.0,
            "timestep": 0.002,
            "actuator_strength": 1.0,
            "joint_damping": 1.0,
            "mass_torso": 3.66519143,
            "mass_thigh": 4.05789052,
            "mass_leg": 2.78135670,
            "mass_foot": 5.31557476,
        }
    )
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


def test_two_environments_of_one_task_keep_their_contexts_apart():
    actions = actions_of("Hopper-v5", STEPS)
    light, heavy = imported("Hopper-v5", {"mass_torso": 1.0}), imported("Hopper-v5", {"mass_torso": 9.0})
    apart = trajectory(light, actions), trajectory(heavy, actions)
    assert (trajectory(light, actions), trajectory(heavy, actions)) == apart
    assert trajectory(load("gymnasium:Hopper-v5"), actions) == alone("Hopper-v5", actions)


@pytest.mark.parametrize("twin", [copy.deepcopy, lambda env: pickle.loads(pickle.dumps(env))], ids=["copy", "pickle"])
def test_a_copy_has_the_context_though_gymnasium_makes_a_new_model(twin):
    actions = actions_of("Hopper-v5", STEPS)
    env = imported("Hopper-v5", {"mass_torso": 1.0})
    expected = trajectory(env, actions)
    other = twin(env)
    assert other.unwrapped.model.body("torso").mass == 1.0
    assert trajectory(other, actions) == expected
    other.context = {}
    assert trajectory(other, actions) == alone("Hopper-v5", actions)
    assert trajectory(env, actions) == expected


def test_a_snapshot_holds_the_context_in_force():
    env = imported("Hopper-v5", {"mass_torso": 1.0, "gravity": -5.0})
    actions = actions_of("Hopper-v5", STEPS)
    env.reset(seed=0)
    env.step(actions[0])
    try:
        held = env.snapshot()
    except SnapshotUnsupported:
        pytest.fail("a task of MuJoCo can be copied")
    after = [env.step(action).observation.tolist() for action in actions]
    env.context = {}
    env.reset(seed=1)
    env.restore(held)
    assert [env.step(action).observation.tolist() for action in actions] == after
    assert env.context["mass_torso"] == 1.0
