"""Environments to TF-Agents and from it: the same trace, specs, seeds and lifecycle.

These hold on TF-Agents' own types where it is installed, and on the light ones where it is not.
"""

import pickle
from collections import OrderedDict
from typing import NamedTuple

import numpy as np
import pytest
from depth import examples
from hypothesis import given
from hypothesis import strategies as st
from nested import numeric
from scripted import Ends, Line, Scripted, Shaped
from strategies import nested
from traces import exact

import envoi
from envoi import Array, Discrete, EpisodeError, LossyConversion, SpecError
from envoi.adapters import from_env, from_tf_agents, load, to_gymnasium_vector, to_tf_agents
from envoi.adapters.tf_agents import (
    ArraySpec,
    BoundedArraySpec,
    FromTFAgents,
    FromTFAgentsBatch,
    PyEnvironment,
    StepType,
    TimeStep,
    ToTFAgents,
    ToTFAgentsBatch,
    from_spec,
    to_spec,
)

pytestmark = pytest.mark.filterwarnings("ignore::envoi.adapters.shared.loss.NarrowingWarning")


def forwarded(name):
    return lambda self, *arguments: getattr(self._env, name)(*arguments)


class Passing(PyEnvironment):
    """A third-party wrapper that changes nothing."""

    def __init__(self, env):
        super().__init__()
        self._env = env

    batched = property(lambda self: self._env.batched)
    batch_size = property(lambda self: self._env.batch_size)
    observation_spec, action_spec, get_info = map(forwarded, ("observation_spec", "action_spec", "get_info"))
    seed, get_state, set_state, render = map(forwarded, ("seed", "get_state", "set_state", "render"))
    close, _reset, _step = map(forwarded, ("close", "reset", "step"))


class Remaking(Passing):
    """A third-party wrapper that makes new time steps, so that the form's other values are lost."""

    def _reset(self):
        return TimeStep(*super()._reset())

    def _step(self, action):
        return TimeStep(*super()._step(action))


class Counting(PyEnvironment):
    """A source that plays `lines` of (step type, reward, discount) and counts."""

    def __init__(self, *lines, info=False, space=None):
        super().__init__()
        self.lines, self.at, self.seeds, self.episode = lines, 0, [], 0
        self._over, self._info = True, info
        self._space = space or BoundedArraySpec((), np.int64, 5, 7, "choice")

    def observation_spec(self):
        return ArraySpec((2,), np.float64, "seen")

    def action_spec(self):
        return self._space

    def get_info(self):
        return self._info if self._info is not False else super().get_info()

    def _see(self):
        return np.array([10 * self.episode, self.at], np.float64)

    def _reset(self):
        self._over, self.at, self.episode = False, 0, self.episode + 1
        return TimeStep(StepType.FIRST, np.float32(0), np.float32(1), self._see())

    def _step(self, action):
        if self._over:
            return self.reset()
        kind, reward, discount = self.lines[self.at]
        self.at += 1
        self._over = kind == 2
        return TimeStep(
            np.asarray(kind, np.int32), np.asarray(reward, np.float32), np.asarray(discount, np.float32), self._see()
        )


class Seedable(Counting):
    """A source with a generator and a method that seeds it."""

    def __init__(self, *lines):
        super().__init__(*lines)
        self._rng = np.random.RandomState(7)

    def seed(self, seed):
        self.seeds.append(seed)
        self._rng.seed(seed)

    def _see(self):
        return np.array([self._rng.uniform(), self.at])


class Held(Seedable):
    """The same, without a method that seeds it."""

    seed = PyEnvironment.seed


MIDDLE, END = (1, 1.0, 1.0), (2, 1.0, 0.0)


def same(a, b):
    assert exact(a) == exact(b)


def said(step):
    """A time step as (step type, reward, discount)."""
    return step.step_type.tolist(), step.reward.tolist(), step.discount.tolist()


# Steps.


