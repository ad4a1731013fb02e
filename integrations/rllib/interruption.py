"""Handles Ctrl-C while a job starts and trains."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Self


class Interruption:
    """Handles Ctrl-C while it is entered; in the main thread only, as signals reach no other.

    While a job starts, Ctrl-C raises KeyboardInterrupt, as usual. Libraries that are being imported or are starting
    processes may swallow that, so it is recorded too, and `check` raises it again. While a job trains, the first
    Ctrl-C only sets `asked`, which the training loop polls; the second raises.

    Attributes:
        asked: True once Ctrl-C was pressed.
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
    def patience(self, is_stuck: Callable[[], bool] | None = None) -> Iterator[None]:
        """Makes the first Ctrl-C inside set `asked` rather than raise.

        Args:
            is_stuck: Asked each second after that; once it returns True, KeyboardInterrupt is raised all the same.

        Raises:
            KeyboardInterrupt: Ctrl-C was pressed before, twice, or once while `is_stuck`.
        """
        self.check()
        self._patient = True
        over = threading.Event()
        if is_stuck is not None and self._installed:
            threading.Thread(target=self._insist, args=(over, is_stuck), name="envoi-interruption", daemon=True).start()
        try:
            yield
        finally:
            self._patient = False
            over.set()

    def _insist(self, over: threading.Event, is_stuck: Callable[[], bool]) -> None:
        main = threading.main_thread().ident
        while not over.wait(1.0):
            if self.asked and main is not None and is_stuck() and not over.is_set():
                signal.pthread_kill(main, signal.SIGINT)
                return
