"""When an episode is over is a value of its own: composed, compared, and asked of one transition or of many."""

import copy
import functools
import operator
from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from envoi import AllTermination, AnyTermination, FunctionTermination, NotTermination, SpecError, Termination


class Reached(Termination):
    """A walker is within reach of a place; for one state and for many."""

    def __init__(self, place, reach=0):
        self.place, self.reach = np.asarray(place, float), reach

    def __call__(self, state, action, next_state):
        return abs(next_state - self.place) <= self.reach


class Bit(Termination):
    """Slotted; whether a bit of the next state is set."""

    __slots__ = ("number",)

    def __init__(self, number):
        self.number = number

    def __call__(self, state, action, next_state):
        return (next_state >> self.number) % 2 == 1


class Risk(Termination):
    def __init__(self, chance):
        self.chance = chance

    def __call__(self, state, action, next_state, *, rng):
        return rng.random(np.shape(next_state)) < self.chance


class Expression(NamedTuple):
    """A composition, and the same in Python's own words."""

    built: Termination
    said: object


expressions = st.recursive(
    st.integers(0, 3).map(lambda n: Expression(Bit(n), lambda x: bool(x >> n & 1))),
    lambda inner: st.one_of(
        st.builds(lambda a, b: Expression(a.built | b.built, lambda x: a.said(x) or b.said(x)), inner, inner),
        st.builds(lambda a, b: Expression(a.built & b.built, lambda x: a.said(x) and b.said(x)), inner, inner),
        inner.map(lambda one: Expression(~one.built, lambda x: not one.said(x))),
    ),
    max_leaves=8,
)


@given(expressions)
def test_any_all_and_not_mean_what_python_means_by_them_for_one_and_for_many(expression):
    every = np.arange(16)
    expected = [expression.said(int(state)) for state in every]
    one_by_one = [expression.built(None, None, int(state)) for state in every]
    assert one_by_one == expected
    assert {type(verdict) for verdict in one_by_one} == {bool}
    at_once = expression.built(every, every, every)
    if not isinstance(expression.built, Bit):  # which answers as it likes
        assert at_once.dtype == bool
    assert at_once.tolist() == expected


@given(st.lists(st.integers(0, 5), min_size=1, max_size=5), st.sampled_from([operator.or_, operator.and_]))
def test_brackets_do_not_matter_and_double_denial_is_none(numbers, compose):
    terms = [Bit(number) for number in numbers]
    left, right = functools.reduce(compose, terms), functools.reduce(lambda a, b: compose(b, a), reversed(terms))
    assert left == right
    assert hash(left) == hash(right)
    if len(terms) > 1:
        assert left.terms == tuple(terms)
    assert ~~left is left


def test_plain_functions_compose_on_either_side():
    def even(state, action, next_state):
        return next_state % 2 == 0

    for composed in (Bit(1) & even, even & Bit(1), AllTermination(even, Bit(1))):
        assert [composed(0, 0, n) for n in range(4)] == [False, False, True, False]
    for composed in (Bit(1) | even, even | Bit(1), AnyTermination(even, Bit(1))):
        assert [composed(0, 0, n) for n in range(4)] == [True, False, True, True]
    assert Bit(0) | Bit(1) != Bit(0) & Bit(1)
    assert FunctionTermination(lambda state, action, next_state: np.True_)(0, 0, 0) is True
    assert NotTermination(even)(0, 0, 0) is False


def test_who_takes_a_generator_is_given_one():
    def lucky(state, action, next_state, rng=None):
        return rng is not None and rng.random() < 0.5

    composed = (Bit(0) & Risk(0.5)) | lucky
    assert composed.draws
    assert not (Bit(0) | ~Reached(3)).draws
    expected, drawn = np.random.default_rng(5), np.random.default_rng(5)
    verdicts = [composed(0, 0, state, rng=drawn) for state in range(40)]
    # Each part uses random numbers, whatever the results of the others.
    assert verdicts == [
        bool(risk) or luck
        for state in range(40)
        for risk, luck in [((state % 2 == 1) & (expected.random() < 0.5), expected.random() < 0.5)]
    ]
    assert 0 < sum(verdicts) < 40
    assert Risk(0.5)(0, 0, np.zeros(7), rng=drawn).shape == (7,)


def test_without_a_generator_who_needs_one_says_so():
    def needs(state, action, next_state, *, rng):
        return rng.random() < 0.5

    with pytest.raises(SpecError, match=r"rng: .*needs.* needs a generator; call it with rng=numpy\.random"):
        (Bit(0) | needs)(0, 0, 0)
    # One that can do without is asked without; one that holds its own keeps it.
    assert FunctionTermination(lambda state, action, next_state, rng=None: rng is None)(0, 0, 0)
    own = np.random.default_rng(0)
    held = FunctionTermination(functools.partial(needs, rng=own))
    assert not held.draws
    before = copy.deepcopy(own)
    assert held(0, 0, 0) == (before.random() < 0.5)
