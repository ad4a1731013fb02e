"""Scalar kernels compute what Python and numpy compute, or are refused where numba would compute something else."""

import copy
import functools
import importlib
import math
import sys
from typing import NamedTuple

import numpy as np
import pytest
from traces import exact
from twins import same, step_both

import envoi
from envoi.errors import NotCompilable

numba = pytest.importorskip("numba")

N = 3


class State(NamedTuple):
    x: float
    count: int
    grid: np.ndarray


class Plain(envoi.Model):
    mode = "easy"
    observation_spec = envoi.Array((2,), "float64")
    action_spec = envoi.Discrete(2)

    def __init__(self):
        self.table = np.array([0.25, 0.5])

    def initial(self, rng, context):
        return State(0.5, 0, np.zeros(2))

    def transition(self, state, action, rng):
        return state._replace(x=state.x * 0.9 + action, count=state.count + 1)

    def observe(self, state, rng):
        return np.array([state.x, state.count])

    def reward(self, state, action, next_state):
        return next_state.x

    def terminal(self, state):
        return False


def late(function):
    """A decorator whose effect begins at some step."""

    @functools.wraps(function)
    def changed(self, state, action, next_state):
        value = function(self, state, action, next_state)
        return 0.5 * value if state.count > 80 else value

    return changed


START = 3


def gust(rng, scale=START):
    return rng.normal(0.0, scale)


START = 4  # which default arguments do not follow


def named(x, gust=2.0):
    return x * gust  # its argument, and no function of that name


