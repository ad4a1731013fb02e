"""The batch's side of one worker: its process, the connection to it, and why it failed."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import time
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection, wait
from multiprocessing.reduction import ForkingPickler
from pathlib import Path
from typing import Any

from ...errors import EnvoiError, SpecError, WorkerError
from .process import DUMP_SIGNAL, Failure, run
from .rows import ACTING, STEPS, Rows

GRACE = 2.0
"""Seconds that workers have to end by themselves when their batch is closed."""

START_LIMIT = 60.0
"""Seconds that a worker has at least to import modules and to make its environments."""

_AS_THEY_ARE = (EnvoiError, AttributeError)
"""Errors that a loop over the lanes would raise for its caller, not for the author of the environment."""

_GUARD = "a script that starts workers needs `if __name__ == '__main__':` around what it does"


class Worker:
    """A process with some lanes of a batch. Its first answer, of ticket 0, comes when its environments are made.

    Args:
        index: The number of the worker.
        lanes: The indices of its lanes.
        source: What its environments are made of, see `sendable`.
        context: A context of `multiprocessing`.
        folder: For its file of tracebacks.

    Attributes:
        index: The number of the worker.
        lanes: The indices of its lanes.
        connection: To the process.
        failure: Why the process does not work any more; None while it does.
    """

    def __init__(self, index: int, lanes: Sequence[int], source: Any, context: Any, folder: str) -> None:
        self.index, self.lanes = index, list(lanes)
        self._trace = Path(folder) / f"worker-{index}-{time.monotonic_ns()}.txt"
        self.connection: Connection
        self.connection, other = context.Pipe()
        self.process = context.Process(
            target=run, args=(other, source, self.lanes, str(self._trace)), name=f"envoi-worker-{index}", daemon=True
        )
        try:
            self.process.start()
        finally:
            other.close()  # so that the end of the process closes the connection
        self.failure: Failure | None = None
        self._broken = ""  # the reason why this side has ended the process
        self._ready = False
        self._progress: tuple[int, ...] | None = None  # the calls of its environments when it was last seen to proceed
        self._since = 0.0

    def ask(self, ticket: int, command: str, *arguments: Any) -> None:
        """Sends a request.

        Args:
            ticket: The number that its answer has.
            command: See `process`.
            *arguments: Of the command.

        Raises:
            WorkerError: The process has ended.
            SpecError: An argument cannot be pickled.
        """
        if self.failure is not None:
            raise error_of(self.failure)
        self._progress = None
        try:
            message = ForkingPickler.dumps((ticket, command, arguments))
        except Exception as error:
            raise SpecError(f"{command}: cannot be sent to a worker: {error}") from error
        with suppress(OSError), self._whole():  # the process has ended, as its next answer says
            self.connection.send_bytes(message)

    def answer(self, rows: Rows | None) -> tuple[int, Sequence[int], Any] | None:
        """Returns an answer that has arrived; None if there is none yet.

        Args:
            rows: The shared memory, for the lane in which the process has ended.

        Returns:
            Ticket, lanes and content; the ticket -1, all lanes and a `Failure` if the process has ended.
        """
        try:
            if self.connection.poll():
                with self._whole():
                    message = self.connection.recv_bytes()
                self._ready = True
                self._progress = None
                return pickle.loads(message)  # noqa: S301 (made by the worker)
        except (EOFError, OSError):
            pass
        else:
            if self.process.is_alive():
                return None
        self.process.join(GRACE)
        if self.process.is_alive():  # it has closed its connection
            self.process.kill()
            self.process.join()
        return self._fail(self._broken or f"ended with {_how(self.process.exitcode)}", rows)

    @contextmanager
    def _whole(self) -> Generator[None]:
        """Ends the process if a message is interrupted, since nothing tells where the next one begins."""
        try:
            yield
        except (EOFError, OSError):
            raise
        except BaseException as error:
            cause = "a Ctrl-C" if isinstance(error, KeyboardInterrupt) else repr(error)
            self._broken = f"was ended, because {cause} cut a message off"
            self.process.kill()
            raise

    def hangs(self, timeout: float, rows: Rows | None) -> tuple[int, Sequence[int], Any] | None:
        """Ends the process, if it has been in one call of an environment for longer than `timeout` seconds.

        Args:
            timeout: In seconds.
            rows: The shared memory, which shows whether it has come to another lane.

        Returns:
            As `answer`; None if it does not hang.
        """
        now, progress = time.monotonic(), ()
        if rows is not None and self._ready:
            progress = tuple(int(rows[STEPS].take(lane)) for lane in self.lanes)
        else:
            timeout = max(timeout, START_LIMIT)
        if progress != self._progress:
            self._progress, self._since = progress, now
        if now - self._since < timeout:
            return None
        if DUMP_SIGNAL is not None and self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, DUMP_SIGNAL)
            end = time.monotonic() + GRACE
            while not self._dumped() and time.monotonic() < end:
                time.sleep(0.01)
        self.process.kill()
        self.process.join()
        return self._fail(f"hangs: no answer in {timeout:g} s", rows)

    def _dumped(self) -> str:
        with suppress(OSError):
            return self._trace.read_text()
        return ""

    def _fail(self, how: str, rows: Rows | None) -> tuple[int, Sequence[int], Any]:
        acting = [lane for lane in self.lanes if rows is not None and self._ready and rows[ACTING].take(lane)]
        place = f"lane {acting[0]} of " if acting else ""
        trace = self._dumped()
        where = f"\n{trace}" if trace else ""
        hint = "" if self._ready else f" It had not made its environments yet; {_GUARD}."
        numbers = f"{self.lanes[0]} to {self.lanes[-1]}" if len(self.lanes) > 1 else f"{self.lanes[0]}"
        text = f"{place}worker {self.index} (lanes {numbers}, process {self.process.pid}) {how}.{hint}{where}"
        self.failure = Failure(acting[0] if acting else None, None, text)
        return -1, self.lanes, self.failure


def _how(code: int | None) -> str:
    if code is not None and code < 0:
        with suppress(ValueError):
            return f"signal {signal.Signals(-code).name}"
    return f"exit code {code}"


def error_of(failure: Failure, call: str = "") -> Exception:
    """Returns the error for a failure: that of envoi or of a missing attribute itself, else a `WorkerError`.

    Args:
        failure: The failure.
        call: What the batch was asked for.
    """
    error = failure.error
    if isinstance(error, _AS_THEY_ARE):
        if failure.lane is not None:
            error.add_note(f"in lane {failure.lane} of a worker:\n{failure.text}")
        return error
    prefix = f"{call}: " if call else ""
    place = f"lane {failure.lane}: " if failure.lane is not None and not failure.text.startswith("lane") else ""
    result = WorkerError(f"{prefix}{place}{failure.text.rstrip()}", failure.lane)
    result.__cause__ = error
    return result


def waiting(workers: Iterable[Worker], timeout: float | None) -> list[Worker]:
    """Waits until one of some workers has an answer or has ended.

    Args:
        workers: The workers.
        timeout: In seconds; None to wait without end.

    Returns:
        Those that have.
    """
    of: dict[Any, Worker] = {}
    for worker in workers:
        of[worker.connection] = of[worker.process.sentinel] = worker
    return list({worker.index: worker for worker in (of[one] for one in wait(list(of), timeout))}.values())


def shut_down(workers: Mapping[int, Worker], memory: Mapping[str, Rows], folder: str, owner: int) -> None:
    """Ends all processes, and removes shared memory and files; of a copy of the batch in a forked process, nothing.

    Args:
        workers: The workers, by number.
        memory: The shared memory.
        folder: The folder of the tracebacks.
        owner: The process that made them.
    """
    if os.getpid() != owner:
        return
    for worker in workers.values():
        with suppress(OSError):
            worker.connection.send((0, "close", ()))
        worker.connection.close()
    end = time.monotonic() + GRACE
    for worker in workers.values():
        worker.process.join(max(0.0, end - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
        worker.process.close()
    for rows in memory.values():
        rows.close()
        rows.unlink()
    shutil.rmtree(folder, ignore_errors=True)
