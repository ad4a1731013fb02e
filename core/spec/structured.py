"""Specs whose values are not single arrays: text, sequences, graphs, alternatives."""

from __future__ import annotations

import string
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..errors import SpecError
from ..tree import AnyArray, AnyTuple
from .arrays import ARRAYS, Array, Discrete, bounds_or_inf, check_bounds
from .base import Spec, SpecTree, set_fields, shown
from .nested import check_spec, sample, validate, zeros


class GraphValue(NamedTuple):
    """A value of a `Graph` spec.

    Attributes:
        nodes: The values of the nodes, of shape (n, …), n ≥ 0.
        edges: The values of the edges, of shape (m, …), or None if edges have no values.
        edge_links: The indices (source node, target node) of each edge, integers of shape (m, 2); or None.
    """

    nodes: NDArray[Any]
    edges: NDArray[Any] | None
    edge_links: NDArray[Any] | None


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Text(Spec):
    """Strings over a charset, of bounded length.

    Args:
        max_length: The largest number of characters.
        min_length: The smallest number of characters.
        charset: The characters that may occur; ASCII letters and digits by default.
        name: The name of the value, for frameworks that name their specs.

    Attributes:
        charset: The characters, sorted.
        letters: The characters in the given order (sorted if given as a set). Frameworks sample in this order, but it
            does not affect equality.

    Raises:
        SpecError: The lengths are invalid, or `max_length` is above 0 and the charset is empty.
    """

    max_length: int
    min_length: int
    charset: str
    letters: str
    name: str | None

    def __init__(
        self,
        max_length: int,
        min_length: int = 1,
        charset: str | frozenset[str] | set[str] = string.ascii_letters + string.digits,
        name: str | None = None,
    ) -> None:
        letters = "".join(dict.fromkeys(charset if isinstance(charset, str) else sorted(charset)))
        if not 0 <= min_length <= max_length:
            raise SpecError(f"max_length: expected at least min_length ({min_length}) ≥ 0, got {max_length}")
        if max_length and not letters:
            raise SpecError("charset: expected at least one character, got none")
        set_fields(self, max_length=int(max_length), min_length=int(min_length), letters=letters, name=name)
        set_fields(self, charset="".join(sorted(letters)))

    def arguments(self) -> dict[str, Any]:
        lengths = {"max_length": self.max_length, "min_length": self.min_length}
        return {**lengths, "charset": self.charset, "name": self.name}

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.max_length, self.min_length, self.letters, self.name)

    def validate(self, value: Any, path: str = "value") -> None:
        if not isinstance(value, str):
            raise SpecError(f"{path}: expected a string, got {shown(value)}")
        if not self.min_length <= len(value) <= self.max_length:
            raise SpecError(f"{path}: expected {self.min_length} … {self.max_length} characters, got {len(value)}")
        if strange := sorted(set(value).difference(self.charset)):
            raise SpecError(f"{path}: expected characters of {self.charset!r}, got {''.join(strange)!r} too")

    def sample(self, rng: np.random.Generator) -> str:
        length = int(rng.integers(self.min_length, self.max_length, endpoint=True))
        return "".join(self.charset[i] for i in rng.integers(0, max(len(self.charset), 1), length))

    def zeros(self) -> str:
        return self.charset[:1] * self.min_length


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Sequence(Spec):
    """Tuples of any length, with elements of one spec.

    Args:
        spec: The spec of an element, possibly nested.
        stack: If True, values are not tuples but arrays of elements, stacked along a new first axis.
        name: The name of the value, for frameworks that name their specs.

    Raises:
        SpecError: With `stack`, a leaf of `spec` is not an array.
    """

    spec: SpecTree
    stack: bool
    name: str | None

    def __init__(self, spec: SpecTree, stack: bool = False, name: str | None = None) -> None:
        check_spec(spec)
        if stack:
            of_length(spec, 0)
        set_fields(self, spec=spec, stack=bool(stack), name=name)

    def validate(self, value: Any, path: str = "value") -> None:
        if self.stack:
            arrays = (leaf for _, leaf in tree.leaves(value) if isinstance(leaf, AnyArray))
            lengths = {len(leaf) for leaf in arrays if leaf.ndim}
            if len(lengths) > 1:
                raise SpecError(f"{path}: expected leaves of one length, got lengths {sorted(lengths)}")
            validate(of_length(self.spec, lengths.pop() if lengths else 0), value, path)
            return
        if not isinstance(value, AnyTuple):
            raise SpecError(f"{path}: expected a tuple, got {shown(value)}")
        for index, element in enumerate(value):
            validate(self.spec, element, f"{path}[{index}]")

    def sample(self, rng: np.random.Generator) -> Any:
        elements = tuple(sample(self.spec, rng) for _ in range(int(rng.geometric(0.25)) - 1))
        return self.stacked(elements) if self.stack else elements

    def zeros(self) -> Any:
        return self.stacked(()) if self.stack else ()

    def stacked(self, elements: tuple[Any, ...]) -> Any:
        """Stacks m ≥ 0 values of `spec` into one value of the same structure, with leaves of shape (m, …)."""
        if not elements:
            return tree.map_leaves(lambda leaf: np.zeros((0, *leaf.shape), leaf.dtype), self.spec)
        return tree.map_leaves(lambda *leaves: np.stack([np.asarray(x) for x in leaves]), *elements)


