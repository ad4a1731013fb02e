"""A set of contexts as columns, from which the contexts of many lanes are taken at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..structural_equality import structure
from .contexts_by_id import Context, Contexts

Places = NDArray[np.intp]
"""Contexts of a set by their places in it: 0 for the first, and so on."""


class SetColumns:
    """The m contexts of a set, by place, as columns with one value for each.

    It is never changed, so copies share it.

    Args:
        contexts: The contexts by id, all with the same features.

    Attributes:
        contexts: The contexts.
        ids: Their ids: an object array of shape (m,).
    """

    def __init__(self, contexts: Contexts) -> None:
        self._by_id = contexts
        self.contexts: list[Context] = list(contexts.values())
        self.ids = objects(list(contexts))
        self._places = {key: place for place, key in enumerate(contexts)}
        lists = {name: [context[name] for context in self.contexts] for name in self.contexts[0]}
        # Episodes under contexts of the set differ in no other features.
        self._lists = {n: column for n, column in lists.items() if any(not _same(v, column[0]) for v in column)}
        self._arrays = {name: _array(column) for name, column in self._lists.items()}

    def entries(self, ids: NDArray[Any]) -> list[tuple[Any, Context]]:
        """Returns these ids, each with its context."""
        return [(key, self._by_id[key]) for key in cast("list[Any]", ids.tolist())]

    def places_of(self, chosen: Sequence[tuple[Any, Context]]) -> Places | None:
        """Returns the places of contexts; None if one of them is not of the set.

        Args:
            chosen: Ids and contexts.
        """
        places: list[int] = []
        for key, context in chosen:
            place = self._places.get(key)
            if place is None or self.contexts[place] is not context:
                return None
            places.append(place)
        return np.array(places, np.intp)

    def values(self, places: Places, as_arrays: bool) -> dict[str, Any]:
        """Returns the values of the features that differ over the set, by feature.

        Args:
            places: The places of k contexts.
            as_arrays: True for arrays of shape (k,) where all values of a feature are of one type; else all are lists,
                whose elements are the objects in the contexts.
        """
        if as_arrays:
            return {
                name: self._listed(name, places) if column is None else column[places]
                for name, column in self._arrays.items()
            }
        return {name: self._listed(name, places) for name in self._lists}

    def _listed(self, name: str, places: Places) -> list[Any]:
        column = self._lists[name]
        return [column[place] for place in places.tolist()]

    def has_the_contexts_of(self, other: SetColumns) -> bool:
        """Returns True if the other set has the same contexts under the same ids, in the same order."""
        return self is other or same_contexts(self._by_id, other._by_id)

    def __deepcopy__(self, memo: dict[int, Any]) -> SetColumns:
        return self

    def __reduce__(self) -> Any:
        return SetColumns, (self._by_id,)


def _same(value: Any, other: Any) -> bool:
    # Equal numbers may be written differently: 0.0 and -0.0, 1 and 1.0.
    return value is other or (np.array_equal(value, other) and repr(value) == repr(other))


def _array(values: list[Any]) -> NDArray[Any] | None:
    """Returns a column as an array with the same values; None if there is none, as for values of several types."""
    if {type(value) for value in values} not in ({float}, {int}, {bool}):
        return None
    array = np.array(values)
    return array if array.dtype.kind in "fib" else None  # greater integers are objects


def same_contexts(contexts: Mapping[Any, Context], others: Mapping[Any, Context]) -> bool:
    """Returns True if two sets have the same contexts under the same ids, in the same order.

    Args:
        contexts: The contexts of one set by id.
        others: Those of the other.
    """
    return contexts is others or structure(list(contexts.items())) == structure(list(others.items()))


def objects(values: Sequence[Any]) -> NDArray[Any]:
    """Returns an object array of shape (n,), of n values of any kind."""
    array = np.empty(len(values), object)
    for index, value in enumerate(values):
        array[index] = value
    return array
