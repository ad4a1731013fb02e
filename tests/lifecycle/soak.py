"""A million steps of every form: episodes, resets, snapshots and copies on the way, beside the core by itself.

    make soak                                          all forms
    python tests/lifecycle/soak.py --only dm_env --steps 100000

Each form plays episodes of random actions through its own API. It is seeded again at times, pickled at times, and at
times plays on from a snapshot, to which it then returns. A core environment plays the same without any of these. Both
keep a running hash of all observations, rewards and flags, which must be equal at every twentieth of the way. A step of
a batch counts as one of each of its lanes.
"""

import argparse
import sys
import time
import warnings
from hashlib import blake2b
from pathlib import Path

import cloudpickle
import numpy as np

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "adapters"), str(TESTS / "lifecycle")]

import forms  # noqa: E402

import envoi  # noqa: E402
from envoi.adapters.sb3 import ToSB3  # noqa: E402
from envoi.adapters.shared.introspection import Content  # noqa: E402

LANES = 50
RESEEDED, COPIED, RETURNED = 2_011, 3_011, 1_007  # after so many ticks
PARTS = 20


class Drift(envoi.Model):
    """Episodes of random lengths that are terminated or truncated."""

    observation_spec = envoi.Array((2,), "float32")
    action_spec = envoi.Discrete(3)

    def initial(self, rng, context):
        return (0.0, 0, rng.random())

    def transition(self, state, action, rng):
        return (state[0] + action - 1, state[1] + 1, rng.random())

    def observe(self, state, rng):
        return np.array((state[0], state[2]), np.float32)

    def reward(self, state, action, next_state):
        return 0.125 * next_state[0]  # which float32 holds too

    def terminal(self, state):
        return state[2] < 0.02

    def truncated(self, state):
        return state[1] >= 70 and state[2] >= 0.02


class Crew(envoi.MultiModel):
    """Agents of which each ends by itself."""

    possible_agents = ("a", "b")
    observation_spec = dict.fromkeys(possible_agents, Drift.observation_spec)
    action_spec = dict.fromkeys(possible_agents, Drift.action_spec)

    def initial(self, rng, context):
        return (0, rng.random(), int(rng.integers(1, 60)), int(rng.integers(1, 60)))

    def transition(self, state, actions, rng):
        return (state[0] + 1, rng.random() + sum(actions.values()), *state[2:])

    def observe(self, state, agent, rng):
        return np.array((state[0], state[1]), np.float32)

    def reward(self, state, actions, next_state):
        return {"a": 0.125 * next_state[0], "b": -1.0}

    def terminal(self, state):
        return ["a"] if state[0] == state[2] else []

    def truncated(self, state):
        return ["b"] if state[0] == state[3] else []

    def live(self, state):
        return [agent for agent, end in zip(self.possible_agents, state[2:], strict=True) if state[0] < end]


CORES = {"one": Drift, "several": Crew, "lanes": lambda: envoi.batch(Drift(), LANES, compiled=False)}


class Trace:
    """A running hash, with its value at every twentieth of the way."""

    def __init__(self):
        self.hash, self.marks = blake2b(), []

    def note(self, *values):
        for value in values:
            self.hash.update(np.asarray(value, np.float32).tobytes())

    def mark(self):
        self.marks.append(self.hash.hexdigest())


# How the core and a form play a tick, in which an environment acts once or begins an episode. They return values to
# note, and if the episode is over.


def core_tick(name, core, rng, over):
    """Plays a tick of the core, with the conventions of a form."""
    kind = forms.FORMS[name].kind
    if kind == "several":
        if over:
            core.reset()
        actions = {agent: int(rng.integers(3)) for agent in core.acting}
        step = core.step(actions)
        return [step.observations[a] for a in actions] + [step.rewards[a] for a in actions], not core.agents
    if kind == "one":
        action = int(rng.integers(3))
        if over:
            return (core.reset().observation, 0, False, False), False
        step = core.step(action)
        return (step.observation, step.reward, step.terminated, step.truncated), step.terminated or step.truncated
    actions = rng.integers(3, size=LANES)
    if name in ("vector same step", "sb3"):
        step = core.step(actions)
        ended = step.terminated | step.truncated
        observation = core.reset(mask=ended).observation if ended.any() else step.observation
        return (observation, step.reward, step.terminated, step.truncated), None
    if name == "vector disabled" and over is not None and over.any():
        core.reset(mask=over)
        over = None
    step = core.step(actions) if over is None or not over.any() else core.step(actions, over)
    return (step.observation, step.reward, step.terminated, step.truncated), step.terminated | step.truncated


