"""Arrays of symbolic lanes, on which a `BatchModel`'s own functions run once, to record what they compute.

A `LaneArray` behaves like a numpy array of shape (n, …) for a small n, but its elements are nodes of an expression.
numpy itself decides on shapes, broadcasting and dtypes: functions that move elements run on an object array of the
nodes, and ufuncs tell the dtypes of their loops.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.lib.mixins import NDArrayOperatorsMixin

from .compilation import Unsupported
from .expressions import Node, Recorder, value_of


class NodeArray:
    """An array of nodes."""

    def __init__(self, nodes: Any, dtype: Any, recorder: Recorder) -> None:
        if not isinstance(nodes, np.ndarray):
            held, nodes = nodes, np.empty((), object)
            nodes[()] = held
        self.nodes: np.ndarray[Any, Any] = nodes
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.recorder = recorder


def dtype_of(value: Any) -> np.dtype[Any]:
    """Returns the dtype of an array of nodes, or of what numpy takes for an array."""
    return value.dtype if isinstance(value, NodeArray) else np.asarray(value).dtype


def kind_of(value: Any) -> Any:
    """Returns what numpy resolves a loop by: a dtype, or `int` or `float` for a Python number."""
    if type(value) in (int, float):
        return type(value)
    return dtype_of(value)


def collect(value: Any, found: list[Any]) -> None:
    """Adds the leaves of nested sequences and dicts to a list."""
    if isinstance(value, (list, tuple)):
        for part in value:
            collect(part, found)
    elif isinstance(value, dict):
        collect(list(value.values()), found)
    else:
        found.append(value)


def replaced(value: Any, recorder: Recorder, dtype: np.dtype[Any]) -> Any:
    """Returns nested sequences and dicts with all arrays in them as object arrays of nodes."""
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(part, recorder, dtype) for part in value)
    if isinstance(value, dict):
        return {key: replaced(part, recorder, dtype) for key, part in value.items()}
    return nodes_of(value, recorder, dtype) if isinstance(value, (NodeArray, np.ndarray)) else value


def nodes_of(value: Any, recorder: Recorder, dtype: np.dtype[Any] | None = None) -> np.ndarray[Any, Any]:
    """Returns a value as an object array of nodes."""
    if isinstance(value, NodeArray):
        if dtype is None or dtype == value.dtype:
            return value.nodes
        return each(lambda node: recorder.cast(node, dtype), value.nodes)
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise Unsupported(f"it computes with values of dtype {array.dtype}")
    target = dtype or array.dtype
    if type(value) is int and target.kind in "iu" and not np.iinfo(target).min <= value <= np.iinfo(target).max:
        raise Unsupported(f"it combines {target} and {value}, which {target} cannot hold; convert the array by astype")
    result = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        result[place] = recorder.const(array[place], target)
    return result


def each(function: Any, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the results of a function of one element of each array, as an object array."""
    result = np.empty(arrays[0].shape, object)
    for place in np.ndindex(arrays[0].shape):
        result[place] = function(*(array[place] for array in arrays))
    return result


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
    """Replaces `np.array` and `np.asarray`, to also take nested sequences of lane arrays."""
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


def _moving(name: str) -> Any:
    """Returns a method that moves elements as the one of an array of nodes does."""
    return lambda self, *arguments, **options: self._moved(getattr(self.nodes, name)(*arguments, **options))


def _reducing(name: str) -> Any:
    """Returns the method that reduces one axis or several."""
    return lambda self, axis=None, keepdims=False: self._reduced(name, axis, keepdims)


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

    copy, reshape, ravel, flatten = map(_moving, ("copy", "reshape", "ravel", "ravel"))
    transpose, squeeze, swapaxes, repeat = map(_moving, ("transpose", "squeeze", "swapaxes", "repeat"))
    all, any, sum, prod, max, min = map(_reducing, ("all", "any", "sum", "prod", "max", "min"))

    def clip(self, low: Any = None, high: Any = None) -> Any:
        return np.clip(self, low, high)  # pyright: ignore[reportCallIssue, reportArgumentType]

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


_SIZES = {"random": 0, "standard_normal": 0, "standard_exponential": 0, "integers": 2, "uniform": 2, "normal": 2}
"""The position of the argument `size` in methods of a generator."""


