"""Contexts of dm_control's suite: what each feature does, and that nothing else changes."""

from functools import cache, partial

import mujoco
import numpy as np
import pytest
from dm_control.mujoco import Physics
from dm_control.rl.control import Environment
from traces import exact

from envoi import ContextError
from envoi.adapters import from_dm_env, load, to_dm_env
from envoi.adapters.context_catalogue.dm_control import bindable, domain_of, kinds_of
from envoi.adapters.dm_env.names import load as load_source

# In every domain, and where it is that nothing gets out of a plane.
ALL = {"timestep", "actuator_strength", "density", "viscosity", "geom_density"}
UPRIGHT, FLAT, SPACE = {"wind_x", "wind_z"}, {"wind_x", "wind_y"}, {"wind_x", "wind_y", "wind_z"}
JOINTS = {"joint_damping", "joint_stiffness"}
SLIDES, ROLLS = {"friction_tangential"}, {"friction_tangential", "friction_torsional", "friction_rolling"}
TABLES = {
    "acrobot/swingup": ALL | UPRIGHT | {"gravity", "joint_damping"},
    "ball_in_cup/catch": ALL | UPRIGHT | {"gravity"} | JOINTS | SLIDES,
    "cartpole/swingup": ALL | UPRIGHT | {"gravity", "joint_damping"},
    "cheetah/run": ALL | UPRIGHT | {"gravity"} | JOINTS | SLIDES,
    "dog/stand": ALL | SPACE | {"gravity"} | JOINTS | ROLLS,
    "finger/spin": ALL
    | UPRIGHT
    | {"joint_damping", "limb_length_0", "limb_length_1", "spinner_radius", "spinner_length"}
    | SLIDES,
    "fish/swim": ALL | SPACE | JOINTS,
    "hopper/hop": ALL | UPRIGHT | {"gravity", "joint_damping"} | SLIDES,
    "humanoid/run": ALL | SPACE | {"gravity"} | JOINTS | SLIDES,
    "manipulator/bring_ball": ALL | UPRIGHT | {"gravity"} | JOINTS | SLIDES,
    "pendulum/swingup": ALL | UPRIGHT | {"gravity", "joint_damping"},
    "point_mass/easy": ALL | FLAT | {"joint_damping", "mass", "target_x", "target_y"},
    "quadruped/walk": ALL | SPACE | {"gravity", "joint_damping"} | SLIDES,
    "quadruped/fetch": ALL | SPACE | {"gravity", "joint_damping"} | ROLLS,
    "reacher/easy": ALL | FLAT | {"joint_damping"},
    "swimmer/swimmer6": ALL | FLAT,
    "walker/walk": ALL | UPRIGHT | {"gravity", "joint_damping"} | SLIDES,
}
CHANGED = {"gravity": 4.0, "density": 500.0, "viscosity": 0.1, "wind_x": 4.0, "wind_y": 4.0, "wind_z": 4.0}
CHANGED |= {"limb_length_0": 0.15, "limb_length_1": 0.19, "spinner_radius": 0.03, "spinner_length": 0.24}
CHANGED |= {"mass": 0.5, "target_x": -0.16, "target_y": 0.215}
CHANGED |= {"friction_tangential": 0.1, "friction_torsional": 20.0, "friction_rolling": 20.0}
BESIDE = {wind: {"density": 2.0} for wind in SPACE} | {"target_x": {"target_y": 0.215}, "target_y": {"target_x": -0.16}}
"""Other conditions for an effect of a feature: wind needs a medium, a reward is near the target."""

PLAYED = {one: {"seed": 12 if one == "friction_torsional" else 3, "steps": 80} for one in ROLLS}
"""The steps until something touches the ground, and twists and rolls on it."""

make = partial(load_source, "dm_control")


@cache
def imported(name):
    """An environment for many contexts, one after the other: none may leave a trace."""
    return from_dm_env(make(name))


def changed(name, feature):
    return 2 * imported(name).context_space.defaults[feature] if feature == "timestep" else CHANGED.get(feature, 1.7)


def episode(env, seed=5, steps=20):
    """The observations and rewards of the beginning of an episode with random actions, as one array."""
    env.rng = np.random.default_rng(seed)
    reset = env.reset(seed=seed)
    found = [*reset.observation.values(), 0.0]
    rng = np.random.default_rng(seed)
    low, high = env.action_spec.low, env.action_spec.high
    for _ in range(steps):
        step = env.step(rng.uniform(low, high))
        found += [*step.observation.values(), step.reward]
    return np.concatenate([np.ravel(one) for one in found])


def under(env, context, **kwargs):
    env.context = context
    return episode(env, **kwargs)


def source_under(name, **context):
    """An environment of dm_control in an episode of a context."""
    env = from_dm_env(make(name))
    env.context = context
    env.reset(seed=0)
    return env.source


