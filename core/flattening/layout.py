"""A nested value as one flat array, and back: which number lies where, in which dtype, within which bounds."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import reduce
from operator import getitem, itemgetter
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import tree
from ..errors import SpecError
from ..spec import Array, Discrete, Spec, SpecTree
from ..spec.base import shown
from .leaf import Leaf, encoder, reader

ORDERS = ("insertion", "sorted")
ENCODINGS = ("integer", "one_hot")

Write: TypeAlias = Callable[[Any], Any]
"""A function of a nested value to a flat array."""


class Flattening:
    """How the values of a nested spec lie in one flat array.

    A scalar is one number, an array its elements in C order, an array of size 0 nothing. With `discrete="one_hot"`, a
    `Discrete` is n numbers of which one is 1, and each element of a `MultiDiscrete` likewise; these fit every dtype,
    and have no say in it where there is anything else.

    What the dtype may be:

    | | |
    |---|---|
    | `"strict"` | that of the leaves, which must have one |
    | `"promote"` | what numpy promotes theirs to; refused where that does not hold every value exactly |
    | a dtype | may round (integers to floats, floats to narrower ones), but not wrap or cut fractions off |

    The way back is exact where the dtype holds the values exactly. It is defined for every array in the flat spec, and
    gives a value in the nested one: a float becomes the nearest integer where an integer is due, the largest of a
    one-hot encoding is the one that is meant, and a number that was rounded over its bound becomes the bound.

    Args:
        spec: The nested spec.
        order: The order of the keys of dicts: as they are (`"insertion"`), or `"sorted"` at every level.
        dtype: `"strict"`, `"promote"`, or the dtype of the flat array.
        discrete: `"integer"`, or `"one_hot"`.
        what: How to call the value in messages.

    Attributes:
        spec: The spec of the flat array, of shape (k,); bounds are None on a side where no leaf has any.
        order: The order of the keys.
        slices: Where each leaf lies, by its path, in order.

    Raises:
        SpecError: A leaf is no array of numbers, or the dtypes do not go together; the message names the leaves.
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
        """A nested value, whose leaves may have leading axes (…), as an array of shape (…, k)."""
        if not self._leaves:
            return self.one(value)
        first = self._leaves[0]
        shape = np.shape(reduce(getitem, first.keys, value))
        lead = shape[: len(shape) - len(first.shape)]
        return self.many(value, lead) if lead else self.one(value)

    def unflatten(self, array: Any) -> Any:
        """An array of shape (…, k) as a nested value, whose leaves get the leading axes (…); nothing is shared.

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
    """The `(path, keys, leaf)` of each leaf, in the order in which they lie."""
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
    """A function of a flat array to the nested value, of those that read the leaves."""
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
        with np.errstate(over="ignore"):  # a bound beyond a narrower dtype is none there
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
        return leaf.range[side] if bound is None else bound  # what its own dtype said
    if isinstance(leaf.spec, Array):
        return (leaf.spec.low_or_inf, leaf.spec.high_or_inf)[side]
    return bound


def _writers(leaves: Sequence[Leaf], dtype: np.dtype[Any]) -> tuple[Write, Callable[[Any, tuple[int, ...]], Any]]:
    """Functions that flatten one value, and one with leading axes: `one(value)`, `many(value, lead)`."""
    concatenate = cast("Any", np.concatenate)
    gather, encoders = _gatherer([leaf.keys for leaf in leaves]), [encoder(leaf) for leaf in leaves]
    # Discrete values may come as Python's integers, whatever their dtype.
    come: list[Any] = [
        np.int64 if encode is None and isinstance(leaf.spec, Discrete) else leaf.dtype if encode is None else np.bool_
        for leaf, encode in zip(leaves, encoders, strict=True)
    ]
    casting = "same_kind" if all(np.can_cast(kind, dtype, "same_kind") for kind in come) else "unsafe"
    sizes = [(leaf.elements, encode) for leaf, encode in zip(leaves, encoders, strict=True)]

    places = [(leaf.keys[0], slice(leaf.start, leaf.stop)) for leaf in leaves if leaf.keys]
    # For a few short rows at the top, filling them in is more than twice as quick as numpy's concatenation.
    is_plain = len(places) == len(leaves) <= 8 and all(len(leaf.keys) == 1 == len(leaf.shape) for leaf in leaves)
    size, empty = sum(leaf.elements for leaf in leaves), np.empty

    def one_filled_in(value: Any) -> Any:
        flat = empty(size, dtype)
        for key, place in places:
            flat[place] = value[key]
        return flat

    def one(value: Any) -> Any:
        return concatenate(gather(value), None, dtype=dtype, casting=casting)

    def many(value: Any, lead: tuple[int, ...]) -> Any:
        rows = [
            np.reshape(leaf, (*lead, elements)) if encode is None else encode(np.reshape(leaf, (*lead, elements)))
            for leaf, (elements, encode) in zip(gather(value), sizes, strict=True)
        ]
        return concatenate(rows, -1, dtype=dtype, casting=casting) if rows else np.zeros((*lead, 0), dtype)

    def one_of_many(value: Any) -> Any:
        return many(value, ())

    if not leaves or any(encoders):
        return one_of_many, many
    return (one_filled_in if is_plain and casting == "same_kind" else one), many


def _gatherer(keys: list[tuple[Any, ...]]) -> Callable[[Any], Sequence[Any]]:
    """A function that gives the leaves at `keys`."""
    if len(keys) > 1 and all(len(path) == 1 for path in keys):
        return cast("Any", itemgetter(*(path[0] for path in keys)))

    def gather(value: Any) -> list[Any]:
        return [reduce(getitem, path, value) for path in keys]

    return gather