@pytest.mark.parametrize(
    ("line", "flags"),
    [
        ((1, 1.0, 1.0), (False, False)),
        ((1, 1.0, 0.5), (False, False)),
        ((1, 1.0, 0.0), (False, False)),
        ((2, 1.0, 0.0), (True, False)),
        ((2, 1.0, 0.5), (False, True)),
        ((2, 1.0, 1.0), (False, True)),
    ],
)
def test_a_foreign_time_step_is_the_core_step_of_the_table(line, flags):
    env = from_tf_agents(Counting(line))
    assert env.reset().info == {}
    step = env.step(5)
    assert (step.terminated, step.truncated) == flags
    same(step.reward, np.float32(1))
    same(step.discount, np.float32(line[2]))
    assert step.info == {}
    assert step.observation.tolist() == [10, 1]


def test_discounts_of_many_numbers_pass_whole_unless_they_would_say_something_else():
    spec = {"a": Array((2,), "float32", 0, 1), "b": Array((), "float32", 0, 1)}

    def discount(*values):
        return {"a": np.array(values[:2], np.float32), "b": np.float32(values[2])}

    script = [Line(discount=discount(0.5, 0, 1)), Line(truncated=True, discount=discount(0.5, 0, 0))]
    for end, told in (
        (script[1], discount(0.5, 0, 0)),
        (Line(truncated=True, discount=discount(0, 0, 0)), discount(1, 1, 1)),
        (Line(terminated=True, discount=discount(1, 0, 1)), discount(0, 0, 0)),
    ):
        form = to_tf_agents(Scripted(script[0], end, discount_spec=spec))
        assert isinstance(form.discount_spec(), OrderedDict)
        assert form.time_step_spec().discount is form.discount_spec()
        first = form.reset().discount
        assert (first["a"].tolist(), first["b"].tolist()) == ([1, 1], 1)
        np.testing.assert_equal(form.step(5).discount, script[0].discount)
        np.testing.assert_equal(form.step(5).discount, told)
        core = FromTFAgents(Remaking(to_tf_agents(Scripted(script[0], end, discount_spec=spec))))
        assert envoi.spec_equal(core.discount_spec, spec)
        core.reset()
        core.step(5)
        step = core.step(5)
        assert (step.terminated, step.truncated) == (end.terminated, not end.terminated)


values = st.sampled_from([1, 1.9, True, 7, "a", None, {"b": (1, [2])}, np.arange(3), np.float32(2), b"x"])
infos = st.dictionaries(st.sampled_from(["a", 3, ("t", 1), None]), values, max_size=3)


def test_rewards_of_other_shapes_and_kinds():
    class Vector(Scripted):
        reward_spec = {"z": Array((2,), "float64", 0, 4), "a": Array((), "int8")}

    reward = {"z": np.array([1, 2.0]), "a": np.int8(3)}
    form = to_tf_agents(Vector(Line(reward)))
    first = form.reset().reward
    assert (list(first), first["z"].tolist(), first["a"].tolist()) == (["z", "a"], [0, 0], 0)
    told = form.step(5).reward
    assert type(told) is OrderedDict
    same(told["z"], np.array([1, 2], np.float32))
    same(told["a"], np.array(3, np.float32))
    assert form.reward_spec()["z"].dtype == np.float32

    kept = to_tf_agents(Vector(Line(reward)), exact=True)
    assert (kept.reward_spec()["z"].dtype, kept.reward_spec()["a"].dtype) == (np.float64, np.int8)
    kept.reset()
    assert kept.step(5).reward["a"].dtype == np.int8

    back = FromTFAgents(Passing(to_tf_agents(Vector(Line(reward)))))
    assert back.reward_spec["z"] == Array((2,), "float64")
    back.reset()
    same(back.step(5).reward, reward)


def test_exact_forms_narrow_nothing_and_say_so():
    form = to_tf_agents(Scripted(Line(16777217.0, discount=0.99), Line(0.0)), exact=True)
    assert form.time_step_spec().reward.dtype == form.time_step_spec().discount.dtype == np.float64
    first = form.reset()
    assert first.reward.dtype == first.discount.dtype == np.float64
    assert said(form.step(5)) == (1, 16777217.0, 0.99)
    core = FromTFAgents(Remaking(to_tf_agents(Scripted(Line(16777217.0, discount=0.99)), exact=True)))
    core.reset()
    assert core.step(5).reward == 16777217.0


