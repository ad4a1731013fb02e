"""Terminations: when an episode is over, as a value of its own, which can be composed and compared.

A termination is called as `termination(state, action, next_state)` and says whether the transition ends the episode.
Written with numpy operations it works on a batch of transitions as on one. Two terminations are equal when they are
of one class and their attributes are equal.

    caught = Overlap("agent", "ghost")                # a subclass of Termination
    over = caught | Collected("coin") & ~Locked()     # any, all, not; plain functions compose too

A function that takes a generator, `rng`, may draw; see `envoi.rewards.transition_function`. Every part of a composition
is asked, also where the others have decided, so what one draws does not depend on what the others say.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from .transition_function import OfTransition, call, takes_rng

TerminationFunction: TypeAlias = Callable[..., Any]
"""`(state, action, next_state) -> whether that ends the episode`, with or without a keyword `rng`."""

Verdict: TypeAlias = bool | NDArray[np.bool_]
"""Whether one transition ends its episode, or for each of a batch."""


class Termination(OfTransition):
    """When an episode is over. Subclasses define `__call__`."""

    def __call__(self, state: Any, action: Any, next_state: Any) -> Verdict:
        """Whether the transition ends the episode, or an array of bools where the arguments are batches."""
        raise NotImplementedError

    def __or__(self, other: Termination | TerminationFunction) -> Termination:
        return AnyTermination(self, other)

    def __ror__(self, other: TerminationFunction) -> Termination:
        return AnyTermination(other, self)

    def __and__(self, other: Termination | TerminationFunction) -> Termination:
        return AllTermination(self, other)

    def __rand__(self, other: TerminationFunction) -> Termination:
        return AllTermination(other, self)

    def __invert__(self) -> Termination:
        return NotTermination(self)

    def __bool__(self) -> bool:
        # `a and b` would quietly be `b`.
        raise SpecError("termination: a termination is neither true nor false; compose by &, | and ~")


class FunctionTermination(Termination):
    """A plain function as a termination.

    Args:
        function: `(state, action, next_state) -> bool`; where it has a parameter `rng`, it is given a generator.
    """

    def __init__(self, function: TerminationFunction) -> None:
        self.function = function
        self._draws = takes_rng(function)

    @property
    def draws(self) -> bool:
        return self._draws

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Verdict:
        if self._draws:
            return _verdict(call(self.function, (state, action, next_state), rng))
        return _verdict(self.function(state, action, next_state))

    def parts(self) -> list[tuple[str, Any]]:
        return [("function", self.function)]


class _Composed(Termination):
    """Several terminations as one; a composition inside one of its own kind is flattened."""

    _combine: ClassVar[Callable[[Any, Any], Any]]

    def __init__(self, *terms: Termination | TerminationFunction) -> None:
        if not terms:
            raise SpecError(f"{type(self).__name__}: expected at least one termination, got none")
        self.terms: tuple[Termination, ...] = tuple(
            inner
            for term in map(as_termination, terms)
            for inner in (term.terms if type(term) is type(self) else [term])
        )

    @property
    def draws(self) -> bool:
        return any(term.draws for term in self.terms)

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Verdict:
        verdicts = [term.drawn(state, action, next_state, rng) for term in self.terms]
        total = verdicts[0]
        for verdict in verdicts[1:]:
            total = type(self)._combine(total, verdict)
        return _verdict(total)


class AnyTermination(_Composed):
    """Over as soon as one of several terminations says so; `a | b`.

    Args:
        *terms: The terminations, or functions of (state, action, next_state).

    Raises:
        SpecError: There are none, or one is neither.
    """

    _combine = np.logical_or


class AllTermination(_Composed):
    """Over when all of several terminations say so at once; `a & b`.

    Args:
        *terms: The terminations, or functions of (state, action, next_state).

    Raises:
        SpecError: There are none, or one is neither.
    """

    _combine = np.logical_and


class NotTermination(Termination):
    """Over when a termination says that it is not; `~a`.

    Args:
        term: The termination, or a function of (state, action, next_state).
    """

    def __init__(self, term: Termination | TerminationFunction) -> None:
        self.term = as_termination(term)

    @property
    def draws(self) -> bool:
        return self.term.draws

    def __invert__(self) -> Termination:
        return self.term

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Verdict:
        return _verdict(np.logical_not(self.term.drawn(state, action, next_state, rng)))


def as_termination(termination: Termination | TerminationFunction) -> Termination:
    """A termination as it is, or a plain function as one.

    Raises:
        SpecError: It is neither.
    """
    if isinstance(termination, Termination):
        return termination
    if callable(termination) and not isinstance(termination, type):
        return FunctionTermination(termination)
    hint = "; make an instance of the class" if callable(termination) else ""
    raise SpecError(
        f"termination: expected a Termination or a function of (state, action, next_state), got {termination!r}{hint}"
    )


def _verdict(value: Any) -> Verdict:
    """A Python bool for one transition, an array of bools for a batch."""
    array = np.asarray(value)
    return bool(array) if array.ndim == 0 else cast("NDArray[np.bool_]", array.astype(bool, copy=False))
