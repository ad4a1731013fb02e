"""Specs: what values an observation, an action, a reward may have.

A spec is a frozen, hashable description of a set of values. Composites are plain dicts, lists, tuples and
named tuples of specs, in order. The vocabulary is the union of what the frameworks can say, so that each of
theirs has one exact counterpart here:

| spec | its values |
|---|---|
| `Array` | arrays of one shape and dtype, within optional bounds ("no bound" is not "bounded by inf") |
| `Discrete` | the integers start … start+n-1 |
| `MultiDiscrete`, `MultiBinary` | arrays of such integers; of 0 and 1 |
| `Text` | strings over a charset, of bounded length |
| `Sequence` | tuples of any length of one spec's values (`stack`: one stacked array) |
| `Graph` | `GraphValue(nodes, edges, edge_links)` |
| `OneOf` | `(index, value)` of one of several specs |
"""

from __future__ import annotations

import string
from collections.abc import Hashable
from dataclasses import dataclass, fields
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray

from . import tree
from .errors import SpecError

SpecTree: TypeAlias = Any
"""A `Spec`, or a dict, list, tuple or named tuple of such trees."""

_INTEGERS = (int, np.integer)


class GraphValue(NamedTuple):
    """A value of a `Graph` spec.

    Attributes:
        nodes: Shape (n, …), n ≥ 0 nodes.
        edges: Shape (m, …), or None when edges carry no values.
        edge_links: Shape (m, 2), integer pairs (source node, target node), or None.
    """

    nodes: NDArray[Any]
    edges: NDArray[Any] | None
    edge_links: NDArray[Any] | None


class Spec:
    """A set of values. Subclasses are frozen dataclasses, equal when all their fields are."""

    name: str | None

    def validate(self, value: Any, path: str = "value") -> None:
        """Checks that `value` lies in this spec.

        Args:
            value: Anything.
            path: How to call the value in the message.

        Raises:
            SpecError: It does not; the message says where, what was expected and what came.
        """
        raise NotImplementedError

    def contains(self, value: Any) -> bool:
        """Whether `value` lies in this spec."""
        try:
            self.validate(value)
        except SpecError:
            return False
        return True

    def sample(self, rng: np.random.Generator) -> Any:
        """A random value of this spec: uniform where that exists, never nan or infinite."""
        raise NotImplementedError

    def zeros(self) -> Any:
        """The value of this spec that is nearest to all zeros (or the shortest one)."""
        raise NotImplementedError

    def _key(self) -> Hashable:
        return (type(self), *(_frozen(getattr(self, f.name)) for f in fields(cast("Any", self))))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Spec):
            return NotImplemented
        return self is other or self._key() == other._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __reduce__(self) -> tuple[Any, ...]:
        # Through the constructor, so that bounds come back read-only and compact.
        return type(self), tuple(getattr(self, f.name) for f in fields(cast("Any", self)))

    def __repr__(self) -> str:
        values = ((f.name, getattr(self, f.name)) for f in fields(cast("Any", self)))
        return f"{type(self).__name__}({', '.join(_said(*v) for v in values if v[1] is not None)})"


def _dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        result = np.dtype(dtype)
    except TypeError as error:
        raise SpecError(f"dtype: expected a numpy dtype, got {dtype!r}") from error
    if result.kind not in "biufc":
        raise SpecError(f"dtype: expected bool, integer, float or complex, got {result}; for strings use Text")
    return result


def _shape(shape: Any) -> tuple[int, ...]:
    result = (int(shape),) if isinstance(shape, _INTEGERS) else tuple(int(size) for size in shape)
    if any(size < 0 for size in result):
        raise SpecError(f"shape: expected sizes of at least 0, got {result}")
    return result


def _read_only(value: ArrayLike, dtype: np.dtype[Any], shape: tuple[int, ...], what: str) -> NDArray[Any]:
    """`value` in `dtype`, broadcast to `shape` (a view without memory of its own when uniform)."""
    given = np.asarray(value)
    if given.dtype.kind not in "biufc" or np.isnan(given).any():
        raise SpecError(f"{what}: expected numbers, got {value!r}")
    if dtype.kind in "iu" and given.size:
        info = np.iinfo(dtype)
        if given.min() < info.min or given.max() > info.max or (given != np.trunc(given)).any():
            raise SpecError(f"{what}: expected integers that fit {dtype}, got {_short(given)}")
    try:
        given = np.broadcast_to(given, shape)
    except ValueError as error:
        raise SpecError(f"{what}: expected something of shape {shape}, got shape {given.shape}") from error
    with np.errstate(over="ignore"):
        if _is_uniform(given):
            return np.broadcast_to(np.array(given.flat[0], dtype), shape)
        result = np.array(given, dtype)
    result.flags.writeable = False
    return result


