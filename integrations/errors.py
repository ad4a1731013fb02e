"""One-line messages for errors that an env raises."""

from __future__ import annotations

import traceback
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import envoi
from envoi.errors import nearest


class EnvFailure(envoi.EnvoiError):
    """An env has failed during training. The message has the error in its first line, then the env's traceback."""

    @property
    def line(self) -> str:
        """The first line of the message."""
        return str(self).partition("\n")[0]


def missing_rllib(error: ImportError) -> envoi.MissingBackend:
    """Returns the error for a failed import of RLlib, which is not installed or has an unsupported version."""
    reason = " ".join(str(error).split())
    return envoi.MissingBackend(f"RLlib cannot be used ({reason}); Ray 2.60 is supported: pip install 'envoi[rllib]'")


def describe(error: BaseException) -> str:
    """Returns an error as one line; adds the place that raised it, except to envoi's own errors."""
    if isinstance(error, EnvFailure):
        return error.line
    text = " ".join(str(error).split())
    if isinstance(error, envoi.EnvoiError):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"the env raised {type(error).__name__}: {text}{place}"


def nearest_of_all(name: str, known: Collection[str]) -> str:
    """Returns a hint with the names most similar to an unknown one, if any, and all known names."""
    near, listing = nearest(name, known), ", ".join(known)
    return f"{near} There are: {listing}" if near.endswith("?") else f"there are: {listing}"


def check_number(name: str, value: Any, least: float, whole: bool = True, above: bool = False, hint: str = "") -> None:
    """Checks that a value is a number, or a whole number, of at least `least`, or `above` it."""
    kind, expected = (int, "a whole number") if whole else (int | float, "a number")
    if not isinstance(value, bool) and isinstance(value, kind):
        if value > least or (value == least and not above):
            return
        expected = f"a number above {least:g}" if above else f"at least {least:g}"
    raise envoi.EnvoiError(f"{name}: expected {expected}, got {value!r}{hint}")


@contextmanager
def one_line() -> Iterator[None]:
    """Turns any error raised inside into an `envoi.EnvoiError` of one line, see `describe`."""
    try:
        yield
    except envoi.EnvoiError:
        raise
    except Exception as error:
        raise envoi.EnvoiError(describe(error)) from error
