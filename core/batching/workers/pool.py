"""The processes of a batch with workers, their shared memory, and the requests to them."""

from __future__ import annotations

import os
import tempfile
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from multiprocessing import resource_tracker
from typing import Any

import numpy as np

from ...errors import EpisodeError, WorkerError
from ...protocol.env import Env
from ...spec import SpecTree
from .handle import Worker, error_of, shut_down, waiting
from .process import Failure
from .rows import Rows
from .source import sendable, start_context

Answer = tuple[Worker, int, Sequence[int], Any]
"""`(worker, ticket, lanes, content)`, see `process`; the ticket is -1 if the process has ended."""


class WorkerPool:
    """Processes that hold n lanes, a part each.

    Args:
        source: An environment, of which each lane has a copy, or a function that makes one.
        n: The number of lanes.
        count: The number of processes, at most n.
        timeout: The seconds that one call of an environment may take; None for any time.
        start_method: The way to start processes; None for that of the platform.

    Attributes:
        workers: The processes, by number.
        folder: The folder of their tracebacks.
        late: Answers that came while another one was waited for.
        specs: The specs of the rows in shared memory, by name.

    Raises:
        SpecError: The environment cannot be sent to a process.
        UnknownName: There is no such start method.
    """

    def __init__(
        self, source: Env | Callable[[], Env], n: int, count: int, timeout: float | None, start_method: str | None
    ) -> None:
        self._n, self._timeout = n, timeout
        self._context = start_context(start_method)
        self._source = sendable(source, self._context.get_start_method())
        self._lanes_of = [part.tolist() for part in np.array_split(np.arange(n), count)]
        self._worker_of = [index for index, lanes in enumerate(self._lanes_of) for _ in lanes]
        self._ticket = 0
        self.late: list[Answer] = []
        self.specs: dict[str, SpecTree] = {}
        resource_tracker.ensure_running()  # before any fork, so that all processes share it
        self.folder = tempfile.mkdtemp(prefix="envoi-workers-")
        self.workers: dict[int, Worker] = {}
        self._memory: dict[str, Rows] = {}
        self._owner = os.getpid()
        self._finish = weakref.finalize(self, shut_down, self.workers, self._memory, self.folder, self._owner)

    # Processes and memory.

    def start(self) -> None:
        """Starts all processes, and waits until they have made their environments.

        Raises:
            WorkerError: A process fails.
        """
        for index in range(len(self._lanes_of)):
            self._start_one(index)
        for index in [*self.workers]:
            self.answers({index: 0})

    def _start_one(self, index: int) -> None:
        self.workers[index] = Worker(index, self._lanes_of[index], self._source, self._context, self.folder)

    def replace(self, index: int, call: str) -> None:
        """Starts another process in the place of one that has ended.

        Args:
            index: Its number.
            call: What the batch was asked for, for messages.

        Raises:
            WorkerError: The new process fails too.
        """
        self.workers[index].connection.close()
        self._start_one(index)
        self.answers({index: 0}, call)
        self.answers({index: self.ask(index, "rows", *self._opening())}, call)

    def open_memory(self, specs: Mapping[str, SpecTree]) -> None:
        """Makes the shared memory, in place of what there was, and opens it in all processes.

        Args:
            specs: The spec of each value by name.
        """
        old, self.specs = self._memory.get("rows"), dict(specs)
        self._memory["rows"] = Rows(specs, self._n)
        if old is not None:
            old.close()
            old.unlink()
        self.answers({index: self.ask(index, "rows", *self._opening()) for index in self.workers})

    def _opening(self) -> tuple[Any, ...]:
        return self.specs, self._n, self._memory["rows"].name

    @property
    def rows(self) -> Rows:
        """The shared memory."""
        if not self.is_open:
            raise EpisodeError("the batch is closed")
        return self._memory["rows"]

    @property
    def is_open(self) -> bool:
        """False once the processes were ended."""
        return self._finish.alive

    def close(self) -> None:
        """Ends all processes and removes the shared memory; also called when the program ends."""
        self._finish()

    # Requests and answers.

    def parts(self, lanes: Iterable[int]) -> dict[int, list[int]]:
        """Divides lanes over the processes that hold them.

        Returns:
            The lanes of each process, by its number.
        """
        parts: dict[int, list[int]] = {}
        for lane in lanes:
            parts.setdefault(self._worker_of[lane], []).append(lane)
        return parts

    def ask(self, index: int, command: str, *arguments: Any) -> int:
        """Sends a request to a process.

        Args:
            index: The number of the process.
            command: See `process`.
            *arguments: Of the command.

        Returns:
            The ticket that the answer has.
        """
        if not self.is_open:
            raise EpisodeError(f"{command}: the batch is closed")
        if os.getpid() != self._owner:  # both would read from the same pipes
            raise WorkerError(
                f"{command}: the lanes belong to process {self._owner}, of which this one is a fork; make a batch here"
            )
        self._ticket += 1
        self.workers[index].ask(self._ticket, command, *arguments)
        return self._ticket

    def next_answers(self, among: Iterable[int]) -> list[Answer]:
        """Waits for answers of some processes; also returns failures of these processes.

        Args:
            among: Their numbers.
        """
        workers = [self.workers[index] for index in among]
        pause = None if self._timeout is None else min(1.0, self._timeout / 4)
        found: list[Answer] = []
        while not found:
            rows = self._memory.get("rows")
            for worker in waiting(workers, pause):
                answer = worker.answer(rows)
                if answer is not None:
                    found.append((worker, *answer))
            if self._timeout is not None and not found:
                hung = [(worker, worker.hangs(self._timeout, rows)) for worker in workers]
                found = [(worker, *answer) for worker, answer in hung if answer is not None]
        return found

    def gather(self, tickets: Mapping[int, int]) -> tuple[dict[int, Any], dict[int, Failure]]:
        """Waits for the answers to a request of each process.

        Args:
            tickets: By process.

        Returns:
            The contents of the answers by process, and the failures by process.
        """
        contents: dict[int, Any] = {}
        failures: dict[int, Failure] = {}
        waited = dict(tickets)
        while waited:
            for worker, ticket, lanes, content in self.next_answers(waited):
                index = worker.index
                if ticket not in (-1, waited.get(index)):
                    # Of lanes that were sent, or of a request that was interrupted.
                    self.late.append((worker, ticket, lanes, content))
                    continue
                del waited[index]
                (failures if isinstance(content, Failure) else contents)[index] = content
        return contents, failures

    def answers(self, tickets: Mapping[int, int], call: str = "") -> dict[int, Any]:
        """Returns the answers to a request of each process.

        Args:
            tickets: By process.
            call: What the batch was asked for, for messages.

        Raises:
            WorkerError: A process failed, or an environment raised an error.
        """
        contents, failures = self.gather(tickets)
        for _, failure in sorted(failures.items()):
            raise error_of(failure, call)
        return contents

    def each(self, functions: Sequence[Callable[[Any], Any]], lanes: Sequence[int], call: str = "") -> list[Any]:
        """Runs one function of an environment for each of some lanes, where the lane is.

        Args:
            functions: One for each of these lanes.
            lanes: The lanes.
            call: What the batch was asked for, for messages.

        Returns:
            The results.

        Raises:
            WorkerError: A process failed, or an environment raised an error.
        """
        given = dict(zip(lanes, functions, strict=True))
        parts = self.parts(lanes)
        asked = {index: self.ask(index, "ask", part, [given[lane] for lane in part]) for index, part in parts.items()}
        answers = self.answers(asked, call)
        results = {
            lane: result for index, part in parts.items() for lane, result in zip(part, answers[index], strict=True)
        }
        return [results[lane] for lane in lanes]
