"""A seed fixes everything random; nothing that only looks ever changes what comes."""

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from small_models import WALKS, Flock, Walk
from traces import exact, trace

import envoi
from envoi import SpecError, TimeLimit
from envoi.models import MODELS, CartPole, Catch, GridWorld, make
from envoi.seeding import Streams, lane_seeds

ENVS = {**WALKS, **{name: (lambda name=name: make(name)) for name in MODELS}}
every_env = pytest.mark.parametrize("make_env", ENVS.values(), ids=ENVS)

seeds = st.integers(0, 3) | st.integers(0, 2**31 - 1) | st.just(2**64)


@every_env
@settings(max_examples=8)
@given(seeds)
def test_a_seed_gives_equal_traces_over_many_episodes(make_env, seed):
    env = make_env()
    first = trace(env, 150, seed)
    assert trace(env, 150, seed) == first
    assert trace(make_env(), 150, seed) == first


@every_env
def test_every_seed_gives_its_own_trace_and_zero_is_a_seed_like_any(make_env):
    traces = [str(trace(make_env(), 30, seed)) for seed in range(4)]
    assert len(set(traces)) == 4


@pytest.mark.parametrize("name", sorted(ENVS.keys() - {"maze"}))  # whose level says where an episode begins
def test_plain_resets_go_on_and_do_not_begin_again(name):
    env = ENVS[name]()
    states = [exact(env.reset(seed=0) and env.state)] + [exact(env.reset() and env.state) for _ in range(4)]
    assert len({str(state) for state in states}) > 1


@every_env
def test_without_a_seed_no_two_environments_are_alike(make_env):
    assert trace(make_env(), 30) != trace(make_env(), 30)


@pytest.mark.parametrize("seed", [-1, 1.0, 0.5, True, "1", [1.5], (1, 2), np.float64(3), b"1"], ids=repr)
@every_env
def test_a_seed_that_is_no_natural_number_is_refused_and_changes_nothing(make_env, seed):
    env = make_env()
    env.reset(seed=0)
    before = exact(env.state)
    with pytest.raises(SpecError, match="seed: expected"):
        env.reset(seed=seed)
    assert exact(env.state) == before
    other = make_env()
    other.reset(seed=0)
    assert exact([env.reset() for _ in range(3)]) == exact([other.reset() for _ in range(3)])


@settings(max_examples=20)
@given(seeds, st.integers(1, 10_000), st.integers(1, 300))
@example(2, 10_000, 1)  # two of whose numbers are equal in their 31 bits
def test_lane_seeds_are_distinct_and_do_not_depend_on_others(seed, n, more):
    given_ = lane_seeds(seed, n)
    assert len(set(given_)) == len(given_) == n
    assert all(0 <= s < 2**31 for s in given_)
    assert not set(lane_seeds(0, 1000)) & set(lane_seeds(1, 1000))
    assert lane_seeds(seed, n + more)[:n] == given_


@pytest.mark.parametrize("make_env", [Walk, lambda: TimeLimit(Walk(), 9), Flock, Catch, GridWorld, CartPole])
def test_lanes_of_a_seeded_environment_have_futures_of_their_own(make_env):
    env = make_env()
    env.reset(seed=0)
    lanes = envoi.batch(env, 8)
    seen = lanes.reset().observation
    assert len({str(exact(envoi.lane_values.lane(env.observation_spec, seen, i))) for i in range(8)}) > 1


@given(seeds)
def test_the_streams_of_a_seed_are_independent(seed):
    streams = Streams(seed)
    drawn = [getattr(streams, name).integers(2**62) for name in ("dynamics", "observation", "context", "action")]
    assert len(set(drawn)) == 4
    # The order in which they are first asked for does not matter.
    again = Streams(seed)
    assert [getattr(again, n).integers(2**62) for n in ("action", "context", "observation", "dynamics")] == drawn[::-1]


def test_a_generator_that_is_set_is_not_advanced():
    generator, twin = np.random.default_rng(3), np.random.default_rng(3)
    streams = Streams.from_generator(generator)
    streams.action.random()
    assert generator.bit_generator.state == twin.bit_generator.state
