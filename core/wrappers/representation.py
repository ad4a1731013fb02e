"""Functions from objects to arrays, with the specs of their results."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from operator import attrgetter
from typing import Any, cast

from .. import tree
from ..errors import SpecError
from ..spec import SpecTree, check_spec
from ..spec.base import shown
from ..structural_equality import Structured


class Representation(Structured):
    """A function from objects to arrays, and its spec. Any callable that has a `spec` serves as one.

    Args:
        function: `(value) -> representation`; the same for the same value, which it does not change.
        spec: The spec of its results, possibly nested. `Discrete` or `MultiDiscrete` is categorical, an `Array` of
            integers is discrete, one of floats continuous.

    Raises:
        SpecError: The spec is none, or the function cannot be called.
    """

    def __init__(self, function: Callable[[Any], Any], spec: SpecTree) -> None:
        if not callable(function):
            raise SpecError(f"function: expected a function of one value, got {shown(function)}")
        check_spec(spec)
        self.function, self.spec = function, spec

    def __call__(self, value: Any) -> Any:
        return self.function(value)


def joined(given: Any, what: str) -> Representation:
    """Returns one representation, of one or of a tree of several.

    Args:
        given: A representation, or a dict, list or tuple of several.
        what: The name of the argument, for messages.

    Raises:
        SpecError: Something in it represents nothing.
    """
    for path, one in tree.leaves(given, what):
        if isinstance(one, type) or not callable(one) or not hasattr(one, "spec"):
            raise SpecError(
                f"{path}: expected something with a spec that can be called, got {shown(one)}; "
                "give a function its spec by Representation(function, spec)"
            )
        check_spec(cast("Any", one).spec, f"{path}.spec")
    spec = tree.map_leaves(attrgetter("spec"), given)
    if tree.is_branch(given):
        return Representation(partial(_each, given), spec)
    return given if isinstance(given, Representation) else Representation(given, spec)


def _each(representations: Any, value: Any) -> Any:
    return tree.map_leaves(lambda one: one(value), representations)
