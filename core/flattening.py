"""Conversion of nested values to one flat array and back: the layout of the leaves, and the encoding of each leaf."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from operator import getitem, itemgetter
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import DTypeLike, NDArray

from . import tree
from .errors import SpecError
from .spec import Array, Discrete, MultiDiscrete, Spec, SpecTree
from .spec.arrays import ARRAYS, bounds, integer_range
from .spec.base import shown

__all__ = ["ORDERS", "Flattening"]


@dataclass
class Leaf:
    """A leaf of `elements` numbers, and its place in the flat array: `size` numbers from `start` up to `stop`.

    `counts` has the length of each element's one-hot encoding; None if the leaf is not encoded.
    """

    path: str
    keys: tuple[Any, ...]
    spec: Any
    start: int
    encoded: bool

    def __post_init__(self) -> None:
        spec = self.spec
        if not isinstance(spec, ARRAYS):
            raise SpecError(f"{self.path}: expected an array of numbers to flatten, got {spec!r}; leave it out")
        self.shape, self.dtype, self.elements = spec.shape, spec.dtype, math.prod(spec.shape)
        self.low, self.high = bounds(spec)
        counts: list[int] | None = None
        if isinstance(spec, Discrete):
            counts = [spec.n]
        elif isinstance(spec, MultiDiscrete):
            counts = spec.nvec.ravel().tolist()
        self.counts = counts if self.encoded else None
        self.size = self.elements if self.counts is None else sum(self.counts)
        self.stop = self.start + self.size

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest integer that may occur in a non-empty leaf of integers or bools."""
        least, most = integer_range(self.dtype)
        return least if self.low is None else int(self.low.min()), most if self.high is None else int(self.high.max())

    def is_exact(self, dtype: np.dtype[Any]) -> bool:
        """Returns True if `dtype` represents every value of the leaf exactly."""
        if self.dtype == dtype or self.counts is not None or not self.size:
            return True
        if self.dtype.kind in "biu" and dtype.kind in "fc":
            return max(map(abs, self.range)) <= 2 ** (np.finfo(dtype).nmant + 1)
        if self.dtype.kind in "biu" and dtype.kind in "iu":
            info, (least, most) = np.iinfo(dtype), self.range
            return info.min <= least and most <= info.max
        return np.can_cast(self.dtype, dtype)

    def is_rounded(self, dtype: np.dtype[Any]) -> bool:
        """Returns True if `dtype` represents every value of the leaf at least approximately."""
        if dtype.kind not in "fc" or (self.dtype.kind == "c" and dtype.kind == "f"):
            return False
        return self.dtype.kind in "fc" or max(map(abs, self.range)) <= float(np.finfo(dtype).max)


def encoder(leaf: Leaf) -> Callable[[Any], Any] | None:
    """Returns a function from elements of shape (…, elements) to one-hot encodings of shape (…, size), dtype bool."""
    if leaf.counts is None:
        return None
    size, place = leaf.size, np.cumsum([0, *leaf.counts[:-1]])[: leaf.elements] - _wide(leaf.low).ravel()

    def encode(elements: Any) -> Any:
        result = np.zeros((*elements.shape[:-1], size), bool)
        np.put_along_axis(result, _wide(elements) + place, True, -1)
        return result

    return encode


def _wide(integers: Any) -> NDArray[np.int64]:
    """Converts integers to int64. A uint64 may wrap, but differences between two results stay correct."""
    return np.asarray(integers).astype(np.int64)


