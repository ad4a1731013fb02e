"""Rewards are values of their own: composed, compared, replaced, and applied to what was recorded."""

import copy
import dataclasses
import math
import pickle
from functools import partial

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import WALKS, Flock, Walk
from traces import exact, trace

import envoi
from envoi import (
    FunctionReward,
    FunctionTermination,
    ModelReward,
    NativeReward,
    Rewarder,
    Scaled,
    SpecError,
    Sum,
    TimeLimit,
)
from envoi.models import MODELS, Catch, make


class Fixed(Rewarder):
    """The same reward for everything."""

    def __init__(self, value=1.0, low=-math.inf, high=math.inf):
        self.value, self.reward_range = value, (low, high)

    def __call__(self, state, action, next_state):
        return self.value


class Slotted(Rewarder):
    __slots__ = ("__secret", "weight")

    def __init__(self, weight, secret=0):
        self.weight, self.__secret = weight, secret


class SlottedMore(Slotted):
    __slots__ = ("bias",)

    def __init__(self, weight, bias):
        super().__init__(weight)
        self.bias = bias


class Distance(Rewarder):
    """Minus the distance from a place, times a weight; for one state and for many."""

    reward_range = (-math.inf, 0)

    def __init__(self, place=(0, 0), weight=1.0):
        self.place, self.weight = np.asarray(place, float), weight

    def __call__(self, state, action, next_state):
        return -self.weight * np.sqrt(np.square(next_state.position - self.place).sum(-1))


@st.composite
def ranged(draw):
    low, high = sorted(
        (draw(st.floats(-100, 100) | st.just(-math.inf)), draw(st.floats(-100, 100) | st.just(math.inf)))
    )
    low, high = low + 0.0, high + 0.0  # hypothesis holds -0.0 to lie below 0.0
    inside = draw(st.floats(max(low, -1e6), min(high, 1e6)))
    return Fixed(inside, low, high)


weights = st.floats(-10, 10) | st.sampled_from([0, -1, 0.0, 2])


@given(ranged(), ranged(), weights, weights)
def test_a_composed_reward_is_what_it_says_and_lies_in_its_range(a, b, v, w):
    composed = v * a + b * w - a
    value = composed(None, None, None)
    assert value == pytest.approx(v * a.value + b.value * w - a.value)
    low, high = composed.reward_range
    assert not math.isnan(low)
    assert not math.isnan(high)
    assert low - 1e-6 <= value <= high + 1e-6


@given(ranged(), weights)
def test_a_weight_scales_the_range_turns_it_when_negative_and_closes_it_when_zero(a, weight):
    low, high = a.reward_range
    scaled = (weight * a).reward_range
    expected = (0, 0) if weight == 0 else tuple(sorted((low * weight, high * weight)))
    assert scaled == expected
    assert (-a).reward_range == (-high, -low)


@given(ranged(), ranged(), ranged())
def test_sums_are_flat_so_that_brackets_do_not_matter(a, b, c):
    assert (a + b) + c == a + (b + c)
    assert hash((a + b) + c) == hash(a + (b + c))


FUNCTIONS = (len, min, max, abs, all, any, sum, ord, chr, hex)
PAIRS = {
    "attributes": lambda x: Fixed(x),
    "private slots": lambda x: Slotted(1, x),
    "inherited slots": lambda x: SlottedMore(x, 1),
    "arrays": lambda x: Fixed(np.array([[1, x], [2, 3]])),
    "arrays of objects": lambda x: Fixed(np.array(["far" + str(x), (x, 1.5), None], object)),
    "dicts": lambda x: Fixed({"a": [x, {"b": np.array([x])}], "c": {x}}),
    "tuples": lambda x: Fixed(((1, (x,)), None)),
    "sums": lambda x: Fixed(1) + Fixed(x),
    "nested": lambda x: 2 * (Fixed(1) + 3 * (Slotted(x) - Fixed(2))),
    "terminations": lambda x: ~FunctionTermination(str) | FunctionTermination(FUNCTIONS[x]) & chr,
    "specs": lambda x: NativeReward(envoi.Array((), "float64", high=x)),
}


