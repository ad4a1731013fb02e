"""CARL (Benjamins et al., 2023, https://github.com/automl/CARL): its environments through envoi, its contexts natively.

Its catalogue, its objects and its dynamics are envoi's too.
"""

import os
import warnings

import gymnasium
import numpy as np
import pytest
from traces import exact

os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
pytest.importorskip("ConfigSpace")
with warnings.catch_warnings(record=True):  # of the environments for which something is not installed
    carl = pytest.importorskip("carl.envs", reason="make installs it, without the gymnasium that it asks for")
    from carl.context.context_space import ContextSpace as CarlSpace
    from carl.context.context_space import UniformFloatContextFeature as CarlFloat

from gymnasium.envs.box2d import bipedal_walker, lunar_lander

from envoi import ContextSpace, Contextual, SpecError
from envoi.adapters import from_env, load
from envoi.adapters.gymnasium import ToGymnasium
from envoi.context import Sampled

# What CARL's features without bounds are to numpy, and what its spaces and contexts are to gymnasium.
pytestmark = [
    pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:.*Box (low|high)'s precision lowered:UserWarning"),
    pytest.mark.filterwarnings("ignore:.*Casting input x to numpy array:UserWarning"),
]


@pytest.fixture(autouse=True)
def globals_of_box2d():
    """CARL writes contexts into the modules of gymnasium's Box2D environments."""
    before = [(vars(module), dict(vars(module))) for module in (lunar_lander, bipedal_walker)]
    yield
    for names, values in before:
        names.update(values)


def full(kind, *contexts):
    """CARL shows contexts of the set as they were given, so only full ones have all that its space says."""
    return {f"context {i}": {**kind.get_default_context(), **context} for i, context in enumerate(contexts)}


def test_a_context_that_is_not_as_its_space_says_comes_as_it_is_and_validation_says_so():
    env = carl.CARLPendulum(contexts=full(carl.CARLPendulum, {"m": 2.0}))
    observation, _ = env.reset(seed=0)
    assert not env.observation_space.contains(observation)  # numbers of Python, and boxes of one element
    assert env.observation_space["context"]["m"].shape == (1,)
    assert exact(from_env(env).reset(seed=0).observation["context"]["m"]) == exact(2.0)
    with pytest.raises(SpecError, match=r"observation\['context'\]\['\w+'\]: expected .*shape \(1,\)"):
        ToGymnasium(from_env(env), validate=True).reset(seed=0)
    env = carl.CARLPendulum(contexts={"a": {"m": 2.0}})  # features are missing, for the set is not filled
    assert from_env(env).reset(seed=0).observation["context"] == {"m": 2.0}
    with pytest.raises(SpecError, match=r"observation\['context'\]"):
        ToGymnasium(from_env(env), validate=True).reset(seed=0)


def test_a_context_in_a_list_becomes_the_vector_that_its_space_says():
    env = carl.CARLPendulum(obs_context_as_dict=False)
    assert isinstance(env.reset(seed=0)[0]["context"], list)
    form = ToGymnasium(from_env(env), validate=True)
    assert form.observation_space.contains(form.reset(seed=0)[0])


SOURCES = {
    "CARLCartPole": "gymnasium:CartPole-v1",
    "CARLPendulum": "gymnasium:Pendulum-v1",
    "CARLAcrobot": "gymnasium:Acrobot-v1",
    "CARLMountainCar": "gymnasium:MountainCar-v0",
    "CARLMountainCarContinuous": "gymnasium:MountainCarContinuous-v0",
    "CARLLunarLander": "gymnasium:LunarLander-v3",
    "CARLBipedalWalker": "gymnasium:BipedalWalker-v3",
    "CARLDmcFingerEnv": "dm_control:finger/spin",
    "CARLDmcFishEnv": "dm_control:fish/swim",
    "CARLDmcQuadrupedEnv": "dm_control:quadruped/walk",
    "CARLDmcWalkerEnv": "dm_control:walker/walk",
}