def _is_uniform(array: NDArray[Any]) -> bool:
    return array.size > 0 and bool((array == array.flat[0]).all())


def _frozen(value: Any) -> Hashable:
    """A hashable stand-in for a field's value, equal exactly when the values are."""
    if isinstance(value, np.ndarray):
        array = cast("NDArray[Any]", value)
        inside = array.flat[0].item() if _is_uniform(array) else tuple(array.ravel().tolist())
        return (array.shape, array.dtype.str, inside)
    if isinstance(value, dict):
        return ("dict", *((k, _frozen(v)) for k, v in cast("dict[Any, Any]", value).items()))
    if isinstance(value, (list, tuple)):
        return (type(cast("object", value)), *(_frozen(v) for v in cast("tuple[Any, ...]", value)))
    return value


def _short(array: NDArray[Any]) -> str:
    if array.ndim and _is_uniform(array):
        return str(array.flat[0])
    return np.array2string(array, threshold=8, edgeitems=2, separator=", ").replace("\n", "")


def _said(field: str, value: Any) -> str:
    """One argument of a spec's repr, which reads as the call that makes it."""
    text = _short(cast("NDArray[Any]", value)) if isinstance(value, np.ndarray) else repr(value)
    if isinstance(value, np.dtype):
        text = repr(str(cast("np.dtype[Any]", value)))
    return text if field in ("shape", "dtype", "n", "nvec", "spec", "specs", "node") else f"{field}={text}"


def _shown(value: Any) -> str:
    """How a message calls a value that came."""
    if isinstance(value, np.ndarray):
        array = cast("NDArray[Any]", value)
        return f"an array of shape {array.shape} and dtype {array.dtype}"
    text = repr(value)
    return f"{text if len(text) <= 60 else text[:57] + '…'} ({type(value).__name__})"


def _set(spec: Spec, **values: Any) -> None:
    for name, value in values.items():
        object.__setattr__(spec, name, value)


def _check_array(value: Any, shape: tuple[int, ...], dtype: np.dtype[Any], path: str) -> NDArray[Any]:
    if not isinstance(value, (np.ndarray, np.generic)):
        raise SpecError(
            f"{path}: expected an array of shape {shape} and dtype {dtype}, got {_shown(value)}; "
            f"make it with np.asarray(…, {str(dtype)!r})"
        )
    if value.shape != shape:
        raise SpecError(f"{path}: expected shape {shape}, got {value.shape}")
    if value.dtype != dtype:
        raise SpecError(f"{path}: expected dtype {dtype}, got {value.dtype}; cast with .astype({str(dtype)!r})")
    return np.asarray(value)


def _check_bounds(value: NDArray[Any], low: Any, high: Any, path: str) -> None:
    """Names the first element out of bounds."""
    for bound, word, wrong in ((low, "below its lower", value < low), (high, "above its upper", value > high)):
        if wrong.any():
            at = np.unravel_index(int(np.argmax(wrong)), value.shape)
            index = "".join(f"[{int(i)}]" for i in at)
            limit = np.broadcast_to(bound, value.shape)[at]
            raise SpecError(f"{path}{index}: {value[at]} is {word} bound {limit}")


