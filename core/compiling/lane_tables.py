"""Stand-ins that a traced function finds: for arrays of the model, which lanes may index, and for `np.array`."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import Unsupported
from .lane_arrays import LaneArray
from .lane_nodes import collect, dtype_of, nodes_of


class Table(np.ndarray[Any, Any]):
    """An array of the model that lanes may index."""

    def __getitem__(self, key: Any) -> Any:
        parts = key if isinstance(key, tuple) else (key,)
        if not any(isinstance(part, LaneArray) for part in parts):
            return np.asarray(self)[key]
        recorder = next(part for part in parts if isinstance(part, LaneArray)).recorder
        if any(not isinstance(part, (LaneArray, int, np.integer, np.ndarray)) for part in parts):
            raise Unsupported("it indexes an array by lanes' values together with slices")
        array = np.ascontiguousarray(self)
        if len(parts) > array.ndim or array.dtype.kind not in "biuf":
            raise Unsupported(f"it indexes an array of shape {array.shape} and dtype {array.dtype} by lanes' values")
        indices = np.broadcast_arrays(*(nodes_of(part, recorder) for part in parts))
        for part in parts:
            if isinstance(part, LaneArray) and part.dtype.kind not in "iu":
                raise Unsupported("it indexes an array by a mask of lanes; use np.where")
        rest = array.shape[len(parts) :]
        number = recorder.table(self._held())
        result = np.empty((*indices[0].shape, *rest), object)
        for place in np.ndindex(indices[0].shape):
            for inner in np.ndindex(rest):
                where = (*(index[place] for index in indices), *inner)
                result[*place, *inner] = recorder.node("gather", (number, *where), array.dtype)
        return LaneArray(result, array.dtype, recorder)

    def _held(self) -> np.ndarray[Any, Any]:
        return self.base if isinstance(self.base, np.ndarray) and self.base.shape == self.shape else np.asarray(self)


def as_lanes(value: Any, dtype: Any = None, **_: Any) -> Any:
    """Replaces `np.array` and `np.asarray`, to also take nested sequences of lane arrays.

    Args:
        value: The value.
        dtype: The dtype of the result; None for the one that all parts can be converted to.
        **_: Options of numpy that change no values.
    """
    found: list[Any] = []
    collect(value, found)
    lanes = [part for part in found if isinstance(part, LaneArray)]
    if not lanes:
        return np.array(value, dtype)
    if isinstance(value, LaneArray):
        return value if dtype is None else value.astype(dtype)
    target = np.dtype(dtype) if dtype is not None else np.result_type(*(dtype_of(part) for part in found))
    recorder = lanes[0].recorder

    def stacked(part: Any) -> Any:
        if isinstance(part, (list, tuple)):
            return np.stack([stacked(one) for one in part])
        return nodes_of(part, recorder, target)

    return LaneArray(stacked(value), target, recorder)
