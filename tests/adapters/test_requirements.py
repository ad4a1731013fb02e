"""The requirements of lossless conversion that are the same for every framework, stated once, over all forms.

What is peculiar to one framework is held by its own tests; `docs/fidelity.md` says which test holds which requirement.
"""

import copy
import inspect
import itertools
import multiprocessing
import os
from concurrent.futures import ProcessPoolExecutor
from typing import NamedTuple

import cloudpickle
import forms
import golden
import numpy as np
import pytest
import scripted_games
from forms import ADAM, FORMS, LANES, MIA, ZOE, core_trace, exact, imported, lanes, made, models, native_trace, stranger
from hypothesis import HealthCheck, given, settings
from nested import specs as any_specs
from scripted import Line, Scripted, Shaped
from traces import COPIES

import envoi
from envoi import Array, Discrete, EpisodeError, LossyConversion, MultiBinary, MultiDiscrete, tree
from envoi.adapters import convert, from_env, losses
from envoi.adapters.rllib import EnvCreator, WorkerSeeds
from envoi.adapters.shared.loss import DroppedOptionsWarning
from envoi.lane_values import lane, stack
from envoi.seeding import lane_seeds

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")

ALL = list(FORMS)
ONE = [name for name, row in FORMS.items() if row.kind == "one"]
SEVERAL = [name for name, row in FORMS.items() if row.kind == "several"]
BATCHED = [name for name, row in FORMS.items() if row.kind == "lanes"]
TAKE_OPTIONS = [name for name, row in FORMS.items() if row.takes_options]
every_form = pytest.mark.parametrize("name", ALL)


def there_and_back(name, core):
    """A core environment through a form, read back by the class that imports."""
    return FORMS[name].read(FORMS[name].make(core))


def there_and_back_as(name, env):
    """The same of an environment of one agent."""
    return there_and_back(name, of_kind(name, env))


def acceptable(name, env):
    """An environment of one agent whose integer actions count from 0 where a framework refuses others."""
    spec = env.action_spec
    from_0 = not isinstance(spec, (Discrete, MultiDiscrete)) or not np.any(spec.start)
    return env if from_0 or not FORMS[name].counts_from_0 else envoi.ActionOffset(env)


def of_kind(name, env, adapt=True):
    """An environment of one agent as whatever a form takes, with `adapt` also of actions that it takes."""
    env = acceptable(name, env) if adapt else env
    return {"one": lambda: env, "several": lambda: envoi.as_multi(env), "lanes": lambda: lanes(env)}[FORMS[name].kind]()


def single(name, env):
    """The values of one agent or one lane that came back through a form."""
    return envoi.as_single(env) if FORMS[name].kind == "several" else env


def some_action(name):
    """An action of a `Scripted` environment, or one for each of its lanes."""
    action = np.int64(1 if FORMS[name].counts_from_0 else 6)
    return np.full(LANES, action) if FORMS[name].kind == "lanes" else action


# Steps: 1 to 6.

DISCOUNTS = (None, 0.0, 0.5, 0.99, 1.0)
FLAGS = tuple(itertools.product((False, True), repeat=2))
PAIR = Array((2,), "float64", 0, 1, "two")
ARRAYS = tuple(np.array(pair) for pair in ([0.0, 0.0], [0.0, 0.5], [0.99, 1.0], [1.0, 1.0]))


def played(name, script, discount_spec=None):
    """The steps of a script alone, and through a form and back; of lanes, the second one's."""
    said = []
    for way, seed in ((of_kind, seed_inside(name, 3)), (there_and_back_as, 3)):
        env = way(name, Scripted(*script, discount_spec=discount_spec))
        env.reset(seed=seed)
        steps = [single(name, env).step(some_action(name)) for _ in script]
        said.append([six(lane_of(env, step, 1) if FORMS[name].kind == "lanes" else step) for step in steps])
    return said


def seed_inside(name, seed):
    """The seed that reaches the core inside of a form: RLlib's makes one of its own, SB3's one for each lane."""
    if name == "sb3":
        return [seed + index for index in range(LANES)]
    return WorkerSeeds(in_evaluation=True).core_seed(seed) if name.startswith("rllib") else seed


def lane_of(env, step, index):
    return envoi.Step(
        lane(env.observation_spec, step.observation, index),
        step.reward[index],
        step.terminated[index],
        step.truncated[index],
        step.discount[index],
        step.info[index],
    )


def six(step):
    """The six values of a step, exactly; a number is the number that it is, of whatever Python or numpy type."""
    observation, reward, terminated, truncated, discount, info = step
    numbers = [(np.asarray(n, np.float64).shape, np.asarray(n, np.float64).tobytes()) for n in (reward, discount)]
    return golden.seen(observation), numbers, bool(terminated), bool(truncated), exact(dict(info))


@every_form
@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("discount", [*DISCOUNTS, *ARRAYS], ids=str)
def test_every_pair_of_flags_and_every_discount_in_the_middle_and_at_the_end(name, flags, discount):
    spec = None if np.ndim(discount) == 0 else PAIR
    alone, came = played(name, [Line(0.1, discount=discount), Line(1.0, *flags, discount)], spec)
    assert came == alone
    assert len(alone) == 2


def as_time_step(terminated, truncated, discount):
    """The kind and the discount of a row of the table, as dm_env and TF-Agents have it."""
    said = 1.0 if discount is None else discount
    if terminated:
        return 2, np.zeros(np.shape(said))
    if truncated:
        return 2, said if np.any(said) else np.ones(np.shape(said))
    return 1, said


@every_form
@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize("discount", [*DISCOUNTS, *ARRAYS], ids=str)
def test_each_row_is_recognised_as_the_table_states(name, flags, discount):
    spec = None if np.ndim(discount) == 0 else PAIR
    core = of_kind(name, Scripted(Line(0.1, discount=discount), Line(1.0, *flags, discount), discount_spec=spec))
    form, row, rng = FORMS[name].make(core), FORMS[name], np.random.default_rng(0)
    row.begin(form, 0)
    for over in ((False, False), flags):
        default = 0.0 if over[0] else 1.0
        if name in ("dm_env", "tf_agents", "tf_agents batch"):
            kind, _, told, _ = form.step(some_action(name))
            expected = as_time_step(*over, default if discount is None else discount)
            same = np.float32(expected[1]) if name != "dm_env" else expected[1]
            assert np.all(np.asarray(kind) == expected[0])
            np.testing.assert_array_equal(np.broadcast_to(same, np.shape(told)), told)
            continue
        _, _, terminated, truncated, info = row.step(form, rng)
        if isinstance(terminated, dict):
            # RLlib's form may tell a truncation by the flag of all alone.
            terminated, truncated = (flag.get("agent", flag.get("__all__")) for flag in (terminated, truncated))
            info = info["agent"]
        assert np.all(terminated) == over[0]
        if name != "rllib several" or not over[0]:  # which tells of a termination by the flags of all too
            # Stable-Baselines3 tells of both flags together as it does of a termination.
            assert np.all(truncated) == (over[1] and not (over[0] and name == "sb3"))
        infos = info if name == "sb3" else [info.get("final_info", info)]
        is_default = discount is None or (np.ndim(discount) == 0 and discount == default)
        told = [one.get("discount") for one in infos]
        assert told == [None] * len(infos) if is_default else np.all(np.asarray(told) == discount)


