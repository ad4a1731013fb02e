"""The processes of a batch with workers: what they are sent, what they answer, and why they fail."""

from __future__ import annotations

import os
import pickle
import shutil
import signal
import tempfile
import time
import weakref
from collections import deque
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from multiprocessing import get_all_start_methods, get_context, resource_tracker
from multiprocessing.connection import wait
from pathlib import Path
from selectors import EVENT_READ, EVENT_WRITE, DefaultSelector
from socket import SHUT_RDWR, socketpair
from threading import RLock
from typing import Any

import numpy as np

from ...errors import EnvoiError, EpisodeError, SpecError, UnknownName, WorkerError, nearest
from ...protocol.env import Env
from ...spec import SpecTree
from ...spec.base import shown
from .process import DUMP_SIGNAL, HEADER, Failure, run
from .rows import Rows

_GRACE = 2.0  # seconds that workers have to end by themselves when their batch is closed
_START_LIMIT = 60.0  # seconds that a worker has at least to import modules and to make its environments
_PAUSE = 1.0  # seconds after which a wait looks whether the processes are alive
_CHUNK = 1 << 16

_GUARD = "a script that starts workers needs `if __name__ == '__main__':` around what it does"

Answer = tuple[int, int, Sequence[int], Any]
"""`(worker, ticket, lanes, content)`, see `process`; the ticket is -1 if the process has ended."""


