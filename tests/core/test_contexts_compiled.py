"""Lanes that a kernel steps have the contexts, numbers and episodes of a loop, also after an error in one of them."""

import copy
import pickle
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from traces import exact

import envoi
from envoi import ContextSpace, Contextual, NormalFloat, UniformFloat, UniformInteger
from envoi.context import Custom, Random, RoundRobin, Sampled, Static
from envoi.wrappers import TimeLimit

pytest.importorskip("numba")


class Place(NamedTuple):
    x: float
    steps: int
    pull: float
    start: int


class Pulled(envoi.Model):
    """A walk that its context pulls; the action 3 divides by zero."""

    observation_spec = envoi.Array((3,), "float64")
    action_spec = envoi.Discrete(4)
    context_space = ContextSpace(
        [
            UniformFloat("pull", -1, 1, default=0.25),
            UniformInteger("start", -2, 2, default=0),
            UniformFloat("fixed", 0, 9, default=1.0),
        ]
    )

    def initial(self, rng, context):
        return Place(context["start"] + rng.normal(0.0, 0.3), 0, context["pull"] * context["fixed"], context["start"])

    def transition(self, state, action, rng):
        x = state.x + state.pull + rng.uniform(-0.5, 0.5) * (action - 1) / (3 - action)
        return Place(x, state.steps + 1, state.pull, state.start)

    def observe(self, state, rng):
        return np.array([state.x + rng.normal(0.0, 0.01), state.pull, float(state.steps)])

    def reward(self, state, action, next_state):
        return next_state.x - state.x

    def terminal(self, state):
        return abs(state.x) > 4.0


SET = {"b": {"pull": 0.5}, "a": {"pull": -0.5, "start": 1}, "c": {"start": -1, "fixed": 2.0}, None: {"pull": 0.75}}

SELECTORS = {
    "round robin": (RoundRobin, SET),
    "random": (Random, SET),
    "static": (lambda: Static("a"), SET),
    "custom": (lambda: Custom(lambda selector: selector.rng.choice(list("abc"))), SET),
    "sampled": (lambda: Sampled([UniformFloat("pull", 0, 1), UniformFloat("fixed", 1, 2)]), None),
    "sampled alike": (lambda: Sampled([NormalFloat("pull", 0, 0.2), UniformInteger("start", -1, 1)]), None),
    "a few sampled": (lambda: Sampled([UniformFloat("pull", 0, 1)], n=3), None),
}


def same(one, other):
    """Checks that two batches are where they are alike, as far as anyone can see."""
    assert exact([*one.state]) == exact([*other.state])
    assert exact(one.observation) == exact(other.observation)
    if isinstance(one, Contextual) or hasattr(one, "context_id"):
        assert exact(list(one.context)) == exact(list(other.context))


def both(envs, call):
    """Does the same with two batches, and checks that they return the same, or raise the same error."""
    found = []
    for env in envs:
        try:
            found.append(call(env))
        except Exception as error:
            found.append(error)
    one, other = found
    if isinstance(other, Exception):
        assert type(one) is type(other), (one, other)
    else:
        assert exact(one.observation) == exact(other.observation)
        assert exact(list(one.info)) == exact(list(other.info)), (list(one.info), list(other.info))
        if len(one) > 2:
            assert exact([*one[1:5]]) == exact([*other[1:5]])
    return None if isinstance(other, Exception) else other


deeds = st.sampled_from(
    ["step", "step", "step", "hold", "error", "reset", "seeds", "options", "id", "set", "unset", "next", "restore",
     "copy", "read", "envs", "many"]
)  # fmt: skip


