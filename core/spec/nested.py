"""Dicts, lists, tuples and named tuples of specs, to any depth."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from .. import tree
from ..errors import SpecError
from .base import Spec, SpecTree, frozen, shown
from .foreign import Foreign


def check_spec(spec: SpecTree, path: str = "spec") -> None:
    """Checks that `spec` is a spec or a nested structure of specs.

    Raises:
        SpecError: Something in it is no spec; the message names where.
    """
    for where, leaf in tree.leaves(spec, path):
        if not isinstance(leaf, Spec):
            raise SpecError(
                f"{where}: expected a spec (Array, Discrete, …) or a dict, list or tuple of specs, got {shown(leaf)}"
            )


def validate(spec: SpecTree, value: Any, path: str = "value") -> None:
    """Checks that `value` lies in a possibly nested spec.

    Args:
        spec: A spec or a nested structure of specs.
        value: Anything.
        path: How to call the value in the message.

    Raises:
        SpecError: It does not; the message names the leaf, what was expected and what came.
    """
    if isinstance(spec, Spec):
        spec.validate(value, path)
        return
    check_branch(spec, value, path)
    for part, key, sub in tree.children(spec):
        validate(sub, value[key], path + part)


def check_branch(spec: SpecTree, value: Any, path: str) -> None:
    """Checks that `value` is such a dict, list or tuple as `spec` is, of as many; what it holds is not looked at.

    Raises:
        SpecError: It is not.
    """
    if isinstance(spec, dict):
        branch = cast("dict[Any, Any]", spec)
        if not isinstance(value, dict):
            raise SpecError(f"{path}: expected a dict with keys {list(branch)}, got {shown(value)}")
        given = cast("dict[Any, Any]", value)
        if given.keys() != branch.keys():
            missing = [k for k in branch if k not in given]
            extra = [k for k in given if k not in branch]
            raise SpecError(f"{path}: expected keys {list(branch)}; missing {missing}, too many {extra}")
    elif type(value) is not type(spec):
        raise SpecError(f"{path}: expected a {type(spec).__name__}, got {shown(value)}")
    elif len(value) != len(spec):
        raise SpecError(f"{path}: expected {len(spec)} elements, got {len(value)}")


def contains(spec: SpecTree, value: Any) -> bool:
    """Whether `value` lies in a possibly nested spec."""
    try:
        validate(spec, value)
    except SpecError:
        return False
    return True


def sample(spec: SpecTree, rng: np.random.Generator) -> Any:
    """A random value of a possibly nested spec, see `Spec.sample`."""
    return tree.map_leaves(lambda leaf: leaf.sample(rng), spec)


def zeros(spec: SpecTree) -> Any:
    """The value of a possibly nested spec that is nearest to all zeros, see `Spec.zeros`."""
    return tree.map_leaves(lambda leaf: leaf.zeros(), spec)


def spec_equal(a: SpecTree, b: SpecTree) -> bool:
    """Whether two possibly nested specs are equal: names, bounds, kinds of branches and order of keys too."""
    return a is b or frozen(a) == frozen(b)


def spec_difference(a: SpecTree, b: SpecTree, path: str = "spec") -> tuple[str, SpecTree, SpecTree] | None:
    """Finds the first place in which the values of two specs differ.

    Bounds, dtypes, kinds of branches and the order of keys count. Names do not, for no value shows them.

    Args:
        a: A possibly nested spec.
        b: Another.
        path: How to call the whole in the result.

    Returns:
        The path of the leaf, or of the branch that is of another kind or has other keys; and what `a` and `b` have
        there. None where they do not differ.
    """
    if spec_equal(a, b):
        return None
    if isinstance(a, Spec) or isinstance(b, Spec):
        return None if _alike(a, b) else (path, a, b)
    mine, others = list(tree.children(a)), list(tree.children(b))
    if not _same_kind(a, b) or [part for part, _, _ in mine] != [part for part, _, _ in others]:
        return path, a, b
    found = (
        spec_difference(sub, other, path + part) for (part, _, sub), (_, _, other) in zip(mine, others, strict=True)
    )
    return next((difference for difference in found if difference is not None), None)


def _same_kind(a: SpecTree, b: SpecTree) -> bool:
    return type(a) is type(b) or (isinstance(a, dict) and isinstance(b, dict))


def _alike(a: SpecTree, b: SpecTree) -> bool:
    if isinstance(a, Foreign) and isinstance(b, Foreign):
        kind = a.origin.__class__
        # Where a class does not say when its objects are equal, they are taken to be.
        return spec_equal(_unnamed(a), _unnamed(b)) or (kind is b.origin.__class__ and kind.__eq__ is object.__eq__)
    return spec_equal(_unnamed(a), _unnamed(b))


def _unnamed(value: Any) -> Any:
    """A spec, or an argument of one, without names."""
    if not isinstance(value, Spec):
        return tree.map_leaves(_unnamed, value) if tree.is_branch(value) else value
    arguments = {name: _unnamed(given) for name, given in value.arguments().items()}
    return type(value)(**{**arguments, "name": None})