@cache
def plain(name, **played):
    """The same of an environment that knows no contexts."""
    return episode(from_dm_env(make(name)), **played)


@pytest.mark.parametrize("name", TABLES)
def test_an_environment_has_the_features_that_its_model_can_feel(name):
    assert set(imported(name).context_space.features) == TABLES[name]


@pytest.mark.parametrize(("name", "feature"), [(name, one) for name in TABLES for one in sorted(TABLES[name])])
def test_each_feature_changes_what_happens(name, feature):
    env, beside, played = imported(name), BESIDE.get(feature, {}), PLAYED.get(feature, {})
    without = under(env, beside, **played) if beside else plain(name, **played)
    assert np.abs(under(env, {**beside, feature: changed(name, feature)}, **played) - without).max() > 1e-6


@pytest.mark.parametrize("name", [name for name in TABLES if name != "dog/stand"])  # it feels everything
def test_what_is_left_out_changes_nothing(name):
    source = make(name)
    env, model = from_dm_env(source), source.physics.model.ptr
    model.opt.density = 2.0  # for the wind
    before = episode(env)
    kinds = kinds_of(domain_of(source.physics))
    missing = set(kinds) - TABLES[name]
    assert missing
    for feature in missing:
        kinds[feature].change(model, CHANGED.get(feature, 1.7))
    assert np.abs(episode(env) - before).max() < 1e-9


@pytest.mark.parametrize("name", TABLES)
def test_the_default_context_is_the_environment_as_it_was_exactly(name):
    env = imported(name)
    features = {one: changed(name, one) for one in ("geom_density", "actuator_strength", "density", "timestep")}
    features |= {one: CHANGED[one] for one in ("limb_length_0", "mass") if one in env.context_space.features}
    under(env, features, steps=2)
    under(env, {**features, "geom_density": 0.3}, steps=2)
    assert np.array_equal(under(env, {}), plain(name))


BALLS = """<mujoco><option>{option}</option><worldbody>
    <body name="a"><joint type="slide"/><geom name="a" size=".1" condim="6" {a}/></body>
    <body name="b" pos="1 0 0"><joint type="slide"/><geom name="b" size=".1" condim="3" {b}/></body>
</worldbody><contact>{contact}</contact></mujoco>"""
FREE = 'contype="0"'


@pytest.mark.parametrize(
    ("parts", "felt"),
    [
        ({}, ROLLS),
        ({"a": FREE}, ROLLS),
        ({"a": FREE, "b": FREE}, set()),
        (
            {"a": FREE, "b": FREE, "contact": '<pair geom1="a" geom2="b" condim="4"/>'},
            ROLLS - {"friction_rolling"},
        ),
        ({"option": '<flag contact="disable"/>'}, set()),
        ({"option": '<flag constraint="disable"/>'}, set()),
    ],
)
def test_friction_is_felt_where_a_contact_can_have_its_direction(parts, felt):
    xml = BALLS.format(**{**dict.fromkeys(("option", "a", "b", "contact"), ""), **parts})
    features = bindable(Environment(Physics.from_xml_string(xml), make("walker/walk").task)).space.features
    assert {one for one in features if one.startswith("friction")} == felt


def numbers(model, *leave_out):
    fields = {name: getattr(model, name) for name in dir(model) if not name.startswith("_")}
    fields |= {f"opt.{name}": getattr(model.opt, name) for name in dir(model.opt) if not name.startswith("_")}
    fields["meaninertia"] = model.stat.meaninertia
    kinds, leave_out = (np.ndarray, int, float), {*leave_out, "signature"}  # of the text that it was compiled from
    return {name: np.array(one) for name, one in fields.items() if isinstance(one, kinds) and name not in leave_out}


def written(domain, change):
    """A model of a domain, compiled from a changed description."""
    module = __import__(f"dm_control.suite.{domain}", fromlist=["get_model_and_assets"])
    xml, assets = module.get_model_and_assets()
    spec = mujoco.MjSpec.from_string(xml.decode(), include=assets)
    change(spec)
    return spec.compile()


def assert_same_numbers(model, expected, *leave_out):
    found, wanted = numbers(model, *leave_out), numbers(expected, *leave_out)
    assert found.keys() == wanted.keys()
    for name, value in wanted.items():
        if value.dtype != object:
            assert np.allclose(found[name], value, rtol=1e-10, atol=1e-12, equal_nan=value.dtype.kind == "f"), name


