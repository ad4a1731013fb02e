"""A worker: the process that holds some lanes of a batch, and does what the batch asks.

Requests are tuples `(ticket, command, lanes, arguments)`, answers `(ticket, lanes, content)`, where `content` is a
`Failure` if the worker raised an error:

| command | arguments | answers |
|---|---|---|
| `rows` | specs, number of all lanes, name of the block | one |
| `step` | a `Task` | a `Stepped` |
| `send` | a `Task` | a `Stepped` for each lane |
| `ask` | a function of an environment for each lane | a list of their results |
| `make` | | one; their environments are made again |
| `close` | | none |

A worker ends when its batch closes the connection, or the process of the batch ends.
"""

from __future__ import annotations

import copy
import faulthandler
import os
import pickle
import shutil
import signal
import threading
import traceback
from collections.abc import Callable, Mapping, Sequence, Set
from contextlib import suppress
from multiprocessing import parent_process
from pathlib import Path
from socket import socket
from struct import Struct
from typing import Any, NamedTuple

import numpy as np

from ...protocol.env import Env
from ...protocol.fast_steps import fast_step
from ...protocol.process import Info
from ...spec import SpecTree
from ...tree import map_leaves
from ..lanes import LaneCall, check_separate
from .rows import Rows

# The signal on which a worker writes where it is, also while an environment hangs.
DUMP_SIGNAL: signal.Signals | None = getattr(signal, "SIGUSR1", None)

HEADER = Struct("!Q")  # the length in bytes of an answer, which comes before it


class Failure(NamedTuple):
    """An error in a worker."""

    lane: int | None  # None for the worker itself
    error: Exception | None  # None if it cannot be sent
    text: str  # its traceback


class Task(NamedTuple):
    """A request to step some lanes, or to begin new episodes in them."""

    begin: Set[int] = frozenset()
    actions: Mapping[int, Any] | None = None  # None if they are in shared memory
    seeds: Mapping[int, int] = {}
    options: Mapping[str, Any] | None = None


class Stepped(NamedTuple):
    """The parts of steps or resets that are not in shared memory."""

    rests: dict[int, tuple[Any, ...]]  # leaves of observations that are not arrays
    infos: dict[int, Info]  # only infos that are not empty
    failures: dict[int, Failure]
    discounts: bool  # True if a lane's discount is not the default


def run(connection: socket, source: Any, lanes: Sequence[int], trace_file: str) -> None:
    """Runs a worker until its connection is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all processes; the batch closes its workers
    parent = parent_process()
    end = threading.Thread(target=_end_with, args=(parent, Path(trace_file).parent), daemon=True)
    if parent is not None:
        end.start()
    with Path(trace_file).open("w") as file:
        faulthandler.enable(file)
        if DUMP_SIGNAL is not None:
            faulthandler.register(DUMP_SIGNAL, file)
        try:
            _Engine(connection).serve(source, lanes)
        except (EOFError, OSError):  # the batch is gone
            if parent is not None:
                end.join(1.0)  # which removes the files, if the process of the batch was killed
        finally:
            faulthandler.disable()


def _end_with(parent: Any, folder: Path) -> None:
    """Ends this process after the batch's process, and removes the folder if that was killed before it could."""
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


