"""Reset options that set the context, and their separation from the author's own options."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..errors import ContextError, SpecError, near_misses, nearest
from ..spec.base import shown
from ..tree import AnyMapping

if TYPE_CHECKING:
    from ..context import ContextSpace

CONTEXT, CONTEXT_ID = "context", "context_id"
"""The options that set a whole context: by its values, or by its id in a set of contexts."""


def as_mapping(given: Any, what: str = "options") -> Mapping[Any, Any]:
    """Returns reset options or a context, after checking that it is a mapping."""
    if not isinstance(given, AnyMapping):
        raise SpecError(f"{what}: expected a mapping of names to values, got {shown(given)}")
    return given


def refuse_misspelt(options: Mapping[Any, Any], features: Iterable[str]) -> None:
    """Checks that no option's name is a misspelling of a feature, `"context"` or `"context_id"`."""
    known = [*features, CONTEXT, CONTEXT_ID]
    for name in as_mapping(options):
        if near := near_misses(name, known):
            raise ContextError(
                f"options[{name!r}]: neither a feature nor another option of the context; {nearest(name, near)}"
            )


def split(options: Mapping[Any, Any], space: ContextSpace) -> tuple[dict[str, Any] | None, dict[Any, Any]]:
    """Splits the options of a model that has features into the given context, or None, and all other options."""
    features = space.features
    refuse_misspelt(options, features)
    rest = dict(options)
    if CONTEXT_ID in rest and CONTEXT_ID not in features:
        raise ContextError(
            f"options[{CONTEXT_ID!r}]: there is no set of contexts to choose {rest[CONTEXT_ID]!r} from; make one by "
            f"Contextual(env, contexts), or give values: options={{{CONTEXT!r}: {{feature: value}}}}"
        )
    if CONTEXT not in rest or CONTEXT in features:
        return None, rest
    given = rest.pop(CONTEXT)
    if not isinstance(given, AnyMapping):
        raise ContextError(f"options[{CONTEXT!r}]: expected a mapping of feature names to values, got {given!r}")
    unknown = {name: None for name in given if name not in features}
    space.verify(unknown, f"options[{CONTEXT!r}]")
    return {**space.defaults, **given}, rest


def of_the_episode(space: ContextSpace | None, context: dict[str, Any], options: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns the context of an episode with reset options: the argument of `Model.initial`."""
    if space is None:
        return {**context, **as_mapping(options)}
    whole, rest = split(options, space)
    if whole is not None:
        space.verify(whole, f"options[{CONTEXT!r}]")
        context = whole
    space.verify({name: value for name, value in rest.items() if name in space.features}, "options")
    return {**context, **rest}