class Sundry(Plain):
    """The only random numbers are those of a helper, in an order that is not that of the fields."""

    observation_spec = {"seen": envoi.Array((), "float64"), "noise": envoi.Array((), "float64")}

    def transition(self, state, action, rng):
        grid = state.grid.copy()
        grid[state.count % 2 - 2] += math.exp(math.sin(state.x)) + math.tanh(state.x) + math.atan2(state.x, 2.0)
        grid[0] = grid[0] % 7.0
        return state._replace(grid=grid + gust(rng), x=named(gust(rng)) + self.table[action], count=state.count + 1)

    def observe(self, state, rng):
        return {"noise": rng.random(), "seen": state.grid[1] + rng.random() - round(state.x) // 3}

    @late
    def reward(self, state, action, next_state):
        return next_state.x


def pair(make, steps, n=N):
    """Steps a model both ways, and compares all bits; returns both batches."""
    one, other = envoi.batch(make(), n, compiled=False), envoi.batch(make(), n, compiled=True)
    same(one.reset(seed=1), other.reset(seed=1))
    for _ in range(steps):
        step_both(one, other, in_kernel=True)
    return one, other


def test_helpers_decorators_and_defaults_are_those_of_python():
    one, other = pair(Sundry, 120)
    for batch in (one, other):
        batch.envs[1].table = np.array([8.0, 9.0])  # a lane with a constant of its own
    for _ in range(3):
        step_both(one, other)
    for batch in (one, other):
        batch.envs[1].model.table = batch.envs[0].table
    step_both(one, other, in_kernel=True)
    for batch in (one, other):
        batch.envs[2].table[0] = -1.0  # in place
    step_both(one, other)


def doubled(grid, scale=None):
    return grid * 2.0 if scale is None else grid * scale


class Arrays(Plain):
    """Functions of numpy and tuples, and arrays of random numbers."""

    def transition(self, state, action, rng):
        counts = np.array([state.count, 2, 3])
        pair = (state.x, *(0.5, 1.0))
        grid = np.minimum(doubled(state.grid) + rng.normal(0.0, 0.1, 2), 3.0 + state.grid)
        grid[:1] = rng.uniform(-1.0, 1.0, 1) + rng.random(1) + rng.standard_normal((1,))
        whole = int(np.sum(counts) + (counts > 2).sum() + rng.integers(3, size=2)[0] + (1 << 4 >> 1))
        x = float(np.clip(pair[0] * 3.0, -pair[2], pair[1]))
        if np.isnan(x) or math.isinf(x) or np.isnan(grid).any() or state.count in (7, 9):
            x = -x
        return State(x + whole**2, state.count + 1, grid)

    def observe(self, state, rng):
        seen, seen[1] = np.array([state.x, 1.0]), state.x / 3.0
        return seen


def test_arrays_and_functions_of_numpy_are_those_of_python():
    pair(Arrays, 20)


class Growing(Plain):
    def transition(self, state, action, rng):
        return state._replace(count=2 * state.count + 1 if state.count > 200 or action else state.count)


def test_an_integer_beyond_64_bits_changes_nothing():
    batch = envoi.TimeLimit(envoi.batch(Growing(), N, compiled=True), 64)
    batch.reset(seed=0)
    for _ in range(63):
        batch.step(np.array([0, 1, 0]))
    before = exact(batch.state)
    with pytest.raises(OverflowError, match="64 bits"):
        batch.step(np.array([0, 1, 0]), np.array([True, False, False]))
    assert exact(batch.state) == before
    assert batch.state[1].count == 2**63 - 1
    step = batch.step(np.zeros(N, int), np.array([False, True, False]))
    assert step.truncated.tolist() == [True, False, True]  # the refused step counts for nothing


@pytest.mark.deep
def test_what_becomes_wrong_late_is_an_error():
    class Longer(Plain):
        def transition(self, state, action, rng):
            grid = np.append(state.grid, 1.0) if state.count > 70 else state.grid
            return State(state.x, state.count + 1, grid)

    nan = moving(lambda m, s, a, rng: s._replace(x=float(int(math.nan if s.count > 70 else 1.0)), count=s.count + 1))
    falling = moving(lambda m, s, a, rng: s._replace(x=rng.uniform(0.0, 70.5 - s.count), count=s.count + 1))
    for make, message in ((nan, "NaN to integer"), (Longer, "another shape"), (falling, "high - low < 0")):
        batch = envoi.batch(make(), N, compiled=True)
        batch.reset(seed=0)
        for _ in range(71):
            batch.step(np.zeros(N, int))
        with pytest.raises((OverflowError, ValueError), match=message):
            batch.step(np.zeros(N, int))


class Wide(Plain):
    action_spec = envoi.Array((1,), "float32", -1, 1)

    def transition(self, state, action, rng):
        return state._replace(x=0.1 * float(action[0]), count=state.count + 1)


def test_float_of_32_bits_has_64():
    one, other = pair(Wide, 20)
    assert one.state[0].x == other.state[0].x != float(np.float32(one.state[0].x))


class Unpacking(Plain):
    def transition(self, state, action, rng):
        x, *_rest = state
        return state._replace(x=x)


class Importing(Plain):
    def transition(self, state, action, rng):
        import math

        return state._replace(x=math.sin(state.x))


class Catching(Plain):
    def transition(self, state, action, rng):
        try:
            return state._replace(x=state.x / action)
        except ZeroDivisionError:
            return state


class Overridden(Plain):
    def __init__(self):
        super().__init__()
        self.reward = lambda state, action, next_state: 2.0


def moving(function):
    """Makes a class of models whose transition is a function."""
    function.__name__ = "transition"
    return type("Moving", (Plain,), {"transition": function})


class Unpaid(Plain):
    def reward(self, state, action, next_state):
        pass


# Transitions of a model m in a state s by an action a; and models.
REFUSED = [
    (lambda m, s, a, rng: s._replace(x=float((s.x > 1) + (s.count > 2))), r"line \d+\): it computes \+ of two bools"),
    (lambda m, s, a, rng: s._replace(count=s.count if s.count < 100 else 0.5), "int on one path and float on another"),
    (lambda m, s, a, rng: s._replace(count=s.count / 2), r"float where the first state has int; convert it by int"),
    (lambda m, s, a, rng: s._replace(grid=s.grid.astype(np.float32)), r"array\(float32.* state has array\(float64"),
    (lambda m, s, a, rng: s._replace(x=rng.uniform(0.0, 1.0, high=2.0)), "it calls uniform with other arguments than"),
    (lambda m, s, a, rng: s._replace(x=rng.normal(s.grid, 1.0)[0]), r"line \d+\): it calls rng.normal of array"),
    (lambda m, s, a, rng: s._replace(x=rng.laplace()), r"Moving.transition \(.*line \d+\): rng\.laplace cannot be"),
    (lambda m, s, a, rng: s._replace(x=math.hypot(s.x, 1.0)), r"line \d+\): .*math.hypot .*write math.sqrt"),
    (lambda m, s, a, rng: s._replace(x=np.linalg.norm(s.grid)), r"line \d+\): no compiled form of np.linalg.norm"),
    (lambda m, s, a, rng: s._replace(x=float(np.arctan(s.x))), "np.arctan with the same bits is known; write math.at"),
    (lambda m, s, a, rng: s._replace(grid=np.clip(s.grid, -1.0, 1.0)), r"line \d+\): it computes np.clip of an array"),
    (lambda m, s, a, rng: s._replace(x=round(s.x, 2)), r"line \d+\): round is only compiled with 1 argument"),
    (lambda m, s, a, rng: s._replace(x=np.mean(s.grid)), "np.mean with the same bits is known; write the additions"),
    (lambda m, s, a, rng: s._replace(x=s.grid @ s.grid), "it computes @ of arrays, whose bits differ between"),
    (lambda m, s, a, rng: s._replace(x=1.0 if s.x is s.count else 2.0), "`is` compares objects"),
    (lambda m, s, a, rng: s._replace(count=int(~(s.count > 2))), "it computes ~ of a bool, which differs between"),
    (lambda m, s, a, rng: s._replace(x=s.x + np.float32(a)), r"\+ of float and float32; convert .* by float"),
    (lambda m, s, a, rng: s._replace(x=s.x * maths.pi), r"maths is not defined; did you mean math\?"),  # noqa: F821
    (lambda m, s, a, rng: s._replace(x=1.0 if m.mode == "easy" else 2.0), r"line \d+\): .*mode is a str"),
    (lambda m, s, a, rng: s._replace(grid=np.zeros(3)), "a state has another than the first"),
    (type("Long", (Plain,), {"observe": lambda m, s, rng: np.zeros(3)}), "another shape than observation_spec"),
    (type("Noted", (Plain,), {"info": lambda m, s: {}}), r"Noted\.info: dicts of single lanes cannot be compiled"),
    (Unpaid, r"Unpaid.reward \(.*line \d+\): it returns None; return a value on every path"),
    (Importing, r"Importing.transition \(test_.*line \d+\): it imports a module; do that at the top"),
    (Unpacking, r"Unpacking.transition \(test_.*line \d+\): it unpacks .* write the index of each"),
    (Catching, r"Catching.transition \(test_.*line \d+\): it catches errors; test with `if`"),
    (Overridden, "Overridden.reward: expected a method of the class"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED)
def test_what_numba_computes_otherwise_is_refused(make, message):
    make = make if isinstance(make, type) else moving(make)
    with pytest.raises(NotCompilable, match=message):
        envoi.batch(make(), 2, compiled=True)


class Drifting(Plain):
    """Its `initial` cannot be compiled, and returns other types than at first."""

    action_spec = envoi.Discrete(2)

    def initial(self, rng, context):
        x = rng.laplace()
        return State(x, 0 if x < 0.75 else 0.5, np.zeros(2))


def test_states_of_other_types_are_stepped_in_python():
    one, other = (envoi.batch(Drifting(), N, compiled=compiled) for compiled in (False, True))
    for seed in range(6):
        same(one.reset(seed=seed), other.reset(seed=seed))
        step_both(one, other)
        step_both(one, other, np.array([True, False, True]))


SOURCE = """
from small_models import Count

PUSH = 1.0

class Edited(Count):
    def initial(self, rng, context):
        return 0.0

    def transition(self, state, action, rng):
        return 0.5 * state + PUSH

    def observe(self, state, rng):
        return state
"""


def test_kernels_hold_what_was_imported_and_follow_globals(tmp_path, monkeypatch):
    path = tmp_path / "edited_model.py"
    path.write_text(SOURCE)
    monkeypatch.syspath_prepend(str(tmp_path))
    module = importlib.import_module("edited_model")
    try:
        one, other = pair(module.Edited, 3, 2)
        module.PUSH = 3.0
        same(one.reset(seed=0), other.reset(seed=0))
        step_both(one, other)
        assert other.observation.tolist() == [3.0, 3.0]
        path.write_text(SOURCE.replace("0.5 *", "0.25 *"))
        pair(module.Edited, 3, 2)  # of the functions in memory, which Python runs too
    finally:
        del sys.modules["edited_model"]


class Settings:
    speed = 2.0


WEIGHTS = np.array([1.0, 2.0])


class Changing(Plain):
    level = 0.125

    def bonus(self):
        return 0.5

    def transition(self, state, action, rng):
        return state._replace(x=0.5 * state.x + Settings.speed + float(WEIGHTS[0]) + self.level + self.bonus())


CHANGES = {
    "an attribute of a class": lambda patch: patch.setattr(Settings, "speed", 7.0),
    "an array": lambda patch: patch.setitem(globals(), "WEIGHTS", np.array([9.0, 2.0])),
    "a number of the model's class": lambda patch: patch.setattr(Changing, "level", 3.0),
    "a method": lambda patch: patch.setattr(Changing, "bonus", lambda self: 11.0),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_changes_between_steps_is_followed(what, monkeypatch):
    one, other = pair(Changing, 2)
    CHANGES[what](monkeypatch)
    step_both(one, other)
    monkeypatch.undo()
    step_both(one, other, in_kernel=True)


def test_a_method_is_not_the_global_of_its_name():
    class Copied(Plain):
        def transition(self, state, action, rng):
            return state._replace(grid=state.grid.copy())

    assert copy.__dict__  # the module, which the name `copy` above does not mean
    assert envoi.batch(Copied(), N, compiled=True).has_kernel
