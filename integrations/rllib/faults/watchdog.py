"""The thread that watches how long the calls of envs take."""

from __future__ import annotations

import ctypes
import faulthandler
import os
import signal
import sys
import threading
import time
import traceback
from typing import Protocol
from weakref import WeakSet

from .shared_records import own_actor

SLOW_SECONDS = 5.0
"""A call that takes longer is reported as slow, so that an interruption does not wait for it."""
PERIOD = 0.5
LEAST_LOCKED = 30.0
"""Python's lock may be held for so many seconds, or for twice the limit of a call if that is more."""


class Watched(Protocol):
    """An object whose calls are watched.

    Attributes:
        calls: Twice the number of calls that have ended; one more while a call is under way.
        thread: The identifier of the thread of the latest call.
        limit: The seconds that a call may take.
    """

    calls: int
    thread: int
    limit: float

    def slow(self, is_slow: bool) -> None:
        """Called when a call has taken `SLOW_SECONDS`, and when it has ended."""
        ...

    def late(self, seconds: float, again: bool) -> None:
        """Called when a call has taken longer than `limit`, and each few seconds after that until it ends.

        Args:
            seconds: How long it has taken.
            again: False the first time.
        """
        ...

    def __hash__(self) -> int: ...


class Watchdog:
    """Compares at each tick which calls are the same as at the tick before; so a call itself reads no clock."""

    def __init__(self) -> None:
        self._pid = 0
        self._watched: WeakSet[Watched] = WeakSet()
        self._lock = threading.Lock()

    def watch(self, watched: Watched) -> None:
        """Watches the calls of an object from now on, while it exists."""
        _prepare_interruptions()
        if self._pid != os.getpid():  # also after a fork, which copies no threads
            self._pid, self._watched, self._lock = os.getpid(), WeakSet(), threading.Lock()
            threading.Thread(target=self._run, name="envoi-watchdog", daemon=True).start()
        with self._lock:
            is_new = watched not in self._watched
            self._watched.add(watched)
        if is_new:
            _await_lock([watched.limit])  # its first call may come before the thread's next tick

    def _run(self) -> None:
        since: dict[int, tuple[int, float, float]] = {}  # by object: the call, its first tick, the next report
        slow: set[int] = set()
        while True:
            with self._lock:
                all_watched = list(self._watched)
            now = time.monotonic()
            present: set[int] = set()
            for watched in all_watched:
                key, calls = id(watched), watched.calls
                present.add(key)
                begun = since.get(key)
                if not calls & 1 or begun is None or begun[0] != calls:
                    if key in slow:
                        slow.discard(key)
                        watched.slow(False)
                    since[key] = (calls, now, now + watched.limit)
                    continue
                if key not in slow and now - begun[1] > SLOW_SECONDS:
                    slow.add(key)
                    watched.slow(True)
                if now >= begun[2]:
                    since[key] = (calls, begun[1], now + SLOW_SECONDS)
                    watched.late(now - begun[1], begun[2] > begun[1] + watched.limit)
            since = {key: value for key, value in since.items() if key in present}
            del all_watched
            limits = [watched.limit for watched in list(self._watched)]
            _await_lock(limits)
            time.sleep(min([PERIOD, *(limit / 5 for limit in limits)]))


_timer_pid = 0
"""The process that has used the timer of `faulthandler`; a fork of it would wait for the timer's thread for ever."""


def _await_lock(limits: list[float]) -> None:
    """Has all stacks written, and a Ray actor ended, unless this is called again in time.

    Native code that hangs without giving up Python's lock stops the watchdog's thread too. The timer of `faulthandler`,
    of which a process has one, needs no lock.

    Args:
        limits: The limits of the calls that are watched; none to stop the timer.
    """
    global _timer_pid
    _timer_pid = _timer_pid or os.getpid()
    if _timer_pid != os.getpid():
        return
    if not limits:
        faulthandler.cancel_dump_traceback_later()
    elif sys.__stderr__ is not None:
        longest = max(LEAST_LOCKED, 2 * max(limits))
        faulthandler.dump_traceback_later(longest, exit=own_actor() is not None, file=sys.__stderr__)


def stack_of(thread: int, below: str) -> str:
    """Returns the stack of a thread as text, as in a traceback.

    Args:
        thread: The identifier of the thread.
        below: A source file; only the frames that it has called are shown, if any are.
    """
    frames = traceback.extract_stack(sys._current_frames().get(thread))
    first = max((index + 1 for index, frame in enumerate(frames) if frame.filename == below), default=0)
    return "".join(traceback.format_list(frames[first:]))


class CallInterrupted(BaseException):
    """Raised in a call that has taken too long."""


def _raise_interrupted(*_: object) -> None:
    raise CallInterrupted


def _prepare_interruptions() -> None:
    """Installs the handler of the signal that `interrupt` sends; in the main thread only, as Python demands.

    Ray's workers ignore SIGINT, so it is another signal, whose default would end the process.
    """
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL:
        signal.signal(signal.SIGUSR2, _raise_interrupted)


def interrupt(thread: int) -> None:
    """Raises `CallInterrupted` in a thread; in the main one also while it waits for the operating system."""
    is_main = thread == threading.main_thread().ident
    if is_main and signal.getsignal(signal.SIGUSR2) is _raise_interrupted:
        signal.pthread_kill(thread, signal.SIGUSR2)
    else:
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(CallInterrupted))


watchdog = Watchdog()
"""The one of this process."""
