"""Arrays of symbolic lanes, on which a `BatchModel`'s own functions run once, to record what they compute.

A `LaneArray` behaves like a numpy array of shape (n, …) for a small n, but its elements are nodes of an expression.
numpy itself decides on shapes, broadcasting and dtypes: functions that move elements run on an object array of the
nodes, and ufuncs tell the dtypes of their loops.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .errors import Unsupported
from .expressions import Node, value_of
from .lane_nodes import NodeArray, collect, each, kind_of, nodes_of, replaced

# numpy 1.26 can have a `_core` too, by whose names it reads pickles of numpy 2, and which lacks its own `umath`.
_clip: Any = getattr(np, "_core" if np.lib.NumpyVersion(np.__version__) >= "2.0.0" else "core").umath.clip
"""The ufunc of `np.clip`, which has no public name; numpy 1 keeps it in another module than numpy 2."""

_MOVING = {
    np.stack, np.concatenate, np.vstack, np.hstack, np.column_stack, np.dstack, np.transpose, np.reshape, np.ravel,
    np.expand_dims, np.squeeze, np.moveaxis, np.swapaxes, np.broadcast_to, np.broadcast_arrays, np.atleast_1d,
    np.atleast_2d, np.flip, np.fliplr, np.flipud, np.roll, np.rot90, np.repeat, np.tile, np.take, np.split,
    np.copy, np.diagonal,
}  # fmt: skip
"""Functions that move elements and compute nothing."""

_REDUCED = {"all": "logical_and", "any": "logical_or", "sum": "add", "prod": "multiply", "max": "maximum",
            "min": "minimum", "amax": "maximum", "amin": "minimum"}  # fmt: skip


LANES = 23
"""The number of symbolic lanes: a prime that no other axis of a model is likely to have."""


class LaneArray(NodeArray, NDArrayOperatorsMixin):
    """An array of nodes that behaves like one of numpy; see `NodeArray`."""

    __array_priority__ = 1000
    __hash__ = None  # pyright: ignore[reportAssignmentType]

    # What an array is.

    shape = property(lambda self: self.nodes.shape)
    ndim = property(lambda self: self.nodes.ndim)
    size = property(lambda self: self.nodes.size)
    strides = property(lambda self: np.empty(self.shape, self.dtype).strides)
    T = property(lambda self: self._moved(self.nodes.T))
    mT = property(lambda self: self._moved(self.nodes.swapaxes(-1, -2)))  # noqa: N815 (numpy's name)
    flat = property(lambda self: iter(self.ravel()))
    real = property(lambda self: self)

    def __len__(self) -> int:
        return len(self.nodes)

    def __iter__(self) -> Any:
        return (self._moved(part) for part in self.nodes)

    def _moved(self, nodes: Any) -> LaneArray:
        return LaneArray(nodes, self.dtype, self.recorder)

    def __getitem__(self, key: Any) -> LaneArray:
        if any(isinstance(part, (LaneArray, list)) for part in (key if isinstance(key, tuple) else (key,))):
            return self._chosen(key)
        return self._moved(self.nodes[key])

    def _chosen(self, key: Any) -> LaneArray:
        """Returns the elements that lanes choose along one axis by their values, by comparisons."""
        raise Unsupported("it indexes a lane's array by values of lanes; compare with np.arange instead")

    def __setitem__(self, key: Any, value: Any) -> None:
        raise Unsupported("it writes into an array; states are never modified")

    def _refuse(self, *_: Any, **__: Any) -> Any:
        raise Unsupported("it reads a lane's value in Python (an `if`, float(), or a loop over lanes); use np.where")

    __bool__ = __int__ = __float__ = __index__ = __complex__ = tolist = item = __array__ = _refuse

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise Unsupported(f"it uses .{name} of an array, which cannot be compiled")

    def astype(self, dtype: Any, **_: Any) -> LaneArray:
        target, cast = np.dtype(dtype), self.recorder.cast
        return LaneArray(each(lambda node: cast(node, target), self.nodes), target, self.recorder)

    def copy(self, order: str = "C") -> LaneArray:
        return self._moved(self.nodes.copy())

    def reshape(self, *shape: Any, **_: Any) -> LaneArray:
        return self._moved(self.nodes.reshape(*shape))

    def ravel(self, *_: Any) -> LaneArray:
        return self._moved(self.nodes.ravel())

    flatten = ravel

    def transpose(self, *axes: Any) -> LaneArray:
        return self._moved(self.nodes.transpose(*axes))

    def squeeze(self, axis: Any = None) -> LaneArray:
        return self._moved(self.nodes.squeeze(axis))

    def swapaxes(self, one: int, other: int) -> LaneArray:
        return self._moved(self.nodes.swapaxes(one, other))

    def repeat(self, repeats: Any, axis: Any = None) -> LaneArray:
        return self._moved(self.nodes.repeat(repeats, axis))

    def clip(self, low: Any = None, high: Any = None) -> Any:
        return np.clip(self, low, high)  # pyright: ignore[reportCallIssue, reportArgumentType]

    def all(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._reduced("all", axis, keepdims)

    def any(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._reduced("any", axis, keepdims)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._reduced("sum", axis, keepdims)

    def prod(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._reduced("prod", axis, keepdims)

    def max(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._reduced("max", axis, keepdims)

    def min(self, axis: Any = None, keepdims: bool = False) -> Any:
        return self._reduced("min", axis, keepdims)

    def _reduced(self, name: str, axis: Any, keepdims: bool) -> Any:
        if axis is None:
            raise Unsupported(f"it takes {name} over all lanes; give an axis")
        axes = sorted((one % self.ndim for one in (axis if isinstance(axis, tuple) else (axis,))), reverse=True)
        count = int(np.prod([self.shape[one] for one in axes]))
        if count == 0 or (name in ("sum", "prod") and self.dtype.kind == "f" and count > 2):
            raise Unsupported(
                f"it takes {name} of {count} floats, which numpy adds in an order that depends on the memory's layout; "
                "write the additions"
            )
        value: Any = self
        if name in ("all", "any") and self.dtype.kind != "b":
            value = np.not_equal(value, self.dtype.type(0))
        if name in ("sum", "prod") and self.dtype.kind in "biu":
            value = value.astype(np.uint64 if self.dtype.kind == "u" else np.int64)
        ufunc = getattr(np, _REDUCED[name])
        for one in axes:
            parts = [value._moved(part) for part in np.moveaxis(value.nodes, one, 0)]
            value = parts[0]
            for part in parts[1:]:
                value = ufunc(value, part)
        return value._moved(np.expand_dims(value.nodes, tuple(axes))) if keepdims else value

    # What numpy does with it.

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        if method != "__call__" or set(options) - {"dtype"} or ufunc.nout != 1 or ufunc.signature is not None:
            raise Unsupported(f"it uses np.{ufunc.__name__}.{method} in a way that cannot be compiled")
        values = [np.asarray(value) if isinstance(value, (list, tuple)) else value for value in inputs]
        kinds = tuple(kind_of(value) for value in values)
        if ufunc is np.power and kinds[1] in (int, float):
            return self._power(values[0], values[1])
        loop: dict[str, Any] = (
            {"signature": (*[None] * ufunc.nin, np.dtype(options["dtype"]))} if "dtype" in options else {}
        )
        try:
            *taken, given = ufunc.resolve_dtypes((*kinds, None), **loop)
        except TypeError as error:
            raise Unsupported(f"np.{ufunc.__name__} takes no such values: {error}") from error
        arrays = np.broadcast_arrays(
            *(nodes_of(value, self.recorder, kind) for value, kind in zip(values, taken, strict=True))
        )
        recorder, name = self.recorder, ufunc.__name__

        def node(*parts: Node) -> Node:
            if all(part.kind == "const" for part in parts):
                with np.errstate(all="ignore"):
                    return recorder.const(ufunc(*map(value_of, parts)), given)
            return recorder.node(name, parts, given)

        return LaneArray(each(node, *arrays), given, recorder)

    def _power(self, base: Any, exponent: Any) -> Any:
        """Returns a power by a Python number, as numpy's operator computes it."""
        quick = {2: np.square, 1: np.positive, 0.5: np.sqrt, -1: np.reciprocal}.get(exponent)
        if self.dtype.kind == "f" and quick is not None:
            return quick(base)
        if self.dtype.kind in "iu" and exponent == 2 and isinstance(exponent, int):
            return np.square(base)
        return np.power(base, np.asarray(exponent, np.result_type(self.dtype, exponent)))

    def __pow__(self, exponent: Any) -> Any:
        return self._power(self, exponent) if type(exponent) in (int, float) else np.power(self, exponent)

    def __array_function__(self, function: Any, types: Any, arguments: Any, options: Any) -> Any:
        if function in _MOVING:
            return self._by_moving(function, arguments, options)
        name = function.__name__
        if name in ("shape", "ndim", "size"):
            return getattr(arguments[0], name)
        if name in _REDUCED:
            if len(arguments) > 2 or set(options) - {"axis", "keepdims"}:
                raise Unsupported(f"it uses np.{name} with options that cannot be compiled")
            axis = arguments[1] if len(arguments) > 1 else options.get("axis")
            return arguments[0]._reduced(name, axis, options.get("keepdims", False))
        if name == "where" and len(arguments) == 3:
            return self._where(*arguments)
        if name == "clip":
            return _clipped(*arguments, **options)
        if name in ("zeros_like", "ones_like", "full_like", "empty_like"):
            value = arguments[1] if name == "full_like" else 1 if name == "ones_like" else 0
            return np.full(arguments[0].shape, value, options.get("dtype") or arguments[0].dtype)
        raise Unsupported(f"it uses np.{name}, which cannot be compiled")

    def _by_moving(self, function: Any, arguments: Any, options: Any) -> Any:
        found: list[Any] = []
        collect((arguments, options), found)
        arrays = [value for value in found if isinstance(value, (LaneArray, np.ndarray))]
        dtype = np.result_type(*(array.dtype for array in arrays))
        raw = function(*replaced(arguments, self.recorder, dtype), **replaced(options, self.recorder, dtype))
        if isinstance(raw, (list, tuple)):
            return type(raw)(LaneArray(part, dtype, self.recorder) for part in raw)
        return LaneArray(raw, dtype, self.recorder)

    def _where(self, condition: Any, yes: Any, no: Any) -> LaneArray:
        kinds = [value if type(value) in (int, float) else kind_of(value) for value in (yes, no)]
        dtype = np.result_type(*kinds)
        recorder = self.recorder
        arrays = np.broadcast_arrays(
            nodes_of(condition, recorder, np.dtype(bool)), nodes_of(yes, recorder, dtype), nodes_of(no, recorder, dtype)
        )

        def node(chosen: Node, one: Node, other: Node) -> Node:
            if chosen.kind == "const":
                return one if value_of(chosen) else other
            return one if one is other else recorder.node("where", (chosen, one, other), dtype)

        return LaneArray(each(node, *arrays), dtype, recorder)


def _clipped(value: Any, low: Any = None, high: Any = None, **options: Any) -> Any:
    low, high = options.pop("a_min", options.pop("min", low)), options.pop("a_max", options.pop("max", high))
    if options:
        raise Unsupported("it uses np.clip in a way that cannot be compiled")
    if low is None or high is None:
        bounded: Any = np.minimum if low is None else np.maximum
        return bounded(value, high if low is None else low)
    return _clip(value, low, high)
