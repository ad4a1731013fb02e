"""Sets of contexts: a mapping from ids, which are the user's own, to contexts."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from os import PathLike
from typing import Any, TypeAlias, cast

from ..errors import ContextError
from ..structural_equality import structure

Context: TypeAlias = Mapping[str, Any]
"""Values by the names of features."""

Contexts: TypeAlias = Mapping[Any, Context]
"""Contexts by id; any hashable value can be an id."""


def fill(contexts: Contexts | Sequence[Context] | None, default: Context) -> dict[Any, dict[str, Any]]:
    """A set of full contexts: every one has the features of `default` and, after them, what it has besides.

    Args:
        contexts: Contexts by id, or a list, whose ids are 0, 1, 2, …. None and an empty one stand for the default
            context alone, under the id 0.
        default: The value of each feature that a context leaves out.

    Returns:
        New dicts, in the order of `contexts`; what was given is not changed. Features are in the order of `default`,
        then in that of their first appearance, the same for all contexts.

    Raises:
        ContextError: Something is no mapping, or a feature's name is no string.
    """
    given = contexts_of(contexts)
    if not given:
        return {0: dict(default)}
    order = dict.fromkeys([*default, *(name for context in given.values() for name in context)])
    full = {key: {**default, **context} for key, context in given.items()}
    return {key: {name: context[name] for name in order if name in context} for key, context in full.items()}


def contexts_of(given: Contexts | Sequence[Context] | None) -> Contexts:
    """Contexts by id, of a mapping or a list of them.

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
    """A set of contexts that stays as it is, also in configs that merge mappings.

    RLlib merges each `dict` of `evaluation_config={"env_config": …}` into that of the training config, so that training
    contexts would be evaluated too. It takes a set for a value, and replaces it as a whole:

        config.environment("pendulum", env_config={"contexts": ContextSet(train)})
        config.evaluation(evaluation_config={"env_config": {"contexts": ContextSet(held_out)}})

    A set is a mapping of ids to contexts that cannot be changed. It equals any other of the same contexts in the same
    order, pickles, and holds what its file had when it was made.

    Args:
        contexts: Contexts by id, a list of contexts, whose ids are 0, 1, 2, …, another set, or the path of a file, see
            `load_contexts`.

    Raises:
        ContextError: It is none of these.
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
"""How many contexts a set shows."""
