"""Bad input is refused in the same words by whatever steps the lanes, which stay as they were."""

import re
from functools import partial

import numpy as np
import pytest
from traces import exact

import envoi
from envoi import Array, ContextSpace, Contextual, Discrete, Text, UniformFloat
from envoi.context import Attributes
from envoi.models import Pendulum, Pursuit, make

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
    "seeds": (lambda b: b.reset(seed=[1, 2.5, 3]), "expected an integer of at least 0, or None, got 2.5 in lane 1"),
    "seed": (lambda b: b.reset(seed=-1), "seed: expected an integer of at least 0, or None, got -1"),
    "feature": (partial(put, pul=0.1), "context['pul']: no such feature; did you mean 'pull'?"),
    "bounds": (partial(put, pull=[0, 0, 9.0]), "context['pull']: expected a number from -1 to 1, got 9.0 in lane 2"),
    "contexts": (partial(put, pull=[0, 0]), "context['pull']: expected one value, or one for each of 3 lanes, got 2"),
    "no context": (lambda b: setattr(b, "context", None), "context: expected a mapping of names to values, got None"),
    "list": (lambda b: b.reset(options=[{"pull": 0.5}]), "options: expected a mapping of names to values, got [{"),
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


def at_three(**arguments):
    return Contextual(Pendulum(), {"three": {"m": 3.0}}, **arguments)


class Told(envoi.Model):
    initial = transition = observe = reward = terminal = None

    def __init__(self, observation, action=Discrete(2)):  # noqa: B008 (never changed)
        self.observation_spec, self.action_spec = observation, action


class Uneven(Pulled):
    observation_spec = {"x": Array((2,), "float64")}

    def observe(self, state, rng):
        return {"x": np.zeros(rng.integers(3, 99))}


OVER, HALF = envoi.FunctionTermination(lambda state, action, next_state: True), Array((), "float32")
WRONG = [
    (lambda: envoi.batch(Pulled(), 2.0), "n: expected an integer of at least 1, got 2.0"),
    (lambda: envoi.batch(Pulled(), 2, workers="2"), "workers: expected an integer of at least 1, got '2'"),
    (lambda: envoi.batch(Pulled(), 0, workers=1), "n: expected an integer of at least 1, got 0"),
    (lambda: envoi.batch(Pulled(), 4, workers=1, timeout=0), "timeout: expected a number of seconds above 0"),
    (lambda: envoi.batch(Pulled(), 4, timeout=3), "timeout: expected none without workers"),
    (lambda: envoi.batch(Pulled(), 4, workers=1, start_method="swapn"), "did you mean 'spawn'"),
    (lambda: envoi.batch(envoi.batch(Pulled(), 2), 2), "env: expected an environment of one lane, got a batch of 2"),
    (lambda: envoi.batch(Uneven(), 3).reset(seed=0), "observation['x']: expected shape (2,), got ("),
    (lambda: envoi.batch(Pursuit, 2), "env: expected a core environment of one agent"),
    (lambda: envoi.batch(Pursuit(), 2), "agents as lanes by envoi.adapters.to_gymnasium_vector(game)"),
    (lambda: envoi.batch(lambda: 3, 2), "env: expected a core environment of one agent or a function that makes one"),
    (lambda: envoi.batch(envoi.Wrapper(Pulled()), 2, compiled=True), "expected a model"),
    (lambda: envoi.batch(Pulled(), 2, compiled="yes"), "True, False or 'auto'"),
    (lambda: envoi.as_multi(make("nim")), "env: expected an environment of one agent and one lane, got <"),
    (lambda: envoi.as_multi(envoi.batch(Pulled(), 2)), "env: expected an environment of one agent and one lane, got <"),
    (lambda: envoi.as_single(Pursuit()), "env: expected a MultiEnv of one agent, got ['"),
    (lambda: envoi.as_single(Pulled()), "env: expected a MultiEnv of one agent, got <"),
    (lambda: envoi.Wrapper(make("nim")), "an environment of one agent, or a batch, got"),
    (lambda: envoi.MultiWrapper(Pulled()), "an environment of several agents, got"),
    (lambda: envoi.MultiWrapper(make("nim")).step({}, hold=ONE), "hold: expected None, because there are no lanes"),
    (lambda: envoi.as_multi(Pulled()).step({}, ONE), "restart: expected None, because there are no lanes"),
    (lambda: begun(make("nim")).step(None), "step: expected an action for each of ['first'], by name, got None"),
    (lambda: envoi.explain("CartPole-v1"), "env: expected an environment, got 'CartPole-v1'"),
    (lambda: Pulled().restore(None), "restore: expected a result of env.snapshot(), got None"),
    (lambda: setattr(Pulled(), "rng", 3), "rng: expected a generator, such as np.random.default_rng(seed), got 3"),
    (lambda: Attributes("size"), "paths: expected a mapping of features to attributes, got 'size'"),
    (lambda: Contextual(Told(Discrete(2)), [{}]), "takes no contexts; give its model a context_space"),
    (
        lambda: envoi.FlattenObservation(Told({"in": {0: HALF, "a": HALF}}), order="sorted"),
        "observation['in'] cannot be",
    ),
    (lambda: at_three(bind=Attributes), "bind: expected None, a function (env, context), or a binding"),
    (lambda: at_three(n_envs="4"), "n_envs: expected an integer of at least 1, got '4'"),
    (lambda: at_three(context_mask=3), "context_mask: expected a list of features, got 3"),
    (lambda: at_three(state_context_features=3), "state_context_features: expected a list of features, got 3"),
    (lambda: at_three(add_gaussian_noise_to_context=True, noisy_features=3), "noisy_features: expected a list of"),
    (lambda: at_three(add_gaussian_noise_to_context=True, gaussian_noise_std_percentage="a"), "at least 0, got 'a'"),
    (lambda: at_three().reset(options=[{"m": 1.0}]), "options: expected a mapping of names to values, got [{"),
    (lambda: at_three().assign_lane(True), "assign_lane: expected an integer of at least 0, got True"),
    (lambda: envoi.ActionClip(Told(Discrete(2), HALF)), "expected an action with bounds"),
    (lambda: envoi.History(Told({"word": Text(3)})), "observation['word']: expected a spec whose values are arrays"),
    (lambda: OVER | 3, "termination: expected a Termination or a function of (state, action, next_state), got 3"),
    (lambda: envoi.AllTermination(OVER, None), "got None"),
    (lambda: envoi.NotTermination("over"), "got 'over'"),
    (envoi.AnyTermination, "AnyTermination: expected at least one termination, got none"),
    (lambda: bool(OVER), "compose by &"),
    (lambda: envoi.Represented(Pulled(), observation=abs), "observation: expected something with a spec that can be"),
    (lambda: envoi.Represented(Pulled(), observation=envoi.Representation), "can be called, got <class"),
    (lambda: envoi.Represented(Pulled(), {"a": [3]}), "state['a'][0]: expected something with a spec that can be call"),
    (lambda: envoi.Represented(Pulled(), Array((2,))), "give a function its spec by Representation(function, spec)"),
    (lambda: envoi.PerformanceProfiler(Pulled(), 3, 3), "process_profile_fn: expected a function"),
    (lambda: envoi.PerformanceProfiler(Pulled(), print, 0), "process_steps: expected an integer of at least 1"),
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

    env = Ending(envoi.batch(Pulled(), N))
    before = exact(env.reset(seed=0).observation)
    with pytest.raises(envoi.SpecError, match=f"Ending: {name}: expected a bool for each of 3 lanes, got shape"):
        env.step(PUSH)
    assert exact(env.observation) == before
