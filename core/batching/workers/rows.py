"""Values of lanes in shared memory: a row for each lane, which the lane's process writes and the batch reads.

Leaves that are arrays have an array of shape (n, …) in one block of shared memory. Other leaves (`Text`, `Sequence`,
`Graph`, `OneOf`, …) travel in messages, as a tuple per lane, in the order of the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from itertools import zip_longest
from multiprocessing.shared_memory import SharedMemory
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ... import tree
from ...errors import SpecError
from ...protocol.batch_env import check_count
from ...spec import Array, Spec, SpecTree
from ...spec.arrays import ARRAYS
from ...spec.base import shown

_ALIGNMENT = 64  # bytes, a cache line: neighbouring arrays are written by different processes

_FLAG = Array((), "bool")
_OWN = {"acting": _FLAG, "calls": Array((), "int64"), "terminated": _FLAG, "truncated": _FLAG}


class _Column(NamedTuple):
    """One value of all lanes: its spec, a function that lists its leaves, and the path and array of each leaf."""

    spec: SpecTree
    flatten: Callable[[Any], Sequence[Any]]
    leaves: list[tuple[str, NDArray[Any] | None]]


class Rows:
    """The rows of n lanes in shared memory: values, flags, whether the lane acts, and how often it was called."""

    def __init__(self, specs: Mapping[str, SpecTree], n: int, name: str | None = None) -> None:
        specs = {**_OWN, **specs}
        arrays = [leaf for spec in specs.values() for _, leaf in tree.leaves(spec) if isinstance(leaf, ARRAYS)]
        sizes = [n * int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in arrays]
        ends = np.cumsum([-(-size // _ALIGNMENT) * _ALIGNMENT for size in sizes]).tolist()
        self._memory = SharedMemory(name, create=name is None, size=max(ends[-1], 1))
        self.name = self._memory.name
        # Views, which must be gone before the memory can be closed.
        views = (
            np.ndarray((n, *leaf.shape), leaf.dtype, self._memory.buf, start)
            for leaf, start in zip(arrays, [0, *ends], strict=False)
        )
        self._columns = {
            what: _Column(
                spec,
                _flattener(spec),
                [(path, next(views) if isinstance(leaf, ARRAYS) else None) for path, leaf in tree.leaves(spec, what)],
            )
            for what, spec in specs.items()
        }
        own: Any = (self._columns[what].leaves[0][1] for what in _OWN)
        self.acting, self.calls, self.terminated, self.truncated = own

    def write(self, what: str, lane: int, value: Any) -> tuple[Any, ...]:
        """Writes one lane's value, and returns the leaves that are not arrays."""
        _, flatten, leaves = self._columns[what]
        rest: tuple[Any, ...] = ()
        for (path, array), leaf in zip(leaves, flatten(value)):  # noqa: B905 (the spec counts them)
            if array is None:
                rest = (*rest, leaf)
            elif np.shape(leaf) != array.shape[1:]:
                raise SpecError(f"{path}: expected shape {array.shape[1:]}, got {shown(leaf)}")
            else:
                array[lane] = leaf
        return rest

    def read(self, what: str, lanes: NDArray[np.intp] | None, rests: Sequence[tuple[Any, ...]] = ()) -> Any:
        """Returns new arrays with values of some or all lanes; `rests` has a tuple of other leaves per lane."""
        spec, _, leaves = self._columns[what]
        others = zip_longest(*rests)
        found = iter(
            [next(others) if one is None else one.copy() if lanes is None else one[lanes] for _, one in leaves]
        )
        return tree.map_leaves(lambda _: next(found), spec)

    def fill(self, what: str, lanes: NDArray[np.intp] | None, values: Any) -> bool:
        """Writes values of some or all lanes. Returns False if a leaf is not an array with the dtype of its spec."""
        _, flatten, leaves = self._columns[what]
        for (path, array), new in zip(leaves, flatten(values)):  # noqa: B905 (the spec counts them)
            if array is None or type(new) is not np.ndarray or new.dtype != array.dtype:
                return False
            check_count(path, new, len(array) if lanes is None else len(lanes))
            expected = (len(array) if lanes is None else len(lanes), *array.shape[1:])
            if new.shape != expected:
                raise SpecError(f"{path}: expected shape {expected}, one for each lane, got {shown(new)}")
            array[slice(None) if lanes is None else lanes] = new
        return True

    def take(self, what: str, lane: int) -> Any:
        """Returns a copy of one lane's value, whose leaves are all arrays."""
        spec, _, leaves = self._columns[what]
        found = iter([array[lane] if array.ndim == 1 else array[lane].copy() for _, array in cast("Any", leaves)])
        return tree.map_leaves(lambda _: next(found), spec)

    def copy(self, what: str, other: Rows) -> None:
        """Copies a value of all lanes from other rows with the same spec."""
        for (_, array), (_, old) in zip(self._columns[what].leaves, other._columns[what].leaves, strict=True):
            if array is not None:
                array[:] = old

    def close(self, unlink: bool = False) -> None:
        """Releases the memory in this process, and with `unlink` in the system. Can be called again."""
        self._columns.clear()
        self.acting = self.calls = self.terminated = self.truncated = np.empty(0)
        with suppress(BufferError):  # another thread reads at this moment; the memory goes when it is done
            self._memory.close()
        if unlink:
            with suppress(FileNotFoundError):
                self._memory.unlink()


def _flattener(spec: SpecTree) -> Callable[[Any], Sequence[Any]]:
    """Returns a function that lists the leaves of a value; leaves may be containers, as in a `Sequence`."""
    if isinstance(spec, Spec):
        return lambda value: (value,)
    parts = [(key, _flattener(sub)) for _, key, sub in tree.children(spec)]
    return lambda value: [leaf for key, part in parts for leaf in part(value[key])]
