"""The lines of Python that compute the nodes of expressions, with numpy's bits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import numpy as np

from .errors import Unsupported
from .expressions import Node, Recorder, ordered, value_of

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
    """Returns True if the line of a node calls a function that LLVM does not know, or may raise an error.

    Args:
        node: The node.
        exact: The result of `exact_functions`.
    """
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
    """Writes nodes as lines of Python, each value once.

    Args:
        recorder: The recorder of the nodes.
        exact: The result of `exact_functions`.
        prefix: The beginning of the names of local variables.

    Attributes:
        lines: The lines so far.
        known: The names of all nodes that are bound or written, by their ids.
    """

    def __init__(self, recorder: Recorder, exact: frozenset[str], prefix: str) -> None:
        self.lines: list[str] = []
        self.known: dict[int, str] = {}
        self._recorder, self._exact, self._prefix = recorder, exact, prefix

    def bind(self, node: Node, name: str) -> None:
        """Uses a name for a node from here on.

        Args:
            node: The node.
            name: The name, or an expression without side effects.
        """
        self.known[id(node)] = name

    def write(self, nodes: Iterable[Node]) -> list[str]:
        """Writes the lines that compute some nodes.

        Returns:
            The names, or literals, of their values.
        """
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
    """Returns an expression converted to a dtype.

    Args:
        dtype: The dtype.
        text: The expression.
        source: Its own dtype; None if that follows from the operation, as in C.

    Raises:
        Unsupported: There is no such conversion.
    """
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
