"""Dicts, lists, tuples and named tuples of specs, to any depth."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..errors import SpecError
from ..structural_equality import structure
from .base import Foreign, Spec, SpecTree, frozen, shown


def check_spec(spec: SpecTree, path: str = "spec") -> None:
    """Checks that `spec` is a spec or a nested structure of specs.

    Args:
        spec: Any object.
        path: The name of the whole in the message.

    Raises:
        SpecError: A leaf is not a spec; the message names it.
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
        value: Any object.
        path: The name of the value in the message.

    Raises:
        SpecError: `value` lies outside the spec. The message names the leaf, the expected and the actual value.
    """
    if isinstance(spec, Spec):
        spec.validate(value, path)
        return
    check_branch(spec, value, path)
    for part, key, sub in tree.children(spec):
        validate(sub, value[key], path + part)


def check_branch(spec: SpecTree, value: Any, path: str) -> None:
    """Checks that `value` is a dict, list or tuple with the type, and the keys or length, of `spec`.

    Its elements are not checked.
    """
    if isinstance(spec, tree.AnyDict):
        if not isinstance(value, tree.AnyDict):
            raise SpecError(f"{path}: expected a dict with keys {list(spec)}, got {shown(value)}")
        if value.keys() != spec.keys():
            missing = [k for k in spec if k not in value]
            extra = [k for k in value if k not in spec]
            raise SpecError(f"{path}: expected keys {list(spec)}; missing {missing}, too many {extra}")
    elif not tree.is_branch(spec):
        next(tree.children(spec))  # raises
    elif type(value) is not type(spec):
        raise SpecError(f"{path}: expected a {type(spec).__name__}, got {shown(value)}")
    elif len(value) != len(spec):
        raise SpecError(f"{path}: expected {len(spec)} elements, got {len(value)}")


def contains(spec: SpecTree, value: Any) -> bool:
    """Returns True if `value` lies in a possibly nested spec.

    Args:
        spec: A spec or a nested structure of specs.
        value: Any object.
    """
    try:
        validate(spec, value)
    except SpecError:
        return False
    return True


def sample(spec: SpecTree, rng: np.random.Generator) -> Any:
    """Samples a random value of a possibly nested spec; see `Spec.sample`.

    Args:
        spec: A spec or a nested structure of specs.
        rng: The source of randomness.
    """
    return tree.map_leaves(lambda leaf: leaf.sample(rng), spec)


def zeros(spec: SpecTree) -> Any:
    """Returns the value closest to zero of a possibly nested spec; see `Spec.zeros`."""
    return tree.map_leaves(lambda leaf: leaf.zeros(), spec)


def spec_equal(a: SpecTree, b: SpecTree) -> bool:
    """Returns True if two possibly nested specs are equal, including names, bounds, container types and key order.

    Args:
        a: A spec or a nested structure of specs.
        b: Another one.
    """
    return a is b or frozen(a) == frozen(b)


def spec_difference(a: SpecTree, b: SpecTree, path: str = "spec") -> tuple[str, SpecTree, SpecTree] | None:
    """Finds the first place where two possibly nested specs allow different values.

    Bounds, dtypes, container types and key order count. Names do not, because they do not affect values.

    Args:
        a: A spec or a nested structure of specs.
        b: Another one.
        path: The name of the whole in the result.

    Returns:
        `(path, part of a, part of b)` for the first leaf that differs, or the first container with another type or
        keys. None if there is no difference.
    """
    if spec_equal(a, b):
        return None
    if not tree.is_branch(a) or not tree.is_branch(b):
        return None if _alike(a, b) else (path, a, b)
    mine, others = list(tree.children(a)), list(tree.children(b))
    is_same_kind = type(a) is type(b) or all(isinstance(one, dict) for one in (a, b))
    if not is_same_kind or [part for part, _, _ in mine] != [part for part, _, _ in others]:
        return path, a, b
    both = zip(mine, others, strict=True)
    found = (spec_difference(sub, other, path + part) for (part, _, sub), (_, _, other) in both)
    return next((difference for difference in found if difference is not None), None)


def _alike(a: Any, b: Any) -> bool:
    kind, other = ((one.origin if isinstance(one, Foreign) else one).__class__ for one in (a, b))
    # Objects of a class that does not define equality count as equal, and a nan is equal to another.
    stands_alone = kind.__eq__ is object.__eq__ and not issubclass(kind, type)
    is_same = kind is other and (stands_alone or structure(np.asarray(a)) == structure(np.asarray(b)))
    return is_same or spec_equal(_unnamed(a), _unnamed(b))


def _unnamed(value: Any) -> Any:
    """Returns a spec, or an argument of one, without names."""
    if not isinstance(value, Spec):
        return tree.map_leaves(_unnamed, value) if tree.is_branch(value) else value
    arguments = {name: _unnamed(given) for name, given in value.arguments().items()}
    return type(value)(**{**arguments, "name": None})
