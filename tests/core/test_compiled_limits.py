"""A time limit around compiled lanes is counted by their kernel, and changes nothing that it returns or keeps."""

import copy
import pickle

import numpy as np
import pytest
from compiled_models import Breeze, Pole
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import exact

import envoi
from envoi import EpisodeError, TimeLimit, tree
from envoi.adapters import load, to_gymnasium_vector
from envoi.models import CartPole, Pendulum
from envoi.wrapping.change import Change

pytest.importorskip("numba")

N, LIMIT = 4, 7
MODELS = {"pole": Pole, "breeze": Breeze, "cartpole": CartPole, "pendulum": Pendulum}
every_model = pytest.mark.parametrize("make", MODELS.values(), ids=MODELS)
WAYS = {
    "batch of a wrapped model": lambda make, n, compiled: envoi.batch(TimeLimit(make(), LIMIT), n, compiled=compiled),
    "wrapper around a batch": lambda make, n, compiled: TimeLimit(envoi.batch(make(), n, compiled=compiled), LIMIT),
}


def pair(make, n=N, way="batch of a wrapped model"):
    """An interpreted and a compiled batch under a limit."""
    return WAYS[way](make, n, False), WAYS[way](make, n, True)


def counts(batch):
    """True if the kernel counts the steps of the limit."""
    batch.step_values(batch.sample_action(), None)
    return batch.env._in_records and batch._memory.count is not None


def kept(batch):
    """All that a batch keeps: states, observations, and the memory of the wrapper."""
    states = [(path, np.asarray(leaf).tobytes()) for path, leaf in tree.leaves(batch.state)]
    memory = (batch._memory.counts().tolist(), np.asarray(batch._cut).tolist())
    return states, exact(batch.observation), memory, np.asarray(batch.env._over).tolist()


def outcome(call, *args, **kwargs):
    """The result of a call, or the error that it raises."""
    try:
        result = call(*args, **kwargs)
    except EpisodeError as error:
        return str(error)
    *values, info = result
    return exact(tuple(values)), list(info)


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("way", WAYS)
def test_flags_that_the_caller_writes_into_change_no_later_step(way, compiled):
    batch, expected = (WAYS[way](CartPole, N, compiled) for _ in range(2))
    batch.reset(seed=0)
    expected.reset(seed=0)
    over = None
    for number in range(4 * LIMIT):
        step, other = (each.step(np.ones(N, int), over) for each in (batch, expected))
        assert exact(step[:5]) == exact(other[:5])
        over = other.terminated | other.truncated
        over[0] |= number == 2  # lanes end in different steps
        step.terminated[:], step.truncated[:] = True, True


@pytest.mark.parametrize("compiled", [False, True])
def test_lanes_that_have_terminated_step_on_from_another_state(compiled):
    batch = TimeLimit(envoi.batch(CartPole(), N, compiled=compiled), 100)
    batch.reset(seed=0)
    first = batch.state
    push = np.ones(N, int)
    while not batch.step(push).terminated.any():
        pass
    with pytest.raises(EpisodeError):
        batch.step(push)
    batch.state = first
    assert not batch.step(push).terminated.any()


masks = st.lists(st.booleans(), min_size=N, max_size=N).map(np.array)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.just("ended")),
        st.tuples(st.just("step"), st.just("ended")),
        st.tuples(st.just("step"), st.none() | masks),
        st.tuples(st.just("hold"), masks),
        st.tuples(st.just("reset"), st.none() | masks),
        st.tuples(st.just("limit"), st.integers(1, 9)),
        st.tuples(st.just("inside"), st.none()),
        st.tuples(st.sampled_from(["keep", "restore", "copy", "pickle"]), st.none()),
    ),
    min_size=5,
    max_size=40,
)


ANY = (st.data(), st.sampled_from(list(WAYS)), st.integers(0, 2**31), OPERATIONS)


@every_model
@settings(max_examples=4, deadline=None)
@given(*ANY)
def test_whatever_is_done_both_batches_return_and_keep_the_same(make, data, way, seed, operations):
    check_alike(make, data, way, seed, operations)


