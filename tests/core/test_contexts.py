"""A context says which instance of an environment an episode is; it changes at resets only."""

import copy
import math
import pickle

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from small_models import Flock, Walk
from traces import exact

import envoi
from envoi import Categorical, ContextError, ContextSpace, NormalFloat, TimeLimit, UniformFloat, UniformInteger
from envoi.batching.lane_contexts import derived
from envoi.models import CartPole, Catch, GridWorld, Pendulum
from envoi.models.gridworld import FREE

ENVS = {
    "model": Walk,
    "batch model": Flock,
    "wrapped": lambda: TimeLimit(Walk(), 9),
    "wrapped batch model": lambda: envoi.Validated(TimeLimit(Flock(), 9)),
    "lanes": lambda: envoi.batch(Walk(), 3),
    "model batch": lambda: envoi.batch(Flock(), 3),
    "wrapped batch": lambda: TimeLimit(envoi.batch(Flock(), 3), 9),
}
every_env = pytest.mark.parametrize("make_env", ENVS.values(), ids=ENVS)
BATCHES = ("lanes", "model batch", "wrapped batch")
every_batch = pytest.mark.parametrize("make_env", [ENVS[name] for name in BATCHES], ids=BATCHES)


def drifts(env):
    states = env.state if isinstance(env.state, tuple) and not hasattr(env.state, "drift") else [env.state]
    return np.concatenate([np.atleast_1d(state.drift) for state in states]).tolist()


@every_env
def test_defaults_hold_until_a_context_is_set_and_again_when_it_is_emptied(make_env):
    env = make_env()
    env.reset(seed=0)
    env.context = {"drift": 0.5}
    env.step(env.sample_action())
    assert set(drifts(env)) == {0.25}  # until the next reset
    env.reset()
    assert set(drifts(env)) == {0.5}
    env.context = {}
    env.reset()
    assert set(drifts(env)) == {0.25}


@every_env
def test_the_context_reads_as_set_with_defaults_filled_in(make_env):
    env = make_env()
    assert np.all(np.equal(env.context["drift"], 0.25))
    mine = {"drift": -0.5}
    env.context = mine
    mine["drift"] = 0.9
    assert np.all(np.equal(env.context["drift"], -0.5))


@every_env
@pytest.mark.parametrize(
    ("context", "message"),
    [
        ({"drif": 0}, r"context\['drif'\]: no such feature; did you mean 'drift'\?"),
        ({"drift": 2}, r"context\['drift'\]: expected a number from -1 to 1, got 2"),
        ({"drift": math.nan}, r"context\['drift'\]: expected a number from -1 to 1, got nan"),
        ({"drift": True}, r"context\['drift'\]: expected a number"),
    ],
)
def test_a_wrong_context_is_refused_with_near_names_and_nothing_changes(make_env, context, message):
    env = make_env()
    env.context = {"drift": 0.125}
    was = env.context
    with pytest.raises(ContextError, match=message):
        env.context = context
    assert env.context == was
    env.reset()
    assert set(drifts(env)) == {0.125}


@every_batch
def test_contexts_may_differ_per_lane_and_follow_their_lane(make_env):
    env = make_env()
    contexts = {"drift": np.array([-1.0, 0.0, 1.0])}
    was = copy.deepcopy(contexts)
    env.context = contexts
    env.reset(seed=0)
    assert drifts(env) == [-1, 0, 1]
    env.step(env.sample_action(), restart=np.array([True, True, True]))
    assert drifts(env) == [-1, 0, 1]
    env.context = {"drift": [0.5, 0.25, 0.125]}
    env.reset(mask=np.array([False, False, True]))
    assert drifts(env) == [-1, 0, 0.125]
    env.step(env.sample_action(), restart=np.array([True, False, False]))
    assert drifts(env) == [0.5, 0, 0.125]
    assert exact(contexts) == exact(was)


@every_batch
def test_not_one_value_a_lane_is_refused(make_env):
    env = make_env()
    with pytest.raises(ContextError, match=r"expected one value, or one for each of 3 lanes, got 2"):
        env.context = {"drift": [0.5, 0.5]}
    assert np.all(np.equal(env.context["drift"], 0.25))


@pytest.mark.parametrize("model", [CartPole, Pendulum, GridWorld])
def test_a_lane_with_its_context_does_what_a_batch_of_that_context_does(model):
    space = model.context_space
    name = next(iter(space.features))
    values = [0.5, 0.75, 1.0]
    mixed = envoi.batch(model(), 3)
    mixed.context = {name: values}
    mixed.reset(seed=2)
    actions = mixed.sample_action()
    first = mixed.state
    mixed.step(actions)
    for i, value in enumerate(values):
        uniform = envoi.batch(model(), 3)
        uniform.context = {name: value}
        uniform.reset(seed=2)
        assert exact(envoi.lane_values.take(uniform.state, i)) == exact(envoi.lane_values.take(first, i))
        uniform.step(actions)
        assert exact(envoi.lane_values.take(uniform.state, i)) == exact(envoi.lane_values.take(mixed.state, i))


class Recorded(envoi.BatchModel):
    """A state is the context that `initial` was given: shape (n, 2)."""

    observation_spec = envoi.Array((2,), "float64")
    action_spec = envoi.Discrete(2)
    context_space = ContextSpace([UniformFloat(name, 0, 99, default=float(at)) for at, name in enumerate("ab")])

    def initial(self, rng, context, size):
        assert all(column.shape == (size,) for column in context.values())
        return np.array((context["a"], context["b"]), float).T

    def transition(self, state, action, rng):
        return state

    def observe(self, state, rng):
        return state.copy()

    def reward(self, state, action, next_state):
        return np.zeros(len(state))

    def terminal(self, state):
        return np.zeros(len(state), bool)


