"""The infos of many lanes as gymnasium's vector environments say them: one dict of arrays, with masks.

`infos[key]` has one element a lane, and `infos["_" + key]` says which lanes it speaks of. gymnasium itself gives the
array the type of the first value that comes, and so makes 1 of 1.9 and 1 of True; here an array is typed only when
all its values are of one type, and holds Python objects otherwise.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from envoi import Infos

Mask = NDArray[np.bool_]


def write(infos: Infos, n: int, written: dict[Any, Any] | None = None) -> dict[Any, Any]:
    """The infos of n lanes as a dict of arrays and masks; a new dict.

    Args:
        infos: The infos.
        n: How many lanes.
        written: Holds what was made of columns of some lanes, for the calls that come; None to keep nothing.
    """
    columns, mask = infos.columns, infos.mask
    if columns is None or not all(isinstance(column, np.ndarray) for column in columns.values()):
        return write_lanes(enumerate(infos), n)
    said: dict[Any, Any] = {}
    masks = infos.masks
    for key, column in columns.items():
        if masks is not None and key in masks:
            said.update(_write_some(key, column, masks[key], mask, n, {} if written is None else written))
            continue
        said[key] = column
        said[f"_{key}"] = np.ones(n, bool) if mask is None else mask.copy()
    return said


def _write_some(key: Any, column: Any, there: Mask, mask: Mask | None, n: int, written: dict[Any, Any]) -> Any:
    """A column of the lanes `there`, as far as `mask` has them: made once while the same column comes again."""
    held, done = written.get(key, (None, None))
    if held is not column or mask is not None:
        lanes = np.flatnonzero(there if mask is None else there & mask).tolist()
        done = write_lanes([(lane, {key: column[lane]}) for lane in lanes], n)
        _protect(done)
        if mask is None:
            written[key] = column, done
    return _fresh(done)


def _protect(said: Any) -> None:
    for part in said.values():
        if isinstance(part, dict):
            _protect(part)
        else:
            part.flags.writeable = False  # it lasts for many steps


def _fresh(said: Any) -> dict[Any, Any]:
    return {key: _fresh(part) if isinstance(part, dict) else part for key, part in said.items()}


def write_lanes(infos: Iterable[tuple[int, Mapping[Any, Any]]], n: int) -> dict[Any, Any]:
    """The infos of some of n lanes, given as (lane, info), as a dict of arrays and masks; a new dict."""
    found: dict[Any, tuple[list[int], list[Any]]] = {}
    for lane, info in infos:
        for key, value in info.items():
            lanes, values = found.setdefault(key, ([], []))
            lanes.append(lane)
            values.append(value)
    said: dict[Any, Any] = {key: _column(lanes, values, n) for key, (lanes, values) in found.items()}
    for key, (lanes, _) in found.items():
        said[f"_{key}"] = mask = np.zeros(n, bool)
        mask[lanes] = True
    return said


def _column(lanes: list[int], values: list[Any], n: int) -> Any:
    """The values of one key; a dict of columns where all values are dicts with names for keys."""
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
    """The shape and dtype in which an array keeps values of one type; no dtype where there is none."""
    if kind in (bool, int, float) or issubclass(kind, (np.number, np.bool_)):
        return (), kind
    if kind is np.ndarray:
        shape, dtype = values[0].shape, values[0].dtype
        if shape and dtype.kind in "biufc" and all(v.shape == shape and v.dtype == dtype for v in values):
            return shape, dtype
    return (), None


def _has_names(info: dict[Any, Any]) -> bool:
    """Whether gymnasium's own wrappers can read a nested dict: they expect strings for keys."""
    return all(isinstance(key, str) and (type(sub) is not dict or _has_names(sub)) for key, sub in info.items())


def read(said: Mapping[Any, Any], n: int, known: Mapping[Any, Any] | None = None, exact: Any = ()) -> Infos:
    """A dict of arrays and masks as the infos of n lanes.

    Args:
        said: What a vector environment said. An entry that has not one element a lane is every lane's.
        n: How many lanes.
        known: What one of our own forms said; for the entries of `said` that are still its own
        exact: holds the infos of all lanes, with the types that they had.
    """
    masks = {f"_{key}" for key in said}
    columns = {key: column for key, column in said.items() if not (isinstance(key, str) and key in masks)}
    if not columns:
        return Infos([{} for _ in range(n)])
    if known is None and all(_is_full(column, said.get(f"_{key}"), n) for key, column in columns.items()):
        return Infos(columns={key: column.copy() for key, column in columns.items()}, n=n)
    own = {key for key, column in columns.items() if known is not None and known.get(key) is column}
    lanes: list[dict[Any, Any]] = []
    for lane in range(n):
        info = {key: value for key, value in exact[lane].items() if key in own} if own else {}
        for key, column in columns.items():
            mask = said.get(f"_{key}")
            if key not in info and (mask is None or mask[lane]):
                info[key] = _at(column, lane, n)
        lanes.append(info)
    return Infos(lanes)


def _is_full(column: Any, mask: Any, n: int) -> bool:
    return isinstance(column, np.ndarray) and column.shape[:1] == (n,) and (mask is None or bool(np.all(mask)))


def _at(column: Any, lane: int, n: int) -> Any:
    if isinstance(column, dict):
        nested = cast("dict[Any, Any]", column)
        masks = {f"_{key}" for key in nested}
        return {
            key: _at(sub, lane, n)
            for key, sub in nested.items()
            if not (isinstance(key, str) and key in masks) and (f"_{key}" not in nested or nested[f"_{key}"][lane])
        }
    if isinstance(column, (np.ndarray, list, tuple)) and len(cast("Any", column)) == n:
        value = cast("Any", column)[lane]
        return value.copy() if isinstance(value, np.ndarray) else value
    return cast("Any", column)
