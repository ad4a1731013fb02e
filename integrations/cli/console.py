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
from rich.live import Live
from rich.spinner import Spinner
from rich.text import Text

PATIENCE = 2.0
"""Seconds before a command shows its progress."""
PLAIN_SECONDS = 5.0
"""Fewest seconds between two lines of progress without a terminal."""


def output_console() -> Console:
    """Returns the console for the result of a command: as wide as the terminal, without colours if NO_COLOR is set."""
    return Console(emoji=False, highlight=False)


def print_json(document: Any) -> None:
    """Prints a document as JSON, without escaping characters beyond ASCII."""
    sys.stdout.write(json.dumps(document, indent=1, ensure_ascii=False) + "\n")


def spinning(console: Console) -> Live:
    """Returns a line on a terminal that vanishes when it stops.

    rich's own status replaces `sys.stdout` and later restores the one that it found. If a check had redirected it when
    the status began, all later output would be lost; so this line does not replace `sys.stdout`.
    """
    return Live(console=console, transient=True, redirect_stdout=False, redirect_stderr=False)


@contextmanager
def working(*, plain: bool = False) -> Iterator[Callable[[str], None]]:
    """Provides a function that shows on stderr, after two seconds, what a command is doing.

    On a terminal it shows a status; elsewhere nothing, or if `plain` a line every few seconds.
    """
    # The stderr of this moment, which may be redirected later.
    console = Console(file=sys.stderr, emoji=False, highlight=False, soft_wrap=True)
    began = last = time.monotonic()
    live, spinner = spinning(console), Spinner("dots")

    def show(text: str) -> None:
        nonlocal last
        now = time.monotonic()
        if now - began < PATIENCE:
            return
        if console.is_terminal:
            spinner.update(text=Text(f"{text} … {now - began:.0f} s", no_wrap=True, overflow="ellipsis"))
            live.update(spinner)
            live.start()
        elif plain and (last == began or now - last >= PLAIN_SECONDS):
            last = now
            console.print(Text(f"{text} … {now - began:.0f} s"))

    try:
        yield show
    finally:
        live.stop()


def episode_counter(many: int, console: Console) -> Callable[[Any], Any]:
    """Returns a function that advances a progress bar of episodes on a terminal by one at each call."""
    from rich.progress import track

    ticks = iter(track(range(many), "episodes", console=console, transient=True, disable=not console.is_terminal))
    next(ticks, None)
    return lambda _: next(ticks, None)


@contextmanager
def terminal_console() -> Iterator[Console]:
    """Provides a console on a copy of stdout's file descriptor, as the descriptor itself may be redirected."""
    try:
        copy = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    except (OSError, ValueError):  # stdout is no file, as under a test
        yield Console(emoji=False, highlight=False, soft_wrap=True)
        return
    with copy:
        yield Console(file=copy, emoji=False, highlight=False, soft_wrap=True)
