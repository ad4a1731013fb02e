"""Contexts that a curriculum in another process gives."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from ..context.selectors import Selector
from ..context.sets import Context
from ..errors import ContextError


class Handed(Selector):
    """Takes the contexts that a curriculum in another process chooses, and keeps the episodes for it.

    For environments that a framework puts into processes of their own; see `envoi.adapters.sb3.CurriculumVecEnv`.
    """

    by_position = True

    def __init__(self) -> None:
        self._ended: list[Mapping[str, Any]] = []
        super().__init__()

    def exchange(self, coming: Iterable[tuple[Any, Context]]) -> list[Mapping[str, Any]]:
        """Adds contexts, with their ids, to those that are to come; returns the episodes that have ended since."""
        self.position = {**self.position, "coming": (*self.position.get("coming", ()), *coming)}
        ended, self._ended = self._ended, []
        return ended

    def tell(self, episodes: Iterable[Mapping[str, Any]]) -> None:
        self._ended.extend(episodes)

    def choose(self, rng: np.random.Generator) -> Any:
        return self._next(rng)[0]

    def _next(self, rng: np.random.Generator) -> tuple[Any, Context]:
        coming = self.position.get("coming")
        if not coming:
            raise ContextError(
                "Handed: no context was handed over; let a CurriculumVecEnv around the processes reset and step them"
            )
        self.position = {**self.position, "coming": coming[1:]}
        key, context = coming[0]
        return self._entries.get(key, (key, context))
