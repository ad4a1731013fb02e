"""Batched values: the values of n lanes as a single one, whose array leaves have a leading axis of n.

Leaves that are not arrays (`Text`, `Sequence`, `Graph`, `OneOf`) become tuples with one entry per lane.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, cast, overload

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..protocol.env import Step, make_step
from ..protocol.process import Info
from ..spec import Array, Discrete, MultiBinary, MultiDiscrete, Spec, SpecTree

_ARRAYS = (Array, Discrete, MultiDiscrete, MultiBinary)


def stack(spec: SpecTree, values: Sequence[Any]) -> Any:
    """Stacks the values of all lanes.

    Args:
        spec: The spec of a single lane's value.
        values: One value for each of n lanes.

    Returns:
        The structure of `spec`; array leaves of shape (n, …) in the spec's dtype.
    """
    if type(spec) is Array:
        # By far the most common case. numpy is fastest if it may choose the dtype, and mostly it chooses this one.
        array = np.array(values)
        return array if array.dtype == spec.dtype else np.array(values, spec.dtype)
    if isinstance(spec, Spec):
        return np.array(values, spec.dtype) if isinstance(spec, _ARRAYS) else tuple(values)
    return tree.rebuild(spec, [stack(sub, [v[key] for v in values]) for _, key, sub in tree.children(spec)])


def full_lanes_step(values: Any, discount_spec: SpecTree, n: int) -> Step:
    """What the `raw_step` of a batch gave as a `Step`, with flags and discounts filled in where it left them out."""
    observation, reward, terminated, truncated, discount, infos = values
    if terminated is None:
        terminated, truncated = np.zeros(n, bool), np.zeros(n, bool)
    if discount is None:
        discount = stack(discount_spec, [0.0 if ended else 1.0 for ended in terminated])
    return make_step((observation, reward, cast("Any", terminated), cast("Any", truncated), discount, infos))


def lane(spec: SpecTree, values: Any, index: int) -> Any:
    """Returns one lane's value of a batched value; its arrays are views.

    Args:
        spec: The spec of a single lane's value.
        values: The batched value, with leaves of shape (n, …).
        index: The index of the lane.
    """
    if isinstance(spec, Spec):
        return values[index]
    return tree.rebuild(spec, [lane(sub, values[key], index) for _, key, sub in tree.children(spec)])


def take(values: Any, index: Any) -> Any:
    """Returns the chosen lanes of a tree of arrays.

    Args:
        values: A tree of arrays of shape (n, …).
        index: Any numpy index of the first axis; indices and masks copy, a single integer or a slice gives views.
    """
    return tree.map_leaves(lambda leaf: leaf[index], values)


def alike(row: NDArray[Any], n: int) -> NDArray[Any]:
    """Returns an array of n equal lanes that takes the memory of one.

    numpy computes with it as fast as with a scalar.

    Args:
        row: The value of each lane; it becomes read-only.
        n: The number of lanes.

    Returns:
        A read-only array of shape (n, …), with a stride of 0 along its first axis.
    """
    row.flags.writeable = False
    return np.ndarray((n, *row.shape), row.dtype, row, 0, (0, *row.strides))


def put(values: Any, index: NDArray[np.intp], some: Any) -> Any:
    """Returns a tree of arrays with new values in some lanes; the original is not changed.

    Args:
        values: A tree of arrays of shape (n, …).
        index: The indices of k lanes, of shape (k,).
        some: The new values of these lanes, of the same structure, with leaves of shape (k, …).
    """

    def replaced(old: NDArray[Any], new: NDArray[Any]) -> NDArray[Any]:
        if not old.strides[0] and new.dtype == old.dtype and new.tobytes() == old[0].tobytes() * len(index):
            return old  # equal in all lanes, before and after
        result = old.copy(order="K")
        result[index] = new
        return result

    return tree.map_leaves(replaced, values, some)


class SomeLanes(dict[Any, Any]):
    """Columns of infos, some of which have entries for some lanes only.

    Args:
        columns: Arrays of shape (n, …), by name.
        masks: The lanes that have an entry in a column, bool of shape (n,), by the column's name. Without a mask, all
            lanes have one.

    Attributes:
        masks: The masks by name.
    """

    def __init__(self, columns: Mapping[Any, Any], masks: Mapping[Any, NDArray[np.bool_]]) -> None:
        super().__init__(columns)
        self.masks = masks


class Infos(Sequence[Info]):
    """The infos of all lanes, a sequence of dicts; the values of each lane keep their types.

    It is made from one dict per lane, or from columns: arrays with one element per lane.

    Args:
        lanes: One dict per lane.
        columns: Arrays of shape (n, …), by name, in place of `lanes`.
        n: The number of lanes, with `columns`.
        mask: The lanes that have the entries of `columns`, bool of shape (n,); the others have empty dicts.
        masks: For columns that only some of these lanes have, the lanes that do, bool of shape (n,), by name.

    Attributes:
        columns: The given columns; None if it was made from dicts.
        mask: The lanes that have the entries of `columns`; None for all.
        masks: The masks of single columns; None if there are none.
    """

    __slots__ = ("_lanes", "_n", "columns", "mask", "masks")

    def __init__(
        self,
        lanes: Sequence[Info] | None = None,
        *,
        columns: Mapping[Any, Any] | None = None,
        n: int = 0,
        mask: NDArray[np.bool_] | None = None,
        masks: Mapping[Any, NDArray[np.bool_]] | None = None,
    ) -> None:
        self._lanes, self.columns, self.mask, self.masks = lanes, columns, mask, masks
        self._n = n if lanes is None else len(lanes)

    def adding(self, columns: Mapping[Any, Any], mask: NDArray[np.bool_] | None = None) -> Infos:
        """Returns these infos with additional entries.

        Args:
            columns: Arrays of shape (n, …), by name; in a `SomeLanes`, lanes can lack some of the entries.
            mask: The lanes that get the entries, bool of shape (n,), if these infos were made from dicts; None for all.
        """
        masks = columns.masks if type(columns) is SomeLanes else None
        if self._lanes is None:
            if self.masks is not None:
                masks = {**{key: held for key, held in self.masks.items() if key not in columns}, **(masks or {})}
            return Infos(columns={**(self.columns or {}), **columns}, n=self._n, mask=self.mask, masks=masks)
        if masks is not None:
            added = Infos(columns=columns, n=self._n, mask=mask, masks=masks)
            return Infos([{**info, **added[i]} for i, info in enumerate(self._lanes)])
        return Infos(
            [
                {**info, **{key: column[i] for key, column in columns.items()}} if mask is None or mask[i] else info
                for i, info in enumerate(self._lanes)
            ]
        )

    def __len__(self) -> int:
        return self._n

    @overload
    def __getitem__(self, index: int) -> Info: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Info]: ...
    def __getitem__(self, index: int | slice) -> Info | Sequence[Info]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(self._n))]
        if not -self._n <= index < self._n:
            raise IndexError(index)
        if self._lanes is not None:
            return self._lanes[index]
        if self.mask is not None and not self.mask[index]:
            return {}
        if self.masks is not None:
            # A dict in a column is copied, so that readers can modify their own.
            return {
                key: {**column[index]} if isinstance(column[index], dict) else column[index]
                for key, column in (self.columns or {}).items()
                if key not in self.masks or self.masks[key][index]
            }
        return {key: column[index] for key, column in (self.columns or {}).items()}

    def __iter__(self) -> Iterator[Info]:
        return (self[i] for i in range(self._n))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Sequence):
            return NotImplemented
        return list(self) == list(cast("Sequence[Any]", other))

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"Infos({list(self)!r})"