def form_tick(name, form, rng, over):
    """Plays the same tick of a form."""
    row = forms.FORMS[name]
    if row.kind == "several":
        return _several_tick(name, form, rng, over)
    if row.kind == "one":
        action = int(rng.integers(3))
        if over and not row.resets_itself:
            return (row.begin(form)[0], 0, False, False), False
        values = _values(name, form, action)
        return values, values[2] or values[3]
    actions = rng.integers(3, size=LANES)
    if name == "vector disabled" and over is not None and over.any():
        row.begin(form, options={"reset_mask": over})
    values = _values(name, form, actions)
    return values, values[2] | values[3]


def _values(name, form, action):
    """Steps a form of one agent or of lanes; returns observation, reward, terminated, truncated."""
    row = forms.FORMS[name]
    if row.step is forms.step_dm:
        kind, reward, discount, observation = form.step(action)
        last, zero = np.asarray(kind) == 2, np.asarray(0 if discount is None else discount) == 0
        return observation, 0 if reward is None else reward, last & zero, last & ~zero
    if row.step is forms.step_sb3:
        observation, reward, ended, infos = form.step(action)
        cut = np.array([info["TimeLimit.truncated"] for info in infos])
        return observation, reward, ended & ~cut, cut
    return form.step(action)[:4]


def _several_tick(name, form, rng, over):
    if over:
        forms.FORMS[name].begin(form)
    if forms.FORMS[name].step is not forms.step_aec:
        actions = {agent: int(rng.integers(3)) for agent in form.core.acting}
        observations, rewards, *_ = form.step(actions)
        return [observations[a] for a in actions] + [rewards[a] for a in actions], not form.core.agents
    while form.terminations[form.agent_selection] or form.truncations[form.agent_selection]:
        form.step(None)
    actions = {agent: int(rng.integers(3)) for agent in form.multi.acting}
    for agent in actions:
        assert form.agent_selection == agent
        form.step(actions[agent])
    values = [form.observe(a) for a in actions] + [form.rewards[a] for a in actions]
    over = not form.multi.agents
    while over and form.agents:
        form.step(None)
    return values, over


def core_seed(form, seed):
    """Returns the core's seed for one that a form was given."""
    if isinstance(form, ToSB3):
        return [seed + index for index in range(LANES)]
    return form.seeds.core_seed(seed) if hasattr(form, "seeds") else seed


def of_core(name, ticks):
    """Returns the marks of a core environment by itself."""
    core, form = CORES[forms.FORMS[name].kind](), made(name)
    trace, rng, over = Trace(), np.random.default_rng(0), None
    for tick in range(ticks):
        if tick % RESEEDED == 0:
            core.reset(seed=core_seed(form, tick))
            over = None
        values, over = core_tick(name, core, rng, over)
        trace.note(*values)
        if (tick + 1) % (ticks // PARTS) == 0:
            trace.mark()
    return trace.marks


def of_form(name, ticks):
    """Returns the marks of a form, to which much else is done."""
    form = made(name)
    trace, rng, over = Trace(), np.random.default_rng(0), None
    for tick in range(ticks):
        if tick % RESEEDED == 0:
            forms.FORMS[name].begin(form, tick)
            over = None
        if tick % RETURNED == RETURNED - 1:
            held, elsewhere, away = Content([form]), np.random.default_rng(tick), over
            for _ in range(100):
                _, away = form_tick(name, form, elsewhere, away)
            held.put_back([form])
        if tick % COPIED == COPIED - 1:
            form = cloudpickle.loads(cloudpickle.dumps(form))
        values, over = form_tick(name, form, rng, over)
        trace.note(*values)
        if (tick + 1) % (ticks // PARTS) == 0:
            trace.mark()
    return trace.marks


def made(name):
    """Returns a form."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # float64 rewards become float32, which the trace does not mind
        return forms.FORMS[name].make(CORES[forms.FORMS[name].kind]())


def soak(name, steps):
    """Compares a form with its core over so many steps; returns the marks at which they differ."""
    ticks = max(PARTS, steps // (LANES if forms.FORMS[name].kind == "lanes" else 1))
    both = zip(of_form(name, ticks), of_core(name, ticks), strict=True)
    return [index for index, (one, other) in enumerate(both) if one != other]


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=1_000_000)
    parser.add_argument("--only", action="append", choices=list(forms.FORMS), help="a form; may be repeated")
    arguments = parser.parse_args()
    wrong = []
    for name in arguments.only or forms.FORMS:
        start = time.process_time()
        differing = soak(name, arguments.steps)
        seconds = time.process_time() - start
        result = "equal" if not differing else f"differs from {differing[0] / PARTS:.0%} of the way on"
        sys.stdout.write(f"{name:18} {arguments.steps:>9,} steps  {seconds:7.1f} s of CPU  {result}\n")
        sys.stdout.flush()
        wrong += [name] if differing else []
    sys.exit(f"differ from the core: {', '.join(wrong)}" if wrong else None)


if __name__ == "__main__":
    main()