def test_the_first_reward_and_every_discount_lie_in_the_exported_specs_whatever_the_bounds_of_the_core():
    class Bounded(Scripted):
        reward_spec = Array((), "float64", 1, 2, "reward")

    for exactly in (False, True):
        form = to_tf_agents(Bounded(Line(1.5, True), discount_spec=Array((), "float64", 0.9, 0.95)), exact=exactly)
        for step in (form.reset(), form.step(5)):
            assert form.reward_spec().check_array(step.reward)
            assert form.discount_spec().check_array(step.discount)
        assert form.reward_spec().maximum == 2
        assert FromTFAgents(form).reward_spec == Bounded.reward_spec


def test_infos_reach_get_info_and_come_from_it():
    form = to_tf_agents(Scripted(Line(info={"a": 1, 3: "x"})))
    assert form.get_info() == {}
    form.reset()
    form.step(5)
    assert form.get_info() == {"a": 1, 3: "x"}
    held = {"mine": 1}
    for given_, told in ((held, held), (None, {}), (np.float32(2), {"info": 2}), (False, {})):
        env = from_tf_agents(Counting(MIDDLE, info=given_))
        assert env.reset().info == told
        env.step(5).info["more"] = 2
    assert held == {"mine": 1}


def test_a_source_that_begins_another_episode_by_itself_is_caught():
    env = from_tf_agents(Counting((0, 0.0, 1.0)))
    env.reset()
    with pytest.raises(EpisodeError, match="began another episode"):
        env.step(5)


# Specs and values.


def tf_trees(leaf):
    """Trees whose dicts can be sorted."""
    return nested(leaf).map(_sortable)


def _sortable(spec):
    if isinstance(spec, dict):
        return {str(key): _sortable(sub) for key, sub in spec.items()}
    return envoi.tree.rebuild(spec, map(_sortable, spec)) if isinstance(spec, (list, tuple)) else spec


@examples(2000)
@given(tf_trees(numeric))
def test_every_spec_comes_back_as_it_was(spec):
    told = to_spec(spec)
    assert envoi.spec_equal(from_spec(told), spec)
    assert envoi.spec_equal(from_spec(pickle.loads(pickle.dumps(told)), action=True), spec)


class Fields(NamedTuple):
    """A named tuple of two."""

    x: object
    y: object


def test_kinds_of_branches_and_the_order_of_keys_are_kept_in_specs_and_values():
    leaf = Array((), "float32")
    spec = {"z": [leaf, leaf], "a": (leaf,), "m": Fields(leaf, {"q": leaf, "b": leaf})}
    form = to_tf_agents(Shaped(spec, spec))
    for branch in (form.observation_spec(), form.reset().observation):
        assert [type(branch), *map(type, branch.values())] == [OrderedDict, list, tuple, Fields]
        assert list(branch) == ["z", "a", "m"]
        assert type(branch["m"].y) is OrderedDict
        assert list(branch["m"].y) == ["q", "b"]
    read = from_spec(form.observation_spec())
    assert type(read) is dict
    assert type(read["m"].y) is dict


@pytest.mark.parametrize(
    ("spec", "kind", "low", "high"),
    [
        (Discrete(3, start=-1, dtype="int32"), BoundedArraySpec, -1, 1),
        (envoi.MultiDiscrete([3, 5], start=[1, 2]), BoundedArraySpec, [1, 2], [3, 6]),
        (envoi.MultiBinary((2, 2)), BoundedArraySpec, 0, 1),
        (Array((2,), "float32", 0), BoundedArraySpec, 0, np.finfo(np.float32).max),
        (Array((2,), "float64", [-np.inf, 0], 1), BoundedArraySpec, [np.finfo(np.float64).min, 0], [1, 1]),
        (Array((2,), "float16"), ArraySpec, None, None),
        (Array((2,), "bool", True, True), ArraySpec, None, None),
        (Array((2,), "uint32", 1), BoundedArraySpec, 1, 2**32 - 1),
        (Array((0,), "int8", 0, 1), BoundedArraySpec, [], []),
    ],
)
def test_a_leaf_becomes_the_spec_of_the_table(spec, kind, low, high):
    told = to_spec(spec)
    assert isinstance(told, ArraySpec)
    assert isinstance(told, BoundedArraySpec) is (kind is BoundedArraySpec)
    assert (told.shape, told.dtype, told.name) == (spec.shape, spec.dtype, None)
    if low is not None:
        np.testing.assert_array_equal(told.minimum, low)
        np.testing.assert_array_equal(told.maximum, high)


