"""Tracing: a `BatchModel`'s functions run once on symbolic lanes, and become the operations of one lane.

A `BatchModel` is written with numpy on a leading lane axis, so it has no control flow that depends on a lane's values.
Its functions therefore run as they are, with `LaneArray`s for the state, the action, the context and the random
numbers. Only two things are exchanged in the functions' globals: `np.array` and `np.asarray` (numpy has no protocol for
them), and the arrays that lanes index.

Random numbers are generated outside of the kernel, by the very calls that the functions make, in their order.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass, field
from pathlib import Path
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any

import numpy as np

from .. import tree
from ..errors import NotCompilable
from .compilation import Unsupported
from .expressions import LIMIT, Node, Recorder, in_lane_zero, ordered
from .lane_arrays import LANES, GeneratorStandIn, LaneArray, RandomCall, Table, as_lanes


@dataclass
class Part:
    """The operations of one of a model's functions."""

    nodes: list[Node]  # the scalars of its result in lane 0, leaf by leaf
    result: Any  # the structure of its result, with a zero array of one lane's shape and dtype for each leaf
    calls: list[RandomCall] = field(default_factory=list[RandomCall])  # the calls for random numbers, in their order


class Tracer:
    """Records the functions of a model."""

    def __init__(self, model: Any) -> None:
        self.recorder = Recorder()
        self._model = model
        self._functions: dict[int, Any] = {}
        self._codes: set[str] = set()
        self._own = _ModelStandIn(model, self)

    def inputs(self, name: str, example: Any) -> Any:
        """Returns symbolic lanes of a tree of arrays."""
        count = 0

        def symbolic(leaf: Any) -> LaneArray:
            nonlocal count
            array = np.asarray(leaf)
            nodes = np.empty((LANES, *array.shape), object)
            for k, place in enumerate(np.ndindex(array.shape), count):
                for lane in range(LANES):
                    nodes[lane, *place] = self.recorder.node("input", (name, lane, k), array.dtype)
            count += array.size
            if count > LIMIT:
                raise NotCompilable(f"{type(self._model).__name__}: {name} has over {LIMIT} numbers a lane")
            return LaneArray(nodes, array.dtype, self.recorder)

        return tree.map_leaves(symbolic, example)

    def generator(self, name: str, calls: list[RandomCall]) -> Any:
        """Returns a symbolic generator."""
        return GeneratorStandIn(name, calls, self.recorder)

    def run(self, function: str, *arguments: Any) -> Any:
        """Calls a function of the model on symbolic values."""
        try:
            return getattr(self._own, function)(*arguments)
        except (NotCompilable, RecursionError):
            raise
        except Exception as error:  # whatever numpy or the author's code make of symbolic values
            reason = str(error) if isinstance(error, Unsupported) else f"{type(error).__name__}: {error}"
            raise NotCompilable(f"{self._place(function, error)}: {reason}") from None

    def part(self, function: str, result: Any, calls: list[RandomCall] | None = None) -> Part:
        """Returns the operations of a function, after checking that lanes are alike and independent."""
        nodes: list[Node] = []

        def checked(leaf: Any) -> Any:
            found = self._lane_zero(leaf)
            nodes.extend(found.ravel().tolist())
            return np.zeros(found.shape, leaf.dtype)

        try:
            shape = tree.map_leaves(checked, result)
            ordered(nodes)
        except Unsupported as error:
            raise NotCompilable(f"{type(self._model).__name__}.{function}: {error}") from None
        return Part(nodes, shape, calls or [])

    def _lane_zero(self, leaf: Any) -> np.ndarray[Any, Any]:
        if not isinstance(leaf, (LaneArray, np.ndarray)) or leaf.shape[:1] != (LANES,):
            shape = getattr(leaf, "shape", None)
            what = type(leaf).__name__ if shape is None else f"an array of shape {shape}"
            raise Unsupported(f"it returned {what} where an array with a leading lane axis was expected")
        if isinstance(leaf, np.ndarray):
            leaf = _constant(leaf, self.recorder)
        rows = leaf.nodes.reshape(LANES, -1)
        for lane in range(LANES):
            memory: dict[int, Node] = {}
            for own, first in zip(rows[lane], rows[0], strict=True):
                if in_lane_zero(self.recorder, own, lane, memory) is not first:
                    raise Unsupported("lanes are not alike: the same state and action give different values")
        return rows[0].reshape(leaf.shape[1:])

    # The model's functions, with other globals.

    def rebound(self, value: Any) -> Any:
        """Returns what a function of the model finds in place of a global value."""
        if isinstance(value, ModuleType):
            name = value.__name__.partition(".")[0]
            return value if name in sys.stdlib_module_names else _ModuleStandIn(value, self)
        if any(value is maker for maker in _MAKERS):
            return as_lanes
        if isinstance(value, np.ndarray) and value.dtype.kind in "biuf":
            return value.view(Table)
        if isinstance(value, FunctionType) and not value.__module__.startswith("numpy"):
            return self._with_other_globals(value)
        return value

    def _with_other_globals(self, function: FunctionType) -> Any:
        if id(function) not in self._functions:
            names: dict[str, Any] = {"__builtins__": function.__globals__.get("__builtins__", {})}
            new = FunctionType(
                function.__code__, names, function.__name__, function.__defaults__,
                tuple(CellType(self.rebound(cell.cell_contents)) if _is_set(cell) else CellType()
                      for cell in function.__closure__ or ()),
            )  # fmt: skip
            new.__kwdefaults__ = function.__kwdefaults__
            self._functions[id(function)] = new
            self._codes.add(function.__code__.co_filename)
            for name in _names(function.__code__):
                if name in function.__globals__:
                    names[name] = self.rebound(function.__globals__[name])
        return self._functions[id(function)]

    def _place(self, function: str, error: Exception) -> str:
        """Returns the function and the line of an error, the innermost of the author's code."""
        place = f"{type(self._model).__name__}.{function}"
        trace = error.__traceback__
        while trace is not None:
            code = trace.tb_frame.f_code
            if code.co_filename in self._codes and code.co_filename != __file__:
                where = f"{Path(code.co_filename).name}, line {trace.tb_lineno}"
                place = f"{type(self._model).__name__}.{function} ({where})"
            trace = trace.tb_next
        return place


_MAKERS = (np.array, np.asarray, np.asanyarray, np.ascontiguousarray)


def _constant(array: np.ndarray[Any, Any], recorder: Recorder) -> LaneArray:
    nodes = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        nodes[place] = recorder.const(array[place], array.dtype)
    return LaneArray(nodes, array.dtype, recorder)


def _names(code: Any) -> set[str]:
    names = set(code.co_names)
    for const in code.co_consts:
        if hasattr(const, "co_names"):
            names |= _names(const)
    return names


def _is_set(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 (raises if it is empty)
    except ValueError:
        return False
    return True


class _ModuleStandIn:
    """A module whose functions take symbolic lanes."""

    def __init__(self, module: ModuleType, tracer: Tracer) -> None:
        self._module, self._tracer = module, tracer

    def __getattr__(self, name: str) -> Any:
        return self._tracer.rebound(getattr(self._module, name))


class _ModelStandIn:
    """A model whose functions take symbolic lanes."""

    def __init__(self, model: Any, tracer: Tracer) -> None:
        self._model, self._tracer = model, tracer

    def __getattr__(self, name: str) -> Any:
        value = getattr(self._model, name)
        if isinstance(value, MethodType) and value.__self__ is self._model:
            return MethodType(self._tracer.rebound(value.__func__), self)
        return self._tracer.rebound(value)
