"""Bad input is refused in the same words by whatever steps the lanes, which stay as they were."""

from functools import partial

import numpy as np
import pytest
from traces import exact

import envoi
from envoi import ContextSpace, UniformFloat

N = 3


class Pulled(envoi.Model):
    """A walk that its context pulls."""

    observation_spec, action_spec = envoi.Array((), "float64"), envoi.Discrete(3)
    context_space = ContextSpace([UniformFloat("pull", -1, 1, default=0.25)])

    def initial(self, rng, context):
        return 0.0 + context["pull"]

    def transition(self, state, action, rng):
        return state + float(action)

    def observe(self, state, rng):
        return state

    def reward(self, state, action, next_state):
        return 1.0

    def terminal(self, state):
        return state > 50.0


class PulledLanes(Pulled, envoi.BatchModel):
    """The same of all lanes."""

    def initial(self, rng, context, size):
        return 0.0 + context["pull"]

    def transition(self, state, action, rng):
        return state + action


ENGINES = {
    "loop": partial(envoi.batch, Pulled(), N, compiled=False),
    "kernel": partial(envoi.batch, Pulled(), N, compiled=True),
    "numpy": partial(envoi.batch, PulledLanes(), N),
    "environments": lambda: envoi.Lanes([Pulled() for _ in range(N)]),
    "wrapped": lambda: envoi.TimeLimit(envoi.batch(Pulled(), N, compiled=False), 9),
    "workers": partial(envoi.batch, Pulled(), N, workers=2),
}
PUSH, ONE = np.ones(N, int), np.array([True, False, False])


def put(batch, **context):
    batch.context = context


CASES = {
    "two actions": (lambda b: b.step(PUSH[:2]), "action: expected one for each of 3 lanes, got 2"),
    "one action": (lambda b: b.step(1), "action: expected one for each of 3 lanes, got 1"),
    "no actions": (lambda b: b.step(None), "action: expected one for each of 3 lanes, got None"),
    "short mask": (lambda b: b.step(PUSH, ONE[:2]), "restart: expected a bool for each of 3 lanes, got shape (2,) and"),
    "numbers": (
        lambda b: b.step(PUSH, hold=PUSH),
        "hold: expected a bool for each of 3 lanes, got shape (3,) and dtype",
    ),
    "both masks": (lambda b: b.step(PUSH, ONE, ONE), "hold: lanes [0] are in restart, too"),
    "reset mask": (lambda b: b.reset(mask=ONE[:2]), "mask: expected a bool for each of 3 lanes, got shape (2,) and"),
    "two seeds": (lambda b: b.reset(seed=[1, 2]), "seed: expected one seed for each of 3 lanes, got 2"),
    "seeds": (
        lambda b: b.reset(seed=[1, 2.5, 3]),
        "expected an integer of at least 0, or None, got 2.5 in lane 1",
    ),
    "seed": (lambda b: b.reset(seed=-1), "seed: expected an integer of at least 0, or None, got -1"),
    "feature": (partial(put, pul=0.1), "context['pul']: no such feature; did you mean 'pull'?"),
    "bounds": (partial(put, pull=[0, 0, 9.0]), "context['pull']: expected a number from -1 to 1, got 9.0 in lane 2"),
    "contexts": (partial(put, pull=[0, 0]), "context['pull']: expected one value, or one for each of 3 lanes, got 2"),
    "options": (lambda b: b.reset(options={"pull": 9.0}), "options['pull']: expected a number from -1 to 1, got 9.0"),
}


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_alike(engine, case):
    if engine == "kernel":
        pytest.importorskip("numba")
    (do, message), batch = CASES[case], ENGINES[engine]()
    batch.reset(seed=0)
    before = exact(batch.step(PUSH).observation)
    with pytest.raises(envoi.EnvoiError) as found:
        do(batch)
    assert message in str(found.value)
    assert exact(batch.observation) == before
    assert exact(batch.step(PUSH, ONE).observation) == exact(np.array([0.25, 2.25, 2.25]))
    batch.close()