@dataclass(frozen=True, eq=False, repr=False)
class Array(Spec):
    """Arrays of one shape and dtype, within optional bounds.

    Args:
        shape: Sizes of the axes; `()` for a scalar.
        dtype: Any numpy bool, integer, float or complex dtype.
        low: Lower bounds (inclusive), a number or something that broadcasts to `shape`; None for no bound.
        high: Upper bounds, likewise.
        name: What the value is called where a framework has a place for it.

    Raises:
        SpecError: The bounds do not fit shape or dtype, or a lower bound lies above its upper bound.
    """

    shape: tuple[int, ...]
    dtype: np.dtype[Any]
    low: NDArray[Any] | None
    high: NDArray[Any] | None
    name: str | None

    def __init__(
        self,
        shape: int | tuple[int, ...] | list[int],
        dtype: DTypeLike = "float32",
        low: ArrayLike | None = None,
        high: ArrayLike | None = None,
        name: str | None = None,
    ) -> None:
        size, kind = _shape(shape), _dtype(dtype)
        below = None if low is None else _read_only(low, kind, size, "low")
        above = None if high is None else _read_only(high, kind, size, "high")
        if below is not None and above is not None:
            _check_bounds(below, below, above, "low")
        _set(self, shape=size, dtype=kind, low=below, high=above, name=name)

    def validate(self, value: Any, path: str = "value") -> None:
        array = _check_array(value, self.shape, self.dtype, path)
        if self.dtype.kind in "fc" and np.isnan(array).any():
            at = np.unravel_index(int(np.argmax(np.isnan(array))), array.shape)
            raise SpecError(f"{path}{''.join(f'[{int(i)}]' for i in at)}: expected a number, got nan")
        if self.low is not None or self.high is not None:
            low = array if self.low is None else self.low
            _check_bounds(array, low, array if self.high is None else self.high, path)

    def sample(self, rng: np.random.Generator) -> NDArray[Any]:
        kind = self.dtype.kind
        if kind == "b":
            low = np.False_ if self.low is None else self.low
            high = np.True_ if self.high is None else self.high
            return (rng.integers(0, 2, self.shape).astype(bool) | low) & high
        if kind in "iu":
            info = np.iinfo(self.dtype)
            low = info.min if self.low is None else self.low
            high = info.max if self.high is None else self.high
            return np.asarray(rng.integers(low, high, self.shape, cast("Any", self.dtype), endpoint=True))
        if kind == "c":
            return np.asarray(rng.normal(size=self.shape) + 1j * rng.normal(size=self.shape)).astype(self.dtype)
        # Uniform between two finite bounds, exponential from one, normal where there is none.
        low = np.full(self.shape, -np.inf) if self.low is None else self.low.astype(np.float64)
        high = np.full(self.shape, np.inf) if self.high is None else self.high.astype(np.float64)
        has_low, has_high = np.isfinite(low), np.isfinite(high)
        low0, high0 = np.where(has_low, low, 0.0), np.where(has_high, high, 0.0)
        share = rng.random(self.shape)
        tail = rng.exponential(size=self.shape)
        value = np.select(
            [has_low & has_high, has_low, has_high],
            [low0 * (1 - share) + high0 * share, low0 + tail, high0 - tail],
            rng.normal(size=self.shape),
        )
        biggest = np.finfo(self.dtype).max
        value = np.clip(value, -biggest, biggest).astype(self.dtype)
        return np.asarray(np.clip(value, self.low, self.high))

    def zeros(self) -> NDArray[Any]:
        value = np.zeros(self.shape, self.dtype)
        return value if self.low is None and self.high is None else np.asarray(np.clip(value, self.low, self.high))


@dataclass(frozen=True, eq=False, repr=False)
class Discrete(Spec):
    """The integers start, …, start + n - 1, as Python or numpy integers of any width.

    Args:
        n: How many there are, at least 1.
        start: The smallest.
        dtype: The integer dtype in which frameworks get them.
        name: What the value is called.

    Raises:
        SpecError: `n` is below 1, or the integers do not fit `dtype`.
    """

    n: int
    start: int
    dtype: np.dtype[Any]
    name: str | None

    def __init__(self, n: int, start: int = 0, dtype: DTypeLike = "int64", name: str | None = None) -> None:
        kind = _dtype(dtype)
        if not isinstance(n, _INTEGERS) or isinstance(n, bool) or n < 1:
            raise SpecError(f"n: expected an integer of at least 1, got {n!r}")
        if kind.kind not in "iu" or start < np.iinfo(kind).min or start + n - 1 > np.iinfo(kind).max:
            raise SpecError(f"dtype: expected an integer dtype that holds {start} … {start + n - 1}, got {kind}")
        _set(self, n=int(n), start=int(start), dtype=kind, name=name)

    @property
    def shape(self) -> tuple[int, ...]:
        """Always `()`: the value is a scalar."""
        return ()

    def validate(self, value: Any, path: str = "value") -> None:
        array = np.asarray(value) if isinstance(value, (int, np.integer, np.ndarray)) else None
        if array is None or array.shape != () or array.dtype.kind not in "iu":
            raise SpecError(f"{path}: expected an integer, got {_shown(value)}")
        number = int(array)
        if not self.start <= number < self.start + self.n:
            raise SpecError(f"{path}: expected {self.start} … {self.start + self.n - 1}, got {number}")

    def sample(self, rng: np.random.Generator) -> np.integer[Any]:
        return self.dtype.type(self.start + int(rng.integers(self.n)))

    def zeros(self) -> np.integer[Any]:
        return self.dtype.type(min(max(0, self.start), self.start + self.n - 1))


