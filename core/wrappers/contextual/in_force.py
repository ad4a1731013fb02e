"""The contexts in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, cast

import numpy as np

from ...context.set_columns import Places, SetColumns, objects
from ...structural_equality import Structured
from .schedule import Chosen
from .shown_context import View

_NONE: frozenset[int] = frozenset()


class InForce(Structured):
    """The contexts in force, by lane; an environment without lanes has one. It is replaced, never changed.

    Args:
        ids: As the attribute.
        vectors: As the attribute.
        contexts: The full contexts, n of them; None for those of the set with these ids.
        unnamed: As the attribute.
        columns: As the attribute.

    Attributes:
        ids: The ids of the contexts, shape (n,), read-only because infos hold it; of an environment without lanes a
            tuple of one.
        vectors: Their visible parts, float64 of shape (n, numbers); likewise.
        unnamed: The lanes whose context was given by values, and so has no id.
        columns: The set, if the contexts of all lanes were chosen out of it by their places; else None.
    """

    __slots__ = ("_contexts", "columns", "ids", "unnamed", "vectors")

    def __init__(
        self,
        ids: Any,
        vectors: Any,
        contexts: Sequence[Mapping[str, Any]] | None = None,
        unnamed: frozenset[int] = _NONE,
        columns: SetColumns | None = None,
    ) -> None:
        self._contexts, self.ids, self.vectors, self.unnamed = contexts, ids, vectors, unnamed
        self.columns = columns

    def in_lanes(self) -> Sequence[Mapping[str, Any]]:
        """Returns the full contexts, n of them."""
        if self._contexts is None:
            self._contexts = [context for _, context in cast("SetColumns", self.columns).entries(self.ids)]
        return self._contexts

    def parts(self) -> list[tuple[str, Any]]:
        names = ("ids", "vectors", "unnamed")
        return [("contexts", self.in_lanes()), *((name, getattr(self, name)) for name in names)]

    @classmethod
    def first(cls, chosen: Chosen, n: int | None, view: View) -> InForce:
        """Returns what is in force before the first reset.

        Args:
            chosen: The first context of the set.
            n: How many lanes there are; None for an environment without lanes.
            view: The agent's view.
        """
        key, context = chosen
        vector = view.vector((None, context))
        if n is None:
            return cls((key,), (vector,), [dict(context)])
        return cls(objects([key] * n), np.array([vector] * n), [dict(context)] * n)

    def with_one(self, chosen: Chosen, view: View, given: Sequence[int]) -> InForce:
        """Returns what is in force once an environment without lanes has a new context.

        Args:
            chosen: The context.
            view: The agent's view.
            given: `(0,)` if it was given by its values.
        """
        key, context = chosen
        vectors = (view.vector(chosen),) if view.is_shown else self.vectors
        return InForce((key,), vectors, [context], frozenset(given))

    def with_places(self, places: Places, lanes: Sequence[int] | Places, columns: SetColumns, view: View) -> InForce:
        """Returns what is in force once some lanes have new contexts of the set.

        Args:
            places: The places of the contexts of these lanes.
            lanes: The indices of the lanes: all, or with `columns` in force everywhere.
            columns: The set.
            view: The agent's view.
        """
        vectors = self.vectors
        if len(lanes) == len(self.ids):
            ids = columns.ids[places]
            if view.is_shown:
                vectors = view.vectors(columns)[places]
        else:
            ids = self.ids.copy()
            ids[lanes] = columns.ids[places]
            if view.is_shown:
                vectors = vectors.copy()
                vectors[lanes] = view.vectors(columns)[places]
        ids.setflags(write=False)
        return InForce(ids, vectors, None, _NONE, columns)

    def with_chosen(self, chosen: Sequence[Chosen], lanes: Sequence[int], view: View, given: Sequence[int]) -> InForce:
        """Returns what is in force once some lanes have new contexts.

        Args:
            chosen: A context for each of these lanes.
            lanes: The indices of the lanes.
            view: The agent's view.
            given: Those of these lanes whose context was given by its values.
        """
        contexts, ids, vectors, unnamed = list(self.in_lanes()), self.ids.copy(), self.vectors, self.unnamed
        for lane, (key, context) in zip(lanes, chosen, strict=True):
            contexts[lane], ids[lane] = context, key
        ids.setflags(write=False)
        if given or unnamed:
            unnamed = unnamed.difference(lanes).union(given)
        if view.is_shown:
            shown = [view.vector(one) for one in chosen]
            if len(lanes) == len(ids):
                vectors = np.array(shown)
            else:
                vectors = vectors.copy()
                vectors[lanes] = shown
        return InForce(ids, vectors, contexts, unnamed)

    def of_the_set(self, columns: SetColumns) -> InForce:
        """Returns the same with another object for an equal set, as a pickled snapshot has one of its own.

        Args:
            columns: The set.
        """
        if self.columns is None or self.columns is columns or not columns.has_the_contexts_of(self.columns):
            return self
        return InForce(self.ids, self.vectors, None, self.unnamed, columns)