REWARDS = {
    "float64": (Array((), "float64"), np.float64(16777217.0)),
    "float64 as a Python number": (Array((), "float64"), 16777217.0),
    "int64": (Array((), "int64"), np.int64(2**40 + 1)),
    "float32": (Array((), "float32"), np.float32(0.1)),
    "array": (Array((2,), "float64", name="two"), np.array([16777217.0, 0.1])),
    "array of integers": (Array((2,), "int64"), np.array([2**53 + 1, -1])),
    "nested": (
        {"b": Array((), "float64"), "a": Array((2,), "float32")},
        {"b": np.float64(0.1), "a": np.ones(2, np.float32)},
    ),
}


REWARDS_REFUSED = {
    "pettingzoo_aec": ("nested",),  # which sums rewards
    "sb3": ("array", "array of integers", "nested"),  # whose algorithms learn from one number
}


@every_form
@pytest.mark.parametrize("kind", REWARDS)
def test_rewards_keep_dtype_shape_and_every_bit_or_are_refused_at_construction(name, kind):
    spec, value = REWARDS[kind]
    env = Scripted(Line(value), Line(value, terminated=True))
    env.reward_spec = spec
    core = of_kind(name, env)
    if kind in REWARDS_REFUSED.get(name, ()):
        with pytest.raises(LossyConversion, match="reward"):
            FORMS[name].make(core)
        return
    came = there_and_back(name, core)
    came = single(name, came)
    came.reset(seed=0)
    assert envoi.spec_equal(came.reward_spec, spec)
    step = came.step(some_action(name))
    reward = lane(spec, step.reward, 1) if FORMS[name].kind == "lanes" else step.reward
    if kind == "float64 as a Python number":
        assert reward == value
    else:
        envoi.validate(spec, reward, "reward")
        assert golden.seen(reward) == golden.seen(value)


@every_form
def test_the_info_of_a_reset_is_delivered(name):
    row = FORMS[name]
    form = made(name)
    _, info = row.begin(form, 0)
    if row.kind == "one":
        assert info["at"] == 0
        assert info["kind"] in ("word", None, 1.5)
    elif row.kind == "several":
        assert info[ZOE]["at"] == 0
        common = info["__common__"] if name == "rllib several" else info[ADAM]["__common__"]
        assert common == {"round": 0}
    elif name in ("tf_agents batch", "sb3"):
        assert [one["at"] for one in info] == [0] * LANES
    else:
        assert info["at"].tolist() == [0] * LANES
        assert info["_kind"].tolist() == [True] * LANES
    if row.tells_info:
        _, infos = imported(name).reset(seed=0)
        told = infos[ZOE] if row.kind == "several" else infos[1] if row.kind == "lanes" else infos
        assert told["at"] == 0


# 7: infos.

VALUES = (1, 1.9, True, 7, "word", None, {"deep": [1]}, np.float32(0.5), np.arange(3), {3: "x"}, (1, 2))


class Speaking(Scripted):
    """Each says values of its own, by the step; under a name, and under a key that is none."""

    def __init__(self, offset=0, has_keys=True):
        super().__init__(*[Line()] * len(VALUES))
        self.offset, self.has_keys = offset, has_keys

    def info(self, state):
        value = VALUES[(state[0] + self.offset) % len(VALUES)]
        odd = (state[0] + self.offset) % 2
        return {"value": value, **({("a", 1): value} if self.has_keys else {}), **({"sometimes": value} if odd else {})}


@every_form
def test_infos_keep_the_type_of_each_value_in_each_lane(name):
    many = FORMS[name].kind == "lanes"

    def core():
        # A step of RLlib's runner reads names alone: other keys stay in `last.info` of that form.
        has_keys = name != "rllib batch"
        each = [Speaking(offset, has_keys) for offset in range(LANES)]
        return envoi.batch(lambda: acceptable(name, each.pop()), LANES) if many else of_kind(name, each[0])

    alone, came = single(name, core()), single(name, there_and_back(name, core()))
    assert exact(came.reset(seed=0).info) == exact(alone.reset(seed=0).info)
    for _ in range(len(VALUES) - 1):
        said = [env.step(some_action(name)).info for env in (came, alone)]
        assert exact(said[0]) == exact(said[1])


# 8 to 10: what belongs to whom.


@every_form
def test_what_was_handed_out_never_changes_though_the_source_uses_its_buffers_again(name):
    """Final observations too, of which some frameworks keep the array."""
    held = core_trace(imported(name), (0, 1, None, None), note=lambda result: (result, exact(result)))
    assert len(held) > 8
    assert [exact(value) for value, _ in held] == [before for _, before in held]


@pytest.mark.parametrize("name", [name for name in ALL if "array" not in REWARDS_REFUSED.get(name, ())])
def test_rewards_that_are_arrays_never_change_though_the_source_uses_its_array_again(name):
    core = {"one": forms.Paid, "several": forms.PaidCrowd, "lanes": lambda: lanes(forms.Paid())}[FORMS[name].kind]()
    env, rng, held = FORMS[name].read(FORMS[name].strange(FORMS[name].make(core))), np.random.default_rng(0), []
    for seed in (0, 1):
        env.reset(seed=seed)
        for _ in range(2):
            step = env.step(forms.act(env, rng))
            held.append(step.rewards if FORMS[name].kind == "several" else step.reward)
            held.append(exact(held[-1]))
    assert [exact(reward) for reward in held[::2]] == held[1::2]


@every_form
def test_an_action_mapping_is_fresh_each_step_in_both_directions(name):
    """The core and the source empty and overwrite what they are given; the caller's stays, and they get all of it."""
    rng = np.random.default_rng(0)
    env = imported(name)
    env.reset(seed=0)
    for _ in range(2):
        action = forms.act(env, rng)
        before = exact(action)
        env.step(action)
        assert exact(action) == before
    source = env.source
    assert len(source.given) >= 2
    acted = models(source.held.core)[0].acted
    assert all(len(one) for one in acted)
    assert all(set(one) == {"y", "b"} for one in acted if FORMS[name].kind != "several" and name != "sb3")
    # The form alone, for one agent: the core empties the mapping.
    if name != "pettingzoo_aec":
        form = made(name)
        FORMS[name].begin(form, 0)
        action = forms.act(form.core, rng)
        before = exact(action)
        form.step(action)
        assert exact(action) == before


class Keeping(Scripted):
    """Says the same dict again and again, with an unusual discount that some forms tell in it."""

    def __init__(self):
        super().__init__(Line(discount=0.25), Line(discount=0.5), Line(truncated=True, discount=0.5))
        self.kept = {"kept": {"deep": [1]}}

    def info(self, state):
        return self.kept


@every_form
def test_no_form_writes_into_what_the_environment_says(name):
    core = of_kind(name, Keeping())
    inside = models(core if FORMS[name].kind != "several" else core.env)
    form = FORMS[name].make(core)
    env = FORMS[name].read(form)
    for seed in (0, None):
        env.reset(seed=seed)
        for _ in range(3):
            env.step({"agent": np.int64(6)} if FORMS[name].kind == "several" else some_action(name))
    assert [one.kept for one in inside] == [{"kept": {"deep": [1]}}] * len(inside)


# Spaces: 11 to 19.