class _Engine:
    """The environments of some lanes, with a method for each command of the batch."""

    def __init__(self, connection: socket) -> None:
        self._connection = connection
        self._make: Callable[[], Env]
        self._envs: dict[int, Env] = {}
        self._steps: dict[int, LaneCall] = {}
        self._rows: Rows
        self._current: int | None = None  # the lane whose environment is made or asked
        self._nothing: Any = None  # the reward of a reset
        self._discounts: Any = None  # the usual ones: of a step, and of a termination

    def serve(self, source: Any, lanes: Sequence[int]) -> None:
        """Answers requests until the batch closes the worker."""
        good = self._attempt(0, lanes, self._load, source)
        with self._connection.makefile("rb") as requests:
            while good:
                ticket, command, lanes, arguments = pickle.load(requests)  # noqa: S301 (made by the batch)
                if command == "close":
                    break
                parts = [[lane] for lane in lanes] if command == "send" else [lanes]
                for part in parts:
                    self._attempt(ticket, part, getattr(self, command), *arguments)
        for env in self._envs.values():
            with suppress(Exception):
                env.close()
        if hasattr(self, "_rows"):
            self._rows.close()

    def _attempt(self, ticket: int, lanes: Sequence[int], function: Callable[..., Any], *arguments: Any) -> bool:
        """Calls a function and sends its result or its error. Returns False after an error."""
        self._current = None
        try:
            content, good = function(lanes, *arguments), True
        except Exception as error:
            content, good = _failure(error, self._current), False
        try:
            message = pickle.dumps((ticket, lanes, content), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            content = _without_unsendable(content) if isinstance(content, Stepped) else _failure(error, self._current)
            message = pickle.dumps((ticket, lanes, content), pickle.HIGHEST_PROTOCOL)
        self._connection.sendall(HEADER.pack(len(message)) + message)
        return good

    def _load(self, lanes: Sequence[int], source: Any) -> None:
        if isinstance(source, bytes):
            source = pickle.loads(source)  # noqa: S301 (made by the batch)
        self._make = (lambda: copy.deepcopy(source)) if isinstance(source, Env) else source
        self.make(lanes)

    def make(self, lanes: Sequence[int]) -> None:
        for self._current in lanes:
            with suppress(Exception):  # there may be none, or it has failed already
                self._envs.pop(self._current).close()
            self._steps.pop(self._current, None)
            self._envs[self._current] = self._make()
        self._current = None
        check_separate(self._envs)

    def rows(self, lanes: Sequence[int], specs: Mapping[str, SpecTree], n: int, name: str) -> None:
        if hasattr(self, "_rows"):
            self._rows.close()
        self._rows = Rows(specs, n, name)
        self._nothing = map_leaves(lambda leaf: np.zeros(leaf.shape, leaf.dtype), specs["reward"])
        self._discounts = [
            map_leaves(lambda leaf, make=make: make(leaf.shape, leaf.dtype), specs["discount"])
            for make in (np.ones, np.zeros)
        ]

    def step(self, lanes: Sequence[int], task: Task) -> Stepped:
        """Steps or resets all given lanes, even if some raise an error."""
        rows, result, discounts = self._rows, Stepped({}, {}, {}, False), False
        for lane in lanes:
            # These show the lane in which a process hangs or has crashed.
            rows.acting[lane] = True
            rows.calls[lane] += 1
            try:
                if lane in task.begin:
                    observation, info = self._envs[lane].reset(seed=task.seeds.get(lane), options=task.options)
                    reward, terminated, truncated, discount = self._nothing, False, False, None
                else:
                    step = self._steps.get(lane) or self._steps.setdefault(lane, fast_step(self._envs[lane]))
                    action = rows.take("action", lane) if task.actions is None else task.actions[lane]
                    observation, reward, terminated, truncated, discount, info = step(action)
                rest = rows.write("observation", lane, observation)
                rows.write("reward", lane, reward)
                rows.terminated[lane], rows.truncated[lane] = terminated, truncated
                rows.write("discount", lane, self._discounts[bool(terminated)] if discount is None else discount)
            except Exception as error:
                result.failures[lane] = _failure(error, lane)
            else:
                discounts = discounts or discount is not None
                if rest:
                    result.rests[lane] = rest
                if info:
                    result.infos[lane] = info
            rows.acting[lane] = False
        return result._replace(discounts=discounts)

    send = step

    def ask(self, lanes: Sequence[int], functions: Sequence[Callable[[Any], Any]]) -> list[Any]:
        results: list[Any] = []
        for self._current, function in zip(lanes, functions, strict=True):
            results.append(function(self._envs[self._current]))
        return results


def _failure(error: Exception, lane: int | None) -> Failure:
    text = "".join(traceback.format_exception(error))
    try:
        pickle.loads(pickle.dumps(error))  # noqa: S301 (made here)
    except Exception:
        return Failure(lane, None, text)
    return Failure(lane, error, text)


def _without_unsendable(stepped: Stepped) -> Stepped:
    """Replaces lanes whose infos cannot be pickled by failures."""
    infos, failures = dict(stepped.infos), dict(stepped.failures)
    for lane, info in stepped.infos.items():
        try:
            pickle.dumps(info)
        except Exception as error:
            failures[lane] = _failure(error, lane)
            del infos[lane]
    return stepped._replace(infos=infos, failures=failures)