class Pool:
    """The processes that hold n lanes, each a part of them."""

    def __init__(
        self, source: Env | Callable[[], Env], n: int, count: int, timeout: float | None, start_method: str | None
    ) -> None:
        if start_method is not None and start_method not in get_all_start_methods():
            near = nearest(start_method, get_all_start_methods())
            raise UnknownName(f"start_method: {start_method}: no such method; {near}")
        self._n, self._owner, context = n, os.getpid(), get_context(start_method)
        sent = _sendable(source, context.get_start_method())
        self._lanes_of = [part.tolist() for part in np.array_split(np.arange(n), count)]
        self._worker_of = [index for index, lanes in enumerate(self._lanes_of) for _ in lanes]
        self._ticket = 0
        self.late: list[Answer] = []  # answers that arrived while waiting for another one
        self.lock = RLock()  # held by the thread that uses the pool
        resource_tracker.ensure_running()  # before any fork, so that all processes share it
        folder = tempfile.mkdtemp(prefix="envoi-workers-")
        self.workers: dict[int, Worker] = {}
        self._memory: dict[str, Rows] = {}
        self._specs: dict[str, SpecTree] = {}
        self._setup = sent, timeout, context, folder, self._memory
        self.close = weakref.finalize(self, _shut_down, self.workers, self._memory, folder, self._owner, self.lock)

    # Processes and memory.

    def start(self, *workers: int, call: str = "") -> None:
        """Starts the given processes, or all, and waits until they have made their environments."""
        chosen = workers or range(len(self._lanes_of))
        for index in chosen:
            self.workers[index] = Worker(index, self._lanes_of[index], *self._setup)
        for index in chosen:
            self._results({index: 0}, call)

    def renew(self, index: int, lanes: Sequence[int], call: str) -> Sequence[int]:
        """Makes new environments and returns their lanes: all lanes of a process that has ended, which is replaced."""
        worker = self.workers[index]
        if worker.failure is None:
            self._results(self.ask("make", {index: (lanes, ())}), call)
            return lanes
        worker.socket.close()
        self.start(index, call=call)
        self._open_rows([index], call)
        self.rows.acting[worker.lanes] = False
        return worker.lanes

    def open_memory(self, specs: Mapping[str, SpecTree]) -> None:
        """Allocates the shared memory, replacing an earlier one, and opens it in all processes."""
        old, self._specs = self._memory.get("rows"), dict(specs)
        self._memory["rows"] = Rows(specs, self._n)
        if old is not None:
            self.rows.copy("observation", old)
            old.close(unlink=True)
        self._open_rows(self.workers)

    def _open_rows(self, workers: Iterable[int], call: str = "") -> None:
        opening = self._specs, self._n, self.rows.name
        self._results(self.ask("rows", {index: ([], opening) for index in workers}), call)

    @property
    def rows(self) -> Rows:
        """The shared memory."""
        return self._memory["rows"]

    def check(self, call: str) -> None:
        """Checks that the pool is open, and that this process is not a fork of the one that made it."""
        if not self.close.alive:
            raise EpisodeError(f"{call}: the batch is closed")
        if os.getpid() != self._owner:  # both would read from the same sockets
            raise WorkerError(
                f"{call}: the lanes belong to process {self._owner}, of which this one is a fork; make a batch here"
            )

    # Requests and answers.

    def parts(self, lanes: Iterable[int]) -> dict[int, list[int]]:
        """Groups lanes by the process that holds them."""
        parts: dict[int, list[int]] = {}
        for lane in lanes:
            parts.setdefault(self._worker_of[lane], []).append(lane)
        return parts

    def ask(self, command: str, requests: Mapping[int, tuple[Sequence[int], Any]]) -> dict[int, int]:
        """Sends `(lanes, arguments)` to some processes. Returns the ticket of each request."""
        self._ticket += 1
        try:
            messages = {
                index: pickle.dumps((self._ticket, command, *request), pickle.HIGHEST_PROTOCOL)
                for index, request in requests.items()
            }
        except Exception as error:
            raise SpecError(f"{command}: cannot be sent to a worker: {error}") from error
        for index, message in messages.items():
            self.workers[index].send(message)
        return dict.fromkeys(requests, self._ticket)

    def next_answers(self, among: Iterable[int]) -> list[Answer]:
        """Waits for answers of some processes. Answers may be failures."""
        workers = [self.workers[index] for index in among]
        while True:
            if not any(worker.inbox or worker.has_ended for worker in workers):
                wait([worker.socket for worker in workers], workers[0].pause)
            if not self.close.alive:
                raise EpisodeError("the batch was closed while a thread waited for it")
            found = [(worker.index, *answer) for worker in workers if (answer := worker.answer()) is not None]
            if found:
                return found
            for worker in workers:
                worker.end_if_it_hangs()

    def gather(self, tickets: Mapping[int, int]) -> dict[int, Any]:
        """Waits until each process has answered its request."""
        contents: dict[int, Any] = {}
        while len(contents) < len(tickets):
            for answer in self.next_answers([index for index in tickets if index not in contents]):
                index, ticket, _, content = answer
                if ticket in (-1, tickets[index]):
                    contents[index] = content
                else:  # of lanes that were sent, or of a request that was interrupted
                    self.late.append(answer)
        return contents

    def _results(self, tickets: Mapping[int, int], call: str = "") -> dict[int, Any]:
        contents = self.gather(tickets)
        for _, content in sorted(contents.items()):
            if isinstance(content, Failure):
                raise error_of(content, call)
        return contents

    def each(self, functions: Sequence[Callable[[Any], Any]], lanes: Sequence[int], call: str = "") -> list[Any]:
        """Calls a function for each of some lanes with its environment, in the process that holds it."""
        given = dict(zip(lanes, functions, strict=True))
        parts = self.parts(lanes)
        requests = {index: (part, ([given[lane] for lane in part],)) for index, part in parts.items()}
        answers = self._results(self.ask("ask", requests), call)
        results = {lane: one for index, part in parts.items() for lane, one in zip(part, answers[index], strict=True)}
        return [results[lane] for lane in lanes]