@pytest.mark.parametrize("build", PAIRS.values(), ids=PAIRS)
@given(st.integers(1, 9), st.integers(1, 9))
def test_rewarders_are_equal_exactly_when_their_structure_is(build, x, y):
    a, b = build(x), build(y)
    assert (a == b) == (x == y)
    assert (a != b) == (x != y)
    assert (len({a, b}) == 1) == (x == y)
    for same in (build(x), copy.deepcopy(a), pickle.loads(pickle.dumps(a))):
        assert same == a
        assert hash(same) == hash(a)


def test_the_order_of_a_dict_is_no_difference_but_class_dtype_and_shape_are():
    assert Fixed({"a": 1, "b": 2}) == Fixed({"b": 2, "a": 1})
    assert Fixed(np.zeros(2)) != Fixed(np.zeros((2, 1)))
    assert Fixed(np.zeros(2)) != Fixed(np.zeros(2, "f4"))
    assert Fixed([1]) != Fixed((1,))
    assert Slotted(1) != SlottedMore(1, 0)
    assert Fixed(1) != 1


class Priced(Walk):
    """A model that declares its reward when it is made."""

    def __init__(self, price):
        self._price = price
        self.reward_spec = envoi.Array((), "float64", 0, price, "price")

    def reward(self, state, action, next_state):
        return float(self._price)


def test_the_rewards_of_two_models_are_equal_when_the_models_are_made_alike():
    assert Priced(2).rewarder == Priced(2).rewarder != Priced(3).rewarder
    assert Walk().rewarder != Flock().rewarder
    started, other = Walk(), Walk()
    started.reset(seed=0)
    started.rewarder = started.rewarder
    assert started.rewarder == other.rewarder


def test_a_model_keeps_the_reward_that_it_declared():
    env = Priced(3)
    own = env.rewarder
    assert (env.reward_range, own.spec) == ((0, 3), env.reward_spec)
    env.rewarder = Distance()
    assert env.reward_range == (-math.inf, 0)
    assert own.reward_range == (0, 3)
    env.rewarder = own + Distance()
    assert env.reward_range == (-math.inf, 3)
    env.rewarder = own
    assert env.reward_spec == envoi.Array((), "float64", 0, 3, "price")


@pytest.mark.parametrize("make_env", WALKS.values(), ids=WALKS)
def test_setting_a_rewarder_changes_the_reward_its_spec_and_its_range_and_nothing_else(make_env):
    env, plain = make_env(), make_env()
    assert env.reward_range == (-math.inf, 0)
    new = 0.5 * Distance((1, 2)) + Fixed(3, 3, 3)
    env.rewarder = new
    assert env.rewarder == new
    assert env.reward_range == new.reward_range == (-math.inf, 3)
    assert env.reward_spec == envoi.Array((), "float64", high=3, name="reward")
    for seed in range(5):
        for run in (env, plain):
            run.reset(seed=seed)
        action = plain.sample_action()
        step, other = env.step(action), plain.step(action)
        assert exact(step._replace(reward=0)) == exact(other._replace(reward=0))
        states = env.state if isinstance(env.state, tuple) and not hasattr(env.state, "position") else [env.state]
        rewards = np.concatenate([np.atleast_1d(new(None, action, state)) for state in states])
        assert np.array_equal(np.atleast_1d(step.reward), rewards)


@pytest.mark.parametrize("make_env", [Walk, Flock], ids=["lanes", "model batch"])
def test_a_rewarder_set_before_batching_is_that_of_the_lanes(make_env):
    env = make_env()
    env.rewarder = Distance()
    lanes = envoi.batch(env, 3)
    assert lanes.rewarder == Distance()
    assert lanes.reward_range == (-math.inf, 0)
    lanes.rewarder = Fixed(1.0)
    assert env.rewarder == Distance()


def test_what_is_neither_a_rewarder_nor_a_function_is_refused_and_changes_nothing():
    env = Walk()
    with pytest.raises(SpecError, match="expected a Rewarder or a function of"):
        env.rewarder = 3
    assert env.rewarder == Walk().rewarder


def record(env, seed, steps=60):
    transitions, rewards, over = [], [], False
    env.reset(seed=seed)
    while not np.any(over) and len(rewards) < steps:
        before, action = env.state, env.sample_action()
        step = env.step(action)
        transitions.append((before, action, env.state))
        rewards.append(step.reward)
        over = step.terminated | step.truncated
    return transitions, np.array(rewards)


