"""Infos of many lanes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from ..tree import AnyArray, AnySequence
from .process import Info

_where: Any = np.where


class Infos(Sequence[Info]):
    """The infos of all lanes, as a sequence of dicts. Values keep their types.

    Make it from one dict per lane, or from columns: arrays with one element per lane.

    Args:
        lanes: A list with one dict per lane.
        columns: Arrays of shape (n, …) by name, used instead of `lanes`.
        n: The number of lanes, with `columns`.
        mask: The lanes that have the entries of `columns`, bool of shape (n,); the others have empty dicts.
        masks: Maps names of columns that only some of these lanes have to masks of those lanes, bool of shape (n,).

    Attributes:
        columns: The given columns, or None if made from dicts.
        mask: Mask of the lanes that have the entries of `columns`, or None for all.
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

    def adding(self, columns: Mapping[Any, Any], mask: NDArray[np.bool_] | None = None, masks: Any = None) -> Infos:
        """Returns a copy with additional entries.

        Args:
            columns: Arrays of shape (n, …) by name.
            mask: The lanes that get the entries, bool of shape (n,), if these infos were made from dicts; None for all.
            masks: As for `Infos`.
        """
        if self._lanes is None:
            found, some = _overlaid((self.columns or {}, None, self.masks), (columns, None, masks))
            return Infos(columns=found, n=self._n, mask=self.mask, masks=some)
        if masks is not None:
            added = Infos(columns=columns, n=self._n, mask=mask, masks=masks)
            return Infos([{**info, **added[i]} for i, info in enumerate(self._lanes)])
        return Infos(
            [
                {**info, **{key: column[i] for key, column in columns.items()}} if mask is None or mask[i] else info
                for i, info in enumerate(self._lanes)
            ]
        )

    def replaced(self, mask: NDArray[np.bool_], other: Infos) -> Infos:
        """Returns a copy in which some lanes have other infos.

        Args:
            mask: The lanes, bool of shape (n,).
            other: The infos from which these lanes are copied, of n lanes too.
        """
        mine, its = self.columns, other.columns
        if mine is None or its is None or not all(map(_are_alike, mine.values(), map(its.get, mine, mine.values()))):
            return Infos([new if chosen else old for chosen, new, old in zip(mask, other, self, strict=True)])
        here, there = (
            lanes if infos.mask is None else lanes & infos.mask for infos, lanes in ((self, ~mask), (other, mask))
        )
        found, masks = _overlaid((mine, here, self.masks), (its, there, other.masks))
        return Infos(columns=found, n=self._n, masks=masks)

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
        return iter(self._lanes) if self._lanes is not None else (self[i] for i in range(self._n))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, AnySequence):
            return NotImplemented
        return list(self) == list(other)

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return f"Infos({list(self)!r})"


def _overlaid(*layers: tuple[Mapping[Any, Any], Any, Any]) -> tuple[dict[Any, Any], dict[Any, Any] | None]:
    """Merges layers of columns, later ones on top. Also returns masks for columns that not all lanes have.

    A layer is `(columns, mask of its lanes or None for all, masks of single columns by name)`.
    """
    found: dict[Any, Any] = {}
    some: dict[Any, Any] = {}
    for columns, lanes, masks in layers:
        for key, column in columns.items():
            has = lanes
            if masks is not None and key in masks:
                has = masks[key] if lanes is None else lanes & masks[key]
            if has is not None and key in found:
                column = _where(has.reshape(-1, *[1] * (np.ndim(column) - 1)), column, found[key])
                has = has | some[key] if key in some and np.count_nonzero(has | some[key]) < len(has) else None
            found[key] = column
            some.pop(key, None)
            if has is not None:
                some[key] = has
    return found, some or None


def _are_alike(one: Any, other: Any) -> bool:
    """Returns True if two columns have the same dtype and shape, so that they can be merged."""
    return (
        isinstance(one, AnyArray)
        and isinstance(other, AnyArray)
        and (one.dtype, one.shape) == (other.dtype, other.shape)
    )
