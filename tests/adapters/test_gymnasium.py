"""Environments to gymnasium and from it: the same trace, specs, seeds and lifecycle."""

import copy
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from depth import examples
from forms import core_trace
from hypothesis import given
from hypothesis import strategies as st
from scripted import TAXI, Line, Scripted, Source
from traces import COPIES, exact

import envoi
from envoi import EpisodeError, SnapshotUnsupported
from envoi.adapters import from_env, from_gymnasium, load, losses, to_gymnasium


class Passing(gymnasium.Wrapper):
    """A third-party wrapper, which hides the form of envoi inside."""


def through(core):
    """Core → gymnasium → third-party wrapper → core."""
    return from_gymnasium(Passing(to_gymnasium(core)))


def exactly(a, b):
    """Equal in value, type, dtype and shape, all the way down."""
    assert exact(a) == exact(b)


discounts = st.sampled_from([None, 0.0, 0.5, 0.99, 1.0, np.float32(0.5), np.array([1.0, 0.5]), np.array([0.0, 1.0])])
rewards = st.sampled_from([0.0, 1, -2.5, 16777217.0, 2**40, np.int64(2**40), np.float32(0.1), np.array(3.5)])
values = st.sampled_from([1, 1.9, True, 7, "a", None, {"b": (1, [2])}, {1: 2}, 2**70, np.arange(3), b"x"])
infos = st.dictionaries(st.sampled_from(["a", "TimeLimit.truncated", 3, ("t", 1), None]), values, max_size=3)
lines = st.builds(Line, rewards, st.booleans(), st.booleans(), discounts, infos)


@examples(300)
@given(st.lists(lines, min_size=1, max_size=4), st.integers(0, 99))
def test_third_party_wrapper_of_gymnasium_keeps_a_core_environment_as_it_was(script, seed):
    script = [*script, Line(terminated=True)]
    seeds = (seed, None, None)
    assert core_trace(through(Scripted(*script)), seeds) == core_trace(Scripted(*script), seeds)


def test_a_third_party_discount_that_is_not_a_number_stays_in_info():
    env = from_gymnasium(Source(Line(info={"discount": "20 % off"})))
    env.reset()
    step = env.step(5)
    assert step[-2:] == (1.0, {"discount": "20 % off"})


def test_flags_of_any_truthy_type_become_python_bools():
    for flag in (np.True_, 1, np.array(True)):
        env = from_gymnasium(Source(Line(terminated=flag, truncated=np.False_)))
        env.reset()
        step = env.step(5)
        assert step.terminated is True
        assert step.truncated is False


def test_nobodys_dicts_are_written_into():
    held = {"discount": 0.5, "mine": 1}
    source = Source(Line())
    source.step = lambda action: (np.zeros(2), 0.0, False, False, held)
    env = from_gymnasium(source)
    env.reset()
    assert env.step(5).info == {"mine": 1}
    env.step(5).info["more"] = 2
    assert held == {"discount": 0.5, "mine": 1}


def test_the_generator_can_be_read_and_set_through_every_form():
    for make in (lambda: to_gymnasium(Scripted(Line())), lambda: Passing(to_gymnasium(Scripted(Line()))), Source):
        form = make()
        form.np_random = np.random.default_rng(9)
        assert form.np_random_seed == -1
        assert form.reset()[0][0] == np.random.default_rng(9).random()
        core = from_gymnasium(make())
        core.rng = np.random.default_rng(9)
        assert core.reset().observation[0] == np.random.default_rng(9).random()
        assert core.rng.random() == np.random.default_rng(9).random(2)[1]
    form = to_gymnasium(Scripted(Line()))
    form.reset(seed=11)
    assert form.np_random_seed == 11
    assert form.np_random is form.core.rng