@pytest.mark.deep
@every_model
@settings(max_examples=40, deadline=None)
@given(*ANY)
def test_whatever_is_done_often_both_batches_return_and_keep_the_same(make, data, way, seed, operations):
    check_alike(make, data, way, seed, operations)


def check_alike(make, data, way, seed, operations):
    both = list(pair(make, way=way))
    held = []
    for batch in both:
        batch.reset(seed=seed)
    for name, argument in operations:
        action = both[0].sample_action()
        both[1].sample_action()
        if name == "step":
            over = both[0]._cut | np.asarray(both[0].env._over)
            restart = over if isinstance(argument, str) else argument
            results = [outcome(batch.step, action, restart) for batch in both]
        elif name == "hold":
            results = [outcome(batch.step, action, None, ~argument) for batch in both]
        elif name == "reset":
            results = [outcome(batch.reset, mask=argument) for batch in both]
        elif name == "inside":
            results = [outcome(batch.env.step, action) for batch in both]
        else:
            results = [None, None]
            for index, batch in enumerate(both):
                if name == "limit":
                    batch.max_episode_steps = argument
                elif name in ("copy", "pickle"):
                    both[index] = copy.deepcopy(batch) if name == "copy" else pickle.loads(pickle.dumps(batch))
            if name == "keep":
                held.append([batch.snapshot() for batch in both])
            elif name == "restore" and held:
                snapshots = data.draw(st.sampled_from(held)), data.draw(st.booleans())
                for batch, snapshot in zip(both, snapshots[0][:: -1 if snapshots[1] else 1], strict=True):
                    batch.restore(snapshot)
        assert results[0] == results[1]
        assert kept(both[0]) == kept(both[1])


@every_model
@pytest.mark.parametrize("mode", ["NextStep", "SameStep", "Disabled"])
def test_the_vector_form_returns_the_same_and_the_kernel_counts(make, mode):
    forms = [to_gymnasium_vector(batch, autoreset_mode=mode) for batch in pair(make)]
    (a, _), (b, _) = (form.reset(seed=4) for form in forms)
    assert exact(a) == exact(b)
    kept_values, cuts = [], 0
    for _ in range(40):
        action = forms[0].core.sample_action()
        one, other = (form.step(action) for form in forms)
        assert exact(one[:4]) == exact(other[:4])
        assert one[4].keys() == other[4].keys()
        for key in one[4]:
            assert exact(list(one[4][key])) == exact(list(other[4][key]))
        assert exact(forms[0].last) == exact(forms[1].last)
        cuts += np.count_nonzero(one[3])
        kept_values.append((other[:4], copy.deepcopy(other[:4])))
        if mode == "Disabled" and (over := one[2] | one[3]).any():
            for form in forms:
                form.reset(options={"reset_mask": over})
    assert cuts
    assert counts(forms[1].core)
    assert all(exact(now) == exact(then) for now, then in kept_values)  # later steps change nothing


def test_the_limit_is_an_attribute_that_lanes_share():
    form = to_gymnasium_vector(pair(CartPole)[1])
    form.reset(seed=0)
    assert form.get_attr("max_episode_steps") == (LIMIT,) * N
    form.set_attr("max_episode_steps", 3)
    truncated = [form.step(np.array([0, 1] * 2))[3].tolist() for _ in range(3)]
    assert truncated == [[False] * N, [False] * N, [True] * N]
    with pytest.raises(envoi.SpecError, match="max_episode_steps: expected an integer of at least 1"):
        form.set_attr("max_episode_steps", 0)
    assert form.get_attr("max_episode_steps") == (3,) * N


@pytest.mark.parametrize("make", [Pole, CartPole], ids=["pole", "cartpole"])
def test_a_wrapped_model_alone_is_compiled_inside_its_wrapper(make):
    model = TimeLimit(make(), LIMIT)
    env = envoi.compiled(model)
    assert type(env) is type(model)
    assert type(env.env) is envoi.CompiledModel
    assert env.made_by == model.made_by
    env.reset(seed=0)
    assert [env.step(1).truncated for _ in range(LIMIT)] == [False] * (LIMIT - 1) + [True]
    with pytest.raises(EpisodeError):
        env.step(1)
    with pytest.raises(envoi.errors.NotCompilable, match="only models can be compiled"):
        envoi.compiled(TimeLimit(envoi.batch(make(), 2), LIMIT))


