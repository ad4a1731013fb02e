"""A set of contexts as one immutable value."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any

from ..structural_equality import structure
from .contexts_by_id import Context, Contexts, contexts_of
from .files import load_contexts


class ContextSet(Mapping[Any, Context]):
    """An immutable set of contexts, which configs that merge dicts replace as a whole.

    RLlib merges each dict of `evaluation_config={"env_config": …}` into that of the training config, so that evaluation
    would include the training contexts. A `ContextSet` is not a dict, so RLlib replaces it as a whole:

        config.environment("pendulum", env_config={"contexts": ContextSet(train)})
        config.evaluation(evaluation_config={"env_config": {"contexts": ContextSet(held_out)}})

    It maps ids to contexts. Two sets are equal if they have the same contexts in the same order. A set can be pickled.
    If it is made from a file, it keeps the contents that the file had at that time.

    Args:
        contexts: Contexts by id; a list of contexts, whose ids are 0, 1, 2, …; another set; or the path of a file, see
            `load_contexts`.

    Raises:
        ContextError: `contexts` is none of these.
    """

    __slots__ = ("_contexts",)

    def __init__(self, contexts: Contexts | Sequence[Context] | str | PathLike[str]) -> None:
        if isinstance(contexts, (str, PathLike)):
            contexts = load_contexts(contexts)
        self._contexts = {key: dict(context) for key, context in contexts_of(contexts).items()}

    def __getitem__(self, key: Any) -> dict[str, Any]:
        return dict(self._contexts[key])

    def __iter__(self) -> Iterator[Any]:
        return iter(self._contexts)

    def __len__(self) -> int:
        return len(self._contexts)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ContextSet) and self._structure() == other._structure()

    def __hash__(self) -> int:
        return hash(self._structure())

    def _structure(self) -> Hashable:
        return structure(list(self._contexts.items()))

    def __repr__(self) -> str:
        if len(self) <= _SHOWN:
            return f"ContextSet({self._contexts!r})"
        first = ", ".join(repr(key) for key in list(self)[:_SHOWN])
        return f"<ContextSet of {len(self)} contexts: {first}, …>"


_SHOWN = 5
"""The largest number of contexts in a set's repr."""
