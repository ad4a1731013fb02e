"""Compiled lanes of random models return the bits of interpreted ones, or are refused."""

import importlib.util
import linecache
import math
import sys
from random import Random

import generated_models
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from small_models import Count
from traces import exact
from twins import interpreted

import envoi
from envoi import tree
from envoi.compiling.functions import Functions
from envoi.errors import NotCompilable

numba = pytest.importorskip("numba")

BEYOND_64_BITS = "64 bits"
VALUES = ("observation", "reward", "terminated", "truncated", "discount")


def module_of(source, folder, number):
    """Imports a source, which has to be in a file for its lines to be found."""
    name = f"made_{number}"
    path = folder / f"{name}.py"
    path.write_text(source)
    linecache.checkcache()
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def bits(batch):
    return [(np.asarray(leaf).astype(np.float64) + 0.0).tobytes() for _, leaf in tree.leaves(batch.state)]


def stepped(batch, action, restart):
    try:
        return batch.step(action, restart=restart)
    except (ArithmeticError, ValueError, TypeError) as error:
        return error


def positive(values):
    """Returns values with zeros of one sign, the only bit in which minima and maxima may differ."""
    return tree.map_leaves(lambda leaf: np.where(leaf == 0, 0, leaf).astype(leaf.dtype), values)


def seven(state, action, next_state):
    return 7.0


def play(make, steps, seed, n=3):
    """Steps a model both ways, while its numbers and rewards change; returns the number of equal steps, or a reason."""
    one = envoi.batch(make(), n, compiled=False)
    try:
        other = envoi.batch(make(), n, compiled=True)
    except NotCompilable as error:
        return f"refused: {error}"
    rng, pair = np.random.default_rng(seed), (one, other)
    over = np.zeros(n, bool)
    firsts = [batch.reset(seed=seed) for batch in pair]
    assert exact(positive(firsts[0].observation)) == exact(positive(firsts[1].observation))
    for number in range(steps):
        event = rng.integers(40)
        if event == 3 and number > 0.8 * steps:  # interpreted from here on
            for batch in pair:
                batch.rewarder = seven
            kept = one.snapshot()
            for batch in pair:
                batch.restore(kept)
        elif event == 4:
            for batch in pair:
                batch.context = {"wind": list(np.linspace(0.2, 1.9, n))}
        elif event == 5:
            for batch in pair:
                for lane, env in enumerate(batch.envs):
                    env.gain = 0.5 + lane + number
        action = rng.integers(-1, 2, n)
        with interpreted(other) as found:
            b = stepped(other, action, over)
        a = stepped(one, action, over)
        if isinstance(a, Exception):
            return f"interpreted raises {type(a).__name__}: {a}"
        if isinstance(b, Exception):
            assert BEYOND_64_BITS in str(b) or isinstance(b, ZeroDivisionError), repr(b)
            return f"compiled raises {type(b).__name__}: {b}"
        assert not found or one.envs[0].given_rewarder is not None
        for name in VALUES:
            assert exact(positive(getattr(a, name))) == exact(positive(getattr(b, name))), (number, name)
        over = a.terminated | a.truncated
    assert bits(one) == bits(other)
    return steps


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@settings(max_examples=4, deadline=None, suppress_health_check=list(HealthCheck))
@given(random=st.randoms(use_true_random=False), seed=st.integers(0, 2**31))
def test_a_random_model_has_the_same_bits_compiled(random, seed, tmp_path_factory):
    text = generated_models.scalar_model(random)
    module = module_of(text, tmp_path_factory.mktemp("made"), seed)
    try:
        play(module.Made, 120, seed)
    except AssertionError as error:
        error.add_note(text)
        raise


KINDS = (numba.float64, numba.float64, numba.int64, numba.int64, numba.boolean, numba.boolean)


def result_of(function, values):
    """Returns the float that a result is, with one nan for all; or the class of the error."""
    try:
        result = function(*values)
        return ValueError if isinstance(result, complex) else math.nan if result != result else float(result)
    except (ArithmeticError, ValueError, TypeError) as error:
        return OverflowError if "complex" in str(error) else type(error)


def differences(random, functions):
    """Compiles a random expression. Returns None if it is refused, else the values for which it is not Python's."""
    text, space = generated_models.expression(random), {"math": math}
    exec(f"def f(x, y, n, m, p, q):\n    return {text}\n", space)
    try:
        inside = functions.jitted(space["f"], "reward")
        compiled = numba.njit(KINDS)(lambda x, y, n, m, p, q: inside(x, y, n, m, p, q))
    except (numba.core.errors.NumbaError, NotCompilable):
        return None
    wrong = []
    for _ in range(40):
        values = generated_models.operands(random)
        one, other = result_of(space["f"], values), result_of(compiled, values)
        # Numbers that do not fit are an error where Python has larger ones, or complex ones.
        allowed = other is OverflowError or (isinstance(one, type) and isinstance(other, type))
        if not allowed and (isinstance(one, type) or isinstance(other, type) or exact(one) != exact(other)):
            wrong.append((text, values, one, other))
    return wrong


@pytest.mark.filterwarnings("ignore::SyntaxWarning")
@pytest.mark.parametrize("count", [25, pytest.param(536, marks=pytest.mark.deep)])
def test_random_expressions_have_pythons_values_or_none(count):
    functions, chosen = Functions(Count(), ["reward"]), Random(count)
    found = [differences(chosen, functions) for _ in range(count)]
    assert [wrong for wrong in found if wrong] == []
    assert found.count(None) < 0.6 * count, "too many are refused"
