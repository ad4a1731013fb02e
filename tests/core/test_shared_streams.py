"""Lanes of a model that share one set of random streams, as those of a `BatchModel` do."""

import copy
import pickle

import gymnasium
import numpy as np
import pytest
from compiled_models import Breeze
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Count, Sums, Walk
from traces import exact
from twins import same, step_both

import envoi
from envoi import NotCompilable, SpecError
from envoi.adapters import from_env, to_gymnasium_vector
from envoi.seeding import Streams

N = 5


class Dice(Count):
    """The state is the last number that the dynamics took."""

    def initial(self, rng, context):
        return rng.random()

    def transition(self, state, action, rng):
        return rng.random()

    def observe(self, state, rng):
        return np.float64(state + 10 * rng.random())

    def reward(self, state, action, next_state):
        return float(next_state)

    def terminal(self, state):
        return state > 0.8


class ManyDice(Sums):
    """The same of all lanes."""

    def initial(self, rng, context, size):
        return rng.random(size)

    def transition(self, state, action, rng):
        return rng.random(state.shape)

    def observe(self, state, rng):
        return state + 10 * rng.random(state.shape)

    def reward(self, state, action, next_state):
        return next_state

    def terminal(self, state):
        return state > 0.8


class Listed(Breeze):
    """Begins by a method of the generator that is not compiled."""

    def initial(self, rng, context):
        return super().initial(rng, context)._replace(row=int(rng.permutation(3)[0]))


def shared(model=Dice, n=N, **options):
    return envoi.batch(model(), n, **{"streams": "batch", "compiled": False, **options})


@given(st.integers(0, 2**32), st.lists(st.lists(st.booleans(), min_size=N, max_size=N), min_size=1, max_size=8))
def test_lanes_take_numbers_in_their_order(seed, masks):
    batch, numbers = shared(), Streams(seed).dynamics
    batch.reset(seed=seed)
    states = [numbers.random() for _ in range(N)]
    over = np.array(states) > 0.8
    for chosen in masks:
        assert list(batch.state) == states
        restart = over | np.array(chosen)
        step = batch.step(np.zeros(N, int), restart=restart)
        states = [numbers.random() for _ in range(N)]  # a lane takes one number in a transition, and one to begin
        over = step.terminated


@given(st.integers(0, 2**32))
def test_they_are_the_numbers_that_a_batch_model_takes(seed):
    one, other = shared(), envoi.batch(ManyDice(), N, compiled=False)
    assert exact(one.reset(seed=seed).observation) == exact(other.reset(seed=seed).observation)
    if (np.array(one.state) <= 0.8).all():  # lanes of a `BatchModel` that begin take their numbers after the others
        assert exact(one.step(np.zeros(N, int))) == exact(other.step(np.zeros(N, int)))


@pytest.mark.parametrize("model", [Dice, Walk, Breeze])
def test_equal_seeds_and_numbers_of_lanes_reproduce(model):
    traces = []
    for batch in (shared(model), shared(model), shared(model, 3)):
        batch.reset(seed=8)
        actions = np.ones(batch.batch_size, int)
        traces.append([exact(batch.step(actions, np.ones(batch.batch_size, bool)).observation) for _ in range(4)])
    assert traces[0] == traces[1] != traces[2]
    assert shared(model).seeds_of_lanes(8) == [8] * N
    assert to_gymnasium_vector(batch).reset(seed=3) is not None


@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda batch: pickle.loads(pickle.dumps(batch)), "snapshot"])
def test_copies_and_snapshots_share_streams_of_their_own(duplicate):
    batch = shared()
    batch.reset(seed=2)
    if duplicate == "snapshot":
        other = shared()
        other.restore(batch.snapshot())
    else:
        other = duplicate(batch)
    everywhere = np.ones(N, bool)
    first = [exact(batch.step(np.zeros(N, int), everywhere).observation) for _ in range(3)]
    assert first == [exact(other.step(np.zeros(N, int), everywhere).observation) for _ in range(3)]
    assert len({id(env.streams) for env in other.envs}) == 1
    assert other.envs[0].streams is other.streams is not batch.streams


