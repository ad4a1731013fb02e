"""A snapshot holds all that decides the future; `lifecycle` holds that copies live on their own."""

import copy
import pickle

import cloudpickle
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from small_models import Flock, Walk
from traces import Player, exact, trace

import envoi
from envoi import SnapshotUnsupported, TimeLimit, Validated
from envoi.models import MODELS, Catch, make

ENVS = {
    "model": Walk,
    "batch model": Flock,
    "limited": lambda: TimeLimit(Walk(), 7),
    "wrapped twice": lambda: Validated(TimeLimit(Flock(), 7)),
    "lanes": lambda: envoi.batch(Walk(), 3),
    "model batch": lambda: envoi.batch(Flock(), 3),
    "limited lanes": lambda: TimeLimit(envoi.batch(Walk(), 3), 7),
    "limited batch": lambda: TimeLimit(envoi.batch(Flock(), 3), 7),
    **{name: (lambda name=name: make(name)) for name in MODELS},
}
every_env = pytest.mark.parametrize("make_env", ENVS.values(), ids=ENVS)


@every_env
@settings(max_examples=6)
@given(st.integers(0, 30), st.integers(1, 40), st.integers(0, 25))
def test_after_a_restore_everything_follows_again(make_env, before, after, away):
    env, other = make_env(), make_env()
    player = Player(env, seed=0)
    player.play(before)
    over, snapshot = player.over, env.snapshot()
    was = pickle.dumps(snapshot)
    then = player.play(after, over=over)
    for _ in range(2):  # the same snapshot any number of times
        Player(env, seed=99).play(away)
        env.restore(snapshot)
        assert player.play(after, over=over) == then
    assert pickle.dumps(snapshot) == was
    other.restore(pickle.loads(was))
    assert player.play(after, env=other, over=over) == then


@every_env
def test_a_snapshot_before_the_first_reset_has_streams(make_env):
    env = make_env()
    snapshot = env.snapshot()
    first = trace(env, 20)
    env.restore(snapshot)
    with pytest.raises(envoi.EpisodeError):
        _ = env.state
    assert trace(env, 20) == first


@every_env
def test_a_snapshot_of_anything_else_is_refused(make_env):
    env = make_env()
    env.reset(seed=0)
    before = exact(env.state)
    strangers = [make_other() for name, make_other in ENVS.items() if ENVS[name] is not make_env]
    for stranger in [*strangers, envoi.batch(Walk(), 2), envoi.batch(Flock(), 2), envoi.batch(Catch(), 3)]:
        stranger.reset(seed=1)
        with pytest.raises(SnapshotUnsupported, match="restore: expected a snapshot of"):
            env.restore(stranger.snapshot())
        assert exact(env.state) == before


@pytest.mark.parametrize("make_env", [make_env for name, make_env in ENVS.items() if name != "catch"])
def test_a_snapshot_holds_the_context(make_env):
    env = make_env()
    name = next(iter(env.context))
    env.context = {name: 0.5}
    env.reset(seed=0)
    snapshot = env.snapshot()
    env.context = {}
    assert not np.all(np.equal(env.context[name], 0.5))
    env.restore(snapshot)
    assert np.all(np.equal(env.context[name], 0.5))


def test_environments_without_snapshots_say_so():
    class Opaque(envoi.Env):
        reset = step = state = observation = None

    for call in (Opaque().snapshot, lambda: Opaque().restore(None)):
        with pytest.raises(SnapshotUnsupported, match="Opaque does not support snapshots"):
            call()


# pickle finds classes by name
@pytest.mark.parametrize("duplicate", [copy.deepcopy, lambda env: cloudpickle.loads(cloudpickle.dumps(env))])
def test_environments_of_local_classes_can_be_copied(duplicate):
    class Local(Walk):
        def __init__(self, step):
            self.step_size = step

    env = TimeLimit(Local(2), max_episode_steps=3)
    twin = duplicate(env)
    assert twin.unwrapped.step_size == 2
    assert trace(twin, 20, seed=0) == trace(env, 20, seed=0)


@given(st.integers(0, 2**32), st.lists(st.sampled_from([-1, 0, 1]), min_size=1, max_size=6))
def test_a_plan_is_what_the_episode_does(seed, actions):
    env = Walk()
    env.reset(seed=seed)
    state, rng = env.state, env.streams.copy().dynamics
    for action in actions:
        otherwise = env.transition(state, action - 1, env.streams.copy().dynamics)
        following = env.transition(state, action, rng)
        assert np.allclose(following.position - otherwise.position, 0.3)  # by the same noise
        reward = env.reward(state, action, following)
        step = env.step(action)
        assert exact(env.state) == exact(following)
        assert (step.reward, step.terminated) == (reward, env.terminal(following))
        state = following
        if step.terminated:
            return
