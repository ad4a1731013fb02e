"""The contexts in force."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from .schedule import Chosen
from .shown_context import View, objects


class InForce(NamedTuple):
    """The contexts in force, by lane; an environment without lanes has one. It is replaced, never changed.

    Attributes:
        contexts: The full contexts, n of them.
        ids: Their ids, shape (n,), read-only because infos hold it.
        vectors: Their visible parts, float64 of shape (n, numbers).
        unnamed: The lanes whose context was given by values, and so has no id.
        all_of_the_set: True if the contexts of all lanes are of the set.
    """

    contexts: list[Mapping[str, Any]]
    ids: NDArray[Any]
    vectors: NDArray[np.float64]
    unnamed: frozenset[int] = frozenset()
    all_of_the_set: bool = False

    @classmethod
    def first(cls, chosen: Chosen, n: int, view: View) -> InForce:
        """Returns what is in force before the first reset.

        Args:
            chosen: The first context of the set.
            n: How many lanes there are.
            view: The agent's view.
        """
        key, context = chosen
        return cls([dict(context)] * n, objects([key] * n), np.array([view.vector((None, context))] * n))

    def with_chosen(
        self, chosen: Sequence[Chosen], lanes: Sequence[int], view: View, of_the_set: bool, by_values: bool
    ) -> InForce:
        """Returns what is in force once some lanes have new contexts.

        Args:
            chosen: A context for each of these lanes.
            lanes: The indices of the lanes.
            view: The agent's view.
            of_the_set: True if these contexts are of the set.
            by_values: True if some may have been given by their values.
        """
        contexts, ids, vectors, unnamed = self.contexts.copy(), self.ids.copy(), self.vectors, self.unnamed
        for lane, (key, context) in zip(lanes, chosen, strict=True):
            contexts[lane], ids[lane] = context, key
        ids.flags.writeable = False
        if by_values or unnamed:
            new = [lane for lane, (key, _) in zip(lanes, chosen, strict=True) if key is None]
            unnamed = unnamed.difference(lanes).union(new)
        if view.is_shown:
            shown = [view.vector(one) for one in chosen]
            if len(lanes) == len(ids):
                vectors = np.array(shown)
            else:
                vectors = vectors.copy()
                vectors[lanes] = shown
        all_of_the_set = of_the_set and (self.all_of_the_set or len(lanes) == len(ids))
        return InForce(contexts, ids, vectors, unnamed, all_of_the_set)
