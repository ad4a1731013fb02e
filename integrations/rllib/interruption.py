"""Ctrl-C, noticed whenever it comes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self


class Interruption:
    """Listens for Ctrl-C while it is entered (in the main thread; elsewhere it never comes).

    While a job starts it raises KeyboardInterrupt, as ever. Libraries that are being imported or are starting
    processes may swallow that, so it is remembered too, and `check` raises it again. While a job trains the first
    one only asks, and whoever trains looks at `asked`; the second raises.

    Attributes:
        asked: Whether Ctrl-C was pressed.
    """

    def __init__(self) -> None:
        self.asked = False
        self._patient = False

    def __enter__(self) -> Self:
        self._installed = threading.current_thread() is threading.main_thread()
        if self._installed:
            self._earlier = signal.signal(signal.SIGINT, self._handle)
        return self

    def __exit__(self, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, self._earlier)

    def _handle(self, _signum: int, _frame: FrameType | None) -> None:
        again, self.asked = self.asked, True
        if again or not self._patient:
            raise KeyboardInterrupt

    def check(self) -> None:
        """Raises KeyboardInterrupt if Ctrl-C was pressed."""
        if self.asked:
            raise KeyboardInterrupt

    @contextmanager
    def patience(self) -> Iterator[None]:
        """A time in which the first Ctrl-C only asks."""
        self.check()
        self._patient = True
        try:
            yield
        finally:
            self._patient = False