@dataclass(frozen=True)
class RandomCall:
    """One call of a generator's method."""

    method: str
    arguments: tuple[Any, ...]  # its arguments besides the size
    options: Mapping[str, Any]  # its other named arguments
    size: tuple[int | None, ...]  # the shape, with None for the lane axis

    @property
    def in_kernel(self) -> str | None:
        """The call of a kernel's function for one number, with a place for the generator; None if there is none."""
        whole = all(type(value) is int and abs(value) < 2**31 for value in self.arguments)
        if self.options or (self.method != "integers" and self.arguments) or not whole:
            return None
        if self.method not in ("random", "standard_normal", "integers") or len(self.arguments) > 2:
            return None
        return f"rng_{self.method}({', '.join(['{0}', *map(repr, self.arguments)])})"

    def lines(self, array: str, count: str, generator: str) -> list[str]:
        """Returns the lines that fill an array with the numbers of some lanes, in numpy's order."""
        places = [f"e{k}" for k in range(len(self.size))]
        lines = [
            f"{'    ' * k}for {place} in range({count if one is None else one}):"
            for k, (place, one) in enumerate(zip(places, self.size, strict=True))
        ]
        value = (self.in_kernel or "").format(generator)
        return [*lines, f"{'    ' * len(places)}{array}[{', '.join(places)}] = {value}"]

    def __call__(self, rng: np.random.Generator, n: int) -> Any:
        """Returns the numbers for n lanes, in C order."""
        size = tuple(n if one is None else one for one in self.size)
        return getattr(rng, self.method)(*self.arguments, size=size, **self.options)


class GeneratorStandIn:
    """A generator whose numbers are symbolic."""

    def __init__(self, name: str, calls: list[RandomCall], recorder: Recorder) -> None:
        self._name, self._calls, self._recorder = name, calls, recorder

    def __getattr__(self, method: str) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            return self._random(method, list(arguments), options)

        return call

    def _scaled(self, method: str, low: float, high: float, size: Any) -> Any:
        """Returns uniform or normal numbers, as numpy computes them of standard ones."""
        if method == "uniform":
            return low + (high - low) * self._random("random", [size], {})
        return low + high * self._random("standard_normal", [size], {})

    def _random(self, method: str, arguments: list[Any], options: dict[str, Any]) -> Any:
        if method in ("uniform", "normal"):
            names = ("low", "high") if method == "uniform" else ("loc", "scale")
            values = [*arguments, *[None] * (3 - len(arguments))]
            low, high = (
                options.get(name, default if value is None else value)
                for name, value, default in zip(names, values, (0.0, 1.0), strict=False)
            )
            size = options.get("size", values[2])
            if isinstance(low, LaneArray) or isinstance(high, LaneArray):
                # As numpy computes them, of the same numbers.
                shape = np.broadcast_shapes(np.shape(low), np.shape(high)) if size is None else size
                if method == "uniform":
                    return low + (high - low) * self._random("random", [shape], {})
                return low + high * self._random("standard_normal", [shape], {})
            if size is not None and isinstance(low, (int, float)) and isinstance(high, (int, float)):
                return self._scaled(method, float(low), float(high), size)
        position = _SIZES.get(method)
        size = options.pop("size", None)
        if size is None and position is not None and len(arguments) > position:
            size = arguments.pop(position)
        values = [*arguments, *options.values()]
        if any(isinstance(value, LaneArray) for value in values):
            raise Unsupported(f"it calls rng.{method} with arguments that differ between lanes")
        shape = (size,) if isinstance(size, int) else tuple(size or ())
        if shape.count(LANES) != 1:
            raise Unsupported(f"it calls rng.{method} without one number for each lane; give size=")
        example = getattr(np.random.default_rng(0), method)(*arguments, size=shape, **options)
        axis = shape.index(LANES)
        if example.shape != shape:
            raise Unsupported(f"it calls rng.{method} for arrays, which cannot be compiled")
        number = len(self._calls)
        self._calls.append(
            RandomCall(method, tuple(arguments), dict(options), tuple(None if one == LANES else one for one in shape))
        )
        nodes = np.empty(shape, object)
        for place in np.ndindex(shape):
            rest = place[:axis] + place[axis + 1 :]
            nodes[place] = self._recorder.node("input", (self._name, place[axis], number, *rest), example.dtype)
        return LaneArray(nodes, example.dtype, self._recorder)
