"""A table of contexts, in which lanes store row indices instead of dicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from ..compiling.layout import Records

Context: TypeAlias = Mapping[str, Any]
"""Values by feature name."""

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
        context = self._contexts[place]
        if context is None:
            first, under, columns = next(block for block in reversed(self._blocks) if block[0] <= place)
            row = place - first
            new = {name: column[row].item() for name, column in columns.items()}
            self._contexts[place] = context = {**self.context(int(under[row])), **new}
        return context

    def contexts(self, places: Places) -> list[Context]:
        """Returns the contexts of rows."""
        return list(map(self.context, places.tolist()))

    def records(self, layout: Records) -> NDArray[Any] | None:
        """Returns the rows as records for a kernel, at least `size` of them; None if a value has another type."""
        known = self._records
        if known is None or known[0] is not layout:
            known = self._records = (layout, np.zeros(self.size, layout.dtype), 0)
        _, records, done = known
        if records is None or done == self.size:
            return records
        if self.size > len(records):
            grown = np.zeros(max(self.size, 2 * len(records)), layout.dtype)
            grown[:done] = records[:done]
            records = grown
        while records is not None and done < self.size:
            block = self.block_at(done)
            end = block if isinstance(block, int) else done + len(block[0])
            try:
                columns = self._columns(layout.example, done, block)
            except KeyError:  # a context without one of the features
                columns = None
            if columns is not None and layout.holds(columns, end - done):
                layout.write(records[done:end], columns)
            else:
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

    def _columns(self, names: Iterable[str], first: int, block: Any) -> list[NDArray[Any]]:
        """Returns columns of the rows from `first` on: of a block, or of rows up to the next block."""
        if isinstance(block, int):
            rows = [self.context(place) for place in range(first, block)]
            return [np.asarray([row[name] for row in rows]) for name in names]
        under, new = block
        places, inverse = np.unique(under, return_inverse=True)
        rows = self.contexts(places)
        return [new[n] if n in new else np.asarray([row[n] for row in rows])[inverse] for n in names]

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_records": None}

    def __deepcopy__(self, memo: dict[int, Any]) -> ContextTable:
        # Contexts are never changed, so copies share them.
        copy: Any = object.__new__(type(self))
        copy.__dict__.update({name: _own(value) for name, value in self.__getstate__().items()})
        return copy


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


def _own(value: Any) -> Any:
    return cast("Any", value).copy() if isinstance(value, (list, set, np.ndarray)) else value
