"""gymnasium's batched spaces, and conversions of batched values and infos."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space

from envoi import Array, Discrete, Infos, Spec, SpecError
from envoi.spec import SpecTree
from envoi.spec.arrays import ARRAYS
from envoi.spec.base import shown
from envoi.tree import children, map_leaves

from ..gymnasium.specs import decoder, encoder, native_encoder
from ..shared.array_specs import Convert, branch_decoder

NAME = "gymnasium_vector"


def batched_space(space: spaces.Space[Any], n: int) -> spaces.Space[Any]:
    """Returns the space of n lanes, with leaves of shape (n, …).

    Like `gymnasium.vector.utils.batch_space`, but keeps the order of a `Dict`, and which integers have bounds.
    """
    if isinstance(space, spaces.Dict):
        items = ((key, batched_space(sub, n)) for key, sub in space.spaces.items())
        return spaces.Dict(OrderedDict(items))  # gymnasium would sort a plain dict
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([batched_space(sub, n) for sub in space.spaces])
    batched = batch_space(space, n)
    if isinstance(space, spaces.Box) and isinstance(batched, spaces.Box):
        # gymnasium takes the ends of the dtype for bounds, and cannot sample int64 between these.
        for side in ("bounded_below", "bounded_above"):
            setattr(batched, side, np.repeat(getattr(space, side)[None], n, 0))
    return batched


def batched_encoder(spec: SpecTree, path: str = "observation") -> Convert | None:
    """Returns a function that converts batched core values for gymnasium, or None if no conversion is needed."""
    if isinstance(spec, Discrete):
        dtype = spec.dtype
        # A space does not contain integers of a wider dtype than its own.
        return lambda values: np.asarray(values, dtype)
    if isinstance(spec, ARRAYS):
        return None
    if isinstance(spec, Spec):
        one = encoder(spec, path=path)
        return one and (lambda values: tuple(one(value) for value in values))
    return native_encoder(spec, [(k, batched_encoder(sub, path + p)) for p, k, sub in children(spec)], False, path)


def batched_decoder(spec: SpecTree, n: int, path: str = "actions") -> Convert:
    """Returns a function that converts batched values of gymnasium for the core, with new containers."""
    if isinstance(spec, ARRAYS):
        return _array_decoder((n, *spec.shape), path)
    if isinstance(spec, Spec):
        return _tuple_decoder(decoder(spec, path), n, path)
    parts: list[Any] = [(key, batched_decoder(sub, n, path + part)) for part, key, sub in children(spec)]
    return branch_decoder(spec, parts, path, exact=False)


def _array_decoder(shape: tuple[int, ...], path: str) -> Convert:
    def decode(values: Any) -> Any:
        array = np.asarray(values)
        if array.shape != shape:
            each = f"with one entry for each of {shape[0]} lanes"
            raise SpecError(f"{path}: expected shape {shape}, {each}, got {array.shape}")
        return array

    return decode


def _tuple_decoder(one: Convert | None, n: int, path: str) -> Convert:
    def decode(values: Any) -> Any:
        if not isinstance(values, (tuple, list)) or len(values) != n:
            raise SpecError(f"{path}: expected a tuple with one entry for each of {n} lanes, got {shown(values)}")
        return tuple(values) if one is None else tuple(one(value) for value in values)

    return decode


def batched_spec(spec: SpecTree, n: int) -> SpecTree:
    """Returns the spec of the values of n lanes: unbounded arrays of shape (n, …), and tuples for other leaves."""
    return map_leaves(
        lambda leaf: Array((n, *leaf.shape), leaf.dtype) if isinstance(leaf, ARRAYS) else (leaf,) * n, spec
    )


class VectorSpaces:
    """Mixin that reads the spaces of an importer's source, which may declare only the spaces of one lane."""

    source: Any

    def native_space(self, what: str, agent: Any = None) -> Any:
        """Returns the source's `"observation"` or `"action"` space of one lane."""
        single = f"single_{what}_space"
        return getattr(self.source, single if hasattr(self.source, single) else f"{what}_space")

    def native_lanes_space(self, what: str) -> Any:
        """Returns the source's batched `"observation"` or `"action"` space, or None if it has none."""
        return getattr(self.source, f"{what}_space") if hasattr(self.source, f"single_{what}_space") else None


# Infos: gymnasium has one dict of arrays. `infos[key]` has one element per lane, and `infos["_" + key]` is the mask of
# lanes that have the key. gymnasium itself gives the array the type of the first value, and so converts 1.9 or True to
# 1. Here an array has a dtype only if all its values are of one type, and is an object array otherwise.