def of_length(spec: SpecTree, n: int) -> SpecTree:
    """Returns the spec of n stacked values of a possibly nested array spec."""

    def stacked(leaf: Any) -> Array:
        if not isinstance(leaf, ARRAYS):
            raise SpecError(f"stack: expected elements that are arrays, got {leaf!r}; use stack=False")
        return Array((n, *leaf.shape), leaf.dtype, *bounds_or_inf(leaf))

    return tree.map_leaves(stacked, spec)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Graph(Spec):
    """Graphs of any size, whose nodes and edges carry values.

    Args:
        node: The spec of a node's value, an `Array` or `Discrete`.
        edge: The spec of an edge's value, an `Array` or `Discrete`, or None if edges have no values.
        name: The name of the value, for frameworks that name their specs.

    Raises:
        SpecError: `node` or `edge` is another kind of spec.
    """

    node: Array | Discrete
    edge: Array | Discrete | None
    name: str | None

    def __init__(self, node: Array | Discrete, edge: Array | Discrete | None = None, name: str | None = None) -> None:
        for part, spec in (("node", node), ("edge", edge)):
            if not (isinstance(spec, (Array, Discrete)) or (part == "edge" and spec is None)):
                raise SpecError(f"{part}: expected an Array or a Discrete, got {spec!r}")
        set_fields(self, node=node, edge=edge, name=name)

    def validate(self, value: Any, path: str = "value") -> None:
        if not all(hasattr(value, part) for part in GraphValue._fields):
            raise SpecError(f"{path}: expected a GraphValue(nodes, edges, edge_links), got {shown(value)}")
        _check_rows(self.node, value.nodes, f"{path}.nodes")
        if (value.edges is None) != (value.edge_links is None) and self.edge is not None:
            raise SpecError(f"{path}: expected both edges and edge_links, or neither")
        if value.edges is not None:
            if self.edge is None:
                raise SpecError(f"{path}.edges: expected None, because edges carry no values, got {shown(value.edges)}")
            _check_rows(self.edge, value.edges, f"{path}.edges")
        if value.edge_links is not None:
            links = np.asarray(value.edge_links)
            if links.ndim != 2 or links.shape[1] != 2 or links.dtype.kind not in "iu":
                raise SpecError(f"{path}.edge_links: expected integers of shape (m, 2), got {shown(links)}")
            check_bounds(links, 0, len(value.nodes) - 1, f"{path}.edge_links")

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
    n = len(rows) if isinstance(rows, AnyArray) and rows.ndim else 0
    validate(of_length(spec, n), rows, path)


@dataclass(frozen=True, init=False, eq=False, repr=False)
class OneOf(Spec):
    """A value of exactly one of several specs: `(index, value)`.

    Args:
        specs: The alternatives, at least one, possibly nested.
        name: The name of the value, for frameworks that name their specs.

    Raises:
        SpecError: `specs` is empty, or an alternative is not a spec.
    """

    specs: tuple[SpecTree, ...]
    name: str | None

    def __init__(self, specs: tuple[SpecTree, ...] | list[SpecTree], name: str | None = None) -> None:
        if not specs:
            raise SpecError("specs: expected at least one alternative, got none")
        for spec in specs:
            check_spec(spec)
        set_fields(self, specs=tuple(specs), name=name)

    def validate(self, value: Any, path: str = "value") -> None:
        if not isinstance(value, AnyTuple) or len(value) != 2:
            raise SpecError(f"{path}: expected (index, value), got {shown(value)}")
        index, chosen = value
        Discrete(len(self.specs)).validate(index, f"{path}[0]")
        validate(self.specs[int(index)], chosen, f"{path}[1]")

    def sample(self, rng: np.random.Generator) -> tuple[np.int64, Any]:
        index = np.int64(rng.integers(len(self.specs)))
        return index, sample(self.specs[index], rng)

    def zeros(self) -> tuple[np.int64, Any]:
        return np.int64(0), zeros(self.specs[0])
