"""Errors that an env raises, in one line."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import envoi


def describe(error: BaseException) -> str:
    """An env's error in one line: ours speak for themselves, others also say where they were raised."""
    text = " ".join(str(error).split())
    if isinstance(error, envoi.EnvoiError):
        return text
    frames = traceback.extract_tb(error.__traceback__)
    place = f" ({Path(frames[-1].filename).name}:{frames[-1].lineno})" if frames else ""
    return f"the env raised {type(error).__name__}: {text}{place}"


@contextmanager
def one_line() -> Iterator[None]:
    """Whatever an env raises inside becomes an `envoi.EnvoiError` of one line, see `describe`."""
    try:
        yield
    except envoi.EnvoiError:
        raise
    except Exception as error:
        raise envoi.EnvoiError(describe(error)) from error
