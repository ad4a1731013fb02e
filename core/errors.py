"""The errors that envoi raises, and suggestions for misspelt names.

Each class also derives from the matching built-in error, so that code that does not import envoi can catch it. A
message names the place (`observation['cart'][2]`), what was expected, what came, and what to do.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache


class EnvoiError(Exception):
    """The base class of all errors of envoi."""


class SpecError(EnvoiError, ValueError):
    """A value lies outside its spec, or a spec itself is impossible."""


class EpisodeError(EnvoiError, RuntimeError):
    """A call that the episode does not allow at this point, such as a step after its end."""


class ContextError(EnvoiError, ValueError):
    """A context names an unknown feature, or holds a value that its feature does not allow."""


class UnknownName(EnvoiError, LookupError):
    """An unknown name; the message suggests similar ones."""


class SnapshotUnsupported(EnvoiError, NotImplementedError):
    """A snapshot is impossible, because a part of the environment cannot be copied."""


class NotRepresented(EnvoiError, NotImplementedError):
    """A state or observation was requested that no representation turns into arrays."""


class MissingBackend(EnvoiError, ImportError):
    """A requested framework is not installed."""


class NotCompilable(EnvoiError, TypeError):
    """A model cannot be compiled; the message names the function, the line, and the reason."""


class WorkerError(EnvoiError, RuntimeError):
    """A process with lanes of a batch has crashed or hangs, or an environment in it raised an error.

    Args:
        message: The place, the cause, and the traceback of the process.
        lane: The lane whose environment was called, or None if unknown or if no environment was called.
    """

    def __init__(self, message: str, lane: int | None = None) -> None:
        super().__init__(message)
        self.lane = lane


class LossyConversion(EnvoiError, TypeError):
    """A target framework cannot express a part of an environment.

    Like all envoi errors, it can be constructed from a message alone, because gymnasium and others re-raise errors with
    their own message. The fields are then empty.

    Args:
        path: The leaf that would be lost, such as `observation['text']`; the whole message if it is the only argument.
        field: The property of the leaf that would be lost, such as `dtype`.
        source: The value of that property in the core.
        target: The framework that cannot express it.
        hint: What to do instead.
    """

    def __init__(self, path: str, field: str = "", source: str = "", target: str = "", hint: str = "") -> None:
        message = path
        if field or source or target or hint:
            message = f"{path}: {target} cannot express its {field} ({source})" + (f"; {hint}" if hint else "")
        else:
            path = ""
        self.path, self.field, self.source, self.target, self.hint = path, field, source, target, hint
        # The message is the only argument, so that copying and unpickling call `__init__` with it, then set the fields.
        super().__init__(message)


def nearest(name: str, known: Iterable[str], count: int = 3) -> str:
    """Returns the last clause of a message about an unknown name: similar known names, or else the list of all."""
    import difflib  # imported here, because only errors need it

    names = sorted(set(known))
    lowered = {n.lower(): n for n in names}
    close = [lowered[n] for n in difflib.get_close_matches(name.lower(), lowered, count, 0.5)]
    if close:
        return "did you mean " + " or ".join(repr(n) for n in close) + "?"
    if not names:
        return "there are none"
    return "there are: " + ", ".join(names[:20]) + (", …" if len(names) > 20 else "")


def near_misses(name: object, known: Iterable[str], count: int = 3) -> list[str]:
    """Returns the known names that a name is likely to be a misspelling of.

    Two names count as such if, ignoring case, their `difflib.SequenceMatcher.ratio` is at least 0.8 and their lengths
    differ by at most two: one wrong letter in five, or one more than a name of two. `initial_state` does not count as
    one of `initial_state_lower`, nor `mask` of `mass`.
    """
    names = tuple(known)
    return [] if not isinstance(name, str) or name in names else list(_near(name, names)[:count])


@lru_cache(1024)  # each lane of a batch asks with the same names
def _near(name: str, known: tuple[str, ...]) -> tuple[str, ...]:
    import difflib  # imported here, because only errors need it

    lowered, found = name.lower(), list[tuple[float, str]]()
    alike = difflib.SequenceMatcher(b=lowered)
    for one in known:
        if abs(len(one) - len(lowered)) <= 2:
            alike.set_seq1(one.lower())
            if (ratio := alike.ratio()) >= 0.8:
                found.append((-ratio, one))
    return tuple(one for _, one in sorted(found))
