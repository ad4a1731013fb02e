"""Batched values: the values of n lanes as a single one, whose array leaves have a leading axis of n.

Leaves that are not arrays (`Text`, `Sequence`, `Graph`, `OneOf`) become tuples with one entry per lane.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import tree
from .spec import Array, Discrete, Spec, SpecTree
from .spec.arrays import ARRAYS
from .structural_equality import structure
from .tree import AnyArray, AnyDict


def stack(spec: SpecTree, values: Sequence[Any], path: str = "value") -> Any:
    """Stacks the values of all lanes. An error names the leaf by `path`."""
    if not isinstance(spec, Spec):
        each = [([value[key] for value in values], sub, path + part) for part, key, sub in tree.children(spec)]
        return tree.rebuild(spec, [stack(sub, own, where) for own, sub, where in each])
    try:
        if type(spec) is Array:
            # By far the most common case. numpy is fastest if it may choose the dtype, and mostly it chooses this one.
            array = np.array(values)
            return array if array.dtype == spec.dtype else np.array(values, spec.dtype)
        return np.array(values, spec.dtype) if isinstance(spec, ARRAYS) else tuple(values)
    except ValueError:  # such as of arrays of different shapes
        for value in values:
            spec.validate(value, path)
        raise


def stacker(spec: SpecTree, path: str) -> Callable[[Sequence[Any]], Any]:
    """Returns `stack` for one spec: a function of the lanes' values that does not walk the spec again."""
    if isinstance(spec, Spec):
        return lambda values: stack(spec, values, path)
    parts = [(key, stacker(sub, path + part)) for part, key, sub in tree.children(spec)]
    return lambda values: tree.rebuild(spec, [part([value[key] for value in values]) for key, part in parts])


def splitter(spec: SpecTree, n: int) -> Callable[[Any], Sequence[Any]]:
    """Returns a function that splits a batched value into a sequence with each lane's value.

    Values of a `Discrete` become Python integers, so that dividing by 0 raises an error, as it does in a kernel.
    """
    if isinstance(spec, Discrete):
        return lambda values: (
            values if not isinstance(values, AnyArray) else (values + 0 if values.dtype == bool else values).tolist()
        )
    if isinstance(spec, Spec):
        return lambda values: values
    parts = [(key, splitter(sub, n)) for _, key, sub in tree.children(spec)]
    if not parts:
        empty: list[Any] = [tree.rebuild(spec, [])] * n
        return lambda values: empty

    def split(values: Any) -> list[Any]:
        lanes = zip(*(part(values[key]) for key, part in parts), strict=True)
        return [tree.rebuild(spec, one) for one in lanes]

    return split


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """Returns an object array of shape (n,) that holds n values of any type."""
    array = np.empty(len(values), object)
    array[:] = values
    return array


def lane(spec: SpecTree, values: Any, index: int) -> Any:
    """Returns one lane of a batched value; its arrays are views."""
    if isinstance(spec, Spec):
        return values[index]
    return tree.rebuild(spec, [lane(sub, values[key], index) for _, key, sub in tree.children(spec)])


def take(values: Any, index: Any) -> Any:
    """Returns the lanes at `index` of a tree of arrays."""
    if isinstance(values, AnyArray):
        return values[index]
    return tree.map_leaves(lambda leaf: leaf[index], values)


def put(values: Any, index: NDArray[np.intp], some: Any) -> Any:
    """Returns a copy of a tree of arrays with new values in some lanes."""
    if isinstance(values, AnyArray):
        result = values.copy("K")
        result[index] = some
        return result
    # Not by `map_leaves`, which takes longer than the arrays of a few lanes.
    if isinstance(values, AnyDict):
        return tree.rebuild(values, [put(old, index, some[key]) for key, old in values.items()])
    return tree.rebuild(values, [put(old, index, new) for old, new in zip(values, some, strict=True)])


def put_lanes(spec: SpecTree, values: Any, index: NDArray[np.intp], some: Sequence[Any]) -> Any:
    """Returns a batched value with new values in some lanes. Without a spec, it is a tuple with an entry per lane."""
    if isinstance(spec, ARRAYS):
        array = np.array(values)
        if len(index):
            array[index] = stack(spec, some)
        return array
    if spec is None or isinstance(spec, Spec):
        held = list(values)
        for place, value in zip(index.tolist(), some, strict=True):
            held[place] = value
        return tuple(held)
    parts = tree.children(spec)
    return tree.rebuild(spec, [put_lanes(sub, values[key], index, [one[key] for one in some]) for _, key, sub in parts])


def groups_of_equal(values: Iterable[Any]) -> list[NDArray[np.bool_]]:
    """Returns a mask of shape (n,) for each group of lanes with equal values, the group of lane 0 first."""
    keys = [structure(value) for value in values]
    return [np.array([own == key for own in keys]) for key in dict.fromkeys(keys)]