_NO_TORSION = {"friction_torsional", "friction_rolling"}  # no contact of these models twists or rolls
LEFT_OUT = {
    "CARLAcrobot": {"LINK_LENGTH_2"},  # a length of the picture alone
    "CARLPendulum": {"gravity"},  # no attribute of Pendulum's: CARL renamed `max_speed` by mistake
    "CARLDmcFingerEnv": {*_NO_TORSION, "gravity", "joint_stiffness", "wind_y"},  # gravity is off, and all is planar
    "CARLDmcFishEnv": {*_NO_TORSION, "gravity", "friction_tangential"},  # it floats, and touches nothing
    "CARLDmcQuadrupedEnv": {*_NO_TORSION, "joint_stiffness"},
    "CARLDmcWalkerEnv": {*_NO_TORSION, "joint_stiffness", "wind_y"},
}
"""Features without effect on the environment; each feature of envoi has one."""

OTHER_DEFAULTS = {
    "CARLCartPole": {"initial_state_lower": -0.05, "initial_state_upper": 0.05},  # gymnasium's
    "CARLMountainCar": {"goal_position": 0.5},  # CARL has exchanged these two
    "CARLMountainCarContinuous": {"goal_position": 0.45},
    "CARLBipedalWalker": {"TERRAIN_HEIGHT": 400 / 30 / 4},  # gymnasium's view is 400 high, not 600
    "CARLDmcFingerEnv": {"timestep": 0.01},  # the suite's
    "CARLDmcFishEnv": {"joint_stiffness": 1.0},  # a factor on what the suite's fish has
}
"""Defaults where CARL's are not what the environment has by itself."""


@pytest.mark.parametrize("name", SOURCES)
def test_its_features_and_their_defaults_are_in_our_catalogue(name):
    theirs = getattr(carl, name).get_default_context()
    ours = load(SOURCES[name]).context_space.defaults
    assert set(theirs) - set(ours) == LEFT_OUT.get(name, set())
    expected = {**theirs, **OTHER_DEFAULTS.get(name, {})}
    assert {n: ours[n] for n in theirs if n in ours} == {n: pytest.approx(expected[n]) for n in theirs if n in ours}
    differing = {n for n in theirs if n in ours and ours[n] != pytest.approx(theirs[n])}
    assert differing == set(OTHER_DEFAULTS.get(name, {}))


def beside(name, contexts, source=None):
    """Theirs and ours over the same contexts, these full by CARL's defaults."""
    kind = getattr(carl, name)
    contexts = full(kind, *contexts)
    options = {"env": gymnasium.make("LunarLander-v3")} if name == "CARLLunarLander" else {}
    theirs = kind(contexts=contexts, obs_context_as_dict=False, **options)
    left_out = LEFT_OUT.get(name, set())
    own = {key: {n: v for n, v in context.items() if n not in left_out} for key, context in contexts.items()}
    return theirs, Contextual(source or load(SOURCES[name]), own, hide_context=True)


def agree(theirs, ours, actions, same_start=True, seed=3):
    """Returns True if an episode of both is the same; from the state of theirs, if CARL samples another."""
    observation, info = theirs.reset(seed=seed)
    key = list(ours.contexts)[info["context_id"]]
    own, _ = ours.reset(seed=seed, options={"context_id": key})
    if same_start:
        assert exact(own) == exact(observation["obs"])
    else:
        ours.unwrapped.state = np.array(theirs.unwrapped.state)
    steps = 0
    for action in actions:
        observation, reward, terminated, truncated, _ = theirs.step(action)
        step = ours.step(action)
        assert exact(step.observation) == exact(observation["obs"])
        assert float(step.reward) == float(reward)
        assert (step.terminated, step.truncated) == (terminated, truncated)
        steps += 1
        if terminated or truncated:
            break
    return steps


@pytest.mark.parametrize(
    ("name", "contexts"),
    [
        ("CARLCartPole", [{}, {"gravity": 3.7}, {"tau": 0.01, "force_mag": 5.0}]),
        ("CARLPendulum", [{}, {"m": 2.0, "l": 0.5}, {"g": 3.7, "dt": 0.1}]),
        ("CARLAcrobot", [{}, {"LINK_MASS_1": 2.0, "MAX_VEL_1": 5.0}, {"LINK_LENGTH_1": 2.0, "LINK_COM_POS_2": 0.7}]),
        ("CARLMountainCar", [{}, {"force": 0.002, "gravity": 0.001}, {"max_speed": 0.01, "min_position": -0.7}]),
        ("CARLMountainCarContinuous", [{}, {"power": 0.003}, {"max_speed": 0.01, "goal_position": -0.3}]),
    ],
)
def test_from_an_equal_state_the_dynamics_of_classic_control_are_equal(name, contexts):
    theirs, ours = beside(name, contexts)
    actions = [ours.sample_action() for _ in range(60)]
    steps = [agree(theirs, ours, actions, same_start=False, seed=seed) for seed in range(2 * len(contexts))]
    assert sum(steps) > 50
    assert (np.array(ours.unwrapped.state) == np.array(theirs.unwrapped.state)).all()