@pytest.mark.parametrize(
    ("told", "spec"),
    [
        (ArraySpec((2,), np.float32, "a"), Array((2,), "float32", name="a")),
        (BoundedArraySpec((2,), np.float32, -np.inf, np.inf), Array((2,), "float32")),
        (BoundedArraySpec((2,), np.float64, [0.0, -np.inf], 1.0), Array((2,), "float64", [0, -np.inf], 1)),
        (ArraySpec((2,), np.int16), Array((2,), "int16")),
        (BoundedArraySpec((2,), np.int16), Array((2,), "int16", -(2**15), 2**15 - 1)),
        (BoundedArraySpec((2,), np.uint8, 0, 255), Array((2,), "uint8", 0, 255)),
        (BoundedArraySpec((), np.int64, 0, 3), Array((), "int64", 0, 3)),
        ([BoundedArraySpec((), np.uint8, 0, 1)], [Array((), "uint8", 0, 1)]),
    ],
)
def test_a_foreign_spec_is_read_as_the_table_says(told, spec):
    assert envoi.spec_equal(from_spec(told), spec)


@pytest.mark.parametrize(
    ("name", "told"),
    [("a b", "a_b"), ("_x", "._x"), ("ü", "._"), ("reward:0", "reward_0"), ("a/b-c.d", "a/b-c.d"), ("", "")],
)
def test_a_name_that_no_tensor_can_have_is_changed_and_comes_back(name, told):
    spec = Array((), "float32", name=name)
    assert to_spec(spec).name == told
    assert from_spec(to_spec(spec)).name == name


def test_what_a_spec_remembers_goes_when_it_is_replaced():
    told = to_spec(Discrete(3)).replace(maximum=5)
    assert from_spec(told, action=True) == Discrete(6)


def test_a_foreign_spec_that_is_none_is_refused():
    with pytest.raises(LossyConversion, match="spec\\['a'\\]"):
        from_spec({"a": "float32"})
    with pytest.raises(LossyConversion, match="dtype"):
        from_spec(ArraySpec((), "U3"))


# Values that belong to another owner.


def test_rewards_are_copied_and_discounts_read_only():
    reward = np.array(1.0, np.float32)
    form = to_tf_agents(Scripted(Line(reward), Line(reward)))
    form.reset()
    told = form.step(5).reward
    reward[()] = 7
    assert told == 1
    with pytest.raises(ValueError, match="read-only"):
        form.step(5).discount[()] = 0  # it is shared


def test_a_fraction_is_no_choice():
    env = from_tf_agents(Counting(MIDDLE))
    env.reset()
    with pytest.raises(TypeError, match="integer"):
        env.step(1.5)


# Seeds and lifecycle.


def test_a_seed_reaches_the_source_by_its_method_by_a_function_or_by_its_generators():
    source = Seedable(MIDDLE)
    env = from_tf_agents(source)
    env.reset(seed=np.int64(4))
    env.reset()
    assert source.seeds == [4]
    assert type(source.seeds[0]) is int
    source, taken = Counting(MIDDLE), []
    env = from_tf_agents(source, seed=taken.append)
    env.reset(seed=4)
    assert taken == [4]
    assert not env.unseeded
    with pytest.raises(SpecError, match="seed"):
        env.reset(seed=-1)
    env = from_tf_agents(Held(MIDDLE))
    assert env.reset(seed=4).observation[0] == np.random.RandomState(4).uniform()


