"""A context says which instance of an environment an episode is; it changes at resets only."""

import copy
import math

import numpy as np
import pytest
from compiled_models import Pole
from hypothesis import given
from hypothesis import strategies as st
from small_models import WALKS, Carts, Sums
from traces import exact

import envoi
from envoi import Categorical, ContextError, ContextSpace, NormalFloat, UniformFloat, UniformInteger
from envoi.lane_values import take
from envoi.models import CartPole, GridWorld, Pendulum
from envoi.models.gridworld import FREE

every_env = pytest.mark.parametrize("make_env", WALKS.values(), ids=WALKS)
BATCHES = ("lanes", "model batch", "wrapped batch")
every_batch = pytest.mark.parametrize("make_env", [WALKS[name] for name in BATCHES], ids=BATCHES)


def drifts(env):
    states = env.state if isinstance(env.state, tuple) and not hasattr(env.state, "drift") else [env.state]
    return np.concatenate([np.atleast_1d(state.drift) for state in states]).tolist()


@every_env
def test_a_context_holds_from_the_next_reset(make_env):
    env, mine = make_env(), {"drift": 0.5}
    env.reset(seed=0)
    assert np.all(np.equal(env.context["drift"], 0.25))
    env.context = mine
    mine["drift"] = 0.9
    assert np.all(np.equal(env.context["drift"], 0.5))
    env.step(env.sample_action())
    assert set(drifts(env)) == {0.25}
    env.reset()
    assert set(drifts(env)) == {0.5}
    env.context = {}
    env.reset()
    assert set(drifts(env)) == {0.25}


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


@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("model", [Carts, CartPole, Pendulum, GridWorld])
def test_a_lane_with_its_context_does_what_a_batch_of_that_context_does(model, compiled):
    if compiled:
        pytest.importorskip("numba")
        model = Pole if model is Carts else model
    space = model.context_space
    name = next(iter(space.features))
    values = [0.5, 0.75, 1.0]
    mixed = envoi.batch(model(), 3, compiled=compiled)
    state = (lambda env, i: take(env.state, i)) if model is Carts else (lambda env, i: env.state[i])
    mixed.context = {name: values}
    mixed.reset(seed=2)
    actions = mixed.sample_action()
    first = [state(mixed, i) for i in range(3)]
    mixed.step(actions)
    for i, value in enumerate(values):
        uniform = envoi.batch(model(), 3, compiled=compiled)
        uniform.context = {name: value}
        uniform.reset(seed=2)
        assert exact(state(uniform, i)) == exact(first[i])
        uniform.step(actions)
        assert exact(state(uniform, i)) == exact(state(mixed, i))


def test_physics_follow_the_context():
    falls = []
    for gravity in (1.0, 9.8, 50.0):
        env = CartPole()
        env.context = {"gravity": gravity}
        env.reset(seed=0)
        for _ in range(5):
            env.step(1)
        falls.append(abs(env.state.spin - env.state.angle))
    assert len(set(falls)) == 3
    slippery = GridWorld()
    slippery.context = {"slip": 1.0}
    slippery.reset(seed=0)
    assert slippery.state.slip == 1
    assert slippery.state[:2] in {tuple(cell) for cell in FREE}


def test_an_option_reaches_a_batch_model_alone_with_the_axis_that_its_functions_expect():
    seen = []

    class Placed(Sums):
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
