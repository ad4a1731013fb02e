"""`Contextual`: every option, over one agent, several, and batches."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from absent import optional
from hypothesis import given
from hypothesis import strategies as st
from pettingzoo.utils.wrappers import BaseParallelWrapper
from small_models import Brittle, Carts, Steps
from traces import exact, spoil

import envoi
from envoi import ContextError, ContextSpace, Contextual, EpisodeError, SpecError, UniformFloat, UniformInteger
from envoi.adapters import load, to_gymnasium, to_pettingzoo
from envoi.adapters.gymnasium import from_gymnasium
from envoi.adapters.pettingzoo import from_pettingzoo
from envoi.context import (
    Attributes,
    Categorical,
    Factory,
    NormalFloat,
    Random,
    RoundRobin,
    Sampled,
    Static,
    save_contexts,
)
from envoi.models import CartPole, Pendulum, Pursuit

to_rllib, from_rllib = (optional("envoi.adapters.rllib", name) for name in ("to_rllib", "from_rllib"))

MASSES = {"a": {"m": 2.0}, "b": {"m": 1.0}, "c": {"m": 0.5}}


def pendulum(contexts=None, **options):
    return Contextual(Pendulum(), contexts, **options)


def ids(env, n=4, **first):
    return [env.reset(**(first if i == 0 else {})).info["context_id"] for i in range(n)]


@pytest.mark.parametrize(
    ("options", "size"),
    [
        ({"hide_context": True}, 3),
        ({}, 10),
        ({"state_context_features": ["g", "m"]}, 5),
        ({"obs_context_features": ["g", "m"]}, 5),
        ({"state_context_features": []}, 3),
        ({"context_mask": ["g", "m"]}, 8),
        ({"state_context_features": ["g", "m"], "context_mask": ["m"]}, 4),
    ],
)
def test_the_size_of_an_observation(options, size):
    env = pendulum(**options)
    assert env.observation_spec.shape == env.reset(seed=0).observation.shape == (size,)


def test_the_features_that_change_may_be_asked_for_as_a_list_as_in_carl():
    for contexts, names in (([{"g": 9.0, "m": 2.0}, {}], ["m", "g"]), ([{"g": 10.0}, {}], [])):
        listed = pendulum(contexts, state_context_features=["changing_context_features"])
        assert listed.observation_spec.shape == (3 + len(names),)
        assert listed.observation_spec == pendulum(contexts, state_context_features=CHANGING).observation_spec
        assert set(listed.state_context_features) == set(names)
    sampled = pendulum(context_selector=Sampled([UniformFloat("m", 0.5, 1.5)]), state_context_features=CHANGING)
    assert sampled.observation_spec.shape == (4,)
    for others in ([CHANGING, "g"], ["g", CHANGING]):
        with pytest.raises(ContextError, match=r"state_context_features: expected 'changing_context_features' alone"):
            pendulum(contexts, state_context_features=others)


CHANGING = "changing_context_features"


def test_the_attributes_of_carls_environments_are_there():
    env = pendulum(MASSES, state_context_features=["m", "g"], context_mask=["g"])
    env.reset(seed=0)
    env.reset()
    assert env.context_key == env.context_id == "b"
    assert env.state_context_features == env.obs_context_features == ["m"]
    env.state_context_features.clear()
    assert env.state_context_features == ["m"]
    assert pendulum(MASSES).state_context_features == list(Pendulum.context_space.features)
    assert pendulum(MASSES, hide_context=True).state_context_features == []
    lanes = envoi.batch(env, 2)
    lanes.reset(seed=0)
    assert lanes.context_key == ("a", "b")
    given = {"m": 3.0}
    assert env.fill_context_with_default(given) == {**Pendulum.context_space.defaults, "m": 3.0}
    assert given == {"m": 3.0}
    with pytest.raises(ContextError, match="context\\['mm'\\]: no such feature; did you mean 'm'"):
        env.fill_context_with_default({"mm": 1.0})
    with pytest.raises(ContextError, match="fill_context_with_default\\['m'\\]: expected"):
        env.fill_context_with_default({"m": "heavy"})


def test_features_come_in_the_order_of_the_selection_and_by_default_in_that_of_the_space():
    env = pendulum({"x": {"m": 3.0, "g": 7.0}}, state_context_features=["m", "l", "g"])
    assert env.reset().observation[3:].tolist() == [3.0, 1.0, 7.0]
    assert list(pendulum({"x": {"m": 3.0, "g": 7.0}}).contexts["x"]) == list(Pendulum.context_space.features)


CARL_SET = [
    {"max_speed": 16.0, "dt": 0.06, "g": 20.0, "m": 2.0, "l": 3.6},
    {"max_speed": 8.0, "dt": 0.03, "g": 10.0, "m": 1.0, "l": 1.8},
]
DEFAULTS = {"max_speed": 16.0, "dt": 0.1, "g": 20.0, "m": 2.0, "l": 2.0}


@pytest.mark.parametrize(
    ("scale", "seen"),
    [
        ("no", [16, 0.06, 20, 2, 3.6, np.pi, 1]),
        ("by_mean", [16 / 12, 0.06 / 0.045, 20 / 15, 2 / 1.5, 3.6 / 2.7, 1, 1]),
        ("by_default", [1, 0.6, 1, 1, 1.8, 1, 1]),
    ],
)
def test_scaling_is_the_same_on_reset_and_step(scale, seen):
    env = pendulum(CARL_SET, default_context=DEFAULTS, scale_context_features=scale)
    first = env.reset(seed=0).observation
    assert first[3:] == pytest.approx(seen, rel=1e-6)
    for _ in range(3):
        assert (env.step(env.sample_action()).observation[3:] == first[3:]).all()
    assert env.context["dt"] == 0.06  # the environment has the value itself


def test_a_factor_of_zero_is_one_and_integers_stay_exact():
    space = ContextSpace([UniformFloat("angle", -1, 1, default=0.0), UniformInteger("steps", 0, 10, default=4)])
    env = Contextual(_Slope(space), [{"angle": 0.5, "steps": 2}], scale_context_features="by_default")
    assert env.reset().observation[-2:].tolist() == [0.5, 0.5]
    assert env.context["steps"] == 2


class _Slope(Steps):
    """Something with features of several kinds, which is only reset."""

    observation_spec = envoi.Array((1,), "float32", -1000, 1000)

    def __init__(self, space):
        self.context_space = space

    def observe(self, state, rng):
        return np.array([state], np.float32)


def test_choices_are_seen_as_their_number_and_have_no_scale():
    space = ContextSpace([Categorical("floor", ("wood", "ice", "mud")), UniformFloat("angle", 0, 1)])
    env = Contextual(_Slope(space), [{"floor": "mud"}], scale_context_features="by_mean")
    assert env.reset().observation[1:].tolist() == [2.0, 1.0]
    assert env.observation_spec.high.tolist() == [1000.0, 2.0, 2.0]


def test_layouts_in_a_dict():
    env = pendulum(MASSES, dict_observation_space=True, state_context_features=["g", "m"])
    observation = env.reset(seed=0).observation
    envoi.validate(env.observation_spec, observation)
    assert observation["context"].tolist() == [10.0, 2.0]
    assert observation["state"].tolist() == env.env.observation.tolist()
    vector = pendulum(MASSES, obs_context_as_dict=False).reset(seed=0).observation
    assert list(vector) == ["obs", "context"]
    named = pendulum(MASSES, obs_context_as_dict=True, state_context_features=["g", "m"])
    observation = named.reset(seed=0).observation
    envoi.validate(named.observation_spec, observation)
    assert exact(observation["context"]) == exact({"g": np.float64(10.0), "m": np.float64(2.0)})


def test_pictures_and_integers_need_the_dict_layout():
    class Picture(_Slope):
        observation_spec = envoi.Array((4, 4, 3), "uint8", 0, 255)

        def observe(self, state, rng):
            return rng.integers(0, 256, (4, 4, 3), np.uint8)

    space = ContextSpace([UniformFloat("angle", 0, 1)])
    with pytest.raises(SpecError, match=r"one-dimensional float array to append a context to.*dict_observation_space"):
        Contextual(Picture(space))
    for options in ({"dict_observation_space": True}, {"hide_context": True}):
        env = Contextual(Picture(space), **options)
        envoi.validate(env.observation_spec, env.reset(seed=0).observation)


def test_bounds_and_dtype_are_native_when_hidden_and_cover_the_context_when_not():
    env = pendulum(MASSES, hide_context=True)
    assert env.observation_spec == Pendulum.observation_spec
    assert Pendulum.observation_spec.dtype == np.float32
    bounds = pendulum(MASSES, context_bounds={"m": (0.25, 4.0), "g": (0, 20, float)}).observation_spec
    assert bounds.low.tolist()[3:] == pytest.approx([0, 0, 0, 0.25, 1e-6, 0, 0])
    assert bounds.high.tolist()[5:7] == [20, 4]
    scaled = pendulum(
        MASSES, context_bounds={"m": (0.5, 4.0)}, default_context={"m": 2.0}, scale_context_features="by_default"
    )
    assert (scaled.observation_spec.low[6], scaled.observation_spec.high[6]) == (0.25, 2.0)


def test_build_observation_space_sets_bounds_and_may_be_called_again():
    env = pendulum(MASSES, state_context_features=["m"])
    for _ in range(2):
        env.build_observation_space([-1, -1, -50], [1, 1, 50], {"m": (0.1, 3)})
        assert env.observation_spec.low.tolist() == pytest.approx([-1, -1, -50, 0.1])
        assert env.observation_spec.high.tolist() == [1, 1, 50, 3]
    with pytest.raises(SpecError, match="observations reach"):
        env.build_observation_space([-0.5, -1, -8])
    with pytest.raises(ContextError, match=r"'m'.*expected a number from 0.1 to 1"):
        env.build_observation_space(context_bounds={"m": (0.1, 1)})
    assert env.observation_spec.high.tolist() == [1, 1, 50, 3]  # as it was
    envoi.validate(env.observation_spec, env.reset(seed=0).observation)


def test_a_selector_is_given_as_one_or_by_its_class():
    by_class = {"context_selector": Static, "context_selector_kwargs": {"context_id": "c"}}
    for arguments in ({"context_selector": Static("c")}, by_class):
        assert ids(pendulum(MASSES, **arguments)) == ["c"] * 4
    drawn = [ids(pendulum(MASSES, context_selector=Random), 20, seed=seed) for seed in (1, 1, 2)]
    assert drawn[0] == drawn[1] != drawn[2]


def test_the_default_context_alone():
    for contexts in (None, {}, []):
        env = pendulum(contexts)
        assert ids(env, 2) == [0, 0]
        assert env.context == Pendulum.context_space.defaults


def test_what_is_given_is_not_changed():
    contexts, keywords, mask = {"a": {"m": 2.0}}, {"context_id": "a"}, ["g"]
    before = copy.deepcopy((contexts, keywords, mask))
    env = pendulum(contexts, context_selector=Static, context_selector_kwargs=keywords, context_mask=mask,
                   add_gaussian_noise_to_context=True)  # fmt: skip
    env.reset(seed=0)
    assert (contexts, keywords, mask) == before
    assert env.contexts == {"a": {**Pendulum.context_space.defaults, "m": 2.0}}


def test_contexts_of_a_file(tmp_path):
    save_contexts(tmp_path / "masses.yaml", MASSES)
    assert pendulum(tmp_path / "masses.yaml").contexts == pendulum(MASSES).contexts


def test_peek_select_next_and_set():
    env = pendulum(MASSES)
    env.reset()
    assert env.peek()[0] == env.peek()[0] == "b"
    assert env.select_next()[0] == "b"
    assert ids(env, 1) == ["b"]
    env.set("a")
    assert env.peek()[0] == "a"
    assert ids(env, 3) == ["a"] * 3
    env.set({"m": 0.75})
    assert ids(env, 1) == [None]
    assert env.reset().info["context"] == env.context == {**Pendulum.context_space.defaults, "m": 0.75}
    env.set(None)
    assert ids(env, 2) == ["c", "a"]  # where it stood


def test_noise():
    none = pendulum(MASSES, add_gaussian_noise_to_context=True, gaussian_noise_std_percentage=0.0)
    plain = pendulum(MASSES)
    assert none.reset(seed=1).observation.tolist() == plain.reset(seed=1).observation.tolist()
    env = pendulum(
        {"x": {"m": np.float32(2.0), "g": 0.0}}, add_gaussian_noise_to_context=True, gaussian_noise_std_percentage=0.1
    )
    env.reset(seed=0)
    drawn = [env.context for _ in range(400) if env.reset()]
    masses = [context["m"] for context in drawn]
    assert np.std(masses) == pytest.approx(0.2, rel=0.15)  # relative, for numpy's numbers too
    assert np.mean(masses) == pytest.approx(2.0, abs=0.05)
    assert {context["g"] for context in drawn} == {0.0}
    only = pendulum(MASSES, add_gaussian_noise_to_context=True, noisy_features=["l"])
    only.reset(seed=0)
    assert {name for name, value in only.context.items() if value != only.contexts["a"][name]} == {"l"}


def test_noise_keeps_within_bounds():
    env = pendulum({"x": {"m": 1.0}}, add_gaussian_noise_to_context=True, gaussian_noise_std_percentage=5.0,
                   context_bounds={"m": (0.5, 1.5)})  # fmt: skip
    env.reset(seed=0)
    masses = {env.context["m"] for _ in range(50) if env.reset()}
    assert min(masses) == 0.5
    assert max(masses) == 1.5
    envoi.validate(env.observation_spec, env.reset().observation)


@pytest.mark.parametrize("make", [Pendulum, lambda: envoi.batch(Pendulum(), 3), Pursuit])
def test_an_episode_is_truncated_at_exactly_its_limit(make):
    env = Contextual(make(), max_episode_length=5, hide_context=True)
    for _ in range(2):
        env.reset(seed=0)
        for step in range(1, 6):
            if isinstance(env, envoi.MultiEnv):
                ends = list(env.step(env.sample_actions()).truncated.values())
            else:
                ends = np.atleast_1d(env.step(env.sample_action()).truncated).tolist()
            assert set(ends) == {step == 5}
    assert Contextual(_Slope(ContextSpace([UniformFloat("angle", 1, 2)])), max_episode_length=1).reset(seed=0)


def test_a_logger_is_called_for_each_episode():
    class Trials:
        def __init__(self):
            self.told = []

        def write_context(self, episode, step, context):
            self.told.append((episode, step, context["m"]))

    trials, told = Trials(), []
    for logger in (trials, lambda *said: told.append((*said[:2], said[2]["m"]))):
        env = pendulum(MASSES, logger=logger)
        for steps in (3, 2, 4):
            env.reset()
            for _ in range(steps):
                env.step(env.sample_action())
        env.reset()
    assert trials.told == told == [(0, 0, 2.0), (1, 3, 1.0), (2, 5, 0.5), (3, 9, 2.0)]


def trajectory(env, n=20):
    env.streams.action.bit_generator.state = np.random.default_rng(0).bit_generator.state
    return [env.step(env.sample_action()).observation.tolist() for _ in range(n)]


def test_the_dynamics_are_those_of_the_context_and_it_is_in_force_at_the_first_observation():
    env, alone = pendulum({"x": {"m": 3.0, "initial_angle_max": 0.001}}, hide_context=True), Pendulum()
    alone.context = {"m": 3.0, "initial_angle_max": 0.001}
    assert env.reset(seed=3).observation.tolist() == alone.reset(seed=3).observation.tolist()
    assert env.observation[0] > 0.999
    assert trajectory(env) == trajectory(alone)


class Lamp(Steps):
    """Something imported, as far as this module is concerned: attributes, and no context space."""

    observation_spec = envoi.Array((1,), "float32")

    def __init__(self, light=1.0):
        self.light, self.bulb = light, Bulb()

    def initial(self, rng, context):
        return self.light * self.bulb.watts

    def transition(self, state, action, rng):
        return state + self.light

    def observe(self, state, rng):
        return np.array([state], np.float32)


class Bulb:
    watts = 1.0
    volts = property(lambda self: 220.0)


LIGHTS = {"dim": {"light": 0.5}, "bright": {"light": 2.0}}


def test_attributes_and_paths_to_them():
    env = Contextual(Lamp(), LIGHTS, bind=Attributes())
    assert [env.reset().observation.tolist() for _ in range(3)] == [[0.5, 0.5], [2.0, 2.0], [0.5, 0.5]]
    env = Contextual(Lamp(), [{"watts": 3.0}], bind=Attributes({"watts": "bulb.watts"}))
    assert env.default_context == {"watts": 1.0}
    assert env.reset().observation.tolist() == [3.0, 3.0]


class Room(Lamp):
    """Features in the class, behind properties, and in the attributes of an attribute."""

    brightness, hue = 1.0, "red"
    warmth = property(lambda self: self.brightness, lambda self, value: setattr(self, "brightness", value))

    def flip(self):
        return None


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("Hue", "Room has no such attribute; did you mean 'hue'"),
        ("warmht", "Room has no such attribute; did you mean 'warmth'"),
        ("bulb.wats", "Bulb has no such attribute; did you mean 'watts'"),
        ("blub.watts", "Room has no such attribute; did you mean 'bulb'"),
        ("flip", "Room has a function 'flip', and no value; there are: "),
    ],
)
def test_a_misspelt_feature_gives_the_near_names_of_attributes_wherever_they_are(path, message):
    with pytest.raises(ContextError, match=r"^context\['x'\]: ") as error:
        Contextual(Room(), [{"x": 1.0}], bind=Attributes({"x": path}))
    assert message in str(error.value)


def test_features_in_the_class_and_behind_properties_can_be_set():
    env = Contextual(Room(), [{"warmth": 3.0, "hue": "blue"}], bind=Attributes(), state_context_features=["warmth"])
    assert env.reset().observation.tolist() == [1.0, 3.0]
    assert (env.unwrapped.brightness, env.unwrapped.hue, Room.brightness) == (3.0, "blue", 1.0)


def test_a_function():
    env = Contextual(Lamp(), LIGHTS, bind=lambda env, context: setattr(env, "light", context["light"]))
    assert [env.reset().observation.tolist() for _ in range(2)] == [[0.5, 0.5], [2.0, 2.0]]


def test_a_factory():
    closed = []

    class Closing(Lamp):
        def close(self):
            closed.append(self.light)

    env = Contextual(Closing(), LIGHTS, bind=Factory(Closing))
    assert [env.reset(seed=i or None).observation.tolist() for i in range(2)] == [[0.5, 0.5], [0.5, 0.5]]
    assert env.reset().observation.tolist() == [2.0, 2.0]
    assert closed == [1.0, 0.5]


def test_a_factory_continues_from_the_seed():
    def run(env):
        return [env.reset(seed=5 if i == 0 else None).observation.tolist() for i in range(4)]

    def make(g=10.0):
        model = Pendulum()
        model.context = {"g": g}
        return model

    env = Contextual(make(), [{"g": 9.0}, {"g": 11.0}], bind=Factory(make))
    first = run(env)
    assert first == run(env)
    assert len({tuple(observation[:3]) for observation in first}) == 4


def test_a_factorys_models_keep_their_contexts_in_lanes():
    def make(g):
        model = Pendulum()
        model.context = {"g": g}
        return model

    def lanes():
        return env.env.context["g"], [state.fall / 1.5 for state in env.env.state]  # 3 g / (2 l)

    env = Contextual(make(10.0), [{"g": 9.0}, {"g": 11.0}], bind=Factory(make), n_envs=2)
    env.reset(seed=0)
    assert lanes() == ([9.0, 11.0],) * 2
    env.step(np.zeros((2, 1), np.float32), np.array([False, True]))
    assert lanes() == ([9.0, 9.0],) * 2


@pytest.mark.parametrize(
    "make", [Pendulum, lambda: envoi.Validated(CartPole()), lambda: envoi.as_single(envoi.as_multi(Pendulum()))]
)
def test_each_lane_has_its_own_context_until_it_is_reset(make):
    env = envoi.batch(Contextual(make(), [{}, {}, {}], hide_context=True), 4)
    assert env.reset(seed=0).info[3]["context_id"] == 0
    expected, over = [0, 1, 2, 0], np.zeros(4, bool)
    following = 1
    for step in range(12):
        restart = np.array([step % 3 == 0, False, step % 4 == 0, False]) | over
        for lane in np.flatnonzero(restart):
            expected[lane], following = following % 3, following + 1
        result = env.step(env.sample_action(), restart)
        over = result.terminated | result.truncated
        assert [info["context_id"] for info in result.info] == expected


def test_lanes_see_and_have_what_they_were_given():
    env = envoi.batch(pendulum(MASSES, state_context_features=["m"]), 3)
    assert env.reset(seed=1).observation[:, 3].tolist() == [2.0, 1.0, 0.5]
    env.set(["c", "b", {"m": 0.7}])
    assert env.reset().observation[:, 3].tolist() == pytest.approx([0.5, 1.0, 0.7])


def test_a_batch_that_knows_nothing_of_lanes_contexts_is_given_columns():
    class Plain(envoi.ModelBatch):
        put_context = envoi.BatchEnv.put_context

    env = Contextual(Plain(Carts(), 2), [{"gravity": value} for value in (3.0, 2.0, 1.0)])
    assert env.reset(seed=0).observation[:, 4].tolist() == [3.0, 2.0]
    env.reset(mask=np.array([True, False]))
    assert list(env.env.context["gravity"]) == [1.0, 2.0]


def test_normal_distributions_keep_to_what_an_import_allows():
    imported = load("gymnasium:Pendulum-v1")
    env = Contextual(imported, context_selector=Sampled([NormalFloat("m", 1.0, 0.5), UniformFloat("dt", 0.01, 0.1)]))
    envoi.validate(env.observation_spec, env.reset(seed=0).observation)


def lane_ids(lanes, **arguments):
    return [info["context_id"] for info in lanes.reset(**arguments).info]


class Plain(Steps):
    """An environment whose lanes are looped over."""

    observation_spec = envoi.Array((2,), "float32")
    context_space = ContextSpace([UniformFloat("m", 0, 9, default=1.0)])

    def initial(self, rng, context):
        return context["m"], rng.random()

    def transition(self, state, action, rng):
        return state

    def observe(self, state, rng):
        return np.array(state, np.float32)


def numbered(n, env=Plain, **options):
    """Makes environments with n contexts, whose ids are 0, 1, …"""
    return lambda: Contextual(env(), [{"m": 1 + i / n} for i in range(n)], **options)


@given(st.integers(1, 7), st.integers(1, 5), st.integers(0, 40), st.booleans())
def test_lanes_in_a_loop_begin_their_round_one_after_the_other_also_with_a_seed(n, lanes, first, seeded):
    batch = envoi.Lanes([numbered(n)() for _ in range(lanes)])
    batch.assign_lane(0)
    assert lane_ids(batch) == [lane % n for lane in range(lanes)]
    batch.assign_lane(first)
    for episode in range(n + 1):
        begun = lane_ids(batch, **({"seed": 5} if seeded and not episode else {}))
        assert begun == [(first + lane + episode + (not seeded)) % n for lane in range(lanes)]


def test_copies_that_become_lanes_begin_their_round_one_after_the_other():
    env = envoi.as_single(envoi.TimeLimit(envoi.as_multi(numbered(5)()), 3))
    lanes = envoi.batch(env, 3)
    assert [lane_ids(lanes, seed=0), lane_ids(lanes), lane_ids(lanes, seed=0)] == [[0, 1, 2], [1, 2, 3], [0, 1, 2]]
    assert ids(env, 2, seed=0) == [0, 1]


def test_the_lanes_that_are_the_agents_of_one_environment_are_one_lane_of_it():
    lanes = envoi.AgentLanes(Contextual(Twins(), [{"wind": i} for i in range(5)]))
    lanes.assign_lane(3 * 2)
    assert [info["context_id"] for info in lanes.reset(seed=0).info] == [3, 3]


def test_one_selector_of_many_lanes_begins_its_round_at_the_first():
    for env in (numbered(5)(), numbered(5, Pendulum)()):
        lanes = envoi.batch(env, 3)
        lanes.assign_lane(6)
        assert [lane_ids(lanes, seed=0), lane_ids(lanes), lane_ids(lanes, seed=1)] == [[1, 2, 3], [4, 0, 1], [1, 2, 3]]
        mask = np.array([False, True, False])
        assert lanes.reset(mask=mask).info[1]["context_id"] == 4


@pytest.mark.parametrize(
    "around",
    [
        lambda env: envoi.TimeLimit(env, 3),
        lambda env: envoi.as_single(envoi.TimeLimit(envoi.as_multi(env), 3)),
        envoi.Validated,
        lambda env: from_gymnasium(gymnasium.wrappers.TimeLimit(to_gymnasium(env), 9)),
        lambda env: from_rllib(gymnasium.wrappers.TimeLimit(to_rllib(lambda: env)(), 9)),
        lambda env: envoi.as_single(from_pettingzoo(BaseParallelWrapper(to_pettingzoo(env)))),
    ],
)
def test_wrappers_and_importers_pass_the_lane_on_and_copies_and_snapshots_keep_it(around):
    env = around(numbered(5)())
    env.assign_lane(3)
    assert ids(env, 3, seed=1) == ids(env, 3, seed=2) == [3, 4, 0]
    for twin in (copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        assert ids(twin, 3) == [1, 2, 3]
        assert ids(twin, 1, seed=0) == [3]
    snapshot = env.snapshot()
    other = around(numbered(5)())
    other.reset()
    for one in (env, other):
        one.restore(snapshot)
        assert ids(one, 2) == [1, 2]
        assert ids(one, 1, seed=0) == [3]


@pytest.mark.parametrize("around", [lambda env: env, copy.deepcopy, lambda env: envoi.batch(env, 3)])
def test_a_set_of_contexts_cannot_be_replaced_behind_the_selector(around):
    env = around(pendulum(MASSES))
    before = env.contexts
    with pytest.raises(ContextError, match=r"contexts: the set .* stays as it is; make a new one"):
        env.contexts = {"other": {"m": 3.0}}
    assert env.contexts is before
    assert env.context_selector.contexts is before


def test_the_outer_of_two_sets_says_the_id_and_the_values_in_force():
    inner = {"slow": {"max_speed": 2.0}, "fast": {"max_speed": 8.0}}
    env = pendulum(inner, hide_context=True)
    for outer in (Contextual(env, MASSES), Contextual(envoi.batch(env, 2), MASSES)):
        for options in ({}, {"g": 3.0}):
            info = outer.reset(options=options).info
            context = outer.context
            if outer.batch_size:
                info, context = info[1], context[1]
            assert info["context"] == context
            assert info["context_id"] == (None if options else outer.context_id if outer.batch_size is None
                                          else outer.context_id[1])  # fmt: skip


def test_a_lane_is_the_environment_alone_that_has_its_number_and_seed():
    for make in (
        numbered(4),
        numbered(4, context_selector=Random),
        lambda: Contextual(Plain(), context_selector=Sampled([UniformFloat("m", 1, 2)])),
    ):
        made = [make() for _ in range(3)]
        lanes = envoi.Lanes(made)
        lanes.assign_lane(2)
        begun = lanes.reset(seed=[7, 7, 8]).observation
        random = type(made[0].context_selector) is not RoundRobin
        assert exact(begun[0]) == exact(begun[1]) or not random  # random numbers are of the seed, whatever the lane
        for index, seed in enumerate((7, 7, 8)):
            alone = make()
            alone.assign_lane(2 + index)
            np.testing.assert_array_equal(alone.reset(seed=seed).observation, begun[index])


class Crowd(envoi.MultiModel):
    """Two agents that see different things."""

    possible_agents = ("one", "two")
    observation_spec = {"one": envoi.Array((2,), "float32", -1, 1), "two": envoi.Array((3,), "float64", -1, 1)}
    action_spec = dict.fromkeys(possible_agents, envoi.Discrete(2))
    context_space = ContextSpace([UniformFloat("wind", 0, 9, default=1.0)])

    def initial(self, rng, context):
        return context["wind"]

    def transition(self, state, actions, rng):
        return state

    def observe(self, state, agent, rng):
        spec = self.observation_spec[agent]
        return np.ones(spec.shape, spec.dtype)

    def reward(self, state, actions, next_state):
        return dict.fromkeys(self.possible_agents, 0.0)

    def terminal(self, state):
        return ()


class Twins(Crowd):
    """Two agents that see the same things."""

    observation_spec = dict.fromkeys(Crowd.possible_agents, Crowd.observation_spec["one"])


def test_agents_that_see_different_things_see_the_same_context():
    env = Contextual(Crowd(), [{"wind": 3.0}, {"wind": 4.0}])
    for wind in (3.0, 4.0):
        seen = [env.reset().observations, env.step(env.sample_actions()).observations]
        for observations in seen:
            envoi.validate(env.observation_spec, observations)
            assert observations["one"].tolist() == [1, 1, wind]
            assert observations["two"].tolist() == [1, 1, 1, wind]
        assert {info["context_id"] for info in env.step(env.sample_actions()).infos.values()} == {int(wind - 3)}


@pytest.mark.parametrize("make", [
    lambda: pendulum(MASSES, add_gaussian_noise_to_context=True, context_selector=Random),
    lambda: envoi.batch(pendulum(MASSES, context_selector=Random), 3),
    lambda: Contextual(envoi.TimeLimit(CartPole(), 4), [{"length": 1.0}, {}], max_episode_length=3),
    lambda: Contextual(CartPole(), [{"made_by": np.nan}, {"made_by": object()}], bind=Attributes(), hide_context=True),
    lambda: Contextual(Lamp(), LIGHTS, bind=Factory(Lamp)),
])  # fmt: skip
def test_copies_pickles_and_snapshots_go_on_alike(make):
    env = make()
    env.reset(seed=2)
    env.step(env.sample_action())

    def future(env):
        found = []
        for _ in range(3):
            found += [np.asarray(env.step(env.sample_action()).observation).tolist(), env.context_id]
            found += [np.asarray(env.reset().observation).tolist(), env.context_id]
        return found

    others, snapshot = [copy.deepcopy(env)], env.snapshot()
    if "Factory" not in repr(env):
        others, snapshot = pickle.loads(pickle.dumps(([*others, env], snapshot)))
    first = future(env)
    for other in others:
        assert future(other) == first
    env.restore(snapshot)
    assert future(env) == first


@given(st.integers(0, 2**31), st.sampled_from(["no", "by_mean", "by_default"]), st.booleans(), st.booleans())
def test_observations_lie_in_their_spec(seed, scale, noise, in_dict):
    env = Contextual(
        CartPole(),
        context_selector=Sampled([UniformFloat("length", 0.05, 5), UniformFloat("masspole", 0.01, 1)]),
        scale_context_features=scale,
        add_gaussian_noise_to_context=noise,
        gaussian_noise_std_percentage=0.5,
        dict_observation_space=in_dict,
        context_bounds={"gravity": (5, 15)},
    )
    for episode in range(3):
        envoi.validate(env.observation_spec, env.reset(seed=seed if episode == 0 else None).observation)
        over = False
        while not over:
            step = env.step(env.sample_action())
            envoi.validate(env.observation_spec, step.observation)
            over = step.terminated


@pytest.mark.parametrize(
    ("contexts", "options", "message"),
    [
        ({"a": {"mm": 1.0}}, {}, r"contexts\['a'\]\['mm'\]: no such feature; did you mean 'm'"),
        ({"a": {"m": -1.0}}, {}, r"contexts\['a'\]\['m'\]: expected a finite number of at least 1e-06, got -1.0"),
        (None, {"context_mask": ["mx"]}, r"context_mask: no feature 'mx'; did you mean 'm'"),
        (None, {"state_context_features": ["gg"]}, "state_context_features: no feature 'gg'; did you mean 'g'"),
        (None, {"scale_context_features": "by_maen"}, "scale_context_features: .* 'by_maen'; did you mean 'by_mean'"),
        (MASSES, {"context_selector": Static("d")}, "there is no context 'd'"),
        (MASSES, {"context_selector": RoundRobin(), "context_selector_kwargs": {"a": 1}}, "is made already"),
        (None, {"max_episode_length": 0}, "max_episode_length: expected an integer of at least 1, got 0"),
        (None, {"gaussian_noise_std_percentage": -0.1, "add_gaussian_noise_to_context": True}, "at least 0, got -0.1"),
        (None, {"bind": "attributes"}, "bind: expected None, a function"),
        (Pendulum.context_space, {}, r"got a space; .*context_selector=Sampled\(space\)"),
        (None, {"default_context": {"mm": 1.0}}, r"default_context\['mm'\]: no such feature"),
        (None, {"logger": 3}, "logger: expected a function"),
        (None, {"noisy_features": ["m"]}, "noisy_features: there is no noise"),
        (None, {"dict_observation_space": True, "obs_context_as_dict": True}, "one of these layouts, got both"),
        (None, {"obs_context_features": ["m"], "state_context_features": ["g"]}, "expected one of these, got both"),
        (None, {"state_context_features": ["m", "m"]}, "expected each feature once"),
        (None, {"context_bounds": {"m": (3, 1)}}, r"context_bounds\['m'\]: expected \(low, high\).*low ≤ high"),
    ],
)
def test_bad_input_is_refused_at_construction(contexts, options, message):
    with pytest.raises((ContextError, SpecError), match=message):
        pendulum(contexts, **options)


def lamp(contexts, **options):
    return Contextual(Lamp(), contexts, **{"bind": lambda env, context: None, **options})


WRONG = [
    (lambda: pendulum(MASSES).reset(options={"context_id": "d"}), "no context 'd'; there are: a, b, c"),
    (lambda: pendulum(MASSES).set({"mm": 1.0}), "no such feature; did you mean 'm'"),
    (lambda: pendulum(MASSES).reset(options={"context": {"m": -3.0}}), r"number of at least 1e-06, got -3\.0"),
    (lambda: pendulum(MASSES, n_envs=3).set(["c", "b"]), "one context for each of 3 lanes, got 2"),
    (lambda: pendulum(MASSES, n_envs=3).reset(options={"context_id": ["c"]}), "expected one context for each of 3"),
    (lambda: Contextual(Pendulum, MASSES), r"expected a core environment, got .*Pendulum'> \(class\)"),
    (lambda: lamp(LIGHTS, bind=Factory(lambda light: "lamp")).reset(), "core environment, got 'lamp'.*from_env"),
    (lambda: lamp(LIGHTS, scale_context_features="by_default"), "'by_default' needs default_context"),
    (lambda: lamp({"a": {"light": 1.0}, "b": {"heat": 1.0}}), r"\['a'\]: expected a value of 'heat', as others have"),
    (lambda: lamp([{"lihgt": 1.0}], bind=Factory(Lamp)), "'lihgt'.*no such argument of Lamp; did you mean 'light'"),
    (lambda: lamp([{"lihgt": 1.0}], bind=Attributes()), "'lihgt'.*Lamp has no such attribute; did you mean 'light'"),
    (lambda: lamp([{"volts": 3.0}], bind=Attributes({"volts": "bulb.volts"})), "cannot be set on"),
    (lambda: [pendulum([{"m": m}], context_selector=SHARED) for m in (1.0, 2.0)], "selector for each set of contexts"),
]
SHARED = Random()


@pytest.mark.parametrize(("do", "message"), WRONG)
def test_wrong_calls_are_refused(do, message):
    with pytest.raises((ContextError, SpecError), match=message):
        do()


def test_a_rewarder_that_was_set_applies_to_what_a_factory_makes():
    env = Contextual(envoi.TimeLimit(Lamp(), 9), LIGHTS, bind=Factory(lambda light: envoi.TimeLimit(Lamp(light), 9)))
    env.rewarder = lambda state, action, next_state: 7.0
    for _ in range(3):
        env.reset()
        assert env.step(0).reward == 7.0


@pytest.mark.parametrize("lanes", [None, 3])
@pytest.mark.parametrize("options", [{}, {"obs_context_as_dict": True}, {"obs_context_as_dict": False}])
def test_observations_share_no_context_that_can_be_changed(lanes, options):
    def played(spoils):
        env = Contextual(Weighed(), MASS, bind=Attributes(), n_envs=lanes, **options)
        form = to_gymnasium(env) if lanes is None else env
        for call in (lambda: form.reset(seed=3), *[lambda: form.step(0 if lanes is None else np.zeros(3, int))] * 2):
            observation = call()[0]
            yield copy.deepcopy(observation)
            if spoils:
                spoil(observation)

    def seen(observation):
        leaves = envoi.tree.leaves(observation["context"] if options else observation)
        return [np.asarray(leaf)[..., -1:].tolist() if np.ndim(leaf) else float(leaf) for _, leaf in leaves]

    assert [seen(one) for one in played(spoils=True)] == [seen(one) for one in played(spoils=False)]


class Weighed(Steps):
    """Has attributes instead of features; first states and all steps depend on one. Some resets fail."""

    observation_spec = envoi.Array((2,), "float64")
    fails = False

    def __init__(self, mass=0.1):
        self.mass, self.closed = mass, False

    def initial(self, rng, context):
        if self.fails:
            raise RuntimeError("no such place")
        return np.array([rng.random(), self.mass])

    def transition(self, state, action, rng):
        assert not self.closed
        return state + np.array([action, self.mass])

    def observe(self, state, rng):
        return state.copy()

    def close(self):
        self.closed = True


class Remembering(envoi.Selector):
    """Returns each context once, in a random order, and then all of them again."""

    def choose(self, rng):
        left = self.position.setdefault("left", [])
        if not left:
            left += list(self.contexts)
        return left.pop(int(rng.integers(len(left))))


MASS = {name: {"mass": value} for name, value in zip("abcd", (0.1, 0.2, 0.4, 0.8), strict=True)}
POLES = {name: {"masspole": context["mass"]} for name, context in MASS.items()}
LANED = {
    "native": lambda **options: Contextual(envoi.Validated(Carts()), POLES, **options),
    "attributes": lambda **options: Contextual(weighed(), MASS, bind=Attributes(), **options),
    "a function": lambda **options: Contextual(weighed(), MASS, bind=weigh, **options),
    "a factory": lambda **options: Contextual(weighed(), MASS, bind=Factory(weighed), **options),
    "inside another": lambda **options: Contextual(Contextual(CartPole(), POLES), POLES, **options),
}
CHOICES = {
    "in turn": {},
    "with noise": {"add_gaussian_noise_to_context": True},
    "at random": {"context_selector": Random},
    "by memory": {"context_selector": Remembering},
    "chosen already": {"context_selector": Remembering, "max_episode_length": 3},
}


def weighed(mass=0.1):
    return envoi.Validated(Weighed(mass))


def weigh(env, context):
    env.unwrapped.mass = context["mass"]


@pytest.mark.parametrize("choices", CHOICES)
@pytest.mark.parametrize("binding", LANED)
@pytest.mark.parametrize("kind", ["batch", "loop"])
def test_a_refused_step_of_lanes_leaves_everything_as_it_was(kind, binding, choices):
    def made():
        env = LANED[binding](**CHOICES[choices])
        return envoi.batch(env, 3) if kind == "batch" else env.over(envoi.batching.loop.lanes_of(env.env, 3))

    def lived(env, refused):
        found = []
        env.reset(seed=3)
        if choices == "chosen already":
            found.append(env.select_next())
        for tick in range(6):
            restart = np.array([tick % 2 == 0, tick == 3, False])
            if refused:
                before = env.context_selector.n_calls, env.peek()
                wrong = [np.zeros(2, int), *([np.array([0, 5, 0])] if (kind, binding) == ("batch", "native") else [])]
                for action in wrong:
                    with pytest.raises(SpecError):
                        env.step(action, np.array([True, False, tick == 2]))
                assert (env.context_selector.n_calls, env.peek()) == before
            if env.max_episode_length is not None:
                restart |= tick % 3 == 0
            step = env.step(np.array([1, tick % 2, 0]), restart)
            found.append((step.observation.tolist(), env.context_id, env.context, env.peek()))
            found.append([info.get("context_id") for info in step.info])
        return found

    assert lived(made(), refused=True) == lived(made(), refused=False)


@pytest.mark.parametrize("binding", ["attributes", "a function", "a factory"])
@pytest.mark.parametrize("lanes", [None, 3])
def test_a_reset_that_fails_leaves_everything_as_it_was(binding, lanes):
    told = []
    env = LANED[binding](context_selector=Remembering, logger=lambda *said: told.append(said), n_envs=lanes)
    env.reset(seed=3)
    env.step(env.sample_action())
    inside = env.env.envs if lanes else (env.env,)
    before = (env.context, env.context_id, env.peek(), np.asarray(env.observation).tolist(), list(told))
    Weighed.fails = True
    try:
        for arguments in ({}, {"seed": 5}, {"options": {"context_id": "d"}}):
            with pytest.raises(RuntimeError, match="no such place"):
                env.reset(**arguments)
    finally:
        Weighed.fails = False
    assert (env.env.envs if lanes else (env.env,)) == inside
    assert (env.context, env.context_id, env.peek(), np.asarray(env.observation).tolist(), told) == before
    masses = [one.unwrapped.mass for one in inside]
    assert masses == [context["mass"] for context in (env.context if lanes else [env.context])]
    moved = np.asarray(env.step(env.sample_action() * 0).observation) - before[3]
    assert moved[..., 1].tolist() == pytest.approx(masses if lanes else masses[0])
    env.reset()
    assert [entry[0] for entry in told] == list(range(2 * (lanes or 1)))
    replaced = [one not in (env.env.envs if lanes else (env.env,)) for one in inside]
    assert [one.unwrapped.closed for one in inside] == replaced
    assert any(replaced) == (binding == "a factory")


def test_a_wrapper_that_fails_at_a_reset_leaves_the_episode():
    env = Contextual(Brittle(envoi.TimeLimit(Weighed(), 9)), MASS, bind=Attributes())
    other = copy.deepcopy(env)
    for one in (env, other):
        one.reset(seed=3)
        one.step(1)
    for arguments in ({}, {"seed": 5}, {"options": {"context_id": "d"}}):
        env.env.broken = "observation"
        with pytest.raises(ZeroDivisionError):
            env.reset(**arguments)
        env.env.broken = None
        assert (env.context_id, env.peek()) == (other.context_id, other.peek())
        assert exact([*env.step(0)]) == exact([*other.step(0)])


@pytest.mark.parametrize("lanes", [None, 2])
def test_a_replaced_contextual_refuses_steps(lanes):
    env = Pendulum() if lanes is None else envoi.batch(Pendulum(), lanes)
    older, newer = envoi.Contextual(env, {"a": {"m": 0.5}}), envoi.Contextual(env, {"b": {"m": 2.0}})
    older.reset(seed=0)
    newer.reset(seed=0)
    with pytest.raises(EpisodeError, match="another Contextual has reset this environment"):
        older.step(older.sample_action())
    newer.step(newer.sample_action())
    older.reset()
    older.step(older.sample_action())
    with pytest.raises(EpisodeError, match="another Contextual"):
        newer.step(newer.sample_action())


def test_contextuals_inside_one_another_are_no_rivals():
    env = envoi.Contextual(envoi.Contextual(Pendulum(), [{"m": 0.5}]), [{"g": 3.0}])
    for _ in range(2):
        env.reset()
        env.step(env.sample_action())
    env = envoi.batch(Pendulum(), 3)
    env = envoi.Contextual(envoi.Contextual(env, {"i": {"m": 0.5}}), {"o": {"g": 3.0}, "p": {"g": 4.0}})
    before = env.reset(seed=0).info
    infos = env.reset(mask=np.array([True, False, False]), options={"g": 7.0}).info
    assert infos[0]["context"]["g"] == 7.0
    infos = env.step(env.sample_action()).info  # lanes outside of the mask keep the inner context
    assert [infos[lane]["context"]["g"] for lane in (1, 2)] == [before[lane]["context"]["g"] for lane in (1, 2)]


@pytest.mark.parametrize(
    "env", [envoi.batch(Pendulum(), 3), envoi.Lanes([Pendulum() for _ in range(3)])], ids=["batch", "loop"]
)
def test_one_number_is_put_in_several_lanes(env):
    env.put_context({"m": 2.0}, [0, 2])
    for wrong, message in (({"mm": 2.0}, "no such feature"), ({"m": [3.0, -1.0]}, "in lane 1")):
        with pytest.raises(ContextError, match=message):
            env.put_context(wrong, [0, 1])
    assert np.array_equal(env.context["m"], [2.0, 1.0, 2.0])
    env = envoi.Contextual(env)
    env.put_context({"m": 3.0}, [0, 1])
    env.reset()
    assert [context["m"] for context in env.context] == [3.0, 3.0, 1.0]