def write_infos(infos: Infos, n: int) -> dict[Any, Any]:
    """Converts infos to a new dict of arrays and masks."""
    columns, mask = infos.columns, infos.mask
    if columns is None:
        return write_lanes(enumerate(infos), n)
    result: dict[Any, Any] = {}
    masks = infos.masks
    for key, column in columns.items():
        if not isinstance(column, np.ndarray):
            return write_lanes(enumerate(infos), n)
        if masks is not None and key in masks:
            there = masks[key] if mask is None else masks[key] & mask
            index = there.nonzero()[0]
            if column.dtype.kind not in "biufc":
                result.update(write_lanes([(lane, {key: column[lane]}) for lane in index.tolist()], n))
            elif len(index):
                result[key], result[f"_{key}"] = np.zeros_like(column), there.copy()
                result[key][index] = column[index]
            continue
        result[key] = column
        result[f"_{key}"] = there = np.empty(n, bool)
        if mask is None:
            there.fill(True)
        else:
            there[:] = mask
    return result


def write_lanes(infos: Iterable[tuple[int, Mapping[Any, Any]]], n: int) -> dict[Any, Any]:
    """Converts the infos of some lanes to a new dict of arrays and masks."""
    found: dict[Any, tuple[list[int], list[Any]]] = {}
    for lane, info in infos:
        for key, value in info.items():
            lanes, values = found.setdefault(key, ([], []))
            lanes.append(lane)
            values.append(value)
    result: dict[Any, Any] = {key: _column(lanes, values, n) for key, (lanes, values) in found.items()}
    for key, (lanes, _) in found.items():
        result[f"_{key}"] = mask = np.zeros(n, bool)
        mask[lanes] = True
    return result


def _column(lanes: list[int], values: list[Any], n: int) -> Any:
    """Returns the array of one key's values; a dict of arrays if all values are dicts with string keys."""
    kind = type(values[0])
    if all(type(value) is kind for value in values):
        if kind is dict and all(_has_names(value) for value in values):
            return write_lanes(zip(lanes, values, strict=True), n)
        shape, dtype = _typed(kind, values)
        if dtype is not None:
            column = np.zeros((n, *shape), dtype)
            try:
                column[lanes] = values
            except OverflowError:  # an integer beyond 64 bits
                pass
            else:
                return column
    column = np.full(n, None, object)
    for lane, value in zip(lanes, values, strict=True):
        column[lane] = value
    return column


def _typed(kind: type, values: list[Any]) -> tuple[tuple[int, ...], Any]:
    """Returns the shape and dtype of an array element for values of one type; the dtype is None for an object array."""
    if kind in (bool, int, float) or issubclass(kind, (np.number, np.bool_)):
        return (), kind
    if kind is np.ndarray:
        shape, dtype = values[0].shape, values[0].dtype
        if shape and dtype.kind in "biufc" and all(v.shape == shape and v.dtype == dtype for v in values):
            return shape, dtype
    return (), None


def _has_names(info: dict[Any, Any]) -> bool:
    """Returns True if all keys of a nested dict are strings, as gymnasium's own wrappers expect."""
    return all(isinstance(key, str) and (type(sub) is not dict or _has_names(sub)) for key, sub in info.items())


def read_infos(entries: Mapping[Any, Any], n: int, known: Mapping[Any, Any] | None = None, exact: Any = ()) -> Infos:
    """Converts a dict of arrays and masks to the infos of n lanes."""
    masks = {f"_{key}" for key in entries}
    columns = {key: column for key, column in entries.items() if not (isinstance(key, str) and key in masks)}
    if not columns:
        return Infos([{} for _ in range(n)])
    if known is None and all(_is_full(column, entries.get(f"_{key}"), n) for key, column in columns.items()):
        return Infos(columns={key: column.copy() for key, column in columns.items()}, n=n)
    own = {key for key, column in columns.items() if known is not None and known.get(key) is column}
    lanes: list[dict[Any, Any]] = []
    for lane in range(n):
        info = {key: value for key, value in exact[lane].items() if key in own} if own else {}
        for key, column in columns.items():
            mask = entries.get(f"_{key}")
            if key not in info and (mask is None or mask[lane]):
                info[key] = _at(column, lane, n)
        lanes.append(info)
    return Infos(lanes)


def _is_full(column: Any, mask: Any, n: int) -> bool:
    return isinstance(column, np.ndarray) and column.shape[:1] == (n,) and (mask is None or bool(np.all(mask)))


def _at(column: Any, lane: int, n: int) -> Any:
    if isinstance(column, dict):
        nested: dict[Any, Any] = column
        masks = {f"_{key}" for key in nested}
        return {
            key: _at(sub, lane, n)
            for key, sub in nested.items()
            if not (isinstance(key, str) and key in masks) and (f"_{key}" not in nested or nested[f"_{key}"][lane])
        }
    if isinstance(column, (np.ndarray, list, tuple)) and len(column) == n:
        value = column[lane]
        return value.copy() if isinstance(value, np.ndarray) else value
    return column