class Worker:
    """A process with some lanes of a batch. Its first answer, with ticket 0, follows once its environments are made."""

    def __init__(
        self,
        index: int,
        lanes: Sequence[int],
        source: Any,
        timeout: float | None,
        context: Any,
        folder: str,
        memory: Mapping[str, Rows],
    ) -> None:
        self.index, self.lanes, self._timeout, self._memory = index, list(lanes), timeout, memory
        self.pause = _PAUSE if timeout is None else min(_PAUSE, timeout / 4)
        self._trace = Path(folder) / f"worker-{index}-{time.monotonic_ns()}.txt"
        self.socket, other = socketpair()
        self.socket.setblocking(False)  # a process that sends an answer does not read requests
        self.process = context.Process(
            target=run, args=(other, source, self.lanes, str(self._trace)), name=f"envoi-worker-{index}", daemon=True
        )
        try:
            self.process.start()
        finally:
            other.close()  # so that the end of the process closes the connection
        self.failure: Failure | None = None  # why the process has stopped working
        self._unread = bytearray()  # the beginning of an answer
        self.inbox: deque[bytes] = deque()
        self.has_ended = False
        self._broken = ""  # why this side has ended the process
        self._ready = False
        self._progress: tuple[int, ...] | None = None  # the counts of calls at its last progress
        self._since = 0.0

    def send(self, message: bytes) -> None:
        """Sends a request. Reads answers meanwhile if the process does not accept the request yet."""
        self._progress = None
        rest = memoryview(message)
        with suppress(OSError), self._whole():  # the process has ended, as its next answer says
            while rest and not self.has_ended:
                try:
                    rest = rest[self.socket.send(rest) :]
                    self._progress = None
                except BlockingIOError:
                    with DefaultSelector() as selector:
                        selector.register(self.socket, EVENT_READ | EVENT_WRITE)
                        selector.select(self.pause)
                    self._read()
                    self.end_if_it_hangs()

    def _read(self) -> None:
        """Reads all messages that have arrived."""
        with suppress(BlockingIOError), self._whole():
            while not self.has_ended:
                try:
                    part = self.socket.recv(_CHUNK)
                except ConnectionError:
                    part = b""
                self.has_ended = not part
                self._unread += part
                while len(self._unread) >= HEADER.size:
                    end = HEADER.size + HEADER.unpack_from(self._unread)[0]
                    if len(self._unread) < end:
                        break
                    self.inbox.append(bytes(self._unread[HEADER.size : end]))
                    del self._unread[:end]
                    self._ready, self._progress = True, None
                if len(part) < _CHUNK:
                    return

    @contextmanager
    def _whole(self) -> Generator[None]:
        """Ends the process if a message is interrupted, because the start of the next one is unknown then."""
        try:
            yield
        except OSError:
            raise
        except BaseException as error:
            cause = "a Ctrl-C" if isinstance(error, KeyboardInterrupt) else repr(error)
            self._end(f"was ended, because {cause} cut a message off")
            raise

    def _end(self, why: str) -> None:
        self._broken = self._broken or why
        self.process.kill()
        self.process.join()

    def answer(self) -> tuple[int, Sequence[int], Any] | None:
        """Returns an answer that has arrived, or None."""
        if not self.inbox:
            is_alive = self.process.is_alive()  # before its last answer is read
            self._read()
            if not self.inbox and is_alive and not self.has_ended:
                return None
        if self.inbox:
            return pickle.loads(self.inbox.popleft())  # noqa: S301 (made by the worker)
        if self.failure is None:
            self.process.join(_GRACE)
            if self.process.is_alive():
                self._end("has closed its connection")
            self.failure = self._describe_end()
        return -1, self.lanes, self.failure

    def end_if_it_hangs(self) -> None:
        """Ends the process if a call of an environment takes longer than the timeout."""
        if self._timeout is None:
            return
        timeout, now = self._timeout if self._ready else max(self._timeout, _START_LIMIT), time.monotonic()
        rows = self._memory.get("rows")
        progress = tuple(rows.calls[self.lanes].tolist()) if rows is not None else ()
        if progress != self._progress:
            self._progress, self._since = progress, now
        if now - self._since < timeout:
            return
        if DUMP_SIGNAL is not None and self.process.pid is not None and self.process.is_alive():
            os.kill(self.process.pid, DUMP_SIGNAL)
            end, dumped = time.monotonic() + _GRACE, ""
            while not (dumped and dumped == self._dumped()) and time.monotonic() < end:
                dumped = self._dumped()
                time.sleep(0.02)  # it may be half written
        self._end(f"hangs: no answer in {timeout:g} s")

    def _dumped(self) -> str:
        return self._trace.read_text() if self._trace.exists() else ""

    def _describe_end(self) -> Failure:
        rows = self._memory.get("rows")
        code, signals = self.process.exitcode or 0, {one.value: one.name for one in signal.Signals}
        ended = f"exit code {code}" if code >= 0 else f"signal {signals.get(-code, -code)}"
        how = self._broken or f"ended with {ended}"
        acting = [lane for lane in self.lanes if rows is not None and self._ready and rows.acting[lane]]
        place = f"lane {acting[0]} of " if acting else ""
        hint = "" if self._ready else f" It had not made its environments yet; {_GUARD}."
        numbers = f"{self.lanes[0]} to {self.lanes[-1]}" if len(self.lanes) > 1 else f"{self.lanes[0]}"
        text = f"{place}worker {self.index} (lanes {numbers}, process {self.process.pid}) {how}.{hint}"
        return Failure(acting[0] if acting else None, None, f"{text}\n{self._dumped()}".rstrip())


