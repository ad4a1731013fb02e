"""Conversion of values from a source: casts to the declared spec, and copies of arrays that the source still holds.

A value of a dtype or type that differs slightly from its spec (a Python number, a 0-d array, another width of the same
kind) is cast, unless information could be lost. An array that the source still holds, and so may overwrite at its next
step, is copied; `is_held` decides.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from copy import deepcopy
from sys import getrefcount
from typing import Any, Literal, cast

import numpy as np
from numpy import ndarray

from envoi import Array, Discrete, Foreign, Graph, GraphValue, MultiBinary, MultiDiscrete, OneOf, Sequence
from envoi.spec import SpecTree
from envoi.tree import children, leaves, map_leaves, rebuild

Copy = Literal["auto"] | bool
"""The rule for copying arrays: `"auto"` copies those that the source still holds, True copies all, False none."""

Take = Callable[..., Any]
"""`(value, held=False) -> value`, where `held` is True if another object holds the container of `value`."""


def is_held(value: Any, own: int = 1) -> bool:
    """Returns True if its source may still change a value: an array, or a container of arrays.

    CPython's reference counts show it. Memory that they do not cover, such as C code's, counts as held. The caller has
    `own` references to the value: a local variable, and perhaps a tuple or dict around the value.
    """
    if getrefcount(value) > _ALONE + own:
        return True
    if type(value) is not ndarray or value.flags.owndata:
        return False
    base = value.base
    return type(base) is not ndarray or not base.flags.owndata or getrefcount(base) > _BASE_ALONE


def _count(value: Any, own: int = 1) -> int:
    return getrefcount(value)


def _count_base(value: Any) -> int:
    base = value.base
    return getrefcount(base)


def _count_passed(value: Any, held: bool = False) -> int:
    return _count(value)


def _calibrate() -> tuple[int, int, int, int, int]:
    """Measures counts for `is_held`, its `own` for parameters from a variable or a container, and a variable's own."""
    value, container, view = np.zeros(2), (np.zeros(2),), np.zeros(2)[:1]
    alone = _count(value) - 1
    if not getattr(sys, "_is_gil_enabled", lambda: True)():  # counts of free-threaded builds are not reliable
        return -9, -9, 0, 0, -9
    own = _count_passed(value) - alone, _count_passed(container[0]) - alone
    return alone, _count_base(view), *own, getrefcount(value)


_ALONE, _BASE_ALONE, _PASSED, _INSIDE, LOCAL = _calibrate()


def arrival(spec: SpecTree, copy: Copy, take: Take) -> tuple[str, dict[str, Any]]:
    """Returns the lines of an importer's step that convert or copy the observation, and the names that they use.

    An array of the declared dtype that owns its memory and that nothing else holds is used as it is; for all others,
    the lines call `take`.
    """
    if copy != "auto" or not isinstance(spec, (Array, MultiDiscrete, MultiBinary)):
        return "observation = take(observation)", {"take": take}
    held = f"getrefcount(observation) > {LOCAL} or not observation.flags.owndata"  # as in `is_held`, without a call
    lines = f"""\
if type(observation) is not ndarray or observation.dtype is not seen_dtype or {held}:
    observation = take(observation)"""
    # numpy's arrays of this kind have the very same dtype
    return lines, {"take": take, "ndarray": ndarray, "getrefcount": getrefcount, "seen_dtype": np.dtype(spec.dtype.str)}


