"""Lanes count the steps of a time limit around them, compiled or not, as a wrapper that counts by itself would."""

import copy
import pickle
from functools import partial

import numpy as np
import pytest
from compiled_models import Breeze, Pole
from depth import examples
from hypothesis import given
from hypothesis import strategies as st
from small_models import Carts, Flock, Sums
from traces import exact
from twins import outcome, same, step_both

import envoi
from envoi import Discrete, EpisodeError, TimeLimit, tree
from envoi.adapters import to_gymnasium_vector
from envoi.models import CartPole, Catch, GridWorld, Maze, Pendulum
from envoi.wrapping.change import Change

N, LIMIT = 4, 5


class Counted(envoi.Lifted):
    """A time limit with a memory of its own, to which no batch inside attends."""

    def __init__(self, env, limit):
        self.max_episode_steps = limit
        super().__init__(env)

    def change(self, specs):
        return Change(
            begin=lambda observation: np.zeros(specs.lanes, int),
            remember=lambda elapsed, action, observation, reward: elapsed + 1,
            truncated=lambda flag, elapsed: flag | (elapsed >= self.max_episode_steps),
        )


class Toll(Sums):
    """Lanes that end by chance, by model and by number: of two actions, with discounts of all lanes."""

    action_spec = {"left": Discrete(3), "right": Discrete(2)}

    def initial(self, rng, context, size):
        return {"place": rng.normal(size=size), "time": (np.zeros(size, int), np.ones((size, 2)))}

    def transition(self, state, action, rng):
        time, others = state["time"]
        moved = state["place"] + action["left"] - action["right"] + rng.normal(size=len(time))
        return {"place": moved, "time": (time + 1, others)}

    def observe(self, state, rng):
        return state["place"] + rng.normal(size=len(state["place"]))

    def terminal(self, state):
        return state["place"] > 4

    def truncated(self, state):
        return state["place"] < -2

    def discount(self, state):
        return 0.9


def inside(make):
    pytest.importorskip("numba")
    return envoi.batch(TimeLimit(make(), LIMIT), N, compiled=True)


def around(make, compiled=True, kind=TimeLimit):
    if compiled:
        pytest.importorskip("numba")
    return kind(envoi.batch(make(), N, compiled=compiled), LIMIT)


interpreted = partial(around, compiled=False)
by_itself = partial(around, compiled=False, kind=Counted)

COMPILED = {"pole": Pole, "breeze": Breeze, "pendulum": Pendulum}
BUNDLED = {"cartpole": CartPole, "gridworld": GridWorld, "catch": Catch, "maze": Maze}
PAIRS = [
    *((name, make, by_itself, interpreted) for name, make in {"carts": Carts, "flock": Flock, "toll": Toll}.items()),
    *((f"compiled {name}", make, interpreted, around) for name, make in {**COMPILED, **BUNDLED}.items()),
    *((f"wrapped and compiled {name}", make, interpreted, inside) for name, make in COMPILED.items()),
]
"""The model, and two batches of it under a limit."""

masks = st.lists(st.booleans(), min_size=N, max_size=N).map(np.array)
OPERATIONS = st.lists(
    st.one_of(
        st.tuples(st.just("step"), st.sampled_from(["ended", "written", "no mask", "few actions"])),
        st.tuples(st.just("step"), st.just("ended")),
        st.tuples(st.just("step"), masks | st.just(np.ones(N + 1, bool)) | st.just(np.zeros(N))),
        st.tuples(st.just("hold"), masks),
        st.tuples(st.just("reset"), st.none() | masks),
        st.tuples(st.just("limit"), st.integers(1, 9)),
        st.tuples(st.sampled_from(["keep", "state", "inside", "copy", "pickle"]), st.none()),
        st.tuples(st.just("restore"), st.booleans()),
    ),
    min_size=5,
    max_size=40,
)


def do(batch, name, argument, over):
    """Does one of the operations that return something; returns the result, or None, and a key to compare."""
    action = batch.sample_action()
    if name == "few actions":
        return outcome(batch.step, tree.map_leaves(lambda leaf: leaf[:-1], action))[0], "refused"
    if name == "hold":
        return outcome(batch.step, action, None, ~argument)
    if name == "reset":
        return outcome(batch.reset, mask=argument)
    if name == "inside":
        return outcome(batch.env.step, action)
    restart = over if name in ("ended", "written") else argument if name == "step" else None
    return outcome(batch.step, action, restart)