@every_form
@settings(max_examples=12, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much])
@given(seen=any_specs, done=any_specs)
def test_specs_come_back_equal_and_values_lie_in_them_both_ways_or_are_refused(name, seen, done):
    env = Shaped(seen, done)
    target = {"vector": "gymnasium_vector", "rllib": "gymnasium"}.get(name.split()[0], name.split()[0])
    refused = [loss for loss in losses(env, target) if loss.refused]
    core = of_kind(name, env, adapt=False)
    if refused:
        with pytest.raises(LossyConversion):
            FORMS[name].make(core)
        return
    form = FORMS[name].make(core)
    came = single(name, FORMS[name].read(form))
    assert envoi.spec_equal(came.observation_spec, seen)
    assert envoi.spec_equal(came.action_spec, done)
    begun = came.reset(seed=0)
    # `Shaped` validates each action that it gets.
    steps = [came.step(came.sample_action()) for _ in range(2)]
    for observation in (begun.observation, *[step.observation for step in steps]):
        if FORMS[name].kind == "lanes":
            envoi.validate(seen, lane(seen, observation, 1), "observation")
        else:
            envoi.validate(seen, observation, "observation")


SPACES = {
    "start": (Discrete(3, start=5), MultiDiscrete([2, 3], [-4, 7])),
    "binary": (MultiBinary((2, 2)), MultiBinary((3,))),
    "zero size": (Array((0,)), {"b": Array((0, 2)), "a": Discrete(2, start=-1)}),
    "scalar": (Array((), "float32", 0, 1), Array((), "float64", -1, 1)),
    "uint32": (Array((2,), "uint32"), Array((2,), "uint32", 0, 9)),
    "float16": (Array((2,), "float16"), Array((2,), "float16", -1, 1)),
    "bool": (Array((2,), "bool"), Array((2,), "bool")),
    "partly": (Array((2,), "float64", [-np.inf, 0], [np.inf, 1]), Array((2,), "float64", [-np.inf, 0], [0, np.inf])),
    "order": ({"z": Discrete(2), "a": Discrete(2), "m": Discrete(2)}, {"z": Discrete(2), "a": Discrete(2)}),
}


def own_spaces(form, agent=None):
    """The spaces or specs of observations and actions that a form has, of an agent where there are several."""
    if agent is not None:
        actions = form.action_spaces if hasattr(form, "action_spaces") else form.action_space
        return form.observation_spaces[agent], actions[agent]
    if hasattr(form, "observation_space"):
        return form.observation_space, form.action_space
    return form.observation_spec(), form.action_spec()


def check(space, value):
    """Checks that a value lies in a framework's space, or in its specs."""
    if hasattr(space, "contains"):
        assert space.contains(value)
    elif isinstance(space, dict):
        assert set(space) == set(value)
        for key in space:
            check(space[key], value[key])
    elif hasattr(space, "check_array"):
        assert space.check_array(np.asarray(value)), (space, value)
    else:
        space.validate(value)


def draw(space, rng):
    """A random value of a framework's space; of its specs, the extremes."""
    if hasattr(space, "sample"):
        space.seed(int(rng.integers(100)))
        return space.sample()
    if isinstance(space, dict):
        return type(space)((key, draw(part, rng)) for key, part in space.items())
    last = space.num_values - 1 if type(space).__name__ == "DiscreteArray" else getattr(space, "maximum", 1)
    low, high = (0 if space.dtype == bool else getattr(space, "minimum", -1)), last
    if space.dtype.kind == "f":
        low, high = np.clip(low, -1, 1), np.clip(high, -1, 1)
    return np.asarray(np.where(rng.integers(2, size=space.shape), low, high).astype(space.dtype))


@every_form
@pytest.mark.parametrize("kind", SPACES)
def test_what_a_space_of_the_form_samples_reaches_the_core_within_its_spec(name, kind):
    """Actions come from the form's own space, and the observations lie in its own."""
    seen, done = SPACES[kind]
    refused = {"start": "start", "zero size": "nesting", "scalar": "shape", "order": "nesting"}.get(kind)
    if name == "sb3" and refused is not None:
        with pytest.raises(LossyConversion, match=refused):
            FORMS[name].make(of_kind(name, Shaped(seen, done)))
        return
    form, rng = FORMS[name].make(of_kind(name, Shaped(seen, done))), np.random.default_rng(0)
    agent = form.possible_agents[0] if FORMS[name].kind == "several" else None
    is_each = name in ("sb3", "tf_agents batch")  # whose spaces are those of one lane
    space, actions = own_spaces(form, agent)
    shown, _ = FORMS[name].begin(form, 0)
    for _ in range(4):
        shown = shown[agent] if name in ("pettingzoo", "rllib several") else shown
        for one in [lane(seen, shown, index) for index in range(LANES)] if is_each else [shown]:
            check(space, tree.map_leaves(np.asarray, one) if is_each else one)
        if isinstance(seen, dict) and (agent is not None or name == "dm_env"):
            assert list(shown) == list(seen)
        action = stack(done, [draw(actions, rng) for _ in range(LANES)]) if is_each else draw(actions, rng)
        step = form.step({agent: action} if name in ("pettingzoo", "rllib several") else action)
        shown = form.observe(agent) if step is None else getattr(step, "observation", step[0])
    core = models(form.core if agent is None else form.core.env)[0]
    assert core.observation is not None


@every_form
@pytest.mark.parametrize("at", ["least", "largest"])
def test_the_least_and_the_largest_action_of_the_forms_own_space_are_those_of_the_core(name, at):
    spec = MultiDiscrete([2, 3], [-4, 7])
    core = of_kind(name, Shaped(Array((1,)), spec))
    form = FORMS[name].make(core)
    FORMS[name].begin(form, 0)
    agent = form.possible_agents[0] if FORMS[name].kind == "several" else None
    space = getattr(form, "single_action_space", None) or own_spaces(form, agent)[1]
    if hasattr(space, "nvec"):
        action = space.start if at == "least" else space.start + space.nvec - 1
        assert space.contains(action.astype(space.dtype))
    else:
        action = space.minimum if at == "least" else space.maximum
    action = np.broadcast_to(action, (2,)).astype(spec.dtype)
    if FORMS[name].kind == "lanes":
        action = np.stack([action] * LANES)
    elif name in ("pettingzoo", "rllib several"):
        action = {agent: action}
    form.step(action)
    expected = [-4, 7] if at == "least" else [-3, 9]
    for model in models(core.env if FORMS[name].kind == "several" else core):
        assert [one.tolist() for one in model.acted] == [expected]


@every_form
def test_spaces_and_specs_are_the_same_objects_each_time_and_their_seeds_take_effect(name):
    form = made(name)
    if FORMS[name].kind == "several":
        for agent in form.possible_agents:
            for what in ("observation_space", "action_space"):
                get = getattr(form, f"get_{what}", None) or getattr(form, what)
                assert get(agent) is get(agent)
        get = getattr(form, "get_action_space", None) or form.action_space
        space = get(MIA)
    elif hasattr(form, "action_space"):
        assert form.action_space is form.action_space
        assert form.observation_space is form.observation_space
        if hasattr(form, "single_action_space"):
            assert form.single_action_space is form.single_action_space
        space = form.action_space
    else:
        assert form.action_spec() is form.action_spec()
        assert form.observation_spec() is form.observation_spec()
        return
    draws = []
    for seed in (0, 0, 1):
        space.seed(seed)
        draws.append([exact(space.sample()) for _ in range(8)])
    assert draws[0] == draws[1] != draws[2]