def test_a_limit_beyond_all_integers_is_none():
    batch = TimeLimit(envoi.batch(CartPole(), 2, compiled=True), 10**30)
    batch.reset(seed=0)
    assert not batch.step(np.array([0, 1])).truncated.any()


def test_bad_actions_leave_the_count_as_it_was():
    batch = pair(CartPole)[1]
    batch.reset(seed=0)
    batch.step(np.array([0, 1, 0, 1]))
    before = kept(batch)
    for wrong in ([0, 1, 7, 1], [0.0, 1.0, 0.0, 1.0], [0, 1]):
        with pytest.raises(envoi.SpecError, match="action"):
            batch.step(np.array(wrong))
    with pytest.raises(envoi.SpecError, match="restart"):
        batch.step(np.array([0, 1, 0, 1]), np.zeros(N + 1, bool))
    assert kept(batch) == before


def test_a_batch_that_is_not_compiled_yet_is_counted_outside():
    one, other = pair(CartPole)[0], TimeLimit(envoi.batch(CartPole(), N, compiled="auto"), LIMIT)
    for batch in (one, other):
        batch.reset(seed=0)
    over = np.zeros(N, bool)
    for number in range(30):
        if number == 10:
            assert other.env._runner is None
            other.env.choice.limit = 0.0
        action = one.sample_action()
        a, b = one.step(action, over), other.step(action, over)
        assert exact(tuple(a)[:5]) == exact(tuple(b)[:5])
        over = a.terminated | a.truncated
    assert counts(other)


def test_a_wrapper_with_a_step_of_its_own_inside_is_called():
    batch = envoi.batch(CartPole(), N, compiled=True)
    called = []
    inner = batch.step
    batch.step = lambda *arguments: called.append(1) or inner(*arguments)
    limited = TimeLimit(batch, LIMIT)
    limited.reset(seed=0)
    limited.step(np.zeros(N, int))
    assert called == [1]


@pytest.mark.parametrize("compiled", [False, True])
def test_lanes_that_a_step_of_a_subclass_cuts_off_wait_for_a_reset(compiled):
    class Impatient(TimeLimit):
        def step(self, action, restart=None):
            step = super().step(action, restart)
            self._cut = self._cut | np.array([False, True, False, False])
            return step._replace(truncated=self._cut.copy())

    batch = Impatient(envoi.batch(CartPole(), N, compiled=compiled), LIMIT)
    batch.reset(seed=0)
    step = batch.step(np.ones(N, int))
    for _ in range(2):
        with pytest.raises(EpisodeError, match=r"lanes \[1\]"):
            batch.step(np.ones(N, int))
    batch.step(np.ones(N, int), step.truncated)
    assert batch._memory.counts().tolist() == [2, 0, 2, 2]


def test_a_change_with_a_limit_may_also_change_rewards():
    class Halved(envoi.Lifted):
        def change(self, specs):
            return Change(limit=3, reward=lambda reward: reward / 2)

    one, other = (Halved(envoi.batch(CartPole(), N, compiled=compiled)) for compiled in (False, True))
    for batch in (one, other):
        batch.reset(seed=0)
    for _ in range(3):
        action = one.sample_action()
        a, b = one.step(action), other.step(action)
        assert exact(tuple(a)[:5]) == exact(tuple(b)[:5])
    assert a.truncated.all()
    assert a.reward.tolist() == [0.5] * N
    with pytest.raises(envoi.SpecError, match="expected no begin beside limit"):
        Change(limit=3, begin=lambda seen: 0, truncated=lambda flag, memory: flag)


def test_models_by_name_have_limits_that_kernels_count():
    batch = envoi.batch(load("envoi:cartpole"), 2, compiled=True)
    batch.reset(seed=0)
    assert batch.max_episode_steps == 500
    assert counts(batch)
    batch = envoi.batch(lambda: load("envoi:cartpole"), 2, compiled=True)
    batch.reset(seed=0)
    assert counts(batch)
