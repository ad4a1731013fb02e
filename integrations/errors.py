"""One-line messages for errors that an env raises, and for damaged files."""

from __future__ import annotations

import json
import math
import pickletools
import traceback
from collections import deque
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import envoi
from envoi.errors import nearest

MAKE_ROOM = "make room, then continue from the last checkpoint by --resume"
ADVICE = "restore it from a copy, or continue from the checkpoint before it by `envoi train --resume`"


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
    if isinstance(value, kind) and not isinstance(value, bool) and not math.isnan(value):
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


# Damaged files.


@contextmanager
def reading(path: Path, advice: str = ADVICE) -> Iterator[None]:
    """Turns any error raised inside into an `envoi.EnvoiError` of one line that names the file.

    Readers of pickles and other formats raise errors of almost any class for a truncated file. One of them is
    EOFError, which command lines treat as Ctrl-D.
    """
    try:
        yield
    except envoi.EnvoiError as error:
        raise envoi.EnvoiError(f"{path}: {error}") from error
    except Exception as error:
        raise envoi.EnvoiError(f"{damaged(path) or _unread(path, error)}; {advice}") from error


@contextmanager
def writing(path: Path, advice: str = MAKE_ROOM) -> Iterator[None]:
    """Turns an OSError raised inside, for example by a full disk, into an `envoi.EnvoiError` that names the file."""
    try:
        yield
    except OSError as error:
        files = [found for found in path.rglob("*") if found.is_file()] if path.is_dir() else []
        newest = max(files, key=lambda file: file.stat().st_mtime_ns, default=path)
        file = error.filename2 or error.filename or newest
        raise envoi.EnvoiError(f"{file} cannot be written: {error.strerror or error}; {advice}") from error


def _unread(path: Path, error: Exception) -> str:
    if isinstance(error, OSError):
        return f"{error.filename or path} cannot be read: {error.strerror or error}"
    return f"{path} cannot be read: {type(error).__name__}: {' '.join(str(error).split())}"


def damaged(path: Path) -> str | None:
    """Finds a file that is empty, truncated or not in the format of its suffix. Does not unpickle files."""
    files = sorted(found for found in path.rglob("*") if found.is_file()) if path.is_dir() else [path]
    for file in files:
        if file.suffix not in (".pkl", ".json"):
            continue
        try:
            if file.stat().st_size == 0:
                return f"{file} is damaged: it is empty"
            if file.suffix == ".json":
                json.loads(file.read_text(encoding="utf-8"))
            else:
                with file.open("rb") as stream:
                    deque(pickletools.genops(stream), maxlen=0)
        except OSError as error:
            return _unread(file, error)
        except Exception as error:
            return f"{file} is damaged: {' '.join(str(error).split())}"
    return None