# Seeds and lifecycle: 20 to 31.


@every_form
def test_a_seed_gives_equal_traces_over_three_episodes_and_seed_0_behaves_as_seed_1(name):
    form, env = made(name), imported(name)
    for trace in (lambda seeds: native_trace(name, form, seeds), lambda seeds: core_trace(env, seeds)):
        said = {seed: [trace((seed, None, None)) for _ in range(2)] for seed in (0, 1)}
        assert said[0][0] == said[0][1]
        assert said[1][0] == said[1][1]
        assert said[0][0] != said[1][0]
        # Plain resets go on; they do not begin again.
        assert trace((0,)) != trace((None,))
    assert native_trace(name, made(name)) == native_trace(name, form)
    assert core_trace(imported(name)) == core_trace(env)


@every_form
def test_a_seed_is_an_integer_of_any_type_and_everything_else_is_refused_before_anything_happens(name):
    row, form, env = FORMS[name], made(name), imported(name)
    assert exact(row.begin(form, np.int32(3))) == exact(row.begin(made(name), 3))
    assert exact(env.reset(seed=np.int32(3))) == exact(imported(name).reset(seed=3))
    assert {type(seed) for seed, _ in env.source.resets} <= {int, type(None)}
    assert exact(row.begin(form, 2**40)) == exact(row.begin(made(name), 2**40))
    state = models(form.core)[0].streams.dynamics.bit_generator.state
    for bad in (-1, 1.5, True, "1"):
        with pytest.raises(envoi.SpecError, match="seed"):
            row.begin(form, bad)
        with pytest.raises(envoi.SpecError, match="seed"):
            env.reset(seed=bad)
    assert models(form.core)[0].streams.dynamics.bit_generator.state == state
    assert len([seed for seed, _ in env.source.resets if seed is not None]) == 1


@every_form
def test_the_seed_reaches_the_reset_of_the_source(name):
    env = imported(name)
    env.reset(seed=7)
    env.reset()
    env.reset(seed=0)
    seeds = [seed for seed, _ in env.source.resets]
    assert [seed for seed in seeds if seed is not None] == [7, 0]


@every_form
def test_making_reading_and_describing_leave_generator_and_episode_alone(name):
    row = FORMS[name]
    core, twin = forms.core_of(name), forms.core_of(name)
    rngs = [np.random.default_rng(1), np.random.default_rng(1)]
    for env, rng in zip((core, twin), rngs, strict=True):
        env.reset(seed=4)
        env.step(forms.act(env, rng))
    form = row.make(core)
    came = row.read(form)
    from_env(form)
    for one in (form, came, core):
        assert repr(one)
        assert str(one)
        _ = [getattr(one, what, None) for what in ("metadata", "unwrapped", "possible_agents", "reward_range")]
    losses(core, name.split()[0] if row.kind != "lanes" else "gymnasium_vector")
    for what in ("observation_spec", "action_spec", "reward_spec", "discount_spec", "time_step_spec"):
        told = getattr(form, what, None)
        if callable(told):
            told()
    for what in ("observation_space", "action_space"):
        if row.kind != "several" and hasattr(form, what):
            getattr(form, what).sample()
    copy.deepcopy(form)
    assert forms.core_steps(core, rngs[0]) == forms.core_steps(twin, rngs[1])
    # And a third-party environment in mid-episode.
    source, other = stranger(name), stranger(name)
    for env in (source, other):
        row.begin(env, 4) if row.begin is forms.begin_gym else row.begin(env.held, 4)
    from_env(source)
    repr(row.read(source))
    states = [exact(env.held.core.streams.dynamics.bit_generator.state) for env in (source, other)]
    assert states[0] == states[1]
    assert len(source.resets) == len(other.resets)


@pytest.mark.parametrize("name", [name for name in BATCHED if name != "sb3"])  # `VecEnv.seed(s)`: s, s + 1, …
def test_the_lanes_of_a_seed_are_pairwise_distinct_and_share_nothing_with_those_of_the_next(name):
    drawn = []
    for seed in range(4):
        form = made(name)
        FORMS[name].begin(form, seed)
        drawn += [model.streams.dynamics.bit_generator.state["state"]["state"] for model in models(form.core)]
    assert len(set(drawn)) == 4 * LANES


def test_worker_and_lane_seeds_are_pairwise_distinct_in_every_form_of_rllib():
    class Context(dict):
        worker_index = 0

    drawn = []
    for env, lanes_of in ((forms.Walk(), None), (forms.Crowd(), None), (forms.Walk(), LANES)):
        for worker in range(3):
            for evaluation in (False, True):
                for lane_index in range(1 if lanes_of else 3):
                    context = Context(in_evaluation=evaluation)
                    context.worker_index = worker
                    form = EnvCreator(env, canonical=False, num_envs=lanes_of)(context)
                    form.reset(seed=5 + worker + lane_index)  # as RLlib gives them, which alone collide
                    drawn += [one.streams.dynamics.random() for one in models(form.core)]
    assert len(drawn) == 3 * 2 * (3 + 3 + LANES)
    # Environments of one agent and of several may follow from the same seed; those of one kind never.
    kinds = (drawn[:18], drawn[18:36], drawn[36:])
    assert all(len(set(kind)) == len(kind) for kind in kinds)


@every_form
def test_options_reach_every_reset_of_a_form_and_the_callers_dict_stays_as_it_was(name):
    form, row = made(name), FORMS[name]
    options = {"a": {"deep": [1]}, "b": 2}
    for _ in range(2):
        row.begin(form, 0, options)
    row.begin(form)
    for model in models(form.core):
        assert model.contexts[-3:] == [{"a": {"deep": [1]}, "b": 2}] * 2 + [{}]
    assert options == {"a": {"deep": [1]}, "b": 2}


@pytest.mark.parametrize("name", TAKE_OPTIONS)
def test_options_reach_every_reset_of_a_source_and_the_callers_dict_stays_as_it_was(name):
    env, options = imported(name), {"a": {"deep": 1}, "c": [1]}  # it writes into them
    env.reset(seed=0, options=options)
    env.reset(options=options)
    env.reset()
    # "No options" may come as None or as an empty dict.
    assert [given or None for _, given in env.source.resets] == [options, options, None]
    assert options == {"a": {"deep": 1}, "c": [1]}


@pytest.mark.parametrize("name", sorted(set(ALL) - set(TAKE_OPTIONS)))
def test_options_that_a_source_has_no_place_for_are_a_warning_and_an_error_where_values_are_checked(name):
    options = {"a": 1}
    with pytest.warns(DroppedOptionsWarning, match="options: .*'a'"):
        imported(name).reset(options=options)
    checked = envoi.Validated(imported(name))
    with pytest.raises(envoi.SpecError, match=r"options\['a'\]"):
        checked.reset(options=options)
    checked.reset(options={})
    assert options == {"a": 1}


@every_form
def test_close_is_forwarded_once_and_with_closes(name):
    form = made(name)
    FORMS[name].begin(form, 0)
    form.close()
    form.close()
    assert {model.closed for model in models(form.core)} == {1}
    if hasattr(form, "__enter__"):
        with made(name) as form:
            pass
        assert {model.closed for model in models(form.core)} == {1}
    with imported(name) as env:
        env.reset(seed=0)
    env.close()
    assert env.source.closed == 1