@given(st.integers(0, 2**32), st.sampled_from([(0, 0), (1, -2)]), st.floats(-3, 3))
def test_relabelling_recorded_transitions_gives_what_stepping_with_that_rewarder_gives(seed, place, weight):
    for make_env in (Walk, Flock, lambda: TimeLimit(Walk(), 5)):
        rewarder = weight * Distance(place) + FunctionReward(lambda state, action, next_state: 1.0 * action)
        transitions, _ = record(make_env(), seed)
        env = make_env()
        env.rewarder = rewarder
        _, rewards = record(env, seed)
        assert np.array_equal(rewarder.relabel(transitions), rewards)


@pytest.mark.parametrize("make_env", [*(partial(make, name) for name in MODELS), partial(envoi.batch, Flock(), 5)])
@given(st.integers(0, 2**32))
def test_a_models_own_reward_relabels_what_the_model_recorded(make_env, seed):
    env = make_env()
    transitions, rewards = record(env, seed)
    assert np.array_equal(env.rewarder.relabel(transitions), rewards)


def test_the_reward_of_an_imported_environment_exists_only_while_it_steps():
    native = NativeReward(envoi.Array((), "float32", -2, 5))
    assert native.reward_range == (-2, 5)
    with pytest.raises(SpecError, match="only while that environment steps"):
        native.relabel([(0, 0, 0)])


@pytest.mark.parametrize("make_env", [Catch, lambda: envoi.TimeLimit(Catch(), 9), lambda: envoi.batch(Catch(), 2),
                                      lambda: envoi.batch(Walk(), 2)])  # fmt: skip
def test_the_declared_reward_stays_known_and_can_be_put_back(make_env):
    env = make_env()
    native, declared = env.rewarder, env.reward_spec
    env.rewarder = lambda state, action, next_state: 7.0
    assert (env.declared_reward_spec, env.reward_spec != declared) == (declared, True)
    env.rewarder = native
    assert (env.rewarder, env.reward_spec, env.declared_reward_spec) == (native, declared, declared)
    env.reset(seed=0)
    assert np.all(np.asarray(env.step(env.sample_action()).reward) != 7)


def test_the_range_of_a_nested_reward_spans_its_leaves():
    spec = {"a": envoi.Array((2,), "float64", [0, -3], 1), "b": envoi.Array((), "float64", 0)}
    assert NativeReward(spec).reward_range == (-3, math.inf)


def tip(state, action, next_state, *, rng):
    return rng.random(np.shape(next_state.position)[:-1]) + 1.0


def unrewarded(said):
    """A trace without its rewards."""
    first, *rest = said
    return [first, *((action, (kind, parts[:1] + parts[2:])) for action, (kind, parts) in rest)]


@pytest.mark.parametrize("make_env", WALKS.values(), ids=WALKS)
def test_random_rewards_follow_from_the_seed_and_change_nothing_else(make_env):
    env, other, plain = make_env(), make_env(), make_env()
    env.rewarder, other.rewarder = Distance() + FunctionReward(tip), Distance() + tip
    assert env.rewarder == other.rewarder == Distance() + tip
    first = trace(env, 30, seed=3)
    assert trace(env, 30, seed=4) != first
    assert trace(env, 30, seed=3) == trace(other, 30, seed=3) == first
    assert unrewarded(first) == unrewarded(trace(plain, 30, seed=3))
    # Each lane has random numbers of its own.
    env.reset(seed=3)
    env.rewarder = tip
    assert len(set(np.atleast_1d(env.step(env.sample_action()).reward).tolist())) == (env.batch_size or 1)


def test_a_snapshot_determines_later_random_rewards():
    env = Walk()
    env.rewarder = FunctionReward(tip)
    env.reset(seed=0)
    held = env.snapshot()
    first = env.step(0).reward
    for twin in (env, copy.deepcopy(env), pickle.loads(pickle.dumps(env))):
        twin.restore(held)
        assert twin.step(0).reward == first


def test_a_composition_gives_its_generator_to_those_who_take_one():
    composed = 2 * FunctionReward(tip) - Fixed(1) + (lambda state, action, next_state, rng=None: rng.random())
    assert composed.draws
    assert not (Fixed(1) + Distance()).draws
    state = Walk().initial(np.random.default_rng(0), {"drift": 0.0})
    rng, again = np.random.default_rng(7), np.random.default_rng(7)
    expected = [2 * (again.random() + 1) - 1 + again.random() for _ in range(5)]
    assert composed.relabel([(state, 0, state)] * 5, rng=rng).tolist() == expected
    with pytest.raises(SpecError, match=r"rng: .*tip.* needs a generator; call it with rng="):
        FunctionReward(tip)(state, 0, state)


