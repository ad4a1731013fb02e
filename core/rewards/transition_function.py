"""Functions of a transition, `(state, action, next_state)`, that may be random.

A function with a parameter `rng` receives a random generator:

    def tip(state, action, next_state, *, rng):
        return float(rng.random() < 0.1)

An environment passes its stream for rewards and terminations (`Streams.reward`). A seed determines this stream,
snapshots contain it, and nothing else uses it, so a random reward changes nothing else in the episode. Other callers
pass a generator of their choice.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, cast

import numpy as np

from ..errors import SpecError
from ..structural_equality import Structured


def takes_rng(function: Callable[..., Any]) -> bool:
    """Returns True if a function has a parameter `rng` that is not bound yet (without a default, or None)."""
    parameter = _rng_parameter(function)
    return parameter is not None and parameter.default in (None, inspect.Parameter.empty)


def _rng_parameter(function: Callable[..., Any]) -> inspect.Parameter | None:
    try:
        parameter = inspect.signature(function).parameters.get("rng")
    except (TypeError, ValueError):  # a built-in without a signature
        return None
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return parameter if parameter is not None and parameter.kind in named else None


class OfTransition(Structured):
    """A function of a transition that can be composed and compared.

    Subclasses define `__call__(state, action, next_state)`, with a keyword `rng` if they are random.
    """

    _class_draws: ClassVar[bool] = False

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        cls._class_draws = takes_rng(cls.__call__)

    @property
    def draws(self) -> bool:
        """True if the function takes a random generator `rng`."""
        return self._class_draws

    def drawn(self, state: Any, action: Any, next_state: Any, rng: np.random.Generator | None) -> Any:
        """Calls the function, and passes `rng` if the function takes a generator and `rng` is not None."""
        if rng is None or not self.draws:
            return self(state, action, next_state)
        return cast("Any", self)(state, action, next_state, rng=rng)

    def __call__(self, state: Any, action: Any, next_state: Any) -> Any:
        raise NotImplementedError


class OfFunction(OfTransition):
    """Base class of `FunctionReward` and `FunctionTermination`, which wrap a plain function."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.function = function
        self._draws = takes_rng(function)

    @property
    def draws(self) -> bool:
        return self._draws

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Any:
        function = self.function
        if not self._draws:
            return function(state, action, next_state)
        if rng is not None:
            return function(state, action, next_state, rng=rng)
        parameter = _rng_parameter(function)
        if parameter is not None and parameter.default is inspect.Parameter.empty:
            raise SpecError(f"rng: {function!r} needs a generator; call it with rng=numpy.random.default_rng(seed)")
        return function(state, action, next_state)

    def parts(self) -> list[tuple[str, Any]]:
        return [("function", self.function)]


class OfTerms(OfTransition):
    """Combines functions of a transition; a combination inside another of the same class is flattened."""

    def __init__(self, terms: Iterable[Any]) -> None:
        self.terms: tuple[Any, ...] = tuple(
            inner for term in terms for inner in (term.terms if type(term) is type(self) else (term,))
        )

    @property
    def draws(self) -> bool:
        return any(term.draws for term in self.terms)

    def _combine(self, one: Any, other: Any) -> Any:
        raise NotImplementedError

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Any:
        # All terms are called, so that the random numbers of one do not depend on the results of others. Not by
        # `functools.reduce`, because the list and the calls take a quarter of a sum's time.
        total = self.terms[0].drawn(state, action, next_state, rng)
        for term in self.terms[1:]:
            total = self._combine(total, term.drawn(state, action, next_state, rng))
        return total


def as_function(given: Any, kind: type[Any], convert: Callable[[Any], Any]) -> Any:
    """Returns an object of a class as it is, and converts a plain function to one."""
    if isinstance(given, kind):
        return given
    if callable(given) and not isinstance(given, type):
        return convert(given)
    hint = "; make an instance of the class" if callable(given) else ""
    name = kind.__name__
    raise SpecError(
        f"{name.lower()}: expected a {name} or a function of (state, action, next_state), got {given!r}{hint}"
    )