SIDES = ("form", "import")


def in_the_middle(side, name, steps=1):
    """A form or an import in mid-episode; fresh where there were no steps."""
    env = made(name) if side == "form" else imported(name)
    if not steps:
        return env
    rng = np.random.default_rng(3)
    if side == "form":
        FORMS[name].begin(env, 2)
        FORMS[name].step(env, rng)
    else:
        env.reset(seed=2)
        env.step(forms.act(env, rng))
    return env


@every_form
@pytest.mark.parametrize("side", SIDES)
@pytest.mark.parametrize("how", COPIES)
def test_a_copy_continues_as_the_original_would_fresh_and_in_mid_episode(name, side, how):
    env = in_the_middle(side, name)
    twin = COPIES[how](env)
    alone = forms.go_on((side, name), in_the_middle(side, name))
    assert forms.go_on((side, name), twin) == alone
    # The original did not move with it.
    assert forms.go_on((side, name), env) == alone
    fresh = COPIES[how](in_the_middle(side, name, 0))
    trace = native_trace(name, fresh) if side == "form" else core_trace(fresh)
    again = native_trace(name, made(name)) if side == "form" else core_trace(imported(name))
    assert trace == again


@every_form
@pytest.mark.parametrize("steps", [1, 2])
def test_a_snapshot_of_an_import_is_gone_back_to_any_number_of_times(name, steps):
    env = in_the_middle("import", name, steps)
    held, after = env.snapshot(), forms.go_on(("import", name), env)
    for _ in range(2):
        env.restore(held)
        assert forms.go_on(("import", name), env) == after


class PatchedStep:
    """Takes the place of a form's `step`, and keeps it."""

    def __init__(self, form):
        self.form, self.calls = form, 0

    def __call__(self, action):
        self.calls += 1
        return type(self.form).step(self.form, action)


@every_form
@pytest.mark.parametrize("how", ["copy", "pickle"])
def test_a_step_that_was_patched_onto_a_form_is_in_its_copies(name, how):
    form = made(name)
    form.step = PatchedStep(form)
    twin = COPIES[how](form)
    assert native_trace(name, twin) == native_trace(name, made(name))
    assert twin.step.form is twin
    assert form.step.calls == 0 < twin.step.calls
    del twin.step
    assert native_trace(name, twin) == native_trace(name, made(name))


@every_form
def test_the_step_of_a_form_has_the_name_help_and_signature_of_its_method_also_in_copies(name):
    form = made(name)
    for step in (form.step, copy.copy(form).step):
        method = type(form).step
        assert inspect.signature(step) == inspect.signature(method.__get__(form))
        for told in ("__name__", "__qualname__", "__module__", "__doc__"):
            assert getattr(step, told) == getattr(method, told)


@every_form
def test_the_source_of_a_step_says_whose_it_is_and_where_to_look_if_it_is_called_as_it_is(name):
    form = made(name)
    text, kind = envoi.explain(form), type(form).__name__
    assert f"# {kind}: " in text
    if name not in ("gymnasium", "dm_env"):
        assert f"# {kind}: its step is called as it is; see also explain(form.core)" in text
        assert envoi.explain(form.core) != text


@every_form
def test_the_core_of_a_form_is_not_replaced_unseen(name):
    form = made(name)
    with pytest.raises(AttributeError, match="keeps the one that it was made with; make a new form of it"):
        form.core = made(name).core
    assert native_trace(name, copy.copy(form)) == native_trace(name, made(name))


@every_form
@pytest.mark.parametrize("side", SIDES)
def test_unknown_attributes_are_attribute_errors_also_in_what_is_half_made(name, side):
    env = in_the_middle(side, name)
    half = type(env).__new__(type(env))
    for one in (env, half):
        assert not hasattr(one, "no_such_attribute")
        assert not hasattr(one, "_no_such_attribute")


@pytest.fixture(scope="module", autouse=True)
def elsewhere():
    """Two futures of a new process with another hash seed, which works while the other tests run."""
    parcel = cloudpickle.dumps({(side, name): in_the_middle(side, name) for side in SIDES for name in ALL})
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONHASHSEED", "1" if os.environ.get("PYTHONHASHSEED") == "2" else "2")
        with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
            yield pool.submit(forms.digest), pool.submit(forms.carried_on, parcel)


@every_form
def test_a_form_made_in_a_spawned_process_of_another_hash_seed_has_the_same_trace_in_the_same_order(name, elsewhere):
    made_anew, _ = elsewhere
    assert made_anew.result()[name] == (native_trace(name, made(name)), core_trace(imported(name)))


@every_form
@pytest.mark.parametrize("side", SIDES)
def test_a_form_pickled_in_mid_episode_continues_in_a_spawned_process(name, side, elsewhere):
    _, carried = elsewhere
    assert carried.result()[side, name] == forms.go_on((side, name), in_the_middle(side, name))


@every_form
def test_metadata_are_copied_all_the_way_down_and_no_class_is_written_into(name):
    classes = {kind: copy.deepcopy(kind.metadata) for kind in (forms.Walk, forms.Crowd)}
    form = made(name)
    inside = models(form.core)
    kinds = [kind for kind in type(form).__mro__ if "metadata" in vars(kind)]
    before = [copy.deepcopy(vars(kind)["metadata"]) for kind in kinds]
    assert form.metadata["render_fps"] == 7
    assert form.metadata["deep"] == {"list": [1]}
    form.metadata["deep"]["list"].append(2)
    form.metadata["new"] = 1
    assert all(kind.metadata == kept for kind, kept in classes.items())
    assert all(model.metadata["deep"] == {"list": [1]} for model in inside)
    assert made(name).metadata["deep"] == {"list": [1]}
    assert [vars(kind)["metadata"] for kind in kinds] == before
    if not hasattr(stranger(name), "metadata"):
        return  # neither dm_env nor TF-Agents has any
    source = stranger(name)
    env = FORMS[name].read(source)
    assert env.metadata["render_fps"] == 7
    env.metadata["deep"]["list"].append(2)
    assert source.metadata["deep"] == {"list": [1]}


@every_form
def test_pictures_need_no_arguments(name):
    form = made(name)
    FORMS[name].begin(form, 0)
    shape = (4, 5, 3)
    picture = np.stack(form.get_images()) if name == "sb3" else form.render()  # which tiles them
    assert np.shape(picture) == ((LANES, *shape) if FORMS[name].kind == "lanes" else shape)
    assert form.render_mode == "rgb_array"
    env = imported(name)
    env.reset(seed=0)
    assert np.shape(env.render()) == np.shape(form.render())


@every_form
def test_a_form_has_its_core_and_unwrapped_is_the_native_base(name):
    core = forms.core_of(name)
    form = FORMS[name].make(core)
    assert form.core is core
    assert from_env(form) is core
    env = imported(name)
    assert env.unwrapped is env.source
    if FORMS[name].kind != "lanes":
        wrapped = envoi.TimeLimit(env, 9) if FORMS[name].kind == "one" else envoi.MultiWrapper(env)
        assert wrapped.unwrapped is env.source