def test_a_random_reward_of_one_agent_stays_random_for_it_as_one_of_several():
    alone, several = Walk(), envoi.as_multi(Walk(), "walker")
    alone.rewarder = FunctionReward(tip)
    several.rewarder = lambda state, action, next_state, *, rng: {"walker": tip(state, action, next_state, rng=rng)}
    assert several.rewarder.draws
    alone.reset(seed=2)
    several.reset(seed=2)
    assert several.step({"walker": 0}).rewards == {"walker": alone.step(0).reward}


@dataclasses.dataclass
class Prices:
    """Compared by its attributes, and not hashable."""

    bread: float


def test_what_a_rewarder_holds_is_compared_by_attributes_where_it_cannot_be_hashed():
    assert Fixed(Prices(1.0)) == Fixed(Prices(1.0)) != Fixed(Prices(2.0))
    assert hash(Fixed(Prices(1.0))) == hash(Fixed(Prices(1.0)))


def test_functions_are_summed_and_classes_and_closed_ranges_are_refused():
    total = Sum(lambda state, action, next_state: 1.0, FunctionReward(lambda state, action, next_state: 2.0, 0, 2))
    assert total(0, 0, 0) == 3.0
    with pytest.raises(SpecError, match="make an instance of the class"):
        Walk().rewarder = FunctionReward
    with pytest.raises(SpecError, match="expected low ≤ high, got 5 and 0"):
        FunctionReward(lambda state, action, next_state: 1.0, 5, 0)


def test_the_parts_of_a_composition_can_be_read():
    composed = 2 * Fixed(1) + Fixed(3)
    assert composed == Sum(Scaled(Fixed(1), 2), Fixed(3))
    assert "weight=2" in repr(composed)
    assert isinstance(Walk().rewarder, ModelReward)


class Pair(envoi.Rewarder):
    """Two rewards at once, the second without an upper bound."""

    spec = envoi.Array((2,), "float64", [0, -1], [1, np.inf])

    def __call__(self, state, action, next_state):
        return np.array([0.5, 2.0])


def test_composed_array_rewards_keep_their_shape_and_bounds():
    both = Pair() + 2 * Pair()
    assert both.spec == envoi.Array((2,), "float64", [0, -3], [3, np.inf], "reward")
    assert (-1 * Pair()).spec == envoi.Array((2,), "float64", [-1, -np.inf], [0, 1], "reward")
    assert (0 * Pair()).spec == envoi.Array((2,), "float64", 0, 0, "reward")
    assert both(None, None, None).tolist() == [1.5, 6.0]
    with pytest.raises(envoi.SpecError, match=r"one shape to add, got shapes \[\(2,\), \(\)\]"):
        Pair() + (lambda state, action, next_state: 1.0)


@pytest.mark.parametrize("operation", [lambda a, b: a + b, lambda a, b: b + a, lambda a, b: a - b, lambda a, b: b - a])
@pytest.mark.parametrize("other", [3, "speed", None, Fixed, [Fixed(1)]])
def test_composing_with_what_is_no_rewarder_is_refused_as_setting_it_is(operation, other):
    with pytest.raises(SpecError, match="rewarder: expected a Rewarder or a function"):
        operation(Fixed(1), other)


@pytest.mark.parametrize("weight", ["2", None, 1j, [2.0], np.ones(2), Fixed(2), lambda state, action, next_state: 2.0])
def test_a_weight_that_is_no_number_is_refused_on_either_side(weight):
    for multiply in (lambda: Fixed(1) * weight, lambda: Rewarder.__rmul__(Fixed(1), weight), lambda: weight * Fixed(1)):
        with pytest.raises(SpecError, match="weight: expected a number"):
            multiply()


def test_functions_are_subtracted_from_and_scaled_as_rewarders_are():
    def two(state, action, next_state):
        return 2.0

    assert (two - Fixed(5))(0, 0, 0) == -3
    assert Scaled(two, np.float32(0.5))(0, 0, 0) == 1
    assert (np.float64(0.5) * Fixed(5))(0, 0, 0) == (np.asarray(0.5) * Fixed(5))(0, 0, 0) == 2.5
