"""Sets of contexts: mappings from ids, which the user chooses, to contexts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from ..errors import ContextError
from ..tree import AnyMapping, AnySequence

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
    if isinstance(contexts, AnySequence) and not isinstance(contexts, (str, bytes)):
        contexts = dict(enumerate(contexts))
    if not isinstance(contexts, AnyMapping):
        raise ContextError(f"contexts: expected a mapping of ids to contexts, or a list of contexts, got {contexts!r}")
    for key, context in contexts.items():
        if not isinstance(context, AnyMapping):
            raise ContextError(f"contexts[{key!r}]: expected a mapping of feature names to values, got {context!r}")
        for name in context:
            if not isinstance(name, str):
                raise ContextError(f"contexts[{key!r}]: expected names of features as strings, got {name!r}")
    return contexts