HOMES = {
    **{name: name for name in ("gymnasium", "dm_env", "tf_agents", "pettingzoo", "pettingzoo_aec", "sb3")},
    "vector next step": "gymnasium_vector",
    "tf_agents batch": "tf_agents",
}
"""Frameworks, by a row of the table of forms."""

IDENTITY = [
    (a, b)
    for a, b in itertools.product(HOMES, [*dict.fromkeys(HOMES.values()), "rllib"])
    if not (FORMS[a].kind == "several" and b in ("gymnasium", "gymnasium_vector", "dm_env", "tf_agents"))
    and not (FORMS[a].kind == "lanes" and b not in ("gymnasium_vector", "tf_agents", "rllib"))
    and not (FORMS[a].kind == "one" and b == "gymnasium_vector")
    # It refuses the actions of the others, and lanes that cannot be reset in the step of their end.
    and not (a != "sb3" and b == "sb3")
]


@pytest.mark.parametrize(("a", "b"), IDENTITY)
def test_a_to_b_to_a_gives_back_the_same_object(a, b):
    home = HOMES[a]
    # A third-party environment …
    source = stranger(a)
    there = convert(source, b)
    assert convert(there, home) is source
    # … its import, …
    core = from_env(source) if a != "vector next step" else from_env(there)
    if b != home and getattr(core, "source", None) is source:
        assert from_env(convert(core, b)) is core
    # … and a core environment.
    mine = forms.core_of(a)
    form = convert(mine, home)
    assert from_env(form) is mine
    assert from_env(convert(form, b)) is mine
    assert convert(convert(form, b), home).core is mine


@pytest.mark.parametrize("seed", [0, np.int64(7)])
@pytest.mark.parametrize("name", ["dm_env", "tf_agents"])
def test_a_form_is_made_with_the_seed_of_its_first_reset(name, seed):
    made_so, told, source = convert(forms.Walk(), name, seed=seed), convert(forms.Walk(), name), stranger(name)
    told.seed(seed)
    for _ in range(3):  # plain resets go on from the first
        assert exact(made_so.reset()) == exact(told.reset())
    assert convert(told, name, seed=seed) is told
    assert convert(source, name) is source
    convert(source, name, seed=seed).reset()
    assert source.resets == [(seed, None)]
    for wrong in (-1, 0.5, "1"):
        with pytest.raises(envoi.SpecError, match="seed"):
            convert(forms.Walk(), name, seed=wrong)


@every_form
def test_a_rewarder_on_an_import_reaches_every_form_and_can_be_put_back(name):
    row, env, rng = FORMS[name], imported(name), np.random.default_rng(0)
    native, source, home = env.rewarder, env.source, HOMES.get(name)
    several = row.kind == "several"
    paid = (lambda *_: dict.fromkeys(env.possible_agents, 7.0)) if several else (lambda *_: 7.0)
    env.rewarder = paid if several else envoi.FunctionReward(paid, 0, 9)
    form = row.make(env)
    assert from_env(form) is env
    assert home is None or convert(env, home) is not source
    row.begin(form, 0)
    row.step(form, rng)
    reward = row.step(form, rng).reward
    assert {float(one) for one in np.ravel([*reward.values()] if isinstance(reward, dict) else reward)} <= {7.0, 14.0}
    if hasattr(form, "reward_spec"):
        assert form.reward_spec().maximum == 9
    if "step" in getattr(env, "restarts", ()):
        env.reset(seed=0)
        over = np.zeros(LANES, bool)
        while not over.any():
            step = env.step(forms.act(env, rng))
            over = step.terminated | step.truncated
        assert env.step(forms.act(env, rng), over).reward.tolist() == np.where(over, 0.0, 7.0).tolist()
    env.rewarder = native
    assert env.is_unchanged
    assert home is None or convert(env, home) is source


@every_form
def test_a_step_after_the_end_is_what_the_framework_says_and_never_a_silent_reset(name):
    row, form, rng = FORMS[name], made(name), np.random.default_rng(0)
    if not row.resets_itself:
        with pytest.raises((EpisodeError, AttributeError)):  # AEC has no agents before the reset
            row.step(form, rng) if name != "pettingzoo_aec" else form.step(np.int64(5))
    row.begin(form, 0)
    seen = [len(model.contexts) for model in models(form.core)]
    for _ in range(50):
        told = row.step(form, rng)
        if forms.ends(form, told) or (row.kind == "lanes" and forms.any_over(told)):
            break
    if row.resets_itself:
        told = row.step(form, rng)
        resets = [len(model.contexts) - before for model, before in zip(models(form.core), seen, strict=True)]
        assert sum(resets) >= 1
    else:
        action = forms.act(form.core, rng) if row.kind != "several" else {ZOE: np.int64(5)}
        with pytest.raises(EpisodeError):
            form.step(action if name != "pettingzoo_aec" else np.int64(5))
        assert [len(model.contexts) for model in models(form.core)] == seen
    # Read back it is a core environment, which refuses, and the source hears nothing of it.
    env = imported(name)
    with pytest.raises(EpisodeError):
        env.step(forms.act(env, rng) if row.kind != "several" else {ZOE: np.int64(5)})
    env.reset(seed=0)
    forms_play(env, rng)
    given = len(env.source.given)
    with pytest.raises(EpisodeError):
        env.step(forms.act(env, rng) if row.kind != "several" else {ZOE: np.int64(5)})
    assert len(env.source.given) == given


@pytest.mark.parametrize("name", ["dm_env", "tf_agents"])
def test_a_step_outside_of_an_episode_begins_one_and_ignores_the_action(name):
    form, rng = made(name), np.random.default_rng(0)
    for _ in range(2):
        assert form.step("ignored").step_type == 0
        forms.native_steps(name, form, rng)


class Failing(envoi.Lifted):
    """Fails in each step."""

    def change(self, specs):
        return envoi.Change(reward=lambda reward: 1 / 0)


@pytest.mark.parametrize("name", ONE + SEVERAL)
def test_a_step_of_a_source_lasts_though_a_wrapper_fails(name):
    """Nothing takes it back, so the episode continues, and ends with that of the source."""
    env, rng = imported(name), np.random.default_rng(0)
    around = Failing(env)
    around.reset(seed=0)
    errors = [ZeroDivisionError]
    while errors[-1] is ZeroDivisionError:
        with pytest.raises((ZeroDivisionError, EpisodeError)) as found:
            around.step(forms.act(env, rng))
        errors.append(found.type)
    assert len(env.source.given) > 1


def forms_play(env, rng):
    """Plays until something has ended: all agents, or some lane."""
    is_over = False
    while not is_over:
        step = env.step(forms.act(env, rng))
        is_over = not env.agents if isinstance(env, envoi.MultiEnv) else np.any(step.terminated | step.truncated)


# Several agents: 32 to 46.

KINDS = {"at once": scripted_games.ScriptedGame, "in turns": scripted_games.TurnGame}


class Lived(NamedTuple):
    """The events of each agent, as reported by a form's own API."""

    rewards: dict
    ends: dict
    finals: dict