@pytest.mark.parametrize("domain", ["walker", "fish", "hopper"])
def test_features_make_the_model_that_is_written_with_their_values(domain):
    def change(spec):
        spec.option.density, spec.option.viscosity, spec.option.timestep = 3.0, 0.2, 0.004
        spec.option.wind = [1.0, 0.0, -2.0]
        for geom in spec.geoms:
            geom.density *= 1.5
        for joint in spec.joints:
            joint.damping = np.multiply(joint.damping, 2.5)

    name = {"walker": "walker/walk", "fish": "fish/swim", "hopper": "hopper/hop"}[domain]
    context = {"density": 3.0, "viscosity": 0.2, "timestep": 0.004, "geom_density": 1.5, "joint_damping": 2.5}
    source = source_under(name, **context, wind_x=1.0, wind_z=-2.0)
    tasks = ("geom_pos", "geom_rgba")  # the fish's target is somewhere else in every episode
    assert_same_numbers(source.physics.model.ptr, written(domain, change), *tasks)


def test_friction_gravity_and_strength_are_written_as_such():
    changes = {"gravity": 3.0, "friction_torsional": 2.0, "friction_rolling": 3.0, "actuator_strength": 0.5}
    before, after = (numbers(source_under("quadruped/fetch", **one).physics.model.ptr) for one in ({}, changes))
    assert np.array_equal(after["opt.gravity"], [0, 0, -3])
    assert np.array_equal(after["geom_friction"], before["geom_friction"] * [1, 2, 3])
    assert np.array_equal(after["actuator_gainprm"], before["actuator_gainprm"] / 2)
    assert np.array_equal(after["actuator_biasprm"], before["actuator_biasprm"] / 2)
    assert before["actuator_biasprm"].any()


def test_a_motor_is_as_strong_as_one_of_another_gear():
    env, source = imported("cheetah/run"), make("cheetah/run")
    source.physics.model.ptr.actuator_gear[:] *= 1.7
    assert np.allclose(under(env, {"actuator_strength": 1.7}, steps=20), episode(from_dm_env(source), steps=20))


def test_the_finger_of_other_lengths_is_one_that_is_written_so():
    def change(spec):
        spec.body("distal").pos = [0, 0, -0.16]
        for geom, start, end in ("proximal", 0, -0.15), ("distal", 0, -0.19), ("fingertip", -0.16, -0.191):
            spec.geom(geom).fromto = [0, 0, start, 0, 0, end]
        for site, x in ("touchtop", 0.01), ("touchbottom", -0.01):
            spec.site(site).pos = [x, 0, -0.2]
        for geom, x in ("cap1", 0.015), ("cap2", -0.015):
            spec.geom(geom).size, spec.geom(geom).pos = [0.03, 0.12, 0], [x, 0, 0]
        spec.geom("spinner_decoration").size = [0.015, 0, 0]
        spec.site("tip").pos = [0, 0, 0.16]
        for geom in spec.geoms:
            geom.density *= 1.3

    lengths = {"limb_length_0": 0.15, "limb_length_1": 0.19, "spinner_radius": 0.03, "spinner_length": 0.24}
    source = source_under("finger/spin", **lengths, geom_density=1.3)
    assert source.physics.named.model.dof_damping["hinge"] == 0.03
    assert_same_numbers(source.physics.model.ptr, written("finger", change), "dof_damping", "site_rgba")


def test_the_masses_of_the_point_are_a_mass_and_a_factor_on_it():
    inertia = make("point_mass/easy").physics.named.model.body_inertia["pointmass"]
    source = source_under("point_mass/easy", mass=0.6, geom_density=1.5, target_x=0.1, target_y=-0.2)
    assert np.isclose(source.physics.named.model.body_mass["pointmass"], 0.9)
    assert np.allclose(source.physics.named.model.body_inertia["pointmass"], inertia * 3)
    assert np.array_equal(source.physics.named.data.geom_xpos["target"][:2], [0.1, -0.2])


@pytest.mark.parametrize(
    ("name", "timestep", "control", "steps"),
    [
        ("walker/walk", 0.005, 0.025, 12),  # 5 instead of 10
        ("walker/walk", 0.004, 0.024, 13),  # 6 and a bit
        ("walker/walk", 0.1, 0.1, 3),  # one at least
        ("cartpole/swingup", 0.005, 0.01, 30),
    ],
)
def test_a_control_step_stays_as_long_as_whole_timesteps_allow_and_an_episode_too(name, timestep, control, steps):
    env = from_dm_env(make(name, time_limit=0.3))
    env.context = {"timestep": timestep}
    for action in range(2):
        env.reset(seed=action)
        assert np.isclose(env.source.control_timestep(), control)
        taken = 1
        while not env.step(np.zeros(env.action_spec.shape)).truncated:
            taken += 1
        assert taken == steps
    env.context = {}
    env.reset()
    assert env.source.control_timestep() == make(name).control_timestep()
    assert env.source._step_limit == make(name, time_limit=0.3)._step_limit


