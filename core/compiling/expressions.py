"""Expressions: the values of one lane as a graph of scalar operations, and their lines of Python.

A node is one scalar. Equal nodes are one object (a recorder keeps them), so that shared subexpressions are computed
once, and so that two graphs are equal if their nodes are the same.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .compilation import Unsupported

LIMIT = 4_000
"""The largest number of operations of one function; the code of larger ones takes too long to compile."""


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One scalar."""

    kind: str  # `"const"`, `"input"`, `"cast"`, `"where"`, `"gather"`, or the name of a ufunc
    arguments: tuple[Any, ...]  # the nodes and constants that it is computed from
    dtype: np.dtype[Any]


class Recorder:
    """Keeps the nodes of all functions of a model, and the arrays and the ufunc loops that they use."""

    def __init__(self) -> None:
        self._nodes: dict[Any, Node] = {}
        self.tables: list[np.ndarray[Any, Any]] = []  # indexed by lanes' values
        self.loops: list[tuple[str, str]] = []  # ufuncs that are called by address: names, characters of dtypes

    def node(self, kind: str, arguments: tuple[Any, ...], dtype: np.dtype[Any]) -> Node:
        """Returns the node of an operation; the same object for the same operation."""
        key = (kind, tuple(id(part) if isinstance(part, Node) else part for part in arguments), dtype.str)
        if key not in self._nodes:
            if len(self._nodes) > 40 * LIMIT:
                raise Unsupported("it computes too many values to compile")
            self._nodes[key] = Node(kind, arguments, dtype)
        return self._nodes[key]

    def const(self, value: Any, dtype: np.dtype[Any]) -> Node:
        """Returns a constant."""
        scalar = dtype.type(value)
        return self.node("const", (scalar.tobytes(),), dtype)

    def cast(self, node: Node, dtype: np.dtype[Any]) -> Node:
        """Returns a node converted to a dtype, as `astype` does."""
        if node.dtype == dtype:
            return node
        if node.kind == "const":
            return self.const(value_of(node).astype(dtype), dtype)
        if dtype.kind not in "biuf":
            raise Unsupported(f"it computes values of dtype {dtype}")
        return self.node("cast", (node,), dtype)

    def table(self, array: np.ndarray[Any, Any]) -> int:
        """Returns the number of an array that lanes index."""
        for number, held in enumerate(self.tables):
            if held is array:
                return number
        self.tables.append(array)
        return len(self.tables) - 1

    def loop(self, ufunc: np.ufunc, types: str) -> int:
        """Returns the number of a ufunc's loop."""
        key = (ufunc.__name__, types)
        if key not in self.loops:
            self.loops.append(key)
        return self.loops.index(key)


def value_of(node: Node) -> Any:
    """Returns the value of a constant, a numpy scalar."""
    return np.frombuffer(node.arguments[0], node.dtype)[0]


def in_lane_zero(recorder: Recorder, node: Node, lane: int, memory: dict[int, Node]) -> Node:
    """Returns the node that lane 0 has where a lane has `node`."""
    if id(node) not in memory:
        if node.kind == "input":
            name, own, *place = node.arguments
            if own != lane:
                raise Unsupported("a lane depends on other lanes; it reduces or mixes the leading axis")
            found = recorder.node("input", (name, 0, *place), node.dtype)
        else:
            parts = [
                in_lane_zero(recorder, part, lane, memory) if isinstance(part, Node) else part
                for part in node.arguments
            ]
            found = recorder.node(node.kind, tuple(parts), node.dtype)
        memory[id(node)] = found
    return memory[id(node)]


def read_inputs(nodes: Iterable[Node], known: Container[int] = ()) -> list[Node]:
    """Returns the inputs that some nodes depend on, each once."""
    return [node for node in ordered(nodes, known) if node.kind == "input"]