def lived(name, core, seed=0):
    """Plays an environment of several agents by the API of a form, to the end."""
    form, rng = FORMS[name].make(core), np.random.default_rng(0)
    rewards, ends, finals = {}, {}, {}
    FORMS[name].begin(form, seed)
    acting = core.acting
    for _ in range(100):
        if name == "pettingzoo_aec":
            if not form.agents:
                break
            agent = form.agent_selection
            observation, reward, terminated, truncated, info = form.last()
            rewards[agent] = rewards.get(agent, 0) + reward
            if terminated or truncated:
                assert agent not in ends
                ends[agent], finals[agent] = (terminated, truncated), (observation, info)
                form.step(None)
            else:
                form.step(scripted_games.legal(core.action_spec[agent], info.get("action_mask"), rng))
            continue
        if not core.agents:
            break
        observations, given, terminated, truncated, infos = form.step(
            {agent: forms_action(core, agent, rng) for agent in acting}
        )
        for agent, reward in given.items():
            assert agent not in ends, "an agent appears in a step after its end"
            rewards[agent] = rewards.get(agent, 0) + reward
        for agent in core.possible_agents:
            if terminated.get(agent) or truncated.get(agent):
                ends[agent] = bool(terminated.get(agent)), bool(truncated.get(agent))
                finals[agent] = observations[agent], infos.get(agent, {})
        acting = core.acting
        if terminated.get("__all__") or truncated.get("__all__"):
            assert not core.agents
    return Lived(rewards, ends, finals)


def forms_action(core, agent, rng):
    spec = core.action_spec[agent]
    return spec.dtype.type(spec.start) if isinstance(spec, Discrete) else envoi.sample(spec, rng)


@pytest.mark.parametrize("game", KINDS)
@pytest.mark.parametrize("name", ["pettingzoo", "pettingzoo_aec", "rllib several"])
def test_each_agent_earns_and_ends_in_every_api_as_in_the_core(name, game):
    core, ends = KINDS[game](), {}
    rewards = dict.fromkeys(core.possible_agents, 0.0)
    for scene in core.scenes:
        ends |= {one: (one in scene.terminated, one in scene.truncated) for one in scene.terminated + scene.truncated}
        rewards |= {agent: rewards[agent] + reward for agent, reward in scene.rewards.items()}
    told = lived(name, core)
    assert told.rewards == pytest.approx(rewards, rel=1e-15)
    if name != "rllib several":
        assert told.ends == ends
        return
    # RLlib's flags say the rest in infos, and the truncation of eve in a mixed end only by `truncateds["__all__"]`.
    assert {*told.ends, "eve"} == set(ends)


@pytest.mark.parametrize("game", KINDS)
@pytest.mark.parametrize("name", ["pettingzoo", "pettingzoo_aec"])
def test_every_ended_agent_has_a_final_observation_marked_where_it_only_repeats_the_last(name, game):
    core = KINDS[game]()
    told = lived(name, core)
    unseen = {agent for scene in core.scenes for agent in scene.unseen}
    assert unseen
    for agent, (observation, info) in told.finals.items():
        assert envoi.contains(core.observation_spec[agent], observation)
        assert info.get("synthetic_observation", False) is (agent in unseen)
    assert set(told.finals) == set(told.ends)


def final_observations(env, seed):
    """The latest observation of each agent, and how it ended."""
    env.reset(seed=seed)
    seen, how, rng = {}, {}, np.random.default_rng(0)
    while env.agents:
        step = env.step(forms.act(env, rng))
        for agent in step.terminated:
            if step.terminated[agent] or step.truncated[agent]:
                seen[agent] = exact(step.observations[agent])
                how[agent] = step.terminated[agent], step.truncated[agent]
    return seen, how


@pytest.mark.parametrize("name", SEVERAL)
@pytest.mark.parametrize("seed", range(6))
def test_final_observations_and_flags_of_a_source_are_those_of_its_core(name, seed):
    alone = final_observations(forms.Crowd(), seed_inside(name, seed))
    seen, how = final_observations(imported(name), seed)
    assert seen == alone[0]
    assert set(how) == {ZOE, ADAM, MIA}
    if name != "rllib several":  # whose flags say less than the core's, which only our own form makes up for
        assert how == alone[1]


@pytest.mark.parametrize("name", SEVERAL)
def test_a_revival_is_refused_by_name(name):
    play = (
        scripted_games.Scene(("zoe", "adam")),
        scripted_games.Scene(("zoe",), terminated=("adam",)),
        scripted_games.Scene(("zoe", "adam")),
    )
    form = FORMS[name].make(scripted_games.ScriptedGame(*play))
    FORMS[name].begin(form, 0)
    with pytest.raises(EpisodeError, match=r"adam.*ended before"):
        forms.native_steps(name, form, np.random.default_rng(0))


@pytest.mark.parametrize("name", SEVERAL)
def test_late_joiners_have_spaces_from_the_start_and_every_agent_its_own(name):
    core = scripted_games.ScriptedGame()
    form = FORMS[name].make(core)
    assert form.possible_agents == list(scripted_games.AGENTS)
    shapes = [form.observation_spaces[agent].shape for agent in form.possible_agents]
    assert shapes == [(2 + index,) for index in range(5)]
    assert [form.action_spaces[agent].n for agent in form.possible_agents] == [3, 4, 5, 6, 7]
    came = FORMS[name].read(form)
    assert envoi.spec_equal(dict(came.observation_spec), core.observation_spec)
    assert envoi.spec_equal(dict(came.action_spec), core.action_spec)


@pytest.mark.parametrize("name", SEVERAL)
def test_waiting_agents_are_not_asked_for_observations_but_where_the_api_shows_them(name):
    core = Looking()
    form = FORMS[name].make(core)
    FORMS[name].begin(form, 0)
    forms.native_steps(name, form, np.random.default_rng(0))
    ended = {agent: at for at, scene in enumerate(core.scenes) for agent in (*scene.terminated, *scene.truncated)}
    # Who ends is looked at, and in the step before, for that may be repeated.
    acting = {(at, agent) for at, scene in enumerate(core.scenes) for agent in scene.turn or ()}
    asked = [(at, agent) for at, agent in {*core.looks} - acting if ended.get(agent, at + 2) - at > 1]
    # Parallel shows all in play.
    assert bool(asked) is (name == "pettingzoo")
    # And no agent that has ended or waits is given an action.
    assert all(set(acted) == set(core.scenes[at].turn) for at, acted in enumerate(core.acted))
    assert all(at <= ended.get(agent, at) for at, agent in core.looks)


class Looking(scripted_games.TurnGame):
    """Notes who is looked at when."""

    def __init__(self):
        super().__init__()
        self.looks = []

    def observe(self, state, agent, rng):
        self.looks.append((int(state[0]), agent))
        return super().observe(state, agent, rng)


@pytest.mark.parametrize("name", SEVERAL)
def test_masks_are_there_at_reset_and_come_back(name):
    form = FORMS[name].make(scripted_games.ScriptedGame())
    _, infos = FORMS[name].begin(form, 0)
    assert infos["adam"]["action_mask"].tolist() == scripted_games.mask("adam").tolist()
    came = FORMS[name].read(FORMS[name].make(scripted_games.ScriptedGame()))
    _, infos = came.reset(seed=0)
    if name == "pettingzoo_aec":
        while "adam" not in came.acting:
            infos = came.step(dict.fromkeys(came.acting, np.int64(5))).infos
    assert infos["adam"]["action_mask"].tolist() == scripted_games.mask("adam").tolist()
    assert infos["adam"]["action_mask"].dtype == np.int8


