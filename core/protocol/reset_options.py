"""The options of a reset that speak of the context, told from those that are the author's own."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, cast

from ..errors import ContextError, near_misses, nearest

if TYPE_CHECKING:
    from ..context import ContextSpace

CONTEXT, CONTEXT_ID = "context", "context_id"
"""The options that give a whole context: by its values, or by its id in a set of them."""


def refuse_misspelt(options: Mapping[Any, Any], features: Iterable[str]) -> None:
    """Refuses an option whose name is nearly that of a feature, `"context"` or `"context_id"`, but not quite.

    Args:
        options: The options.
        features: The names of the features.

    Raises:
        ContextError: There is one; the message suggests near names.
    """
    known = [*features, CONTEXT, CONTEXT_ID]
    for name in options:
        if near := near_misses(name, known):
            raise ContextError(
                f"options[{name!r}]: neither a feature nor another option of the context; {nearest(name, near)}"
            )


def split(options: Mapping[Any, Any], space: ContextSpace) -> tuple[dict[str, Any] | None, dict[Any, Any]]:
    """Splits the options of a model with features into the context that they give and all others.

    Args:
        options: The options, which stay as they are.
        space: The features of the model.

    Returns:
        What `options["context"]` holds, with defaults for what it leaves out, or None where it is not there; and the
        other options, those that are named as a feature among them.

    Raises:
        ContextError: A name is misspelt; `"context"` is no context of the space; or there is a `"context_id"`.
    """
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
    if not isinstance(given, Mapping):
        raise ContextError(f"options[{CONTEXT!r}]: expected a mapping of feature names to values, got {given!r}")
    unknown = {name: None for name in cast("Mapping[Any, Any]", given) if name not in features}
    space.verify(unknown, f"options[{CONTEXT!r}]")
    return {**space.defaults, **given}, rest


def of_the_episode(space: ContextSpace | None, context: dict[str, Any], options: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns what `Model.initial` is given where a reset has options.

    Args:
        space: The features of the model, or None: then all options are the author's own.
        context: The context of the coming episodes.
        options: The options: `"context"` takes the place of `context` for this episode, a feature of its own name goes
            over either, and the others are handed on as they are.

    Raises:
        ContextError: See `split`; or a value that its feature does not allow.
    """
    if space is None:
        return {**context, **options}
    whole, rest = split(options, space)
    if whole is not None:
        space.verify(whole, f"options[{CONTEXT!r}]")
        context = whole
    space.verify({name: value for name, value in rest.items() if name in space.features}, "options")
    return {**context, **rest}