def test_pictures_travel_where_there_are_any():
    form = to_tf_agents(load("envoi:catch"))
    form.reset()
    with pytest.raises(SpecError, match="human"):
        form.render("human")
    with pytest.raises(NotImplementedError, match="no pictures"):
        to_tf_agents(Scripted(Line())).render()
    env = from_tf_agents(Counting(MIDDLE))
    assert (env.render(), env.render_mode) == (None, None)

    class Painting(Counting):
        def render(self, mode="rgb_array"):
            return np.zeros((2, 2, 3), np.uint8)

    env = from_tf_agents(Passing(Painting(MIDDLE)))
    assert env.metadata == {"render_modes": ["rgb_array"]}
    assert env.render().shape == (2, 2, 3)


def test_get_state_is_a_token_that_later_steps_do_not_change():
    form = to_tf_agents(Ends())
    form.seed(2)
    form.reset()
    form.step(np.asarray(0))
    form.seed(9)
    token, now = form.get_state(), form.current_time_step()
    seen = []
    for _ in range(3):
        assert form.current_time_step() is now
        seen.append([exact(tuple(form.step(np.asarray(0)))) for _ in range(12)])
        form.set_state(token)
    assert seen[0] == seen[1] == seen[2]


# Identity.


def test_a_class_of_one_lane_refuses_a_batch_and_the_other_way_round():
    batch = envoi.batch(load("envoi:catch"), 2)
    with pytest.raises(SpecError, match="batch of 2"):
        ToTFAgents(batch)
    with pytest.raises(SpecError, match="one lane"):
        ToTFAgentsBatch(load("envoi:catch"))
    with pytest.raises(SpecError, match="batch of 2"):
        FromTFAgents(to_tf_agents(batch))


# Batches.


class Rows(PyEnvironment):
    """A third-party batched source: lane i's episodes have i+2 steps, and it restarts them by itself."""

    batched, batch_size = True, 3

    def __init__(self, info=None):
        super().__init__()
        self.info, self.time, self.number = info, np.zeros(3, int), np.zeros(3, int)
        self.resets = 0

    def observation_spec(self):
        return ArraySpec((2,), np.float32)

    def action_spec(self):
        return BoundedArraySpec((), np.int64, 0, 1)

    def get_info(self):
        return self.info

    def _tell(self, kinds):
        # What it says of a first step, other than that it is one, is not to be believed.
        reward = np.where(kinds == 0, -7, self.time).astype(np.float32)
        discount = np.where(kinds == 2, [0, 0.5, 1], np.where(kinds == 0, 0.25, 1)).astype(np.float32)
        return TimeStep(kinds.astype(np.int32), reward, discount, np.stack([self.number, self.time], 1).astype("f4"))

    def _reset(self):
        self.resets += 1
        self.time[:], self.number = 0, self.number + 1
        return self._tell(np.zeros(3, int))

    def _step(self, action):
        over = self.time == [2, 3, 4]
        self.number += over
        self.time = np.where(over, 0, self.time + 1)
        return self._tell(np.where(over, 0, np.where(self.time == [2, 3, 4], 2, 1)))


def test_third_party_batch_restarts_lanes_that_have_ended():
    env, over, seen = from_env(Rows()), np.zeros(3, bool), []
    assert isinstance(env, FromTFAgentsBatch)
    assert env.action_spec == Discrete(2)
    with pytest.raises(EpisodeError, match="not begun"):
        env.step([0, 0, 0])
    first = env.reset()
    assert first.observation.tolist() == [[1, 0]] * 3
    for _ in range(12):
        step = env.step(np.zeros(3, int), restart=over)
        assert (step.reward[over] == 0).all()
        assert (step.discount[over] == 1).all()
        assert (step.observation[over, 1] == 0).all()
        over = step.terminated | step.truncated
        seen.append(step)
    assert [lane.tolist() for lane in np.array([s.terminated for s in seen]).sum(0)] == [4, 0, 0]
    assert np.array([s.truncated for s in seen]).sum(0).tolist() == [0, 3, 2]
    assert [dict(info) for info in seen[0].info] == [{}, {}, {}]
    assert env.source.resets == 1
    same(env.observation, seen[-1].observation)


