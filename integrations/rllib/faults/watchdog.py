"""The thread that watches how long the calls of envs take."""

from __future__ import annotations

import faulthandler
import os
import signal
import sys
import threading
import time
from typing import Any
from weakref import WeakSet

from .failure import own_actor

SLOW_SECONDS = 5.0
"""A call that takes longer is reported as slow, so that an interruption does not wait for it."""
PERIOD = 0.5
LEAST_LOCKED = 30.0
"""Python's lock may be held for so many seconds, or for twice the limit of a call if that is more."""


Watched = Any
"""An `EnvGuard`, of which this thread reads `calls` and `limit`, and calls `slow` and `late`."""


class Watchdog:
    """Compares at each tick which calls are the same as at the tick before; so a call itself reads no clock."""

    def __init__(self) -> None:
        self._pid = 0
        self._watched: WeakSet[Watched] = WeakSet()
        self._lock = threading.Lock()
        self._interrupted: Watched | None = None

    def watch(self, watched: Watched) -> None:
        """Watches the calls of an object from now on, while it exists."""
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGUSR2) is signal.SIG_DFL:
            signal.signal(signal.SIGUSR2, self._raise_interrupted)  # Ray's workers ignore SIGINT
        if self._pid != os.getpid():  # also after a fork, which copies no threads
            self._pid, self._watched, self._lock = os.getpid(), WeakSet(), threading.Lock()
            threading.Thread(target=self._run, name="envoi-watchdog", daemon=True).start()
        with self._lock:
            is_new = watched not in self._watched
            self._watched.add(watched)
        if is_new:
            _await_lock([watched.limit])  # its first call may come before the thread's next tick

    def interrupt(self, watched: Watched, thread: int) -> bool:
        """Raises `CallInterrupted` in a call of the main thread, by a signal; returns False for another thread."""
        if thread != threading.main_thread().ident or signal.getsignal(signal.SIGUSR2) != self._raise_interrupted:
            return False
        self._interrupted = watched
        signal.pthread_kill(thread, signal.SIGUSR2)
        return True

    def _raise_interrupted(self, *_: object) -> None:
        watched, self._interrupted = self._interrupted, None
        if watched is not None and watched.calls & 1:  # it has not ended meanwhile
            raise CallInterrupted

    def _run(self) -> None:
        since: dict[int, tuple[int, float, float]] = {}  # by object: the call, its first tick, the next report
        slow: set[int] = set()
        while True:
            with self._lock:
                all_watched = list(self._watched)
            now = time.monotonic()
            for watched in all_watched:
                key, calls = id(watched), watched.calls
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
                    watched.late(begun[2] > begun[1] + watched.limit)
            present = {id(watched) for watched in all_watched}
            since = {key: value for key, value in since.items() if key in present}
            limits = [watched.limit for watched in all_watched]
            all_watched = watched = None
            _await_lock(limits)
            time.sleep(min([PERIOD, *(limit / 5 for limit in limits)]))


_timer_pid = 0
"""The process that has used the timer of `faulthandler`; a fork of it would wait for the timer's thread for ever."""


def _await_lock(limits: list[float]) -> None:
    """Has all stacks written, and a Ray actor ended, unless this is called again in time.

    Native code that hangs without giving up Python's lock stops the watchdog's thread too. The timer of `faulthandler`,
    of which a process has one, needs no lock.
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


class CallInterrupted(BaseException):
    """Raised in a call that has taken too long."""


watchdog = Watchdog()
"""The one of this process."""