def ordered(nodes: Iterable[Node], known: Container[int] = ()) -> list[Node]:
    """Returns all nodes that some depend on, and these, each after its arguments."""
    found: dict[int, Node] = {}
    waiting = [(node, False) for node in reversed(list(nodes))]
    while waiting:
        node, ready = waiting.pop()
        if ready:
            found[id(node)] = node
        elif id(node) not in found and id(node) not in known:
            waiting.append((node, True))
            waiting += [(part, False) for part in reversed(node.arguments) if isinstance(part, Node)]
    if len(found) > LIMIT:
        raise Unsupported(f"it computes {len(found)} values a lane; at most {LIMIT} can be compiled")
    return list(found.values())


_INFIX = {
    "add": "+", "subtract": "-", "multiply": "*", "divide": "/", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=", "equal": "==", "not_equal": "!=", "bitwise_and": "&", "bitwise_or": "|", "bitwise_xor": "^",
    "logical_and": "and", "logical_or": "or",
}  # fmt: skip
_OF_BOOLS = {"add": "or", "multiply": "and", "bitwise_and": "and", "bitwise_or": "or", "bitwise_xor": "!="}
"""Operators of bools, where numpy's differ from Python's."""

_WRAPPING = {"add": "+", "subtract": "-", "multiply": "*", "square": "*"}
"""Operators of int64 whose results wrap around, as numpy's do."""

_CALLS = {
    "square": "{0} * {0}",
    "negative": "-{0}",
    "positive": "{0}",
    "absolute": "abs({0})",
    "logical_not": "not {0}",
    "sqrt": "sqrt({0})",
    "sin": "sin({0})",
    "cos": "cos({0})",
    "maximum": "{0} if ({0} != {0} or {0} >= {1}) else {1}",
    "minimum": "{0} if ({0} != {0} or {0} <= {1}) else {1}",
    "clip": "clip({0}, {1}, {2})",
    "isnan": "{0} != {0}",
}
"""Other functions. Those that are not here are called by the address of numpy's own loop."""

_OF_DOUBLES = ("sqrt", "sin", "cos")
"""Functions whose lines give numpy's bits for float64, which a probe holds; see `exact_functions`."""


def exact_functions() -> frozenset[str]:
    """Returns those of `_OF_DOUBLES` for which numpy and C agree bit by bit on this machine, found by a probe."""
    with np.errstate(all="ignore"):
        points = np.random.default_rng(0).normal(0, [[0.1], [3], [1000]], (3, 400)).ravel()
        exact = {"sqrt"}
        for name in ("sin", "cos"):
            own = np.array([getattr(math, name)(x) for x in points.tolist()])
            if np.array_equal(own, getattr(np, name)(points)):
                exact.add(name)
    return frozenset(exact)


def is_call(node: Node, exact: frozenset[str]) -> bool:
    """Returns True if the line of a node calls a function that LLVM does not know, or may raise an error."""
    return node.kind in ("gather", "sin", "cos") or _is_loop(node, exact)


def _is_loop(node: Node, exact: frozenset[str]) -> bool:
    """Returns True for a ufunc that is called by the address of numpy's own loop."""
    kind = node.kind
    if kind in ("const", "input", "cast", "where", "gather"):
        return False
    kinds = {part.dtype for part in node.arguments}
    if (kinds == {np.dtype(bool)} and kind in _OF_BOOLS) or (node.dtype == np.int64 and kind in _WRAPPING):
        return False
    if kind in _INFIX and (kind not in ("logical_and", "logical_or") or kinds == {np.dtype(bool)}):
        return kind == "divide" and node.dtype.kind != "f"
    return kind not in _CALLS or (kind in _OF_DOUBLES and not (node.dtype == np.float64 and kind in exact))