def test_a_form_says_the_seed_that_its_native_environment_was_reset_with():
    native = gymnasium.make("CartPole-v1")
    form = to_gymnasium(envoi.RunStats(from_gymnasium(native)))
    form.reset(seed=1)
    form.core.reset(seed=5)
    assert form.np_random_seed == native.np_random_seed == 5
    forms = [form, to_gymnasium(envoi.RunStats(from_gymnasium(gymnasium.make("CartPole-v1"))))]
    lanes = from_env(gymnasium.vector.SyncVectorEnv([lambda form=form: form for form in forms]))
    lanes.reset(seed=7)
    assert [form.np_random_seed for form in forms] == [7, 8]


def test_state_and_observation_before_the_reset_are_errors():
    env = from_gymnasium(Source())
    for look in ("state", "observation"):
        with pytest.raises(EpisodeError, match="reset"):
            getattr(env, look)


def test_a_snapshot_holds_the_generators_of_spaces():
    env = load("gymnasium:CartPole-v1")
    env.reset(seed=8)
    space = env.source.action_space
    space.seed(0)
    token = env.snapshot()
    drawn = [space.sample() for _ in range(9)]
    for _ in range(2):
        env.restore(token)
        assert [space.sample() for _ in range(9)] == drawn
    assert env.source.action_space is space


def test_what_two_wrappers_share_stays_shared_after_a_restore():
    class Sharing(gymnasium.Wrapper):
        def __init__(self, env):
            super().__init__(env)
            self.notes = env.unwrapped.actions  # one list, held twice

    env = from_gymnasium(Sharing(Source(*[Line()] * 5)))
    env.reset()
    env.step(5)
    env.restore(env.snapshot())
    env.step(6)
    assert env.source.notes is env.unwrapped.actions
    assert env.source.notes == [5, 6]


def test_a_snapshot_of_another_kind_of_source_is_refused():
    cart, taxi = load("gymnasium:CartPole-v1"), load(f"gymnasium:{TAXI}")
    cart.reset(seed=0)
    taxi.reset(seed=0)
    with pytest.raises(SnapshotUnsupported, match="CartPole"):
        cart.restore(taxi.snapshot())
    cart.step(0)


class Packed(Source, gymnasium.utils.EzPickle):
    def __init__(self, *lines):
        gymnasium.utils.EzPickle.__init__(self, *lines)
        super().__init__(*lines)


@pytest.mark.parametrize("how", COPIES)
def test_a_copy_continues_though_its_source_packs_only_arguments(how):
    env = from_gymnasium(Packed(Line(1.0), Line(2.0, info={"place": 2})))
    env.reset(seed=0)
    env.step(5)
    twin = COPIES[how](env)
    exactly(twin.step(6), env.step(6))


def test_a_source_that_holds_what_cannot_be_copied_says_so():
    source = Packed(Line())
    source.file = Path(__file__).open()  # noqa: SIM115
    env = envoi.TimeLimit(from_gymnasium(source), 3)
    env.reset()
    twin = copy.deepcopy(env)
    with pytest.raises(EpisodeError, match="has not begun"):
        twin.step(5)
    with source.file, pytest.raises(SnapshotUnsupported, match="cannot be copied"):
        env.snapshot()
    env.step(5)


@pytest.mark.parametrize(("name", "state"), [(TAXI, int), ("FrozenLake-v1", int), ("Pendulum-v1", np.ndarray)])
def test_the_state_is_the_sources_own_where_it_has_one(name, state):
    env = load(f"gymnasium:{name}")
    env.reset(seed=0)
    assert isinstance(env.state, (state, np.integer))
    np.testing.assert_equal(env.state, env.unwrapped.s if state is int else env.unwrapped.state)
    held = env.state
    env.step(env.sample_action())
    assert env.state is not held


def test_a_source_that_declares_a_reward_space_is_believed():
    class Several(gymnasium.Env):
        observation_space = action_space = gymnasium.spaces.Discrete(2)
        reward_space = gymnasium.spaces.Box(-1, 1, (3,), np.float64)

    env = from_env(Several())
    assert env.reward_spec.shape == (3,)
    assert [loss.path for loss in losses(env, "rllib")] == ["reward"]
