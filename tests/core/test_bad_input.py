"""Bad input is refused in the same words by whatever steps the lanes, which stay as they were."""

import re
from functools import partial

import numpy as np
import pytest
from compiled_models import Slope, SlopeState
from small_models import Echo
from traces import exact

import envoi
from envoi import Array, Contextual, Discrete, Text
from envoi.context import Attributes
from envoi.models import Pendulum, Pursuit, make

N = 3


class Slopes(Slope, envoi.BatchModel):
    """The same of all lanes."""

    def initial(self, rng, context, size):
        return SlopeState(np.zeros(size), context["slope"] + np.zeros(size))

    def observe(self, state, rng):
        return np.asarray(state.height)[..., None]


ENGINES = {
    "loop": partial(envoi.batch, Slope(), N, compiled=False),
    "kernel": partial(envoi.batch, Slope(), N, compiled=True),
    "numpy": partial(envoi.batch, Slopes(), N),
    "environments": lambda: envoi.Lanes([Slope() for _ in range(N)]),
    "wrapped": lambda: envoi.TimeLimit(envoi.batch(Slope(), N, compiled=False), 9),
    "workers": partial(envoi.batch, Slope(), N, workers=2),
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
    "seeds": (lambda b: b.reset(seed=[1, 2.5, 3]), "expected an integer of at least 0, or None, got 2.5 in lane 1"),
    "seed": (lambda b: b.reset(seed=-1), "seed: expected an integer of at least 0, or None, got -1"),
    "feature": (partial(put, slop=0.1), "context['slop']: no such feature; did you mean 'slope'?"),
    "bounds": (partial(put, slope=[0, 0, 9.0]), "context['slope']: expected a number from 0 to 1, got 9.0 in lane 2"),
    "contexts": (partial(put, slope=[0, 0]), "context['slope']: expected one value, or one for each of 3 lanes, got 2"),
    "no context": (lambda b: setattr(b, "context", None), "context: expected a mapping of names to values, got None"),
    "list": (lambda b: b.reset(options=[{"slope": 0.5}]), "options: expected a mapping of names to values, got [{"),
    "options": (lambda b: b.reset(options={"slope": 9.0}), "options['slope']: expected a number from 0 to 1, got 9.0"),
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
    assert exact(batch.step(PUSH, ONE).observation) == exact(np.array([[0.0], [3.0], [3.0]]))
    batch.close()


def at_three(**arguments):
    return Contextual(Pendulum(), {"three": {"m": 3.0}}, **arguments)


class Uneven(Slope):
    observation_spec = {"x": Array((2,), "float64")}

    def observe(self, state, rng):
        return {"x": np.zeros(rng.integers(3, 99))}


OVER, HALF = envoi.FunctionTermination(lambda state, action, next_state: True), Array((), "float32")
WRONG = [
    (lambda: envoi.batch(Slope(), 2.0), "n: expected an integer of at least 1, got 2.0"),
    (lambda: envoi.batch(Slope(), 2, workers="2"), "workers: expected an integer of at least 1, got '2'"),
    (lambda: envoi.batch(Slope(), 0, workers=1), "n: expected an integer of at least 1, got 0"),
    (lambda: envoi.batch(Slope(), 4, workers=1, timeout=0), "timeout: expected a number of seconds above 0"),
    (lambda: envoi.batch(Slope(), 4, timeout=3), "timeout: expected none without workers"),
    (lambda: envoi.batch(Slope(), 4, workers=1, start_method="swapn"), "did you mean 'spawn'"),
    (lambda: envoi.batch(envoi.batch(Slope(), 2), 2), "env: expected an environment of one lane, got a batch of 2"),
    (lambda: envoi.batch(Uneven(), 3).reset(seed=0), "observation['x']: expected shape (2,), got ("),
    (lambda: envoi.batch(Pursuit, 2), "env: expected a core environment of one agent"),
    (lambda: envoi.batch(Pursuit(), 2), "agents as lanes by envoi.adapters.to_gymnasium_vector(game)"),
    (lambda: envoi.batch(lambda: 3, 2), "env: expected a core environment of one agent or a function that makes one"),
    (lambda: envoi.batch(envoi.Wrapper(Slope()), 2, compiled=True), "expected a model"),
    (lambda: envoi.batch(Slope(), 2, compiled="yes"), "True, False or 'auto'"),
    (lambda: envoi.as_multi(make("nim")), "env: expected an environment of one agent and one lane, got <"),
    (lambda: envoi.as_multi(envoi.batch(Slope(), 2)), "env: expected an environment of one agent and one lane, got <"),
    (lambda: envoi.as_single(Pursuit()), "env: expected a MultiEnv of one agent, got ['"),
    (lambda: envoi.as_single(Slope()), "env: expected a MultiEnv of one agent, got <"),
    (lambda: envoi.Wrapper(make("nim")), "an environment of one agent, or a batch, got"),
    (lambda: envoi.MultiWrapper(Slope()), "an environment of several agents, got"),
    (lambda: envoi.MultiWrapper(make("nim")).step({}, hold=ONE), "hold: expected None, because there are no lanes"),
    (lambda: envoi.as_multi(Slope()).step({}, ONE), "restart: expected None, because there are no lanes"),
    (lambda: begun(make("nim")).step(None), "step: expected an action for each of ['first'], by name, got None"),
    (lambda: envoi.explain("CartPole-v1"), "env: expected an environment, got 'CartPole-v1'"),
    (lambda: Slope().restore(None), "restore: expected a result of env.snapshot(), got None"),
    (lambda: setattr(Slope(), "rng", 3), "rng: expected a generator, such as np.random.default_rng(seed), got 3"),
    (lambda: Attributes("size"), "paths: expected a mapping of features to attributes, got 'size'"),
    (lambda: Contextual(Echo(Discrete(2)), [{}]), "takes no contexts; give its model a context_space"),
    (lambda: envoi.FlattenObservation(Echo({"in": {0: HALF, "a": HALF}}), order="sorted"), "['in'] cannot be sorted"),
    (lambda: at_three(bind=Attributes), "bind: expected None, a function (env, context), or a binding"),
    (lambda: at_three(n_envs="4"), "n_envs: expected an integer of at least 1, got '4'"),
    (lambda: at_three(context_mask=3), "context_mask: expected a list of features, got 3"),
    (lambda: at_three(state_context_features=3), "state_context_features: expected a list of features, got 3"),
    (lambda: at_three(add_gaussian_noise_to_context=True, noisy_features=3), "noisy_features: expected a list of"),
    (lambda: at_three(add_gaussian_noise_to_context=True, gaussian_noise_std_percentage="a"), "at least 0, got 'a'"),
    (lambda: at_three().reset(options=[{"m": 1.0}]), "options: expected a mapping of names to values, got [{"),
    (lambda: at_three().assign_lane(True), "assign_lane: expected an integer of at least 0, got True"),
    (lambda: envoi.ActionClip(Echo(Discrete(2), HALF)), "expected an action with bounds"),
    (lambda: envoi.History(Echo({"word": Text(3)})), "observation['word']: expected a spec whose values are arrays"),
    (lambda: OVER | 3, "termination: expected a Termination or a function of (state, action, next_state), got 3"),
    (lambda: envoi.AllTermination(OVER, None), "got None"),
    (lambda: envoi.NotTermination("over"), "got 'over'"),
    (envoi.AnyTermination, "AnyTermination: expected at least one termination, got none"),
    (lambda: bool(OVER), "compose by &"),
    (lambda: envoi.Represented(Slope(), observation=abs), "observation: expected something with a spec that can be"),
    (lambda: envoi.Represented(Slope(), observation=envoi.Representation), "can be called, got <class"),
    (lambda: envoi.Represented(Slope(), {"a": [3]}), "state['a'][0]: expected something with a spec that can be call"),
    (lambda: envoi.Represented(Slope(), Array((2,))), "give a function its spec by Representation(function, spec)"),
    (lambda: envoi.PerformanceProfiler(Slope(), 3, 3), "process_profile_fn: expected a function"),
    (lambda: envoi.PerformanceProfiler(Slope(), print, 0), "process_steps: expected an integer of at least 1"),
]


def begun(env):
    env.reset(seed=0)
    return env


@pytest.mark.parametrize(("do", "message"), WRONG)
def test_wrong_arguments_name_what_was_expected(do, message):
    with pytest.raises(envoi.EnvoiError, match=re.escape(message)):
        do()


@pytest.mark.parametrize("flags", [True, [True], np.ones((N, 1), bool), np.ones(N), "all"])
@pytest.mark.parametrize("name", ["terminated", "truncated"])
def test_flags_that_are_no_mask_are_refused(name, flags):
    class Ending(envoi.Lifted):
        def change(self, specs):
            return envoi.Change(begin=lambda observation: PUSH, **{name: lambda *values: flags})

    env = Ending(envoi.batch(Slope(), N))
    before = exact(env.reset(seed=0).observation)
    with pytest.raises(envoi.SpecError, match=f"Ending: {name}: expected a bool for each of 3 lanes, got shape"):
        env.step(PUSH)
    assert exact(env.observation) == before