class Writer:
    """Writes nodes as lines of Python, each value once."""

    def __init__(self, recorder: Recorder, exact: frozenset[str], prefix: str) -> None:
        self.lines: list[str] = []  # the lines so far
        self.known: dict[int, str] = {}  # the names of all nodes that are bound or written, by their ids
        self._recorder, self._exact, self._prefix = recorder, exact, prefix

    def bind(self, node: Node, name: str) -> None:
        """Uses a name for a node from here on."""
        self.known[id(node)] = name

    def write(self, nodes: Iterable[Node]) -> list[str]:
        """Writes the lines that compute some nodes."""
        wanted = list(nodes)
        for node in ordered(wanted, self.known):
            if node.kind == "const":
                self.known[id(node)] = literal(value_of(node))
                continue
            text = self._text(node)
            name = f"{self._prefix}{len(self.known)}"
            self.lines.append(f"{name} = {text}")
            self.known[id(node)] = name
        return [self.known[id(node)] for node in wanted]

    def _text(self, node: Node) -> str:
        parts: list[Any] = [self.known[id(part)] if isinstance(part, Node) else part for part in node.arguments]
        kind = node.kind
        if kind == "input":
            raise Unsupported(f"it reads {node.arguments[0]!r}, which is not known there")
        if kind == "cast":
            return conversion(node.dtype, parts[0], node.arguments[0].dtype)
        if kind == "where":
            return f"{parts[1]} if {parts[0]} else {parts[2]}"
        if kind == "gather":
            table, *indices = parts
            sizes = self._recorder.tables[table].shape
            places = [
                index if isinstance(index, int) else f"place({index}, {size})"
                for index, size in zip(indices, sizes, strict=True)
            ]
            return f"table{table}[{', '.join(map(str, places))}]"
        if _is_loop(node, self._exact):
            types = "".join(part.dtype.char for part in node.arguments) + node.dtype.char
            number = self._recorder.loop(getattr(np, kind), types)
            return f"loop{number}(loops, {', '.join(parts)})"
        if {part.dtype for part in node.arguments} == {np.dtype(bool)} and kind in _OF_BOOLS:
            return f"{parts[0]} {_OF_BOOLS[kind]} {parts[1]}"
        if node.dtype == np.int64 and kind in _WRAPPING:
            # Of unsigned integers, since LLVM takes signed ones for ones that never overflow.
            one, other = parts[0], parts[-1]
            return f"i8(u8({one}) {_WRAPPING[kind]} u8({other}))"
        call = f"{{0}} {_INFIX[kind]} {{1}}" if kind in _INFIX else _CALLS[kind]
        return conversion(node.dtype, f"({call.format(*parts)})", None)


SHORT = {"float64": "f8", "float32": "f4", "int64": "i8", "int32": "i4", "int16": "i2", "int8": "i1", "bool": "b1",
          "uint64": "u8", "uint32": "u4", "uint16": "u2", "uint8": "u1"}  # fmt: skip
"""The functions that convert a scalar, by the names of the dtypes."""

CONVERSIONS = {short: np.dtype(name).type for name, short in SHORT.items()}
"""The functions that convert a scalar to a dtype, by the names that the lines have for them."""


def conversion(dtype: np.dtype[Any], text: str, source: np.dtype[Any] | None) -> str:
    """Returns an expression converted to a dtype."""
    if dtype.name not in SHORT:
        raise Unsupported(f"it computes values of dtype {dtype}")
    if source is None and dtype.name in ("float64", "int64", "bool"):
        return text
    if dtype == np.bool_ and source is not None:
        return f"({text} != 0)"
    return f"{SHORT[dtype.name]}({text})"


def literal(value: Any) -> str:
    """Returns the expression of a numpy scalar."""
    short = SHORT[value.dtype.name]
    number = value.item()
    text = repr(number)
    if isinstance(number, float) and not np.isfinite(number):
        text = "nan" if number != number else "inf" if number > 0 else "-inf"
    text = f"({text})" if text.startswith("-") else text
    return text if short in ("f8", "i8", "b1") else f"{short}({text})"
