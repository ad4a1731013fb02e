"""The console that a command prints to while its output is redirected to a log."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console


@contextmanager
def terminal_console() -> Iterator[Console]:
    """Provides a console on a copy of stdout's file descriptor, as the descriptor itself may be redirected."""
    try:
        copy = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    except (OSError, ValueError):  # stdout is no file, as under a test
        yield Console(highlight=False, soft_wrap=True)
        return
    with copy:
        yield Console(file=copy, highlight=False, soft_wrap=True)
