"""A table of contexts, in which lanes store row indices instead of dicts."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ..compiling.layout import Records
    from ..context.sets import Context

Places: TypeAlias = NDArray[np.intp]
"""Rows of a table, 0 for the first, and so on."""


class ContextTable:
    """A table with one full context per row, all with the same features.

    Rows are only added, never changed or moved, so that an index into the table stays valid.

    Attributes:
        size: The number of rows.
    """

    def __init__(self, contexts: Iterable[Context]) -> None:
        # None for a row of a block, until its dict is asked for.
        self._contexts: list[Context | None] = list(contexts)
        # `(first row, rows that provide the other values, new values by feature)`
        self._blocks: list[tuple[int, Places, Mapping[str, NDArray[Any]]]] = []
        self._records: tuple[Records, NDArray[Any] | None, int] | None = None

    @property
    def size(self) -> int:
        return len(self._contexts)

    def add(self, contexts: Iterable[Context]) -> None:
        """Adds rows."""
        self._contexts.extend(contexts)

    def add_block(self, under: Places, columns: Mapping[str, NDArray[Any]]) -> None:
        """Adds copies of earlier rows, in which some features have new values. Only the new values are stored.

        Args:
            under: The indices of the rows to copy, shape (k,). They were added by `add`.
            columns: The new values of numeric features, each of shape (k,).
        """
        self._blocks.append((self.size, under, columns))
        self._contexts.extend([None] * len(under))

    def context(self, place: int) -> Context:
        """Returns the context of a row. Do not modify it."""
        return self._contexts[place] or self.contexts(np.array([place]))[0]

    def contexts(self, places: Places) -> list[Context]:
        """Returns the contexts of rows. Do not modify them."""
        held, rows = cast("list[Any]", self._contexts), places.tolist()
        found = [held[row] for row in rows]
        if None in found:
            for first, under, columns in self._blocks:
                own = places[(places >= first) & (places < first + len(under))] - first
                values = [column[own].tolist() for column in columns.values()]
                for row, base, *new in zip(own.tolist(), under[own].tolist(), *values, strict=True):
                    if held[first + row] is None:
                        held[first + row] = {**held[base], **dict(zip(columns, new, strict=True))}
            found = [held[row] for row in rows]
        return found

    def only(self, kept: NDArray[np.bool_]) -> Self:
        """Returns a table of the rows in a mask, after adding the rows that they are copies of to the mask."""
        parts = [(first, kept[first : first + len(under)], under, new) for first, under, new in self._blocks]
        for _, some, under, _ in parts:
            kept[under[some]] = True
        rows, places, table = kept.nonzero()[0], kept.cumsum() - 1, copy.copy(self)
        table._contexts, table._blocks, table._records = [self._contexts[row] for row in rows.tolist()], [], None
        for first, some, under, new in parts:
            if some.any():
                columns = {name: column[some] for name, column in new.items()}
                table._blocks.append((int(kept[:first].sum()), places[under[some]], columns))
        layout, records, done = self._records or (None, None, 0)
        if layout is not None and records is not None and done == self.size:
            table._records = layout, records.take(rows), len(rows)
        return table

    def records(self, layout: Records) -> NDArray[Any] | None:
        """Returns the rows as records for a kernel, at least `size` of them; None if a value has another type."""
        known = self._records
        if known is None or known[0] is not layout:
            known = self._records = (layout, np.zeros(self.size, layout.dtype), 0)
        _, records, done = known
        if records is not None and self.size > len(records):
            records = records.take(np.arange(self.size), mode="clip")  # the new rows are written below
        while records is not None and done < self.size:
            block = self.block_at(done)
            if isinstance(block, int):
                end, rows = block, [self.context(place) for place in range(done, block)]
                columns = {name: np.asarray([row.get(name) for row in rows]) for name in layout.example}
            else:
                under, columns = block
                end = done + len(under)
                records[:done].take(under, out=records[done:end], mode="clip")  # much faster than indexing
            own = records[done:end]
            leaves = [columns[name] if name in columns else own[name] for name in layout.example]
            if layout.holds(leaves, end - done):
                layout.write(own, leaves)
            else:  # a feature is missing, or has a value of another type
                records = None
            done = end
        self._records = (layout, records, done)
        return records

    def block_at(self, first: int) -> int | tuple[Places, Mapping[str, NDArray[Any]]]:
        """Returns the block that starts at row `first`, or else the row at which the next block starts."""
        for start, under, columns in self._blocks:
            if start == first:
                return under, columns
            if start > first:
                return start
        return self.size

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_records": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self.only(np.ones(self.size, bool))  # with the same contexts, which are never changed


class Coming:
    """The contexts of the episodes that lanes begin next.

    Attributes:
        table: The table.
        held: The rows of the contexts in force, one per lane.
        places: The rows of the coming contexts: one per lane, or a queue of contexts chosen in advance.
        first: The index of the next place in the queue; -1 if there is one place per lane.
        last: The largest `first` at which the queue still holds a place for every lane.
    """

    __slots__ = ("first", "held", "last", "places", "table")

    def __init__(self, table: ContextTable, held: Places, places: Places, first: int = -1) -> None:
        self.table, self.held, self.places, self.first = table, held, places, first
        self.last = len(places) - len(held)

    def of_lanes(self, lanes: Places) -> Places:
        """Returns the rows for lanes that begin now."""
        return self.places[lanes] if self.first < 0 else self.places[self.first : self.first + len(lanes)]


def rows_of(contexts: Sequence[Context]) -> tuple[list[Context], Places]:
    """Returns the distinct contexts (compared by identity), and the index of each context among them."""
    places: dict[int, int] = {}
    found = np.array([places.setdefault(id(context), len(places)) for context in contexts], np.intp)
    first = dict(zip(found.tolist(), contexts, strict=True))
    return [first[place] for place in range(len(places))], found