def row(context, size):
    CALLS.append(size)
    return np.array((context["a"], context["b"]), float).T


CALLS = []


class Remembered(Recorded):
    """The same, with a state that is computed once of contexts that lanes share."""

    def initial(self, rng, context, size):
        return derived(row, context, size)


@pytest.mark.parametrize("make", [Recorded, Remembered])
@given(st.data())
def test_episodes_begin_under_the_contexts_that_were_put_last(make, data):
    n = data.draw(st.integers(1, 4), "lanes")
    batch = envoi.batch(make(), n, compiled=False)
    coming = np.tile([0.0, 1.0], (n, 1))
    begun = batch.reset(seed=0).observation
    numbers, lanes = st.floats(0, 99), st.lists(st.integers(0, n - 1), unique=True, min_size=1)
    for _ in range(data.draw(st.integers(1, 6), "resets")):
        for at, name in enumerate("ab"):
            if data.draw(st.booleans(), f"put {name}"):
                some = data.draw(lanes, "lanes")
                coming[some, at] = data.draw(st.lists(numbers, min_size=len(some), max_size=len(some)), "values")
                batch.put_context({name: coming[some, at].tolist()}, some)
            elif data.draw(st.booleans(), f"set {name}"):
                coming[:, at] = data.draw(numbers, "value")
                batch.context = {"a": coming[:, 0].tolist(), "b": coming[:, 1].tolist(), name: coming[0, at]}
        mask = np.isin(range(n), data.draw(lanes, "reset"))
        begun = np.where(mask[:, None], coming, begun)
        assert exact(batch.reset(mask=mask).observation) == exact(begun)


def test_what_follows_from_contexts_that_lanes_share_is_computed_once():
    batch = envoi.batch(Remembered(), 3, compiled=False)
    batch.reset(seed=0)
    CALLS.clear()
    one, two = np.array([True, False, False]), np.array([False, True, True])
    for mask in (one, two, ~two, two, ~one):
        batch.reset(mask=mask)
    assert CALLS == [1, 2]
    for again in (copy.deepcopy(batch), pickle.loads(pickle.dumps(batch))):  # which leave it out
        again.reset(mask=one)
    assert CALLS == [1, 2, 1, 1]
    batch.context = {"a": 3}
    assert batch.reset(mask=one).observation.tolist() == [[3, 1], [0, 1], [0, 1]]
    batch.context = {"a": [3, 4, 5]}
    CALLS.clear()
    assert [batch.reset(mask=mask).observation[:, 0].tolist() for mask in (one, two)] == [[3, 0, 0], [3, 4, 5]]
    assert batch.reset(mask=two).observation[:, 0].tolist() == [3, 4, 5]
    assert CALLS == [1, 2, 2]
    assert derived(row, {"a": 1, "b": 2}, 1).tolist() == [1, 2]  # of any other contexts


def test_physics_follow_the_context():
    falls = []
    for gravity in (1.0, 9.8, 50.0):
        env = CartPole()
        env.context = {"gravity": gravity}
        env.reset(seed=0)
        for _ in range(5):
            env.step(1)
        falls.append(abs(env.state.motion[3] - env.state.motion[2]))
    assert len(set(falls)) == 3
    slippery = GridWorld()
    slippery.context = {"slip": 1.0}
    slippery.reset(seed=0)
    assert slippery.state.slip == 1
    assert tuple(slippery.state.agent) in {tuple(cell) for cell in FREE}


def test_an_option_reaches_a_batch_model_alone_with_the_axis_that_its_functions_expect():
    seen = []

    class Placed(Catch):
        def initial(self, rng, context, size):
            seen.append({name: (value.shape, value.tolist()) for name, value in context.items()})
            return super().initial(rng, context, size)

    Placed().reset(options={"at": [1, 2], "word": "left", "one": 3, "contxt": 4, "context_id": 5})
    numbers = {"one": ((1,), [3]), "contxt": ((1,), [4]), "context_id": ((1,), [5])}  # a model without features
    assert seen == [{"at": ((1, 2), [[1, 2]]), "word": ((1,), ["left"]), **numbers}]


features = st.one_of(
    st.tuples(st.floats(-100, 100), st.floats(0, 100)).map(lambda p: UniformFloat("f", p[0], p[0] + p[1])),
    st.tuples(st.floats(1e-6, 1e3), st.floats(1, 1e6)).map(lambda p: UniformFloat("l", p[0], p[0] * p[1], log=True)),
    st.tuples(st.integers(-100, 100), st.integers(0, 100)).map(lambda p: UniformInteger("i", p[0], p[0] + p[1])),
    st.tuples(st.floats(-100, 100), st.floats(0, 10)).map(lambda p: NormalFloat("n", *p)),
    st.lists(st.text(max_size=2) | st.integers(), min_size=1, max_size=4).map(lambda c: Categorical("c", c)),
)


@given(features, st.integers(0, 2**32))
def test_a_feature_allows_its_samples_and_its_default(feature, seed):
    space = ContextSpace([feature])
    for context in (space.defaults, space.sample(seed=seed), *space.sample(3, seed=seed)):
        space.verify(context)
    assert space.sample(3, seed=seed) == space.sample(3, seed=seed)
    assert space.sample(seed=np.random.default_rng(seed)) == space.sample(seed=seed)
