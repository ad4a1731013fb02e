"""A table of contexts: a lane has an index into it rather than a dict of its own."""

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
    """Full contexts with the same features, by their places.

    Rows are added, and never changed, so that all who know a place can keep it.

    Attributes:
        size: The number of rows.
    """

    def __init__(self, contexts: Iterable[Context]) -> None:
        # None for a row of a block, until its dict is asked for.
        self._contexts: list[Context | None] = list(contexts)
        # `(first row, the rows whose values it has besides, new values by feature)`
        self._blocks: list[tuple[int, Places, Mapping[str, NDArray[Any]]]] = []
        self._records: tuple[Records, NDArray[Any] | None, int] | None = None

    @property
    def size(self) -> int:
        return len(self._contexts)

    def add(self, contexts: Iterable[Context]) -> None:
        """Adds rows."""
        self._contexts.extend(contexts)

    def add_block(self, under: Places, columns: Mapping[str, NDArray[Any]]) -> None:
        """Adds rows that have the values of other rows, which were added as dicts, but for some numbers.

        Args:
            under: The other rows, of shape (k,).
            columns: The new numbers by feature, each of shape (k,).
        """
        self._blocks.append((self.size, under, columns))
        self._contexts.extend([None] * len(under))

    def context(self, place: int) -> Context:
        """Returns the context of a row, which must not be changed."""
        context = self._contexts[place]
        if context is None:
            first, under, columns = next(block for block in reversed(self._blocks) if block[0] <= place)
            row = place - first
            new = {name: column[row].item() for name, column in columns.items()}
            self._contexts[place] = context = {**self.context(int(under[row])), **new}
        return context

    def contexts(self, places: Places) -> list[Context]:
        """Returns the contexts of rows."""
        return [self.context(place) for place in places.tolist()]

    def records(self, layout: Records) -> NDArray[Any] | None:
        """Returns the table as a kernel reads it, of at least `size` records; None if a value has another type."""
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
        """Returns the block that begins at a row, or the row before which others end that were added as dicts."""
        for start, under, columns in self._blocks:
            if start == first:
                return under, columns
            if start > first:
                return start
        return self.size

    def _columns(self, names: Iterable[str], first: int, block: Any) -> list[NDArray[Any]]:
        """Returns the values of rows from the first on, which are a block or end before a row."""
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
    """The contexts in which lanes begin their next episodes.

    Attributes:
        table: The table.
        held: The places of the contexts in force, one a lane.
        places: Those of the coming episodes: one a lane, or where they are in turn as many as were chosen ahead.
        first: The next of the places, where they are in turn; -1 where each lane has its own.
        last: Where they are in turn: the last `first` from which on there are enough for all lanes.
    """

    __slots__ = ("first", "held", "last", "places", "table")

    def __init__(self, table: ContextTable, held: Places, places: Places, first: int = -1) -> None:
        self.table, self.held, self.places, self.first = table, held, places, first
        self.last = len(places) - len(held)

    def of_lanes(self, lanes: Places) -> Places:
        """Returns the places of lanes that begin now."""
        return self.places[lanes] if self.first < 0 else self.places[self.first : self.first + len(lanes)]


def rows_of(contexts: Sequence[Context]) -> tuple[list[Context], Places]:
    """Returns different contexts, by identity, and the place of each among them."""
    places: dict[int, int] = {}
    found = np.array([places.setdefault(id(context), len(places)) for context in contexts], np.intp)
    first = dict(zip(found.tolist(), contexts, strict=True))
    return [first[place] for place in range(len(places))], found


def _own(value: Any) -> Any:
    return cast("Any", value).copy() if isinstance(value, (list, set, np.ndarray)) else value
