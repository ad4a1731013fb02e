"""Handles Ctrl-C, the output of Ray and environment variables, for the process of a job."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from types import FrameType
from typing import Self


class Interruption:
    """Handles Ctrl-C inside its `with` block; only in the main thread, because other threads get no signals.

    While a job starts, Ctrl-C raises KeyboardInterrupt, as usual. Libraries that are being imported or are starting
    processes may swallow that, so it is recorded too, and `check` raises it again. While a job trains, the first
    Ctrl-C only sets `asked`, which the training loop polls; the second raises.
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
        """Makes the first Ctrl-C inside its `with` block set `asked` instead of raising."""
        self.check()
        self._patient = True
        try:
            yield
        finally:
            self._patient = False


@contextmanager
def redirected(path: Path) -> Iterator[None]:
    """Appends the process's stdout and stderr to a file inside its `with` block.

    It replaces the file descriptors, as Ray's native code writes to them and its child processes inherit them. To write
    to the terminal meanwhile, duplicate its descriptor beforehand.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(descriptor, os.dup(descriptor)) for descriptor in (1, 2)]
    try:
        with path.open("ab") as log:
            for descriptor, _ in kept:
                os.dup2(log.fileno(), descriptor)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, copy in kept:
            os.dup2(copy, descriptor)
            os.close(copy)


def one_thread() -> AbstractContextManager[None]:
    """Limits torch to one thread, before it is imported; small networks are nine times slower with more threads."""
    return variables_set({}, {"OMP_NUM_THREADS": "1"})


@contextmanager
def variables_set(fixed: Mapping[str, str], defaults: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables inside its `with` block, then restores the previous values."""
    values = {**{name: value for name, value in defaults.items() if name not in os.environ}, **fixed}
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
