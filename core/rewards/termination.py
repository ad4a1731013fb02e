"""Terminations: conditions that end an episode, as objects that can be composed and compared, like rewarders.

    caught = Overlap("agent", "ghost")                # a subclass of Termination
    over = caught | Collected("coin") & ~Locked()     # any, all, not; plain functions compose too

A composition calls all of its parts, even when the result is already decided, so that the random numbers that one part
takes do not depend on the results of the others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from .rewarder import OfFunction, OfTerms, OfTransition, as_function

TerminationFunction: TypeAlias = Callable[..., Any]
"""`(state, action, next_state) -> bool`, True if the transition ends the episode; with or without a keyword `rng`."""

Verdict: TypeAlias = bool | NDArray[np.bool_]
"""True if a transition ends its episode; for n transitions, bools of shape (n,)."""


class Termination(OfTransition):
    """A condition on transitions that ends an episode. Subclasses define `__call__`."""

    def __call__(self, state: Any, action: Any, next_state: Any) -> Verdict:
        """Returns True if the transition ends the episode; n bools if the arguments are batches of n."""
        raise NotImplementedError

    def of_lanes(self, states: Sequence[Any], actions: Sequence[Any], next_states: Sequence[Any]) -> NDArray[np.bool_]:
        """Evaluates the condition for n transitions, one by one. Returns bools of shape (n,).

        Args:
            states: The n states.
            actions: The n actions.
            next_states: The n states after the actions.
        """
        return np.fromiter(map(self, states, actions, next_states), bool, len(states))

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
        # `a and b` would silently evaluate to `b`.
        raise SpecError("termination: a termination is neither true nor false; compose by &, | and ~")


class FunctionTermination(OfFunction, Termination):
    """Makes a termination from a plain function.

    Args:
        function: `(state, action, next_state) -> bool`; if it has a parameter `rng`, it receives a generator.
    """

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Verdict:
        return _verdict(super().__call__(state, action, next_state, rng=rng))

    def of_lanes(self, states: Sequence[Any], actions: Sequence[Any], next_states: Sequence[Any]) -> NDArray[np.bool_]:
        return np.fromiter(map(self.function, states, actions, next_states), bool, len(states))


class _Composed(OfTerms, Termination):
    """A combination of several terminations."""

    _combine: Any

    def __init__(self, *terms: Termination | TerminationFunction) -> None:
        if not terms:
            raise SpecError(f"{type(self).__name__}: expected at least one termination, got none")
        super().__init__(map(as_termination, terms))

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Verdict:
        return _verdict(super().__call__(state, action, next_state, rng=rng))


class AnyTermination(_Composed):
    """True if at least one of several terminations is true. Same as `a | b`.

    Args:
        *terms: The terminations, or functions (state, action, next_state); at least one.

    Raises:
        SpecError: There are no terms, or a term is neither a termination nor a function.
    """

    _combine = staticmethod(np.logical_or)


class AllTermination(_Composed):
    """True if all terminations are true for the same transition. Same as `a & b`.

    Args:
        *terms: The terminations, or functions (state, action, next_state); at least one.

    Raises:
        SpecError: There are no terms, or a term is neither a termination nor a function.
    """

    _combine = staticmethod(np.logical_and)


class NotTermination(Termination):
    """Negates a termination. Same as `~a`.

    Args:
        term: The termination, or a function (state, action, next_state).

    Raises:
        SpecError: `term` is neither a termination nor a function.
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
    """Returns a termination unchanged, and a plain function as a `FunctionTermination`."""
    return as_function(termination, Termination, FunctionTermination)


def _verdict(value: Any) -> Verdict:
    """Returns a Python bool for one transition, an array of bools for a batch."""
    array = np.asarray(value)
    return bool(array) if array.ndim == 0 else array.astype(bool, copy=False)