@pytest.mark.parametrize("name", SELECTORS)
@settings(max_examples=15)
@given(data=st.data())
def test_compiled_lanes_are_a_loop_with_contexts(name, data):
    n = data.draw(st.integers(1, 4), "lanes")
    select, contexts = SELECTORS[name]
    noise, hidden = data.draw(st.booleans(), "noise"), data.draw(st.booleans(), "hidden")
    nested, inside = data.draw(st.booleans(), "nested"), data.draw(st.booleans(), "limit inside")

    def make(compiled):
        env = envoi.batch(Pulled(), n, compiled=compiled)
        if inside:
            env = TimeLimit(env, 6)
        if nested:
            env = Contextual(env, {"inner": {"fixed": 3.0}}, hide_context=True)
        env = Contextual(
            env, contexts, context_selector=select(), hide_context=hidden,
            add_gaussian_noise_to_context=noise, noisy_features=["pull"] if noise else None,
        )  # fmt: skip
        return env if inside else TimeLimit(env, 6)

    envs = [make(True), make(False)]
    contextual = [env if inside else env.env for env in envs]
    seed = data.draw(st.integers(0, 99), "seed")
    both(envs, lambda env: env.reset(seed=seed))
    masks = st.lists(st.booleans(), min_size=n, max_size=n).map(lambda mask: np.array(mask, bool))
    over = np.zeros(n, bool)
    for deed in data.draw(st.lists(deeds, min_size=3, max_size=12), "deeds"):
        mask = data.draw(masks, "mask")
        actions = np.array(data.draw(st.lists(st.integers(0, 2), min_size=n, max_size=n)))
        if deed in ("step", "hold", "error"):
            hold = mask & ~over if deed == "hold" else None
            if deed == "error":
                actions[data.draw(st.integers(0, n - 1), "lane")] = 3
            restart = over if data.draw(st.booleans(), "only those over") or deed == "hold" else over | mask
            result = both(envs, lambda env, a=actions, r=restart, h=hold: env.step(a, r, h))
            if result is not None:
                over = result.terminated | result.truncated
        elif deed in ("reset", "seeds", "options", "id"):
            options = {"options": {"pull": 0.125}, "id": {"context_id": next(iter(contextual[0].contexts))}}.get(deed)
            seeds = [seed + lane for lane in range(n)] if deed == "seeds" else None
            result = both(envs, lambda env, s=seeds, o=options, m=mask: env.reset(seed=s, options=o, mask=m))
            over = over & ~mask if result is not None else over
        elif deed in ("set", "unset"):
            for env in contextual:
                env.set(None if deed == "unset" else {"pull": -0.25})
        elif deed == "next":
            assert exact(contextual[0].select_next()) == exact(contextual[1].select_next())
        elif deed == "restore":
            held = [env.snapshot() for env in envs]
            if name != "custom" and data.draw(st.booleans(), "pickled"):
                held = pickle.loads(pickle.dumps(held))
            both(envs, lambda env, m=mask: env.reset(mask=m))
            for env, one in zip(envs, held, strict=True):
                env.restore(one)
        elif deed == "copy" and name != "custom":
            twins = [copy.deepcopy(env) for env in envs]
            both(twins, lambda env: env.step(np.ones(n, int), np.ones(n, bool)))
            same(*twins)
        elif deed == "read":
            assert exact([*contextual[0].peek()]) == exact([*contextual[1].peek()])
            assert exact(contextual[0].context_selector.position) == exact(contextual[1].context_selector.position)
        elif deed == "envs":
            one, other = ([lane.context for lane in env.unwrapped.envs] for env in envs)
            assert exact(one) == exact(other), (one, other)
        elif deed == "many":  # episodes, more than the contexts that are chosen at once
            for _ in range(300):
                both(envs, lambda env: env.step(np.ones(n, int), np.ones(n, bool)))
        same(*envs)
        same(*contextual)


@pytest.mark.parametrize("compiled", [True, False])
def test_contexts_are_those_of_the_lanes_after_a_failed_step_was_taken_back(compiled):
    lanes = envoi.batch(Pulled(), 2, compiled=compiled)
    env = Contextual(
        lanes, SET, context_selector=Static("a"), add_gaussian_noise_to_context=True, noisy_features=["pull"],
        gaussian_noise_std_percentage=0.2, hide_context=True,
    )  # fmt: skip
    repeated = envoi.ActionRepeat(env, 2)
    repeated.reset(seed=0)
    restart = np.array([True, False])
    with pytest.raises(ZeroDivisionError):
        repeated.step(np.array([0, 3]), restart=restart)
    for _ in range(3):
        repeated.step(np.array([0, 1]), restart=restart)
        assert [context["pull"] for context in env.context] == [state.pull for state in repeated.state]