@pytest.mark.parametrize(("make", "first", "second"), [row[1:] for row in PAIRS], ids=[row[0] for row in PAIRS])
@examples(40, least=12, deadline=None)
@given(st.integers(0, 2**31), OPERATIONS)
def test_whatever_is_done_both_count_alike(make, first, second, seed, operations):
    pair = [first(make), second(make)]
    states, held, given_out, over = [], [], [], np.zeros(N, bool)
    for batch in pair:
        batch.reset(seed=seed)
    for name, argument in [*operations, *[("step", "ended")] * (LIMIT + 9)]:  # by then, every count is visible
        if name in ("step", "hold", "reset", "inside"):
            name, argument = (argument, None) if isinstance(argument, str) else (name, argument)
            (step, one), (found, other) = (do(batch, name, argument, over) for batch in pair)
            assert one == other
            if name == "reset":
                over = over & ~np.array(True if argument is None else argument)
            elif step is not None:
                over = step.terminated | step.truncated | (over & (name in ("inside", "hold")))
                if name == "written":  # they are the caller's
                    for each in (step, found):
                        each.terminated[:], each.truncated[:], each.reward[:] = True, True, 7
                given_out.append((step[:-1], exact(step[:-1])))
        elif name == "limit":
            for batch in pair:
                batch.max_episode_steps = argument
        elif name == "keep":
            held.append([batch.snapshot() for batch in pair])
            states.append(pair[0].state)
        elif name == "restore" and held:
            for batch, snapshot in zip(pair, held[-1][:: -1 if argument and first is interpreted else 1], strict=True):
                batch.restore(snapshot)
        elif name == "state" and states and not isinstance(pair[0].unwrapped, envoi.Lanes):
            for batch in pair:
                batch.state = states[-1]
        elif name in ("copy", "pickle"):
            pair = [copy.deepcopy(each) if name == "copy" else pickle.loads(pickle.dumps(each)) for each in pair]
        assert bits(pair[0]) == bits(pair[1])
    assert all(exact(now) == then for now, then in given_out)  # later steps change nothing


def bits(batch):
    """States and observations; numbers of Python and of numpy count as equal."""
    return exact(batch.observation), [np.asarray(leaf).tobytes() for _, leaf in tree.leaves(batch.state)]


every_batch = pytest.mark.parametrize("make_batch", [interpreted, around])


def test_ended_lanes_step_on_from_another_state():
    batch = interpreted(Carts)
    batch.max_episode_steps = 100
    batch.reset(seed=0)
    first = batch.state
    push = np.ones(N, int)
    while not batch.step(push).terminated.any():
        pass
    with pytest.raises(EpisodeError):
        batch.step(push)
    batch.state = first
    assert not batch.step(push).terminated.any()


@every_batch
def test_the_limit_is_an_attribute_of_all_lanes(make_batch):
    form = to_gymnasium_vector(make_batch(Pole))
    form.reset(seed=0)
    assert form.get_attr("max_episode_steps") == (LIMIT,) * N
    form.set_attr("max_episode_steps", 3)
    truncated = [form.step(np.array([0, 1] * 2))[3].tolist() for _ in range(3)]
    assert truncated == [[False] * N, [False] * N, [True] * N]
    with pytest.raises(envoi.SpecError, match="max_episode_steps: expected an integer of at least 1"):
        form.set_attr("max_episode_steps", 0)
    assert form.get_attr("max_episode_steps") == (3,) * N


@every_batch
def test_a_limit_beyond_all_integers_is_none(make_batch):
    batch = make_batch(Pole)
    batch.max_episode_steps = 10**30
    batch.reset(seed=0)
    assert not batch.step(np.zeros(N, int)).truncated.any()


@every_batch
def test_a_step_patched_inside_is_called(make_batch):
    batch = make_batch(Pole).env
    called = []
    inner = batch.step
    batch.step = lambda *arguments: called.append(1) or inner(*arguments)
    limited = TimeLimit(batch, LIMIT)
    limited.reset(seed=0)
    limited.step(np.zeros(N, int))
    assert called == [1]


def test_a_wrapped_model_is_compiled_inside():
    pytest.importorskip("numba")
    model = TimeLimit(Pole(), LIMIT)
    env = envoi.compiled(model)
    assert type(env) is type(model)
    assert type(env.env) is envoi.CompiledModel
    assert env.made_by == model.made_by
    env.reset(seed=0)
    assert [env.step(1).truncated for _ in range(LIMIT)] == [False] * (LIMIT - 1) + [True]
    with pytest.raises(EpisodeError):
        env.step(1)
    with pytest.raises(envoi.errors.NotCompilable, match="only models can be compiled"):
        envoi.compiled(TimeLimit(envoi.batch(Pole(), 2), LIMIT))


@pytest.mark.parametrize("by_lane", [False, True])
def test_a_change_with_a_limit_may_change_rewards(by_lane):
    class Halved(envoi.Lifted):
        def change(self, specs):
            return Change(limit=3, reward=lambda reward: reward / 2, by_lane=by_lane)

    one, other = (Halved(make_batch(Pole).env) for make_batch in (interpreted, around))
    same(one.reset(seed=0), other.reset(seed=0))
    for _ in range(3):
        assert not any(map(Pole().terminal, one.state))
        over = step_both(one, other)
    assert over.all()
    assert one.step(np.zeros(N, int), np.arange(N) > -1).reward.tolist() == [0] * N
    with pytest.raises(envoi.SpecError, match="expected no begin beside limit"):
        Change(limit=3, begin=lambda seen: 0, truncated=lambda flag, memory: flag)


class Fixed(Sums):
    """Its rewards are always the same array."""

    rewards = np.full(N, 2.0)

    def reward(self, state, action, next_state):
        return self.rewards


def test_a_restart_leaves_an_authors_array_of_rewards_alone():
    batch = envoi.batch(Fixed(), N)
    batch.reset(seed=0)
    assert batch.step(np.ones(N, int), np.arange(N) == 1).reward.tolist() == [2, 0, 2, 2]
    assert Fixed.rewards.tolist() == [2] * N
