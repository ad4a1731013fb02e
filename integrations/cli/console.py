"""The consoles that commands print to."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.text import Text

PATIENCE = 2.0
"""Seconds before a command shows its progress."""


def output_console() -> Console:
    """Returns the console for the result of a command: as wide as the terminal, without colours if NO_COLOR is set."""
    return Console(highlight=False)


def print_json(document: Any) -> None:
    """Prints a document as JSON, in characters as they are."""
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


@contextmanager
def working() -> Iterator[Callable[[str], None]]:
    """Provides a function that shows, after two seconds, what a command is doing: a status on a terminal's stderr."""
    console = Console(file=sys.stderr, highlight=False)
    began, status = time.monotonic(), console.status("")

    def show(text: str) -> None:
        if console.is_terminal and time.monotonic() - began >= PATIENCE:
            status.update(Text(f"{text} … {time.monotonic() - began:.0f} s"))
            status.start()

    try:
        yield show
    finally:
        status.stop()


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
