"""Conversion of values from a source: casts to the declared spec, and copies of arrays that the source still holds.

A value of a dtype or type that differs slightly from its spec (a Python number, a 0-d array, another width of the same
kind) is cast, unless information could be lost. An array that the source still holds, and so may overwrite at its next
step, is copied.

CPython's reference counts show if another object holds an array. An array that is referenced only by the tuple or dict
in which it arrived cannot be changed from outside, so the common case needs no copy.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from copy import deepcopy
from typing import Any, Literal

import numpy as np

from envoi import (
    Array,
    Discrete,
    Foreign,
    Graph,
    GraphValue,
    MultiBinary,
    MultiDiscrete,
    OneOf,
    Sequence,
)
from envoi.protocol.fast_steps import Part, assemble
from envoi.spec import SpecTree
from envoi.tree import children, map_leaves, rebuild

Copy = Literal["auto"] | bool
"""The rule for copying arrays: `"auto"` copies those that the source still holds, True copies all, False none."""

Take = Callable[..., Any]
"""`(value, held=False) -> value`, where `held` is True if another object holds the container of `value`."""


def _references(value: Any, held: bool = False) -> int:
    return sys.getrefcount(value)


def _base_references(value: np.ndarray[Any, Any]) -> int:
    base = value.base
    return sys.getrefcount(base)


def _baselines() -> tuple[int, int, int]:
    """Returns baseline reference counts: of a caller's local, of an element of a container, and of a view's base."""
    value, container, view = np.zeros(2), (np.zeros(2),), np.zeros(2)[:1]
    return _references(value), _references(container[0]), _base_references(view)


_PASSED, _INSIDE, _BASE_ALONE = _baselines()


def _count_in_a_step() -> int:
    lines = "observation, _ = $source()\nreturn $getrefcount(observation)"
    names = {"source": lambda: (np.zeros(2), None), "getrefcount": sys.getrefcount}
    return assemble([Part("the count of an observation that only a step holds", outward=lines, names=names)])(None)


def _counts_in_a_method() -> tuple[int, int, int]:
    """Returns baseline reference counts of `IN_LOCAL`, `IN_TUPLE` and `IN_DICT`, measured in one frame."""
    value = np.zeros(2)
    (inside, *_) = _whole = (np.zeros(2),)
    values = {"agent": np.zeros(2)}
    one = values["agent"]
    return sys.getrefcount(value), sys.getrefcount(inside), sys.getrefcount(one)


# In free-threaded builds counts are not reliable; -1 makes every array a copy.
_COUNTS_HOLD = getattr(sys, "_is_gil_enabled", lambda: True)()

ALONE = _count_in_a_step() if _COUNTS_HOLD else -1
"""The count that `sys.getrefcount` gives in an assembled step for an observation that nothing else holds."""

IN_LOCAL, IN_TUPLE, IN_DICT = _counts_in_a_method() if _COUNTS_HOLD else (-1, -1, -1)
"""The reference counts, in a handwritten method, of a local variable's value: held by nothing else; held only by the
tuple that it was unpacked from; held only by the dict that it was looked up in."""


def arrival(spec: SpecTree, copy: Copy, take: Take) -> tuple[str, dict[str, Any]]:
    """Returns the lines of an importer's part of a step that take an observation over, and the names in them.

    An array as declared that owns its memory and that nothing else holds stays as it is; for all others `take` is
    called.

    Args:
        spec: The spec of observations.
        copy: Whether to copy arrays.
        take: `incoming(spec, copy)`, or more.
    """
    if copy != "auto" or not isinstance(spec, (Array, MultiDiscrete, MultiBinary)):
        return "observation = $take(observation)", {"take": take}
    names: dict[str, Any] = {"take": take, "ndarray": np.ndarray, "getrefcount": sys.getrefcount}
    names["dtype"] = np.dtype(spec.dtype.str)  # to which numpy's arrays of this kind are identical
    conditions = [
        "type(observation) is not $ndarray",
        "observation.dtype is not $dtype",
        f"$getrefcount(observation) > {ALONE}",
        f"observation.__sizeof__() != {own_size(spec)}",
    ]
    if _view_may_have_size(spec):
        conditions.append(f"observation.ndim != {len(spec.shape)}")
    either = "\n    or ".join(conditions)
    return f"if (\n    {either}\n):\n    observation = $take(observation)", names


def own_size(spec: Array | MultiDiscrete | MultiBinary) -> int:
    """Returns `__sizeof__()` of an array of a spec that owns its memory; an array that does not is smaller.

    Comparing it takes a third of the time of `flags.owndata`, which makes an object. (`base` does not answer the
    question, because C code may return arrays over its own memory that have no base.)

    Args:
        spec: The spec.
    """
    return np.empty(spec.shape, spec.dtype).__sizeof__()


_AXIS = np.zeros((1, 1))[...].__sizeof__() - np.zeros(1)[...].__sizeof__()
_MOST_AXES = 64


def _view_may_have_size(spec: Array | MultiDiscrete | MultiBinary) -> bool:
    """Returns True if a view of more axes can have the `own_size` of a spec: each axis more takes some bytes."""
    axes, rest = divmod(np.empty(spec.shape, spec.dtype).nbytes, _AXIS)
    return not rest and 0 < axes <= _MOST_AXES - len(spec.shape)


def _base_is_held(value: np.ndarray[Any, Any]) -> bool:
    """Returns True if another object can reach the memory of an array that does not own it."""
    base = value.base
    return type(base) is not np.ndarray or not base.flags.owndata or _base_references(value) > _BASE_ALONE + 1


def incoming(spec: SpecTree, copy: Copy = "auto", *, inside: bool = False) -> Take:
    """Returns a function that converts a source's values to those that a spec declares.

    Args:
        spec: The spec of the values.
        copy: The rule for copying arrays.
        inside: True for values that are looked up in their container in the very call.

    Returns:
        `(value, held=False) -> value`, whose argument must be a local variable of the caller, or as `inside` says,
        because it counts references. A value that does not fit its spec is returned as it is (copied, unless `copy`
        is False); it is not validated.
    """
    alone = _INSIDE if inside else _PASSED
    if isinstance(spec, (Array, MultiDiscrete, MultiBinary)):
        return _incoming_array(spec.dtype, spec.shape, copy, alone)
    if isinstance(spec, Discrete):
        return _incoming_integer(spec)
    if isinstance(spec, (dict, list, tuple)):
        return _incoming_branch(spec, copy, alone)
    if isinstance(spec, Sequence):
        return _incoming_sequence(spec, copy)
    if isinstance(spec, OneOf):
        parts = [incoming(sub, copy, inside=True) for sub in spec.specs]
        return lambda value, held=False: (np.int64(value[0]), parts[int(value[0])](value[1], True))
    if isinstance(spec, Graph):
        return lambda value, held=False: GraphValue(
            _copied(value.nodes, spec.node.dtype),
            _copied(value.edges, spec.edge and spec.edge.dtype),
            _copied(value.edge_links),
        )
    if isinstance(spec, Foreign) and copy is not False:
        return lambda value, held=False: deepcopy(value)
    return lambda value, held=False: value


def _incoming_array(dtype: np.dtype[Any], shape: tuple[int, ...], copy: Copy, alone: int) -> Take:
    auto, always = copy == "auto", copy is True

    def take(value: Any, held: bool = False) -> Any:
        if type(value) is not np.ndarray or value.dtype != dtype or value.shape != shape:
            fitted = _fitted(value, dtype, shape)
            return deepcopy(value) if fitted is None and (auto or always) else value if fitted is None else fitted
        # The count is read in this very frame, because `_references` was calibrated for one of its shape.
        if always or (
            auto and (held or sys.getrefcount(value) > alone or (not value.flags.owndata and _base_is_held(value)))
        ):
            return value.copy()
        return value

    return take


def _incoming_branch(spec: SpecTree, copy: Copy, alone: int) -> Take:
    parts = [(key, incoming(sub, copy, inside=True)) for _, key, sub in children(spec)]
    is_dict, size, keys = isinstance(spec, dict), len(spec), {key for key, _ in parts}

    def take(value: Any, held: bool = False) -> Any:
        if not hasattr(value, "__len__") or len(value) != size or isinstance(value, dict) is not is_dict:
            return value if copy is False else deepcopy(value)
        if is_dict and not keys <= value.keys():
            return value if copy is False else deepcopy(value)
        # An object that holds the container can write into its leaves. (`value` must not become a cell, by a nested
        # function or generator: reading one takes a reference more on CPython 3.14.)
        held = held or sys.getrefcount(value) > alone
        return rebuild(spec, [part(value[key], held) for key, part in parts])

    return take


def _incoming_sequence(spec: Sequence, copy: Copy) -> Take:
    if spec.stack:
        return lambda value, held=False: map_leaves(lambda sub, leaf: _copied(leaf, sub.dtype), spec.spec, value)
    element = incoming(spec.spec, copy)
    return lambda value, held=False: tuple(element(one, True) for one in value) if hasattr(value, "__iter__") else value


def _fitted(value: Any, dtype: np.dtype[Any], shape: tuple[int, ...]) -> Any:
    """Returns a new array of the dtype if the value has the same shape and kind, else None."""
    try:
        array = np.asarray(value)
    except ValueError:
        return None
    if array.shape != shape or array.dtype.kind not in "biuf":
        return None
    if array.dtype.kind in "iu" and dtype.kind in "iu":
        # An integer of any width fits every integer dtype that holds it.
        info = np.iinfo(dtype)
        if array.size and (array.min() < info.min or array.max() > info.max):
            return None
        return array.astype(dtype)
    if not np.can_cast(array.dtype, dtype, "same_kind"):
        return None
    if array.dtype.kind not in "iu" or (array.dtype.itemsize < 8 and np.can_cast(array.dtype, dtype)):
        return array.astype(dtype)
    with np.errstate(over="ignore"):
        result = array.astype(dtype)
    # Python compares integers with floats exactly.
    return result if result.tolist() == array.tolist() else None


def _incoming_integer(spec: Discrete) -> Take:
    kind, info = spec.dtype.type, np.iinfo(spec.dtype)
    least, most = int(info.min), int(info.max)

    def take(value: Any, held: bool = False) -> Any:
        if type(value) is kind:
            return value
        if isinstance(value, (int, np.integer, np.bool_)) or (
            isinstance(value, np.ndarray) and value.shape == () and value.dtype.kind in "iub"
        ):
            number = int(value)
            return kind(number) if least <= number <= most else value
        return value

    return take


def _copied(value: Any, dtype: np.dtype[Any] | None = None) -> Any:
    """Returns a copy of an array of any shape, in `dtype` if it fits; None for None."""
    if value is None:
        return None
    fitted = None if dtype is None else _fitted(value, dtype, np.shape(value))
    return np.array(value) if fitted is None else fitted