def incoming(spec: SpecTree, copy: Copy = "auto", *, inside: bool = False) -> Take:
    """Returns a function that converts a source's values to those that a spec declares."""
    alone = _INSIDE if inside else _PASSED
    if isinstance(spec, (Array, MultiDiscrete, MultiBinary)):
        return _incoming_array(spec.dtype, spec.shape, copy, alone)
    if isinstance(spec, Discrete):
        return _incoming_integer(spec)
    if isinstance(spec, (dict, list, tuple)):
        return _incoming_branch(spec, copy, alone)
    if isinstance(spec, Sequence):
        if spec.stack:
            return lambda value, held=False: map_leaves(lambda sub, leaf: _copied(leaf, sub.dtype), spec.spec, value)
        each = incoming(spec.spec, copy)
        return lambda value, held=False: (
            tuple(each(one, True) for one in value) if hasattr(value, "__iter__") else value
        )
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
            if fitted is not None:
                return fitted
            return deepcopy(value) if auto or always else value
        return value.copy() if always or (auto and (held or is_held(value, alone))) else value

    return take


def _incoming_branch(spec: SpecTree, copy: Copy, alone: int) -> Take:
    parts = [(key, incoming(sub, copy, inside=True)) for _, key, sub in children(spec)]
    is_dict, size, keys = isinstance(spec, dict), len(spec), {key for key, _ in parts}

    def take(value: Any, held: bool = False) -> Any:
        fits = hasattr(value, "__len__") and len(value) == size and isinstance(value, dict) is is_dict
        if not fits or (is_dict and not keys <= value.keys()):
            return value if copy is False else deepcopy(value)
        # An object that holds the container can write into its leaves. (`value` must not become a cell, by a nested
        # function or generator: reading one takes a reference more on CPython 3.14.)
        held = held or is_held(value, alone)
        return rebuild(spec, [part(value[key], held) for key, part in parts])

    return take


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


# Rewards, infos and reset options.

HOLDERS = frozenset({np.ndarray, dict, list, tuple})
"""The types of rewards and discounts that another owner could change in place."""


def owned(value: Any) -> Any:
    """Copies a reward or discount if it is an array or a container, so that its source cannot change it in place."""
    return value.copy() if isinstance(value, np.ndarray) else deepcopy(value) if type(value) in HOLDERS else value


def fresh(options: Any) -> Any:
    """Returns a copy of options in which dicts, lists, tuples and arrays are copied, and other objects are shared."""
    if isinstance(options, Mapping):
        return {key: fresh(value) for key, value in options.items()}
    if type(options) in (list, tuple):
        return type(options)(fresh(value) for value in options)
    return options.copy() if isinstance(options, np.ndarray) else options


# Discounts in frameworks whose steps have none: one that does not follow from the flags is `info["discount"]`.


def is_default_discount(discount: Any, terminated: bool) -> bool:
    """Returns True if a discount is the default one: 0 for a terminated step and 1 otherwise."""
    if isinstance(discount, float):  # np.float64 too
        return discount == (0.0 if terminated else 1.0)
    if isinstance(discount, (dict, list, tuple)):
        return all(is_default_discount(leaf, terminated) for _, leaf in leaves(discount))
    return bool(np.all(discount == (0.0 if terminated else 1.0))) and np.ndim(discount) == 0


def is_zero(discount: Any) -> bool:
    """Returns True if a discount, possibly nested, is 0 in every element."""
    if isinstance(discount, float):  # np.float64 too
        return not discount
    return not any(np.any(leaf) for _, leaf in leaves(discount))


def with_discounts(
    infos: Mapping[Any, Any], discounts: Mapping[Any, Any], terminated: Mapping[Any, bool]
) -> dict[Any, Any]:
    """Adds `"discount"` to the infos of agents whose discount differs from the default."""
    special = {
        agent: discount for agent, discount in discounts.items() if not is_default_discount(discount, terminated[agent])
    }
    if not special:
        return cast("dict[Any, Any]", infos)
    return {agent: {**info, "discount": special[agent]} if agent in special else info for agent, info in infos.items()}


def is_number(value: Any) -> bool:
    """Returns True if a value can be a discount: a number or a nested structure of numbers."""
    numbers = [np.asarray(leaf).dtype.kind in "biuf" for _, leaf in leaves(value)]
    return bool(numbers) and all(numbers)