@pytest.mark.parametrize("name", SEVERAL)
def test_state_and_its_space_reach_every_form_and_come_back(name):
    core = forms.Crowd()
    form = FORMS[name].make(core)
    FORMS[name].begin(form, 0)
    assert form.state_space.contains(form.state())
    np.testing.assert_array_equal(form.state(), core.state)
    came = FORMS[name].read(form)
    assert envoi.spec_equal(came.state_spec, core.state_spec)
    came.reset(seed=0)
    np.testing.assert_array_equal(came.state, core.state)
    # Of a third-party environment too, and what was returned before does not change.
    env = imported(name)
    env.reset(seed=0)
    state, before = env.state, env.state.copy()
    np.testing.assert_array_equal(state, env.source.held.core.state)
    for _ in range(2):  # of an AEC environment, one agent after the other
        env.step(forms.act(env, np.random.default_rng(0)))
    np.testing.assert_array_equal(state, before)
    assert not np.array_equal(env.state, before)


@pytest.mark.parametrize("name", SEVERAL)
def test_common_info_has_its_place_and_the_flag_of_all_never_comes_back(name):
    env = imported(name)
    begun = env.reset(seed=0)
    assert begun.infos["__common__"] == {"round": 0}
    rng = np.random.default_rng(0)
    while env.agents:
        step = env.step(forms.act(env, rng))
        assert step.infos["__common__"] == {"round": env.source.held.core.state[0]}
        for mapping in step:
            assert "__all__" not in mapping
        for agent, info in step.infos.items():
            assert agent == "__common__" or "__common__" not in info


@pytest.mark.parametrize("name", SEVERAL)
def test_lists_of_agents_are_copies_in_the_order_of_the_core(name):
    form = made(name)
    FORMS[name].begin(form, 0)
    for what in ("possible_agents", *(() if name == "pettingzoo_aec" else ("agents",))):
        listed = getattr(form, what)
        kept = list(listed)
        listed.clear()
        assert getattr(form, what) == kept
    assert form.possible_agents == [ZOE, ADAM, MIA]
    env = imported(name)
    env.reset(seed=0)
    source = env.source
    assert (type(env.possible_agents), type(env.agents)) == (tuple, tuple)
    assert env.possible_agents == (ZOE, ADAM, MIA)
    before = env.agents
    env.step(forms.act(env, np.random.default_rng(0)))
    assert before == (ZOE, ADAM)
    assert MIA in env.agents or name == "pettingzoo_aec"
    assert source is env.source


# Batched: 47 to 51.


@pytest.mark.parametrize("name", BATCHED)
def test_a_lane_is_the_environment_alone_with_the_lanes_seed(name):
    """Through the form and back, with staggered ends; of each lane, the episode of its seed."""
    core = forms.core_of(name)
    came = FORMS[name].read(FORMS[name].make(copy.deepcopy(core)))
    came.reset(seed=0)
    alone = [copy.deepcopy(model) for model in models(core)]
    inside = seed_inside(name, 0)
    seeds = inside if isinstance(inside, list) else lane_seeds(inside, LANES)
    for env, seed in zip(alone, seeds, strict=True):
        env.reset(seed=seed)
    rng, ends = np.random.default_rng(0), 0
    over, restarts = np.zeros(LANES, bool), "step" in came.restarts
    for _ in range(25):
        action = forms.act(core, rng)
        each = copy.deepcopy([lane(core.action_spec, action, index) for index in range(LANES)])
        step = came.step(action, over if over.any() and restarts else None)
        begins = over if restarts else np.zeros(LANES, bool)
        for index in np.flatnonzero(~begins):
            assert six(lane_of(core, step, index)) == six(alone[index].step(each[index]))
        over = step.terminated | step.truncated
        if not restarts and over.any():
            begins, step = over, came.reset(mask=over)
        for index in np.flatnonzero(begins):
            begun = golden.seen(lane(core.observation_spec, step.observation, index))
            assert begun == golden.seen(alone[index].reset().observation)
        ends += over.sum()
    assert ends > LANES


@pytest.mark.parametrize("name", BATCHED)
def test_an_import_refuses_bad_input_in_the_words_of_batches(name):
    env, push = there_and_back(name, lanes(Shaped(Array((1,)), Discrete(2)))), np.zeros(LANES, int)
    env.reset(seed=0)
    for do, words in (
        (lambda: env.step(push[:-1]), f"action: expected one for each of {LANES} lanes, got {LANES - 1}"),
        (lambda: env.step(1), f"action: expected one for each of {LANES} lanes, got 1"),
        (lambda: env.step(push, push), f"restart: expected a bool for each of {LANES} lanes"),
        (lambda: env.reset(mask=[True]), f"mask: expected a bool for each of {LANES} lanes"),
        (lambda: env.reset(seed=[1] * 9), f"seed: expected one seed for each of {LANES} lanes, got 9"),
    ):
        with pytest.raises(envoi.SpecError) as found:
            do()
        assert words in str(found.value)
    env.step(push)


@pytest.mark.parametrize("name", [name for name in BATCHED if name not in ("vector disabled",)])
def test_a_manual_reset_after_the_end_clears_the_pending_one(name):
    form, row, rng = made(name), FORMS[name], np.random.default_rng(0)
    row.begin(form, 0)
    while not forms.any_over(row.step(form, rng)):
        pass
    row.begin(form, 1)
    fresh = made(name)
    row.begin(fresh, 1)
    rngs = np.random.default_rng(1), np.random.default_rng(1)
    assert exact(row.step(form, rngs[0])) == exact(row.step(fresh, rngs[1]))
    begun = [len(model.contexts) for model in models(fresh.core)]
    assert begun == [1] * LANES


def test_batches_of_different_modes_coexist():
    """In any order of making: no mode is written into a class or a core that others share."""
    for names in itertools.permutations(["vector next step", "vector same step", "vector disabled"]):
        several = {name: made(name) for name in names}
        for name, form in several.items():
            assert form.metadata["autoreset_mode"].value.lower().replace("step", " step").split()[0] in name
            assert native_trace(name, form) == native_trace(name, made(name))
        assert "autoreset_mode" not in forms.Walk.metadata


@pytest.mark.parametrize("name", [name for name in BATCHED if name not in ("tf_agents batch", "sb3")])  # have no others
def test_spaces_are_batched_and_those_of_one_lane_are_there(name):
    form = made(name)
    observation, _ = form.reset(seed=0)
    assert form.num_envs == LANES
    assert form.observation_space.contains(observation)
    assert form.observation_space["z"].shape == (LANES, 2)
    assert form.single_observation_space["z"].shape == (2,)
    assert list(form.single_observation_space) == list(form.observation_space) == ["z", "a"]
    assert form.single_action_space.contains(envoi.sample(form.core.action_spec, np.random.default_rng(0)))
    assert list(form.action_space) == ["y", "b"]


@pytest.mark.parametrize("name", [name for name in ALL if FORMS[name].kind != "lanes"])
def test_an_import_without_lanes_refuses_masks_of_lanes(name):
    env = single(name, there_and_back(name, of_kind(name, Scripted(Line(1.0)))))
    env.reset()
    for masks in ({"restart": True}, {"hold": np.array([True])}):
        with pytest.raises(envoi.SpecError, match="expected None, because there are no lanes"):
            env.step(some_action(name), **masks)