def error_of(failure: Failure, call: str = "") -> Exception:
    """Returns the error for a failure: an `EnvoiError` or `AttributeError` itself, otherwise a `WorkerError`."""
    error, text = failure.error, failure.text.rstrip()
    text += "\nLanes that did not fail have made this step; reset all lanes to go on." if call == "step" else ""
    if isinstance(error, (EnvoiError, AttributeError)):  # a loop over the lanes would raise these for its caller
        if failure.lane is not None:
            error.add_note(f"in lane {failure.lane} of a worker:\n{text}")
        return error
    prefix = f"{call}: " if call else ""
    place = f"lane {failure.lane}: " if failure.lane is not None and not failure.text.startswith("lane") else ""
    result = WorkerError(f"{prefix}{place}{text}", failure.lane)
    result.__cause__ = error
    return result


def _sendable(source: Any, method: str) -> Any:
    """Pickles an environment or a function that makes one, for the workers."""
    if not isinstance(source, Env) and not callable(source):
        raise SpecError(f"env: expected a core environment or a function that makes one, got {shown(source)}")
    error: Exception | None = None
    for name in ("cloudpickle", "pickle"):  # the first pickles functions by their code, so lambdas too
        try:
            return import_module(name).dumps(source)
        except Exception as raised:  # objects of an imported environment may raise any error
            error = raised
    if method == "fork":
        return source
    raise SpecError(
        f"env: {shown(source)} cannot be sent to a worker ({error}); give a function of a module that makes one, or "
        "install cloudpickle for functions inside of others"
    ) from error


def _shut_down(workers: Mapping[int, Worker], memory: Mapping[str, Rows], folder: str, owner: int, lock: RLock) -> None:
    """Ends all processes, and removes shared memory and files. Does nothing in a fork of the batch's process."""
    if os.getpid() != owner:
        return
    for worker in workers.values():
        with suppress(OSError):
            worker.socket.send(pickle.dumps((0, "close", [], ())))
        with suppress(OSError):
            worker.socket.shutdown(SHUT_RDWR)  # also ends a worker, or a thread here, that waits for the other side
    end = time.monotonic() + _GRACE
    for worker in workers.values():
        worker.process.join(max(0.0, end - time.monotonic()))
        if worker.process.is_alive():
            worker.process.kill()
            worker.process.join()
    held = lock.acquire(timeout=_GRACE)  # until another thread has seen that the batch is closed
    for worker in workers.values():
        worker.socket.close()
        worker.process.close()
    for rows in memory.values():
        rows.close(unlink=True)
    shutil.rmtree(folder, ignore_errors=True)
    if held:
        lock.release()
