"""Everything envoi raises on purpose.

Each error also is the built-in error that its cause would have been, so that code which knows nothing of
envoi can still catch it. A message names the place (`observation['cart'][2]`), what was expected, what came,
and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


class EnvoiError(Exception):
    """The root of all errors of envoi."""


class SpecError(EnvoiError, ValueError):
    """A value lies outside its spec, or a spec itself is impossible."""


class EpisodeError(EnvoiError, RuntimeError):
    """A call that the episode does not allow now, such as a step after the end."""


class ContextError(EnvoiError, ValueError):
    """A context names an unknown feature, or holds a value that its feature does not allow."""


class UnknownName(EnvoiError, LookupError):
    """A name that nothing answers to; the message lists near ones."""


class SnapshotUnsupported(EnvoiError, NotImplementedError):
    """The environment holds something that cannot be copied, so it cannot be put back as it was."""


class NotRepresented(EnvoiError, NotImplementedError):
    """A state or observation is asked for that nothing turns into arrays."""


class MissingBackend(EnvoiError, ImportError):
    """A framework is asked for that is not installed."""


class LossyConversion(EnvoiError, TypeError):
    """A target framework cannot express a part of an environment.

    Like all errors of envoi it can be made from its message alone, which is how gymnasium and others raise an error
    again with words of their own; its fields are empty then.

    Args:
        path: The leaf that would be lost, such as `observation['text']`; a whole message if nothing else is given.
        field: What of it would be lost, such as `dtype`.
        source: What it is in the core.
        target: The framework that cannot say it.
        hint: What to do instead.
    """

    def __init__(self, path: str, field: str = "", source: str = "", target: str = "", hint: str = "") -> None:
        message = path
        if field or source or target or hint:
            message = f"{path}: {target} cannot express its {field} ({source})" + (f"; {hint}" if hint else "")
        else:
            path = ""
        self.path, self.field, self.source, self.target, self.hint = path, field, source, target, hint
        # The message is the only argument, so that copies and pickles are made from it and take the fields along.
        super().__init__(message)


def nearest(name: str, known: Iterable[str], count: int = 3) -> str:
    """A closing clause for a message about an unknown name: the nearest known ones, or all when few.

    Args:
        name: What was asked for.
        known: What there is.
        count: How many to suggest at most.
    """
    import difflib  # only errors need it

    names = sorted(set(known))
    lowered = {n.lower(): n for n in names}
    close = [lowered[n] for n in difflib.get_close_matches(name.lower(), lowered, count, 0.5)]
    if close:
        return "did you mean " + " or ".join(repr(n) for n in close) + "?"
    if not names:
        return "there are none"
    return "there are: " + ", ".join(names[:20]) + (", …" if len(names) > 20 else "")


def near_misses(name: object, known: Iterable[str], count: int = 3) -> list[str]:
    """Returns the known names of which a name is a misspelling, rather than another word.

    A misspelling is, but for case, more than 0.8 alike by `difflib.SequenceMatcher.ratio`, and at most two letters
    longer or shorter. So one wrong letter counts in names of six and more, and two that changed places too, while
    `initial_state` is another word than `initial_state_lower`, and `mask` than `mass`.

    Args:
        name: What was written; anything but a string, and a known name, misses none.
        known: The names that there are.
        count: How many to return at most.

    Returns:
        The known names, the nearest first.
    """
    names = tuple(known)
    return [] if not isinstance(name, str) or name in names else list(_near(name, names)[:count])


@lru_cache(1024)  # each lane of a batch asks
def _near(name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    import difflib  # only errors need it

    lowered, found = name.lower(), list[tuple[float, str]]()
    alike = difflib.SequenceMatcher(b=lowered)
    for one in known:
        if abs(len(one) - len(lowered)) <= 2:
            alike.set_seq1(one.lower())
            if (ratio := alike.ratio()) > 0.8:
                found.append((-ratio, one))
    return tuple(one for _, one in sorted(found))
