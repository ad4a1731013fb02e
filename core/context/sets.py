"""Sets of contexts: mappings from ids, which the user chooses, to contexts."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias, cast

from ..errors import ContextError
from ..structural_equality import structure

Context: TypeAlias = Mapping[str, Any]
"""Values by feature name."""

Contexts: TypeAlias = Mapping[Any, Context]
"""Contexts by id; any hashable value can be an id."""


def fill(contexts: Contexts | Sequence[Context] | None, default: Context) -> dict[Any, dict[str, Any]]:
    """Returns a set of full contexts, with default values for the features that each context leaves out.

    Args:
        contexts: Contexts by id, or a list, whose ids are 0, 1, 2, …. If it is None or empty, the result is the default
            context alone, with the id 0.
        default: The value of each feature that a context leaves out.

    Returns:
        New dicts, in the order of `contexts`; the arguments are not changed. All contexts have their features in the
        same order: first those of `default`, then the others by first appearance.

    Raises:
        ContextError: A context is not a mapping, or a feature's name is not a string.
    """
    given = contexts_of(contexts)
    if not given:
        return {0: dict(default)}
    order = dict.fromkeys([*default, *(name for context in given.values() for name in context)])
    full = {key: {**default, **context} for key, context in given.items()}
    return {key: {name: context[name] for name in order if name in context} for key, context in full.items()}


def contexts_of(given: Contexts | Sequence[Context] | None) -> Contexts:
    """Returns contexts by id.

    Args:
        given: A mapping of ids to contexts; or a list of contexts, whose ids are 0, 1, 2, …; or None for no contexts.

    Raises:
        ContextError: See `fill`.
    """
    contexts: Any = given
    if contexts is None:
        return {}
    if isinstance(contexts, Sequence) and not isinstance(contexts, (str, bytes)):
        contexts = dict(enumerate(cast("Sequence[Any]", contexts)))
    if not isinstance(contexts, Mapping):
        raise ContextError(f"contexts: expected a mapping of ids to contexts, or a list of contexts, got {contexts!r}")
    checked = cast("Mapping[Hashable, Any]", contexts)
    for key, context in checked.items():
        if not isinstance(context, Mapping):
            raise ContextError(f"contexts[{key!r}]: expected a mapping of feature names to values, got {context!r}")
        for name in cast("Mapping[Any, Any]", context):
            if not isinstance(name, str):
                raise ContextError(f"contexts[{key!r}]: expected names of features as strings, got {name!r}")
    return checked


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
            from .files import load_contexts

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
