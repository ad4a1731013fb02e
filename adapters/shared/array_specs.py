"""Conversions of specs and values for frameworks whose specs describe arrays (dm_env, TF-Agents).

Every spec except text and variable-sized structures is one array with shape, dtype and two bounds (`array_form`).
From the array alone, only an `Array` can be rebuilt. A framework's spec therefore remembers the core spec it is from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envoi import Array, Discrete, LossyConversion, MultiBinary, MultiDiscrete, Spec, SpecError, Text
from envoi.spec import SpecTree
from envoi.spec.arrays import integer_range
from envoi.spec.base import shown
from envoi.tree import children, map_leaves, rebuild


@dataclass(frozen=True, eq=False)
class ArrayForm:
    """A spec as one array. Bounds are inclusive and have the array's shape, as in `Array`; None for no bound."""

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: NDArray[Any] | None
    high: NDArray[Any] | None
    name: str | None

    @property
    def is_bounded(self) -> bool:
        """True if there is a lower or an upper bound."""
        return self.low is not None or self.high is not None

    @property
    def bounds(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Both bounds as arrays of this shape and dtype; the dtype's least or greatest value replaces a missing one."""
        least, most = extremes(self.dtype)
        return _filled(self.low, -np.inf, least, self), _filled(self.high, np.inf, most, self)


def _filled(bound: NDArray[Any] | None, infinity: float, end: Any, form: ArrayForm) -> NDArray[Any]:
    if bound is None:
        return np.full(form.shape, end, form.dtype)
    return np.array(np.where(bound == infinity, end, bound) if bound.dtype.kind == "O" else bound, form.dtype)


def extremes(dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Returns the least and the greatest value of a dtype: ∓inf for floats."""
    if dtype.kind == "f":
        return -np.inf, np.inf
    return (False, True) if dtype.kind == "b" else integer_range(dtype)


def array_form(spec: Spec, path: str, target: str) -> ArrayForm:
    """Returns a leaf's spec as one array."""
    if isinstance(spec, Array):
        return ArrayForm(spec.shape, spec.dtype, spec.low_or_inf, spec.high_or_inf, spec.name)
    if isinstance(spec, Discrete):
        low, high = (np.array(bound, spec.dtype) for bound in (spec.start, spec.start + spec.n - 1))
        return ArrayForm((), spec.dtype, low, high, spec.name)
    if isinstance(spec, MultiDiscrete):
        return ArrayForm(spec.shape, spec.dtype, spec.start, np.asarray(spec.last), spec.name)
    if isinstance(spec, MultiBinary):
        low, high = np.zeros(spec.shape, np.int8), np.ones(spec.shape, np.int8)
        return ArrayForm(spec.shape, spec.dtype, low, high, spec.name)
    raise LossyConversion(path, "type", repr(spec), target, "specs describe only arrays of one shape; leave it out")


def read_form(form: ArrayForm, path: str = "spec") -> Array:
    """Returns the core spec of an array that a framework describes."""
    if form.dtype.kind not in "biufc":
        raise LossyConversion(path, "dtype", str(form.dtype), "the core", "use numbers, or a spec of strings")
    if form.low is not None and form.high is not None and form.dtype.kind == "f":
        least, most = extremes(form.dtype)
        if bool((form.low == least).all()) and bool((form.high == most).all()):
            return Array(form.shape, form.dtype, None, None, form.name)
    return Array(form.shape, form.dtype, form.low, form.high, form.name)


def default_discrete(spec: SpecTree) -> SpecTree:
    """Replaces each integer scalar with two bounds by a `Discrete`, in specs of actions.

    A foreign spec does not distinguish four choices 0 … 3 from a quantity: in an action they are taken for choices, in
    an observation for a quantity (`Array`). Bounds that are the whole range of the dtype are never choices.
    """
    return map_leaves(_as_choice, spec)


def _as_choice(spec: Spec) -> Spec:
    if not isinstance(spec, Array) or spec.shape != () or spec.dtype.kind not in "iu":
        return spec
    if spec.low is None or spec.high is None:
        return spec
    first, last = int(spec.low), int(spec.high)
    if (first, last) == extremes(spec.dtype):
        return spec
    return Discrete(last - first + 1, first, spec.dtype, spec.name)


# Specs of a framework that remember the core spec that they were made from.

_ORIGIN = "_envoi_spec"


def remembering(kind: type, arguments: tuple[Any, ...], spec: Spec | None) -> Any:
    """Makes a framework's spec that remembers the core spec it is made from; otherwise it behaves like any of `kind`.

    Copies and pickles remember it too. A result of `replace` does not, because it is another spec.
    """
    made = _remembering(kind)(*arguments)
    setattr(made, _ORIGIN, spec)
    return made


def origin(foreign: Any) -> Spec | None:
    """Returns the core spec that `remembering` made a framework's spec from, or None."""
    return getattr(foreign, _ORIGIN, None)


@cache
def _remembering(kind: Any) -> Any:
    class Remembering(kind):
        # The frameworks' specs have slots, and none for the core spec.
        __slots__ = (_ORIGIN,)
        __hash__ = None  # pyright: ignore[reportAssignmentType]

        def __reduce__(self) -> tuple[Any, ...]:
            return remembering, (kind, super().__reduce__()[1], origin(self))

    Remembering.__name__, Remembering.__qualname__ = kind.__name__, kind.__qualname__
    return Remembering


_ARRAYS = (Array, MultiDiscrete, MultiBinary)

# Values. Only scalars differ in type; dicts, lists, tuples and named tuples are the same in these frameworks.


def encoder(spec: SpecTree, fresh: bool = False, path: str = "observation") -> Convert | None:
    """Returns a function that converts core values for these frameworks, or None if no conversion is needed.

    A `Discrete` value becomes a numpy integer of the spec's dtype (hashable, unlike an array), a scalar of another
    spec becomes a 0-d array. A value that is no choice, or lacks a part, raises `SpecError`, which names the path.
    """
    if isinstance(spec, Discrete):
        return _of_choice(spec, path)
    if isinstance(spec, Spec):
        return _to_array(spec.dtype) if isinstance(spec, _ARRAYS) and spec.shape == () else None
    parts = [(key, encoder(sub, fresh, path + part)) for part, key, sub in children(spec)]
    return branch_encoder(spec, parts, fresh, path)


def decoder(spec: SpecTree, path: str = "action", exact: bool = False) -> Convert | None:
    """Returns a function that converts a framework's values for the core, or None if no conversion is needed.

    Containers are made in each call. A value with a missing part raises `SpecError`, which names the path.
    """
    if isinstance(spec, (Discrete, Text)):
        # Authors may use a choice as the key of a dict, and arrays are not hashable.
        return lambda value: value[()] if type(value) is np.ndarray else value
    if isinstance(spec, Spec):
        return _to_array(spec.dtype) if isinstance(spec, _ARRAYS) and spec.shape == () else None
    return branch_decoder(spec, [(key, decoder(sub, path + p, exact)) for p, key, sub in children(spec)], path, exact)


def _of_choice(spec: Discrete, path: str) -> Convert:
    """Returns the function for an integer of any type, or an array of shape (). It looks up the usual ones."""
    kind = spec.dtype.type
    scalars = {number: kind(number) for number in range(spec.start, spec.start + min(spec.n, 256))}

    def convert(value: Any) -> Any:
        try:
            return scalars[value]
        except (KeyError, TypeError):  # arrays are not hashable
            pass
        spec.validate(value, path)
        return kind(value)

    return convert


def _to_array(dtype: np.dtype[Any]) -> Convert:
    def convert(value: Any) -> Any:
        # Python numbers have no dtype of their own.
        return np.asarray(value) if isinstance(value, (np.ndarray, np.generic)) else np.asarray(value, dtype)

    return convert


Convert = Callable[[Any], Any]


def branch_encoder(
    spec: SpecTree, parts: list[tuple[Any, Convert | None]], fresh: bool, path: str = "observation"
) -> Convert | None:
    """Returns a function that converts a core dict, list or tuple for a framework, or None if nothing is to be done."""
    return branch_decoder(spec, parts, path, False) if fresh or any(part for _, part in parts) else None


def branch_decoder(spec: SpecTree, parts: list[tuple[Any, Convert | None]], path: str, exact: bool) -> Convert:
    """Returns a function that converts a dict, list or tuple.

    The container's type is not checked: any value with these keys or of this length is accepted. A value with a
    missing part raises `SpecError`, which names the path.
    """
    is_dict = type(spec) is dict

    def decode(value: Any) -> Any:
        try:
            if is_dict:
                return {key: part(value[key]) if part else value[key] for key, part in parts}
            return rebuild(spec, [part(value[key]) if part else value[key] for key, part in parts])
        except (KeyError, IndexError, TypeError):
            _check_parts(spec, value, path)
            raise

    def decode_exactly(value: Any) -> Any:
        _check_parts(spec, value, path)
        return decode(value)

    return decode_exactly if exact else decode


def _check_parts(spec: SpecTree, value: Any, path: str) -> None:
    if isinstance(spec, dict):
        keys = list(spec)
        if not isinstance(value, Mapping):
            raise SpecError(f"{path}: expected a dict with keys {keys}, got {shown(value)}")
        given: Mapping[Any, Any] = value
        missing, extra = [key for key in keys if key not in given], [key for key in given if key not in spec]
        if missing or extra:
            raise SpecError(f"{path}: expected keys {keys}; missing {missing}, too many {extra}")
    elif not isinstance(value, (list, tuple)) and not (isinstance(value, np.ndarray) and value.ndim):
        raise SpecError(f"{path}: expected a {type(spec).__name__} of {len(spec)} elements, got {shown(value)}")
    elif len(value) != len(spec):
        raise SpecError(f"{path}: expected {len(spec)} elements, got {len(value)}")