def go_on(env, steps=10):
    taken = [env.step(np.full(env.action_spec.shape, 0.3)) for _ in range(steps)]
    return np.concatenate([np.ravel(one) for step in taken for one in (*step.observation.values(), step.reward)])


def test_a_snapshot_holds_the_context_and_the_model_in_it():
    env = from_dm_env(make("finger/spin"))
    episode(env, steps=5)
    before, own = env.snapshot(), numbers(env.source.physics.model.ptr)  # before the first access to features
    expected = go_on(env)
    under(env, {"limb_length_0": 0.2, "joint_damping": 3.0}, steps=5)
    within = env.snapshot()
    expected_within = go_on(env)
    assert not np.array_equal(expected, expected_within)
    env.restore(before)
    for name, value in numbers(env.source.physics.model.ptr).items():
        assert value.dtype == object or exact(value) == exact(own[name]), name
    assert np.array_equal(go_on(env), expected)
    env.restore(within)
    assert np.array_equal(go_on(env), expected_within)
    env.context = {}
    assert np.array_equal(episode(env), plain("finger/spin"))


def test_who_imports_an_environment_again_finds_its_own_defaults():
    first = from_dm_env(make("walker/walk"))
    under(first, {"gravity": 2.0, "geom_density": 3.0}, steps=2)
    again = from_dm_env(first.source)
    assert again.context_space == first.context_space
    assert again.context["gravity"] == 9.81
    again.context = {"density": 1.0}
    again.context = {}
    assert np.array_equal(episode(again), plain("walker/walk"))


def test_looking_at_the_features_in_the_middle_of_an_episode_does_not_touch_it():
    env, other = from_dm_env(make("humanoid/run")), from_dm_env(make("humanoid/run"))
    for one in (env, other):
        episode(one, steps=5)
    model = env.source.physics.model.ptr
    before = numbers(model)
    assert env.context_space
    for name, value in numbers(model).items():
        assert value.dtype == object or exact(value) == exact(before[name]), name
    assert np.array_equal(go_on(env), go_on(other))


@pytest.mark.parametrize(
    ("name", "context", "message"),
    [
        ("walker/walk", {"gravityy": 1.0}, r"context\['gravityy'\]: no such feature; .*gravity"),
        ("walker/walk", {"friction_rolling": 2.0}, "no such feature"),
        ("walker/walk", {"gravity": 0.0}, r"context\['gravity'\]: expected .* 0.1, got 0.0"),
        ("finger/spin", {"limb_length_1": 0.3}, "expected .* 0.01 to 0.2, got 0.3"),
        ("finger/spin", {"limb_length_1": 0.1}, r"is 0.36, expected at least 0.4, else the finger cannot reach"),
    ],
)
def test_a_feature_or_value_that_an_environment_does_not_have_is_refused(name, context, message):
    env = imported(name)
    env.context = {}
    with pytest.raises(ContextError, match=message):
        env.context = context
    assert env.context == env.context_space.defaults


def test_the_features_are_found_under_wrappers_and_in_what_is_made_of_the_same_parts():
    from dm_control.suite.wrappers import action_scale

    wrapped = from_dm_env(action_scale.Wrapper(make("walker/walk"), minimum=-2, maximum=2))
    wrapped.context = {"gravity": 3.0}
    wrapped.reset(seed=0)
    assert wrapped.source.physics.model.opt.gravity[2] == -3
    source = make("walker/walk")
    own = Environment(Physics.from_model(source.physics.model), source.task)
    assert set(bindable(own).space.features) == TABLES["walker/walk"]


def test_a_domain_s_own_features_need_its_own_model():
    from dm_control.suite import common, finger, point_mass

    xml, assets = finger.get_model_and_assets()
    thick = finger.Physics.from_xml_string(xml.replace(b'size=".028"', b'size=".029"'), assets)
    own = {"limb_length_0", "limb_length_1", "spinner_radius", "spinner_length"}
    assert set(bindable(Environment(thick, finger.Spin())).space.features) == TABLES["finger/spin"] - own
    walker = point_mass.Physics.from_xml_string(common.read_model("walker.xml"), common.ASSETS)
    assert set(bindable(Environment(walker, point_mass.PointMass(False))).space.features) == TABLES["walker/walk"]


def test_other_environments_have_none():
    from dm_control import composer

    arena = composer.Arena()
    arena.mjcf_model.worldbody.add("body").add("joint", name="one")
    arena.mjcf_model.worldbody.body[0].add("geom", size=[0.1])
    assert bindable(composer.Environment(composer.NullTask(arena))) is None
    assert bindable(load_source("bsuite", "catch/0")) is None
    assert bindable(to_dm_env(load("envoi:catch"))) is None
    assert bindable(object()) is None