@dataclass(frozen=True, eq=False, repr=False)
class MultiDiscrete(Spec):
    """Arrays of integers, element i being start[i], …, start[i] + nvec[i] - 1.

    Args:
        nvec: How many values each element has; its shape is the value's shape.
        start: The smallest value of each, a number or of the shape of `nvec`.
        dtype: An integer dtype.
        name: What the value is called.

    Raises:
        SpecError: An element has no value, or its integers do not fit `dtype`.
    """

    nvec: NDArray[Any]
    start: NDArray[Any]
    dtype: np.dtype[Any]
    name: str | None

    def __init__(
        self, nvec: ArrayLike, start: ArrayLike = 0, dtype: DTypeLike = "int64", name: str | None = None
    ) -> None:
        kind, shape = _dtype(dtype), np.shape(nvec)
        if kind.kind not in "iu":
            raise SpecError(f"dtype: expected an integer dtype, got {kind}")
        counts = _read_only(nvec, np.dtype(np.int64), shape, "nvec")
        starts = _read_only(start, kind, shape, "start")
        _check_bounds(counts, 1, counts, "nvec")
        info = np.iinfo(kind)
        for first, count in zip(starts.ravel().tolist(), counts.ravel().tolist(), strict=True):
            if first + count - 1 > info.max:
                raise SpecError(f"dtype: expected one that holds {first} … {first + count - 1}, got {kind}")
        _set(self, nvec=counts, start=starts, dtype=kind, name=name)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of a value."""
        return self.nvec.shape

    @property
    def last(self) -> NDArray[Any]:
        """The largest value of each element."""
        return self.start + (self.nvec - 1).astype(self.dtype)

    def validate(self, value: Any, path: str = "value") -> None:
        _check_bounds(_check_array(value, self.shape, self.dtype, path), self.start, self.last, path)

    def sample(self, rng: np.random.Generator) -> NDArray[Any]:
        return np.asarray(self.start + rng.integers(0, self.nvec).astype(self.dtype))

    def zeros(self) -> NDArray[Any]:
        return np.asarray(np.clip(np.zeros(self.shape, self.dtype), self.start, self.last))


@dataclass(frozen=True, eq=False, repr=False)
class MultiBinary(Spec):
    """int8 arrays of 0 and 1.

    Args:
        shape: The shape of a value; an integer n means `(n,)`.
        name: What the value is called.
    """

    shape: tuple[int, ...]
    name: str | None

    def __init__(self, shape: int | tuple[int, ...] | list[int], name: str | None = None) -> None:
        _set(self, shape=_shape(shape), name=name)

    @property
    def dtype(self) -> np.dtype[Any]:
        """Always int8."""
        return np.dtype(np.int8)

    def validate(self, value: Any, path: str = "value") -> None:
        _check_bounds(_check_array(value, self.shape, self.dtype, path), 0, 1, path)

    def sample(self, rng: np.random.Generator) -> NDArray[Any]:
        return np.asarray(rng.integers(0, 2, self.shape, np.int8))

    def zeros(self) -> NDArray[Any]:
        return np.zeros(self.shape, np.int8)


@dataclass(frozen=True, eq=False, repr=False)
class Text(Spec):
    """Strings over a charset, of bounded length.

    Args:
        max_length: The most characters a value has.
        min_length: The fewest.
        charset: The characters that may occur; letters and digits by default.
        name: What the value is called.

    Raises:
        SpecError: The lengths are impossible, or characters are needed and there are none.
    """

    max_length: int
    min_length: int
    charset: str
    name: str | None

    def __init__(
        self,
        max_length: int,
        min_length: int = 1,
        charset: str | frozenset[str] | set[str] = string.ascii_letters + string.digits,
        name: str | None = None,
    ) -> None:
        letters = "".join(sorted(set(charset)))
        if not 0 <= min_length <= max_length:
            raise SpecError(f"max_length: expected at least min_length ({min_length}) ≥ 0, got {max_length}")
        if max_length and not letters:
            raise SpecError("charset: expected at least one character, got none")
        _set(self, max_length=int(max_length), min_length=int(min_length), charset=letters, name=name)

    def validate(self, value: Any, path: str = "value") -> None:
        if not isinstance(value, str):
            raise SpecError(f"{path}: expected a string, got {_shown(value)}")
        if not self.min_length <= len(value) <= self.max_length:
            raise SpecError(f"{path}: expected {self.min_length} … {self.max_length} characters, got {len(value)}")
        if strange := sorted(set(value).difference(self.charset)):
            raise SpecError(f"{path}: expected characters of {self.charset!r}, got {''.join(strange)!r} too")

    def sample(self, rng: np.random.Generator) -> str:
        length = int(rng.integers(self.min_length, self.max_length, endpoint=True))
        return "".join(self.charset[i] for i in rng.integers(0, max(len(self.charset), 1), length))

    def zeros(self) -> str:
        return self.charset[:1] * self.min_length


@dataclass(frozen=True, eq=False, repr=False)
class Sequence(Spec):
    """Tuples, of any length, of values of one spec.

    Args:
        spec: The spec of an element, possibly nested.
        stack: Values are the elements stacked along a new first axis, instead of a tuple.
        name: What the value is called.
    """

    spec: SpecTree
    stack: bool
    name: str | None

    def __init__(self, spec: SpecTree, stack: bool = False, name: str | None = None) -> None:
        check_spec(spec)
        _set(self, spec=spec, stack=bool(stack), name=name)

    def validate(self, value: Any, path: str = "value") -> None:
        if self.stack:
            lengths = {len(leaf) for _, leaf in tree.leaves(value)}
            if len(lengths) > 1:
                raise SpecError(f"{path}: expected leaves of one length, got lengths {sorted(lengths)}")
            value = [tree.map_leaves(lambda leaf, i=i: leaf[i], value) for i in range(lengths.pop() if lengths else 0)]
        elif not isinstance(value, tuple):
            raise SpecError(f"{path}: expected a tuple, got {_shown(value)}")
        for index, element in enumerate(cast("tuple[Any, ...]", value)):
            validate(self.spec, element, f"{path}[{index}]")

    def sample(self, rng: np.random.Generator) -> Any:
        elements = tuple(sample(self.spec, rng) for _ in range(int(rng.geometric(0.25)) - 1))
        return self.stacked(elements) if self.stack else elements

    def zeros(self) -> Any:
        return self.stacked(()) if self.stack else ()

    def stacked(self, elements: tuple[Any, ...]) -> Any:
        """The elements as one value with a new first axis."""
        if not elements:
            return tree.map_leaves(lambda leaf: np.zeros((0, *leaf.shape), leaf.dtype), self.spec)
        return tree.map_leaves(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *elements)


@dataclass(frozen=True, eq=False, repr=False)
class Graph(Spec):
    """Graphs of any size, whose nodes and edges carry values.

    Args:
        node: The spec of a node's value, an `Array` or `Discrete`.
        edge: The spec of an edge's value, likewise, or None when edges carry none.
        name: What the value is called.
    """

    node: Array | Discrete
    edge: Array | Discrete | None
    name: str | None

    def __init__(
        self, node: Array | Discrete, edge: Array | Discrete | None = None, name: str | None = None
    ) -> None:
        for part, spec in (("node", node), ("edge", edge)):
            if not (isinstance(spec, (Array, Discrete)) or (part == "edge" and spec is None)):
                raise SpecError(f"{part}: expected an Array or a Discrete, got {spec!r}")
        _set(self, node=node, edge=edge, name=name)

    def validate(self, value: Any, path: str = "value") -> None:
        if not all(hasattr(value, part) for part in GraphValue._fields):
            raise SpecError(f"{path}: expected a GraphValue(nodes, edges, edge_links), got {_shown(value)}")
        _check_rows(self.node, value.nodes, f"{path}.nodes")
        if (value.edges is None) != (value.edge_links is None) and self.edge is not None:
            raise SpecError(f"{path}: expected both edges and edge_links, or neither")
        if value.edges is not None:
            if self.edge is None:
                raise SpecError(f"{path}.edges: expected None, for edges carry no values, got {_shown(value.edges)}")
            _check_rows(self.edge, value.edges, f"{path}.edges")
        if value.edge_links is not None:
            links = np.asarray(value.edge_links)
            if links.ndim != 2 or links.shape[1] != 2 or links.dtype.kind not in "iu":
                raise SpecError(f"{path}.edge_links: expected integers of shape (m, 2), got {_shown(links)}")
            _check_bounds(links, 0, len(value.nodes) - 1, f"{path}.edge_links")

    def sample(self, rng: np.random.Generator) -> GraphValue:
        n = int(rng.integers(1, 10))
        nodes = np.stack([np.asarray(self.node.sample(rng)) for _ in range(n)])
        if self.edge is None:
            return GraphValue(nodes, None, None)
        m = int(rng.integers(1, 10))
        edges = np.stack([np.asarray(self.edge.sample(rng)) for _ in range(m)])
        return GraphValue(nodes, edges, rng.integers(0, n, (m, 2), np.int32))

    def zeros(self) -> GraphValue:
        return GraphValue(np.asarray(self.node.zeros())[None], None, None)


def _check_rows(spec: Array | Discrete, rows: Any, path: str) -> None:
    if not isinstance(rows, np.ndarray):
        raise SpecError(f"{path}: expected an array, got {_shown(rows)}")
    for index, row in enumerate(cast("NDArray[Any]", rows)):
        spec.validate(row, f"{path}[{index}]")


@dataclass(frozen=True, eq=False, repr=False)
class OneOf(Spec):
    """A value of exactly one of several specs: `(index, value)`.

    Args:
        specs: The alternatives, at least one.
        name: What the value is called.
    """

    specs: tuple[SpecTree, ...]
    name: str | None

    def __init__(self, specs: tuple[SpecTree, ...] | list[SpecTree], name: str | None = None) -> None:
        if not specs:
            raise SpecError("specs: expected at least one alternative, got none")
        for spec in specs:
            check_spec(spec)
        _set(self, specs=tuple(specs), name=name)

    def validate(self, value: Any, path: str = "value") -> None:
        if not isinstance(value, tuple) or len(cast("tuple[Any, ...]", value)) != 2:
            raise SpecError(f"{path}: expected (index, value), got {_shown(value)}")
        Discrete(len(self.specs)).validate(value[0], f"{path}[0]")
        validate(self.specs[int(value[0])], value[1], f"{path}[1]")

    def sample(self, rng: np.random.Generator) -> tuple[np.int64, Any]:
        index = np.int64(rng.integers(len(self.specs)))
        return index, sample(self.specs[index], rng)

    def zeros(self) -> tuple[np.int64, Any]:
        return np.int64(0), zeros(self.specs[0])


def check_spec(spec: SpecTree, path: str = "spec") -> None:
    """Checks that `spec` is a spec or a nested structure of specs.

    Raises:
        SpecError: Something in it is no spec; the message names where.
    """
    for where, leaf in tree.leaves(spec, path):
        if not isinstance(leaf, Spec):
            raise SpecError(
                f"{where}: expected a spec (Array, Discrete, …) or a dict, list or tuple of specs, got {_shown(leaf)}"
            )


def validate(spec: SpecTree, value: Any, path: str = "value") -> None:
    """Checks that `value` lies in a possibly nested spec.

    Args:
        spec: A spec or a nested structure of specs.
        value: Anything.
        path: How to call the value in the message.

    Raises:
        SpecError: It does not; the message names the leaf, what was expected and what came.
    """
    if isinstance(spec, Spec):
        spec.validate(value, path)
        return
    if isinstance(spec, dict):
        branch = cast("dict[Any, Any]", spec)
        if not isinstance(value, dict):
            raise SpecError(f"{path}: expected a dict with keys {list(branch)}, got {_shown(value)}")
        given = cast("dict[Any, Any]", value)
        if given.keys() != branch.keys():
            missing = [k for k in branch if k not in given]
            extra = [k for k in given if k not in branch]
            raise SpecError(f"{path}: expected keys {list(branch)}; missing {missing}, too many {extra}")
    elif type(value) is not type(spec):
        raise SpecError(f"{path}: expected a {type(spec).__name__}, got {_shown(value)}")
    elif len(value) != len(spec):
        raise SpecError(f"{path}: expected {len(spec)} elements, got {len(value)}")
    for part, key, sub in tree.children(spec):
        validate(sub, value[key], path + part)


def contains(spec: SpecTree, value: Any) -> bool:
    """Whether `value` lies in a possibly nested spec."""
    try:
        validate(spec, value)
    except SpecError:
        return False
    return True


def sample(spec: SpecTree, rng: np.random.Generator) -> Any:
    """A random value of a possibly nested spec, see `Spec.sample`."""
    return tree.map_leaves(lambda leaf: leaf.sample(rng), spec)


def zeros(spec: SpecTree) -> Any:
    """The value of a possibly nested spec that is nearest to all zeros, see `Spec.zeros`."""
    return tree.map_leaves(lambda leaf: leaf.zeros(), spec)


def spec_equal(a: SpecTree, b: SpecTree) -> bool:
    """Whether two possibly nested specs are equal: names, bounds, kinds of branches and order of keys too."""
    return _frozen(a) == _frozen(b)
