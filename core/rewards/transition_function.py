"""Functions of a transition that may draw random numbers: whoever takes a generator, called `rng`, is given one.

    def tip(state, action, next_state, *, rng):
        return float(rng.random() < 0.1)

An environment gives its stream for rewards and terminations (`Streams.reward`), which a seed fixes and a snapshot
holds, so what they draw changes nothing else. Anybody else gives whichever generator they like.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import cache
from typing import Any, cast

import numpy as np

from ..errors import SpecError
from ..structural_equality import Structured


class OfTransition(Structured):
    """A function of a transition as a value of its own: `(state, action, next_state)`, with or without `rng`.

    Subclasses define `__call__`, with a keyword `rng` where they draw.
    """

    @property
    def draws(self) -> bool:
        """Whether it takes a generator."""
        return _class_draws(type(self))

    def drawn(self, state: Any, action: Any, next_state: Any, rng: np.random.Generator | None) -> Any:
        """What it gives for a transition, with `rng` where it takes one."""
        if rng is None or not self.draws:
            return self(state, action, next_state)
        return cast("Any", self)(state, action, next_state, rng=rng)

    def __call__(self, state: Any, action: Any, next_state: Any) -> Any:
        raise NotImplementedError


def takes_rng(function: Callable[..., Any]) -> bool:
    """Whether a function has a parameter `rng` that nobody has filled yet."""
    parameter = _rng_parameter(function)
    return parameter is not None and parameter.default in (None, inspect.Parameter.empty)


def call(function: Callable[..., Any], transition: tuple[Any, Any, Any], rng: np.random.Generator | None) -> Any:
    """A plain function that takes a generator, of a transition.

    Raises:
        SpecError: It needs a generator, and there is none.
    """
    if rng is not None:
        return function(*transition, rng=rng)
    parameter = _rng_parameter(function)
    if parameter is not None and parameter.default is inspect.Parameter.empty:
        raise SpecError(f"rng: {function!r} draws random numbers; call it with rng=numpy.random.default_rng(seed)")
    return function(*transition)


def _rng_parameter(function: Callable[..., Any]) -> inspect.Parameter | None:
    try:
        parameter = inspect.signature(function).parameters.get("rng")
    except (TypeError, ValueError):  # written in C, and says nothing
        return None
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    return parameter if parameter is not None and parameter.kind in named else None


@cache
def _class_draws(kind: type[OfTransition]) -> bool:
    return takes_rng(kind.__call__)
