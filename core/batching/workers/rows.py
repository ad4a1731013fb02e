"""Values of lanes in shared memory: a row for each lane, which the lane's process writes and the batch reads.

Leaves that are arrays have an array of shape (n, …) in one block of shared memory. Other leaves (`Text`, `Sequence`,
`Graph`, `OneOf`, …) travel in messages, as a tuple per lane, in the order of the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from multiprocessing.shared_memory import SharedMemory
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ... import tree
from ...errors import SpecError
from ...spec import Array, Discrete, MultiBinary, MultiDiscrete, Spec, SpecTree
from ...spec.base import shown

_ARRAYS = (Array, Discrete, MultiDiscrete, MultiBinary)
_ALIGNMENT = 64  # bytes, a cache line: neighbouring arrays are written by different processes

FLAG = Array((), "bool")
COUNT = Array((), "int64")

ACTING, STEPS = "acting", "steps"
"""Rows that a process writes before each call of an environment: 1 in the lane that it calls, and the number of its
calls so far. They show the lane in which a process hangs or has crashed."""


class Columns(NamedTuple):
    """The rows of one value, as functions.

    Attributes:
        write: `(lane, value) -> rest`, which writes one lane's value, and returns its leaves that are not arrays.
        read: `(lanes, rests) -> values` of these lanes, as new arrays; `lanes` is an index, or None for all lanes, and
            `rests` has a tuple for each of these lanes.
        fill: `(lanes, values) -> bool`, which writes the values of these lanes at once; False if a leaf is no array of
            the dtype of its spec, and so would not arrive as it is.
        take: `lane -> value`, a copy of one lane's value, for specs whose leaves are all arrays.
    """

    write: Callable[[int, Any], tuple[Any, ...]]
    read: Callable[[Any, Sequence[tuple[Any, ...]]], Any]
    fill: Callable[[Any, Any], bool]
    take: Callable[[int], Any]


class Rows:
    """The rows of n lanes in shared memory.

    Args:
        specs: The spec of each value by name; equal in all processes.
        n: The number of lanes.
        name: The name of the block of another process; None makes a new block, which `unlink` removes.

    Attributes:
        name: The name of the block.
    """

    def __init__(self, specs: Mapping[str, SpecTree], n: int, name: str | None = None) -> None:
        layout, size = _layout(specs, n)
        self._memory = SharedMemory(name, create=name is None, size=size)
        self.name = self._memory.name
        # Views, which must be gone before the memory can be closed.
        self._arrays: list[NDArray[Any]] = [
            np.ndarray(shape, dtype, self._memory.buf, offset) for offset, shape, dtype in layout
        ]
        self._n = n
        arrays = iter(self._arrays)
        self._columns = {what: _columns(spec, what, arrays, n) for what, spec in specs.items()}

    def __getitem__(self, what: str) -> Columns:
        return self._columns[what]

    def close(self) -> None:
        """Releases the memory in this process; can be called repeatedly."""
        self._columns.clear()
        self._arrays.clear()
        with suppress(BufferError):  # another thread reads at this moment; the memory goes when it is done
            self._memory.close()

    def unlink(self) -> None:
        """Removes the memory from the system, once all processes have closed it; can be called repeatedly."""
        with suppress(FileNotFoundError):
            self._memory.unlink()


def _layout(specs: Mapping[str, SpecTree], n: int) -> tuple[list[tuple[int, tuple[int, ...], np.dtype[Any]]], int]:
    """Returns the offset, shape and dtype of each array in a block, and the size of the block in bytes."""
    found: list[tuple[int, tuple[int, ...], np.dtype[Any]]] = []
    offset = 0
    for spec in specs.values():
        for _, leaf in tree.leaves(spec):
            if isinstance(leaf, _ARRAYS):
                shape = (n, *leaf.shape)
                found.append((offset, shape, leaf.dtype))
                size = int(np.prod(shape)) * leaf.dtype.itemsize
                offset += -(-size // _ALIGNMENT) * _ALIGNMENT
    return found, max(offset, 1)


def _columns(spec: SpecTree, path: str, arrays: Iterator[NDArray[Any]], n: int) -> Columns:
    if not isinstance(spec, Spec):
        return _of_branch(spec, path, arrays, n)
    return _of_array(spec, path, next(arrays), n) if isinstance(spec, _ARRAYS) else _of_other(path)


def _of_array(spec: Any, path: str, rows: NDArray[Any], n: int) -> Columns:
    shape, dtype, scalar = spec.shape, spec.dtype, spec.shape == ()

    def write(lane: int, value: Any) -> tuple[Any, ...]:
        if np.shape(value) != shape:
            raise SpecError(f"{path}: expected shape {shape}, got {shown(value)}")
        rows[lane] = value
        return ()

    def read(lanes: Any, rests: Sequence[Any]) -> Any:
        return rows.copy() if lanes is None else rows[lanes]

    def fill(lanes: Any, values: Any) -> bool:
        if type(values) is not np.ndarray or values.dtype != dtype:
            return False
        expected = (n if lanes is None else len(lanes), *shape)
        if values.shape != expected:
            raise SpecError(f"{path}: expected shape {expected}, one for each lane, got {shown(values)}")
        rows[slice(None) if lanes is None else lanes] = values
        return True

    def take(lane: int) -> Any:
        return rows[lane] if scalar else rows[lane].copy()

    return Columns(write, read, fill, take)


def _of_other(path: str) -> Columns:
    def write(lane: int, value: Any) -> tuple[Any, ...]:
        return (value,)

    def fill(lanes: Any, values: Any) -> bool:
        return False

    def read(lanes: Any, rests: Sequence[tuple[Any, ...]]) -> Any:
        return tuple(rest[0] for rest in rests)

    def take(lane: int) -> Any:
        raise SpecError(f"{path}: expected an array")

    return Columns(write, read, fill, take)


def _of_branch(spec: SpecTree, path: str, arrays: Iterator[NDArray[Any]], n: int) -> Columns:
    parts = [(key, _columns(sub, path + part, arrays, n)) for part, key, sub in tree.children(spec)]
    counts = [sum(not isinstance(leaf, _ARRAYS) for _, leaf in tree.leaves(sub)) for _, _, sub in tree.children(spec)]
    starts = np.cumsum([0, *counts]).tolist()

    def write(lane: int, value: Any) -> tuple[Any, ...]:
        return tuple(one for key, part in parts for one in part.write(lane, value[key]))

    def read(lanes: Any, rests: Sequence[tuple[Any, ...]]) -> Any:
        each = zip(parts, starts, starts[1:], strict=False)
        return tree.rebuild(
            spec, [part.read(lanes, [rest[start:end] for rest in rests]) for (_, part), start, end in each]
        )

    def fill(lanes: Any, values: Any) -> bool:
        return all(part.fill(lanes, values[key]) for key, part in parts)

    def take(lane: int) -> Any:
        return tree.rebuild(spec, [part.take(lane) for _, part in parts])

    return Columns(write, read, fill, take)
