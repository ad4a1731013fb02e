"""Finds damaged files of a run, and names them in one-line errors."""

from __future__ import annotations

import json
import pickletools
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import envoi

MAKE_ROOM = "make room, then continue from the last checkpoint by --resume"
ADVICE = "restore it from a copy, or continue from the checkpoint before it by `envoi train --resume`"


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