def reader(leaf: Leaf, dtype: np.dtype[Any]) -> Callable[[NDArray[Any]], Any]:
    """Returns a function that reads the leaf's value out of a flat array of shape (…, k)."""
    start, stop, shape, kind, low, high = leaf.start, leaf.stop, leaf.shape, leaf.dtype, leaf.low, leaf.high
    place: Any = slice(start, stop) if shape else start
    is_whole, is_scalar, is_exact = kind.kind in "biu", isinstance(leaf.spec, Discrete), leaf.is_exact(dtype)
    parts: list[slice] | None = None
    if leaf.counts is not None:
        parts = [slice(end - count, end) for count, end in zip(leaf.counts, np.cumsum(leaf.counts), strict=True)]

    def plain(flat: NDArray[Any]) -> Any:
        value = flat[..., place].astype(kind)
        return value if len(shape) < 2 else value.reshape((*flat.shape[:-1], *shape))

    def read(flat: NDArray[Any]) -> Any:
        part: Any = flat[..., start:stop]
        lead = flat.shape[:-1]
        if parts is not None:
            found = [part[..., one].argmax(-1) for one in parts]
            part = (np.stack(found, -1) if found else np.zeros((*lead, 0), np.int64)) + _wide(low).ravel()
        if part.dtype.kind == "c" and kind.kind != "c":
            part = part.real
        if is_whole and part.dtype.kind == "f":
            part = np.rint(part)
            part = part if is_exact else np.clip(part, *_limits(kind, part.dtype))
        value: Any = part.astype(kind).reshape((*lead, *shape))
        if not is_exact and not (low is None and high is None):
            value = np.clip(value, low, high)
        return value[()] if is_scalar else np.asarray(value)

    # By far the most common case, usually the action of a step.
    if kind.kind == "f" and is_exact and dtype.kind == "f":
        return plain
    return read


