"""The infos of n lanes in the format of gymnasium's vector environments: one dict of arrays, with masks.

`infos[key]` has one element per lane, and `infos["_" + key]` is the mask of lanes that have the key. gymnasium itself
gives the array the type of the first value, and so converts 1.9 or True to 1. Here an array has a dtype only if all its
values are of one type, and is an object array otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from envoi import Infos

Mask = NDArray[np.bool_]


def write(infos: Infos, n: int) -> dict[Any, Any]:
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
            lanes = np.flatnonzero(masks[key] if mask is None else masks[key] & mask).tolist()
            result.update(write_lanes([(lane, {key: column[lane]}) for lane in lanes], n))
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
    """Returns the shape and dtype of an array element for values of one type; no dtype if they need an object array."""
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


def read(entries: Mapping[Any, Any], n: int, known: Mapping[Any, Any] | None = None, exact: Any = ()) -> Infos:
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
