"""The command line `envoi`.

An error of envoi or of usage is one line and exit code 2; `--debug` shows the traceback.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

import envoi

__all__ = ["main"]

_EXTRAS = {"typer": "cli", "rich": "cli", "yaml": "cli", "gymnasium": "gymnasium", "ray": "rllib", "torch": "rllib"}
"""The extra of envoi that installs each package."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command line.

    Args:
        arguments: Command and options, without the program's name; None takes those of the process.

    Returns:
        The exit code: 0; 1 for a bug, a failed check, or a job that learned nothing in its time; 2 for bad input, such
        as a damaged file; 130 after Ctrl-C.
    """
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    here = str(Path.cwd())
    if here not in sys.path:  # so that `python:my_module:make_env` finds a module here, as `python -m` would
        sys.path.insert(0, here)
    # Recorded, so not shown: the warnings of frameworks, mostly about themselves.
    silence = nullcontext() if "--debug" in arguments else warnings.catch_warnings(record=True, action="always")
    try:
        with silence:
            from .commands import run

            return run(arguments)
    except KeyboardInterrupt:
        return _fail("interrupted", 130)
    except Exception as error:
        if "--debug" in arguments:
            raise
        message = " ".join(str(error).split())
        if isinstance(error, envoi.EnvoiError):
            return _fail(message, 2)
        if isinstance(error, OSError) and error.filename is not None:
            return _fail(f"{error.filename}: {error.strerror}", 2)
        package = (getattr(error, "name", None) or "").partition(".")[0]
        if isinstance(error, ImportError) and package in _EXTRAS:
            return _fail(f"{package} is not installed; pip install 'envoi[{_EXTRAS[package]}]'", 2)
        return _fail(f"a bug: {type(error).__name__}: {message} (--debug shows the traceback)", 1)


def _fail(message: str, code: int) -> int:
    sys.stderr.write(f"envoi: {message}\n")
    return code