def _limits(kind: np.dtype[Any], dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Returns the smallest and the largest float of `dtype` that convert to integers of `kind` without overflow."""
    info = np.iinfo(kind)
    found: list[Any] = []
    for limit in (info.min, info.max):
        with np.errstate(over="ignore"):
            near = np.asarray(limit).astype(dtype)
        beyond = not np.isfinite(near) or not info.min <= int(near) <= info.max
        found.append(np.nextafter(near, dtype.type(0)) if beyond else near)
    return found[0], found[1]


ORDERS = ("insertion", "sorted")
ENCODINGS = ("integer", "one_hot")

Write: TypeAlias = Callable[[Any], Any]
"""A function that turns a nested value into a flat array."""


class Flattening:
    """Converts values of a nested spec to one flat array and back.

    A scalar takes one number, an array takes its elements in C order, and an array of size 0 takes none. With
    `discrete="one_hot"`, a `Discrete` takes n numbers, one 1 and otherwise 0, and so does each element of a
    `MultiDiscrete`. One-hot numbers fit every dtype, so other leaves determine the dtype if there are any.

    The choices of `dtype`:

    | `dtype` | dtype of the flat array |
    |---|---|
    | `"strict"` | the dtype of the leaves, which must be the same for all |
    | `"promote"` | the one that numpy promotes the leaves to; an error if it does not hold every value exactly |
    | a dtype | that one; it may round (integers to floats, floats to narrower ones), but not wrap or truncate |

    The inverse is exact wherever the dtype holds the values exactly. It accepts every array in the flat spec and
    returns a value in the nested spec: floats are rounded to the nearest integer for integer leaves, a one-hot encoding
    becomes the index of its largest number, and numbers that rounding moved beyond a bound are clipped.

    Args:
        spec: The nested spec.
        order: The order of dict keys: unchanged (`"insertion"`), or sorted at every level (`"sorted"`).
        dtype: `"strict"`, `"promote"`, or the dtype of the flat array.
        discrete: The encoding of `Discrete` and `MultiDiscrete` leaves, `"integer"` or `"one_hot"`.
        what: The name of the value in error messages.

    Attributes:
        spec: The spec of the flat array, of shape (k,). `low` or `high` is None if no leaf has such a bound.
        order: The order of the keys.
        slices: Maps the path of each leaf to its slice of the flat array, in order.

    Raises:
        SpecError: A leaf is not an array of numbers, the dtypes cannot be combined (the message names the leaves), or
            a choice is unknown.
    """

    def __init__(
        self,
        spec: SpecTree,
        order: str = "insertion",
        dtype: DTypeLike = "strict",
        discrete: str = "integer",
        what: str = "value",
    ) -> None:
        for name, choice, known in (("order", order, ORDERS), ("discrete", discrete, ENCODINGS)):
            if choice not in known:
                raise SpecError(f"{name}: expected one of {list(known)}, got {choice!r}")
        self._arguments = (spec, order, dtype, discrete, what)
        self.order = order
        leaves: list[Leaf] = []
        for path, keys, one in _in_order(spec, order, what):
            leaves.append(Leaf(path, keys, one, leaves[-1].stop if leaves else 0, discrete == "one_hot"))
        self._leaves = tuple(leaves)
        self._size = leaves[-1].stop if leaves else 0
        self.slices: Mapping[str, slice] = {leaf.path: slice(leaf.start, leaf.stop) for leaf in leaves}
        kind = _common_dtype(leaves, dtype, what)
        self.spec = Array(self._size, kind, *_bounds(leaves, kind))
        by_path = {leaf.path: reader(leaf, kind) for leaf in leaves}
        self._read = _builder(spec, what, by_path)
        self.one, self.many = _writers(leaves, kind)

    def flatten(self, value: Any) -> NDArray[Any]:
        """Flattens a nested value into an array.

        Args:
            value: A value of the nested spec; its leaves may have additional leading axes (…).

        Returns:
            An array of shape (…, k), in the dtype of the flat spec.
        """
        if not self._leaves:
            return self.one(value)
        first = self._leaves[0]
        shape = np.shape(reduce(getitem, first.keys, value))
        lead = shape[: len(shape) - len(first.shape)]
        return self.many(value, lead) if lead else self.one(value)

    def unflatten(self, array: Any) -> Any:
        """Converts a flat array to a nested value, which shares no memory with it.

        Args:
            array: An array of shape (…, k).

        Returns:
            A value of the nested spec, whose leaves have the leading axes (…).

        Raises:
            SpecError: The last axis has another length.
        """
        flat = np.asarray(array)
        if not flat.ndim or flat.shape[-1] != self._size:
            raise SpecError(f"{self._arguments[-1]}: expected an array of shape (…, {self._size}), got {shown(array)}")
        return self._read(flat)

    def __reduce__(self) -> tuple[Any, ...]:
        return Flattening, self._arguments

    def __repr__(self) -> str:
        return f"Flattening({', '.join(map(repr, self._arguments[:-1]))})"


def _in_order(
    spec: SpecTree, order: str, path: str, keys: tuple[Any, ...] = ()
) -> Iterator[tuple[str, tuple[Any, ...], Spec]]:
    """Yields `(path, keys, leaf)` for each leaf, in the order of the flat array."""
    if not tree.is_branch(spec):
        yield path, keys, spec
        return
    branches = list(tree.children(spec))
    if order == "sorted" and isinstance(spec, dict):
        try:
            branches.sort(key=itemgetter(1))
        except TypeError as error:
            raise SpecError(
                f"order: the keys of {path} cannot be sorted ({error}); choose order='insertion'"
            ) from error
    for part, key, sub in branches:
        yield from _in_order(sub, order, path + part, (*keys, key))


def _builder(spec: SpecTree, path: str, readers: Mapping[str, Callable[[Any], Any]]) -> Callable[[Any], Any]:
    """Returns a function that turns a flat array into the nested value, from the functions that read the leaves."""
    if not tree.is_branch(spec):
        return readers[path]
    parts = [(key, _builder(sub, path + part, readers)) for part, key, sub in tree.children(spec)]
    if type(spec) is dict:
        return lambda flat: {key: read(flat) for key, read in parts}
    return lambda flat: tree.rebuild(spec, [read(flat) for _, read in parts])


def _common_dtype(leaves: Sequence[Leaf], dtype: DTypeLike, what: str) -> np.dtype[Any]:
    decisive = [leaf for leaf in leaves if leaf.size and leaf.counts is None] or leaves
    dtypes = list(dict.fromkeys(leaf.dtype for leaf in decisive))
    policy = dtype if isinstance(dtype, str) and dtype in ("strict", "promote") else None
    if policy == "strict" and len(dtypes) > 1:
        listed = ", ".join(f"{leaf.path}: {leaf.dtype}" for leaf in decisive)
        raise SpecError(
            f"{what}: expected leaves of one dtype, got {listed}; choose dtype='promote', or one such as 'float32'"
        )
    if policy is None:
        try:
            common = Array((), dtype).dtype
        except SpecError as error:
            raise SpecError(f"dtype: expected 'strict', 'promote' or a numpy dtype, got {dtype!r}") from error
    else:
        common = np.result_type(*dtypes) if dtypes else Array(()).dtype
    for leaf in leaves:
        if not leaf.is_exact(common) and not (policy is None and leaf.is_rounded(common)):
            hint = "choose another" if policy is None else "give it narrower bounds, or choose a dtype, which may round"
            raise SpecError(f"{leaf.path}: {common} does not hold every value of {leaf.spec!r}; {hint}")
    return common


def _bounds(leaves: Sequence[Leaf], dtype: np.dtype[Any]) -> tuple[Any, Any]:
    if dtype.kind == "c":
        return None, None
    found: list[Any] = []
    for side, end in enumerate((-np.inf, np.inf)):
        bounds = [_bound(leaf, side, dtype) for leaf in leaves if leaf.size]
        if all(bound is None for bound in bounds):
            found.append(None)
            continue
        with np.errstate(over="ignore"):  # a bound beyond the range of a narrower dtype becomes infinite
            parts = [
                np.asarray(end if bound is None else bound).astype(dtype if dtype.kind == "f" else object)
                for bound in bounds
            ]
        shapes = [leaf.shape if leaf.counts is None else leaf.size for leaf in leaves if leaf.size]
        found.append(np.concatenate([np.broadcast_to(*both).ravel() for both in zip(parts, shapes, strict=True)]))
    return found[0], found[1]


def _bound(leaf: Leaf, side: int, dtype: np.dtype[Any]) -> Any:
    if leaf.counts is not None:
        return side
    bound: Any = (leaf.low, leaf.high)[side]
    if leaf.dtype != dtype and leaf.dtype.kind in "biu":
        return leaf.range[side] if bound is None else bound  # the limits of its own dtype
    if isinstance(leaf.spec, Array):
        return (leaf.spec.low_or_inf, leaf.spec.high_or_inf)[side]
    return bound


def _writers(leaves: Sequence[Leaf], dtype: np.dtype[Any]) -> tuple[Write, Callable[[Any, tuple[int, ...]], Any]]:
    """Returns `one(value)`, which flattens a single value, and `many(value, lead)`, for values with leading axes."""
    concatenate = np.concatenate
    gather, encoders = _gatherer([leaf.keys for leaf in leaves]), [encoder(leaf) for leaf in leaves]
    # Discrete values may be Python integers, whatever the dtype of their spec.
    arriving: list[Any] = [
        np.int64 if encode is None and isinstance(leaf.spec, Discrete) else leaf.dtype if encode is None else np.bool_
        for leaf, encode in zip(leaves, encoders, strict=True)
    ]
    casting = "same_kind" if all(np.can_cast(kind, dtype, "same_kind") for kind in arriving) else "unsafe"
    sizes = [(leaf.elements, encode) for leaf, encode in zip(leaves, encoders, strict=True)]

    places = [(leaf.keys[0], slice(leaf.start, leaf.stop)) for leaf in leaves if leaf.keys]
    # For a few short rows at the top level, assigning slices is more than twice as fast as np.concatenate.
    is_plain = len(places) == len(leaves) <= 8 and all(len(leaf.keys) == 1 == len(leaf.shape) for leaf in leaves)

    def one(value: Any) -> Any:
        return concatenate(gather(value), None, dtype=dtype, casting=casting)

    def many(value: Any, lead: tuple[int, ...]) -> Any:
        rows = [
            np.reshape(leaf, (*lead, elements)) if encode is None else encode(np.reshape(leaf, (*lead, elements)))
            for leaf, (elements, encode) in zip(gather(value), sizes, strict=True)
        ]
        return concatenate(rows, -1, dtype=dtype, casting=casting) if rows else np.zeros((*lead, 0), dtype)

    if not leaves or any(encoders):
        return partial(many, lead=()), many
    return (_filled_in(places, dtype) if is_plain and casting == "same_kind" else one), many


def _filled_in(places: Sequence[tuple[Any, slice]], dtype: np.dtype[Any]) -> Write:
    """Returns a function that fills the slices of a new array with values."""
    size, empty = places[-1][1].stop, np.empty

    def one(value: Any) -> Any:
        flat = empty(size, dtype)
        for key, place in places:
            flat[place] = value[key]
        return flat

    return one


def _gatherer(keys: list[tuple[Any, ...]]) -> Callable[[Any], Sequence[Any]]:
    """Returns a function that looks up the leaves of a nested value by their keys."""
    if len(keys) > 1 and all(len(path) == 1 for path in keys):
        return itemgetter(*(path[0] for path in keys))

    def gather(value: Any) -> list[Any]:
        return [reduce(getitem, path, value) for path in keys]

    return gather