def test_third_party_batch_refuses_what_it_cannot_do():
    env = from_tf_agents(Rows())
    assert env.restarts == {"step"}
    for mode in ("SameStep", "Disabled"):
        with pytest.raises(LossyConversion, match="use NEXT_STEP"):
            to_gymnasium_vector(env, autoreset_mode=mode)
    env.reset()
    with pytest.raises(EpisodeError, match=r"lanes \[1\] have not ended"):
        env.step([0, 0, 0], restart=np.array([False, True, False]))
    with pytest.raises(EpisodeError, match="single lanes"):
        env.reset(mask=np.array([False, True, False]))
    env.step([0, 0, 0])
    env.step([0, 0, 0])
    with pytest.raises(EpisodeError, match=r"in lanes \[0\]"):
        env.step([0, 0, 0])
    env.step([0, 0, 0], restart=np.ones(3, bool))
    assert env.source.resets == 2
    env.reset(mask=np.ones(3, bool))
    assert env.source.resets == 3

    class Stuck(Rows):
        def _step(self, action):
            self.time += 1
            return self._tell(np.full(3, 2))

    env = from_tf_agents(Stuck())
    env.reset()
    env.source._step = lambda action: env.source._tell(np.array([2, 1, 1]))
    env.step([0, 0, 0])
    env.source._step = lambda action: env.source._tell(np.array([1, 1, 1]))
    with pytest.raises(EpisodeError, match=r"lane 0.*went on"):
        env.step([0, 0, 0], restart=np.array([True, False, False]))


def scripted_lanes(*infos):
    """A form of lanes whose first step says these."""
    return to_tf_agents(envoi.Lanes([Scripted(Line(info=info), Line(), Line()) for info in infos]))


def test_the_info_of_a_batch_is_one_nest_of_arrays_stacked_over_its_lanes():
    said = [
        {"last_action": 5, "part": {"x": [1.0, np.float32(2)]}, "name": "a", 3: None, "done": True, "at": np.arange(2)},
        {"last_action": 6, "part": {"x": [3.5, np.float32(4)]}, "name": "bc", 3: {1}, "done": 7, "at": np.ones(2)},
    ]
    form = scripted_lanes(*said)
    assert form.get_info() == {}
    assert list(form.infos) == [{}, {}]
    form.reset()
    assert form.get_info() == {}
    form.step(np.array([5, 5]))
    info = form.get_info()
    assert exact(info["last_action"]) == exact(np.array([5, 6]))
    expected = {
        "last_action": np.array([5, 6]),
        "part": {"x": [np.array([1, 3.5]), np.array([2, 4], np.float32)]},
        "name": np.array(["a", "bc"]),
        3: np.array([None, {1}]),
        "done": np.array([1, 7]),
        "at": np.array([[0.0, 1], [1, 1]]),
    }
    assert list(info) == list(expected)
    held, expected_held = info.pop(3), expected.pop(3)
    assert held.tolist() == expected_held.tolist()
    assert exact(info) == exact(expected)
    assert [exact(one) for one in form.infos] == [exact(one) for one in said]
    info["last_action"][:] = 0  # a caller's own
    assert form.get_info()["last_action"].tolist() == [5, 6]