def test_a_generator_is_set_for_all_lanes():
    batch, numbers = shared(), np.random.default_rng(6)
    batch.rng = np.random.default_rng(6)
    batch.reset()
    assert list(batch.state) == [numbers.random() for _ in range(N)]


def test_wrappers_and_specs_of_forms_keep_them():
    batch = envoi.batch(envoi.TimeLimit(Walk(), 4), 3, streams="batch")
    assert batch.env.shares_streams
    assert not envoi.batch(Walk(), 3).shares_streams


@pytest.mark.parametrize(
    ("make", "error", "message"),
    [
        (lambda: shared(Sums, streams="lanes"), SpecError, "streams='lanes': the lanes of Sums"),
        (lambda: shared(streams="all"), SpecError, "streams: expected 'lanes', 'batch' or None, got 'all'"),
        (lambda: shared(compiled="auto", workers=2), SpecError, "streams='batch': lanes in several processes"),
        (lambda: shared(lambda: from_env(gymnasium.make("CartPole-v1"))), SpecError, "'batch': expected models"),
    ],
    ids=["lanes of a batch model", "another word", "workers", "a foreign environment"],
)
def test_lanes_that_cannot_share_streams_are_refused(make, error, message):
    with pytest.raises(error, match=message):
        make()
    assert shared(Sums, 2).batch_size == 2  # a `BatchModel` shares them as it is


@settings(max_examples=3, deadline=None)
@given(st.integers(0, 2**32))
def test_compiled_lanes_take_the_same_numbers(seed):
    pytest.importorskip("numba")
    one, other = shared(Breeze), shared(Breeze, compiled=True)
    same(one.reset(seed=seed), other.reset(seed=seed))
    over = np.zeros(N, bool)
    for number in range(60):
        over = step_both(one, other, over, in_kernel=True)
        if number % 20 == 7:
            mask = over | np.array([True, False, True, False, False])
            same(one.reset(mask=mask), other.reset(mask=mask))
            over = np.zeros(N, bool)
        if number % 20 == 13 and not over.any():
            action, lanes = one.sample_action(), np.array([False, True, True, False, True])
            step = one.step(action, hold=~lanes)
            same(step, other.step(action, hold=~lanes))
            over = step.terminated | step.truncated


def test_models_that_take_them_otherwise_are_interpreted():
    pytest.importorskip("numba")
    with pytest.raises(NotCompilable, match=r"Listed.initial: it cannot be compiled, so with streams='batch'"):
        shared(Listed, compiled=True)
    assert "streams='batch'" in shared(Listed, compiled="auto").obstacle()


class Cut(Dice):
    """Has a flag that may be no truth value."""

    flag = False

    def truncated(self, state):
        return self.flag


def test_a_flag_without_truth_changes_no_stream(monkeypatch):
    lanes, twin = (envoi.batch(Cut(), N, compiled=False) for _ in range(2))
    for env in (lanes, twin):
        env.reset(seed=1)
    monkeypatch.setattr(Cut, "flag", np.zeros(2))
    with pytest.raises(ValueError, match="ambiguous") as caught:
        lanes.step(np.zeros(N, int))
    assert caught.value.envoi_lane == 0
    monkeypatch.setattr(Cut, "flag", False)
    assert exact(tuple(lanes.step(np.zeros(N, int)))) == exact(tuple(twin.step(np.zeros(N, int))))


def test_each_step_has_infos_of_its_own():
    lanes = envoi.batch(Cut(), N, compiled=False)
    lanes.reset(seed=1)
    lanes.step(np.zeros(N, int)).info.columns["mine"] = np.arange(N)
    assert "mine" not in lanes.step(np.zeros(N, int), restart=np.zeros(N, bool)).info.columns
