"""Expressions: the values of one lane as a graph of scalar operations; `expression_text` has their lines of Python.

A node is one scalar. Equal nodes are one object (a recorder keeps them), so that shared subexpressions are computed
once, and so that two graphs are equal if their nodes are the same.
"""

from __future__ import annotations

from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .errors import Unsupported

LIMIT = 4_000
"""The largest number of operations of one function; the code of larger ones takes too long to compile."""


@dataclass(frozen=True, eq=False, slots=True)
class Node:
    """One scalar.

    Attributes:
        kind: `"const"`, `"input"`, `"cast"`, `"where"`, `"gather"`, or the name of a ufunc.
        arguments: The nodes and constants that it is computed from.
        dtype: Its numpy dtype.
    """

    kind: str
    arguments: tuple[Any, ...]
    dtype: np.dtype[Any]


class Recorder:
    """Keeps the nodes of all functions of a model, and the arrays and the ufunc loops that they use.

    Attributes:
        tables: Arrays that are indexed by lanes' values, in the order of their numbers.
        loops: The ufuncs that are called by their address, as names with the characters of their dtypes.
    """

    def __init__(self) -> None:
        self._nodes: dict[Any, Node] = {}
        self.tables: list[np.ndarray[Any, Any]] = []
        self.loops: list[tuple[str, str]] = []

    def node(self, kind: str, arguments: tuple[Any, ...], dtype: np.dtype[Any]) -> Node:
        """Returns the node of an operation; the same object for the same operation.

        Args:
            kind: As `Node.kind`.
            arguments: As `Node.arguments`.
            dtype: As `Node.dtype`.
        """
        key = (kind, tuple(id(part) if isinstance(part, Node) else part for part in arguments), dtype.str)
        if key not in self._nodes:
            if len(self._nodes) > 40 * LIMIT:
                raise Unsupported("it computes too many values to compile")
            self._nodes[key] = Node(kind, arguments, dtype)
        return self._nodes[key]

    def const(self, value: Any, dtype: np.dtype[Any]) -> Node:
        """Returns a constant.

        Args:
            value: A number.
            dtype: Its dtype.
        """
        scalar = dtype.type(value)
        return self.node("const", (scalar.tobytes(),), dtype)

    def cast(self, node: Node, dtype: np.dtype[Any]) -> Node:
        """Returns a node converted to a dtype, as `astype` does.

        Args:
            node: The node.
            dtype: The dtype.
        """
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
        """Returns the number of a ufunc's loop.

        Args:
            ufunc: The ufunc.
            types: The characters of the dtypes of its arguments and of its result.
        """
        key = (ufunc.__name__, types)
        if key not in self.loops:
            self.loops.append(key)
        return self.loops.index(key)


def value_of(node: Node) -> Any:
    """Returns the value of a constant, a numpy scalar."""
    return np.frombuffer(node.arguments[0], node.dtype)[0]


def in_lane_zero(recorder: Recorder, node: Node, lane: int, memory: dict[int, Node]) -> Node:
    """Returns the node that lane 0 has where a lane has `node`.

    Args:
        recorder: The recorder of the nodes.
        node: The node.
        lane: The lane.
        memory: The results for the lane so far, by the nodes' ids.

    Raises:
        Unsupported: The node depends on another lane.
    """
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
    """Returns the inputs that some nodes depend on, each once.

    Args:
        nodes: The nodes.
        known: As for `ordered`.
    """
    return [node for node in ordered(nodes, known) if node.kind == "input"]


def ordered(nodes: Iterable[Node], known: Container[int] = ()) -> list[Node]:
    """Returns all nodes that some depend on, and these, each after its arguments.

    Args:
        nodes: The nodes.
        known: The ids of nodes that are left out, with what only they depend on.
    """
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