@pytest.mark.parametrize(
    ("infos", "message"),
    [
        ([{"a": 1}, {}, {"a": 2}], r"info\['a'\].* in all lanes .* a value in lanes \[0, 2\], none in lanes \[1\]"),
        ([{"a": 1}, {"b": 1}, {"a": 2}], r"info\['a'\].*none in lanes \[1\]"),
        ([{"p": {"a": 1}}, {"p": {"a": 1, "b": 2}}, {"p": {"a": 1}}], r"info\['p'\]\['b'\].*a value in lanes \[1\]"),
        ([{"a": 1}, {"a": {"b": 1}}, {"a": 1}], r"info\['a'\].*one value in lanes \[0, 2\], a dict in lanes \[1\]"),
        ([{"a": [1]}, {"a": (1,)}, {"a": [1]}], r"info\['a'\].*list in lanes \[0, 2\], tuple in lanes \[1\]"),
        ([{"a": [1]}, {"a": [1, 2]}, {"a": [1]}], r"info\['a'\]\[1\].*a value in lanes \[1\], *none|none in lanes \[0"),
        ([{"a": np.ones(2)}, {"a": 1}, {"a": 2}], r"info\['a'\].*\(2,\) in lanes \[0\], \(\) in lanes \[1, 2\]"),
        ([{"a": "x"}, {"a": 1}, {"a": "y"}], r"info\['a'\].*text in lanes \[0, 2\], no text in lanes \[1\]"),
    ],
)
def test_infos_that_cannot_be_stacked_are_named_by_key_and_lane_and_stay_readable(infos, message):
    form = scripted_lanes(*infos)
    form.reset()
    form.step(np.array([5, 5, 5]))
    with pytest.raises(SpecError, match=message) as caught:
        form.get_info()
    assert "`infos`" in str(caught.value)
    assert [exact(one) for one in form.infos] == [exact(one) for one in infos]
    for wrap in (lambda form: form, Passing, Remaking):
        env = FromTFAgentsBatch(wrap(scripted_lanes(*infos)))
        env.reset()
        told = env.step(np.array([5, 5, 5])).info
        assert [exact(one) for one in told] == [exact(one) for one in infos]


@examples(100)
@given(st.lists(infos, min_size=1, max_size=3))
def test_infos_of_lanes_keep_their_types_through_foreign_wrappers(said):
    for wrap in (Passing, Remaking, lambda form: Remaking(Passing(form))):
        env = from_tf_agents(wrap(scripted_lanes(*said)))
        env.reset()
        told = env.step(np.full(len(said), 5)).info
        assert [exact(one) for one in told] == [exact(one) for one in said]


class Adding(Remaking):
    def get_info(self):
        return {**super().get_info(), "more": {"x": np.arange(2)}}


class Doubling(Remaking):
    def get_info(self):
        info = super().get_info()
        for array in info.values():
            array *= 2
        return info


@pytest.mark.parametrize(
    ("wrap", "told"),
    [(Adding, [{"a": 1, "more": {"x": 0}}, {"a": 2, "more": {"x": 1}}]), (Doubling, [{"a": 2}, {"a": 4}])],
)
def test_a_wrapper_that_changes_a_stacked_info_is_believed(wrap, told):
    env = from_tf_agents(wrap(scripted_lanes({"a": 1}, {"a": 2})))
    env.reset()
    assert [dict(one) for one in env.step(np.array([5, 5])).info] == told


@pytest.mark.parametrize(
    ("info", "told"),
    [
        ({"a": np.arange(3)}, [{"a": 0}, {"a": 1}, {"a": 2}]),
        ([{"a": 1}, {}, {"b": 2}], [{"a": 1}, {}, {"b": 2}]),
        ({"a": 1}, [{"a": 1}] * 3),
        (None, [{}] * 3),
    ],
)
def test_infos_of_third_party_batch_are_one_dict_per_lane(info, told):
    assert list(from_tf_agents(Rows(info)).reset().info) == told


def test_a_batch_is_seeded_by_one_seed_or_one_a_lane():
    class Seeds(Rows):
        def __init__(self):
            super().__init__()
            self.given = []

        def seed(self, seed):
            self.given.append(seed)

    class Processes(Seeds):
        def seed(self, seeds):
            self.given.append([seed + 0 for seed in seeds])

    env = from_tf_agents(Seeds())
    env.reset(seed=3)
    env.reset(seed=[1, 2, 3])
    env.reset()
    assert env.source.given == [3, [1, 2, 3]]
    env = from_tf_agents(Processes())
    env.reset(seed=3)
    assert len(set(env.source.given[0])) == 3
    with pytest.raises(SpecError, match="each of 3 lanes"):
        env.reset(seed=[1])
    form = to_tf_agents(envoi.batch(Ends(), 3))
    with pytest.raises(SpecError, match="each of 3 lanes"):
        form.seed([1, 2])