@pytest.mark.parametrize(
    ("name", "contexts"),
    [
        (
            "CARLLunarLander",
            [{}, {"MAIN_ENGINE_POWER": 20.0, "FPS": 40.0}, {"LEG_AWAY": 30.0, "INITIAL_RANDOM": 500.0}],
        ),
        ("CARLBipedalWalker", [{}, {"GRAVITY_Y": -5.0, "FRICTION": 1.0}, {"LEG_H": 1.5, "MOTORS_TORQUE": 40.0}]),
    ],
)
def test_whole_episodes_of_box2d_are_equal(name, contexts):
    theirs, ours = beside(name, contexts)
    actions = [ours.sample_action() for _ in range(60)]
    for seed in range(len(contexts)):
        assert agree(theirs, ours, actions, seed=seed) > 20


def cartpole(contexts=None, **options):
    return Contextual(load("gymnasium:CartPole-v1"), contexts, **options)


def test_its_context_spaces_and_features_are_context_spaces():
    features = carl.CARLCartPole.get_context_features()
    space = ContextSpace(features)
    assert space == ContextSpace(carl.CARLCartPole.get_context_space()) == ContextSpace(list(features.values()))
    assert space.defaults == pytest.approx(carl.CARLCartPole.get_default_context())
    distribution = CarlSpace({"length": CarlFloat("length", 0.5, 2.0), "gravity": CarlFloat("gravity", 5.0, 15.0)})
    env = cartpole(context_selector=Sampled(distribution), state_context_features="changing_context_features")
    assert env.observation_spec.shape == (6,)
    lengths = [env.reset(seed=0 if i == 0 else None).observation[5] for i in range(20)]
    assert min(lengths) >= 0.5 > 0.49 < max(lengths) <= 2.0
    assert len(set(lengths)) == 20


def test_samples_of_its_spaces_and_its_sampler_are_contexts():
    features = [CarlFloat("length", 0.5, 2.0, default_value=1.0), CarlFloat("gravity", 5.0, 15.0, default_value=9.8)]
    drawn = CarlSpace({feature.name: feature for feature in features}).sample_contexts(size=5)
    assert [cartpole(drawn).contexts[i]["length"] for i in range(5)] == [context["length"] for context in drawn]

    sampler = pytest.importorskip("carl.context.sampler")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # ConfigSpace has new names for what it calls
        sampler = sampler.ContextSampler(features, carl.CARLCartPole.get_context_space(), seed=1)
    contexts = sampler.sample_contexts(4)
    env = cartpole(contexts)
    assert env.contexts == contexts
    theirs = carl.CARLCartPole(contexts=contexts)
    for _ in range(6):
        theirs.reset()
        env.reset()
        assert env.context == theirs.context
        assert env.context_id == theirs.context_id  # numbers here, as the sampler has them
    assert ContextSpace(sampler).features == ContextSpace(features).features


def test_what_follows_from_a_feature_changes_with_it():
    theirs, ours = beside("CARLCartPole", [{"masscart": 2.0, "masspole": 0.5, "length": 1.0}])
    theirs.reset(seed=0)
    ours.reset(seed=0)
    native = theirs.unwrapped
    assert (native.total_mass, native.polemass_length) == (1.1, 0.05)  # of the masses that gymnasium's has by itself
    assert (ours.unwrapped.total_mass, ours.unwrapped.polemass_length) == (2.5, 0.5)
    # With what follows set by hand, the two agree.
    native.total_mass, native.polemass_length = 2.5, 0.5
    ours.unwrapped.state = tuple(native.state)
    for action in (0, 1, 1, 0, 1):
        assert exact(ours.step(action).observation) == exact(theirs.step(action)[0]["obs"])
