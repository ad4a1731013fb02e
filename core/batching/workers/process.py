"""A worker: the process that holds some lanes of a batch, and does what the batch asks.

Requests are tuples `(ticket, command, arguments)`, answers `(ticket, lanes, content)`, where `content` is a `Failure`
if the environment of a lane, or the worker itself, raised an error:

| command | arguments | answers |
|---|---|---|
| `rows` | specs, number of all lanes, name of the block | one |
| `reset` | lanes, a seed for each, options | one, of rests of observations and infos |
| `step` | lanes, a mask of those to restart, actions or None, one by one | one of all lanes, or one for each |
| `ask` | lanes, a function of an environment for each | one, a list of their results |
| `make` | lanes | one; their environments are made again |
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
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from multiprocessing import parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ...protocol.env import Env
from ...protocol.fast_steps import fast_step
from ...protocol.process import Info
from ...spec import SpecTree
from ...tree import map_leaves
from ..loop_plan import LaneCall
from .rows import ACTING, STEPS, Rows

DUMP_SIGNAL: signal.Signals | None = getattr(signal, "SIGUSR1", None)
"""The signal on which a worker writes where it is, also while an environment hangs."""


class Failure(NamedTuple):
    """An error in a worker.

    Attributes:
        lane: The lane whose environment raised it; None for the worker itself.
        error: The error; None if it cannot be sent.
        text: Its traceback.
    """

    lane: int | None
    error: Exception | None
    text: str


class Stepped(NamedTuple):
    """The part of the steps, or resets, of some lanes that is not in shared memory.

    Attributes:
        rests: For each lane the leaves of its observation that are not arrays.
        infos: The infos that are not empty, by lane.
        ended: True if a flag is set in one of the lanes.
        discounts: True if a discount is not the default in one of the lanes.
    """

    rests: list[tuple[Any, ...]]
    infos: dict[int, Info]
    ended: bool = False
    discounts: bool = False


def run(connection: Connection, source: Any, lanes: Sequence[int], trace_file: str) -> None:
    """Runs a worker until its connection is closed.

    Args:
        connection: To the batch.
        source: An environment, of which each lane has a copy, or a function that makes one; or its pickle.
        lanes: The indices of its lanes.
        trace_file: The file for tracebacks of crashes and hangs.
    """
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
            worker = _Worker(connection, lanes)
            if worker.attempt(0, [], worker.load, source):
                worker.serve()
                worker.close()
        except (EOFError, OSError):  # the batch is gone
            if parent is not None:
                end.join(1.0)  # which removes the files, if the process of the batch was killed
        finally:
            faulthandler.disable()


def _end_with(parent: Any, folder: Path) -> None:
    """Ends this process after that of the batch, which removes the folder itself unless it was killed."""
    parent.join()
    shutil.rmtree(folder, ignore_errors=True)
    os._exit(1)


class _Worker:
    def __init__(self, connection: Connection, lanes: Sequence[int]) -> None:
        self._connection, self._lanes = connection, lanes
        self._make: Callable[[], Env]
        self._envs: dict[int, Env] = {}
        self._steps: dict[int, LaneCall] = {}
        self._rows: Rows | None = None
        self._current: int | None = None  # the lane whose environment is called
        self._nothing: tuple[Any, Any] = (None, None)

    def attempt(self, ticket: int, lanes: Sequence[int], function: Callable[..., Any], *arguments: Any) -> bool:
        """Answers with the result of a function, or with its error; returns False after an error."""
        self._current = None
        try:
            content, good = function(*arguments), True
        except Exception as error:
            content, good = self._failure(error), False
        self._answer(ticket, lanes, content)
        return good

    def _failure(self, error: Exception) -> Failure:
        text = "".join(traceback.format_exception(error))
        try:
            pickle.loads(pickle.dumps(error))  # noqa: S301 (made here)
        except Exception:
            return Failure(self._current, None, text)
        return Failure(self._current, error, text)

    def _answer(self, ticket: int, lanes: Sequence[int], content: Any) -> None:
        try:
            message = pickle.dumps((ticket, lanes, content), pickle.HIGHEST_PROTOCOL)
        except Exception as error:
            message = pickle.dumps((ticket, lanes, self._failure(error)))
        self._connection.send_bytes(message)

    def load(self, source: Any) -> None:
        """Makes the environments of all lanes."""
        if isinstance(source, bytes):
            source = pickle.loads(source)  # noqa: S301 (made by the batch)
        self._make = (lambda: copy.deepcopy(source)) if isinstance(source, Env) else source
        self.make(self._lanes)

    def make(self, lanes: Sequence[int]) -> None:
        for lane in lanes:
            self._current = lane
            if lane in self._envs:
                with suppress(Exception):  # it has failed already
                    self._envs[lane].close()
            self._envs[lane] = self._make()
            self._steps.pop(lane, None)

    def close(self) -> None:
        """Closes all environments."""
        for env in self._envs.values():
            with suppress(Exception):
                env.close()
        if self._rows is not None:
            self._rows.close()

    def serve(self) -> None:
        """Does what the batch asks, until the connection is closed."""
        commands = {"rows": self.rows, "reset": self.reset, "ask": self.ask, "make": self.make}
        while True:
            request: tuple[int, str, tuple[Any, ...]] = self._connection.recv()
            ticket, command, arguments = request
            lanes: Sequence[int]
            if command == "close":
                return
            if command == "step":
                lanes, restarts, actions, one_by_one = arguments
                parts = [[index] for index in range(len(lanes))] if one_by_one else [range(len(lanes))]
                for part in parts:
                    chosen = [lanes[index] for index in part]
                    some = None if actions is None else [actions[index] for index in part]
                    self.attempt(ticket, chosen, self.step, chosen, [restarts[index] for index in part], some)
            else:
                lanes = [] if command == "rows" else arguments[0]
                self.attempt(ticket, lanes, commands[command], *arguments)

    def rows(self, specs: Mapping[str, SpecTree], n: int, name: str) -> None:
        """Opens the shared memory."""
        if self._rows is not None:
            self._rows.close()
        self._rows = Rows(specs, n, name)
        self._nothing = (
            map_leaves(lambda leaf: np.zeros(leaf.shape, leaf.dtype), specs["reward"]),
            map_leaves(lambda leaf: np.ones(leaf.shape, leaf.dtype), specs["discount"]),
        )

    def _begin_call(self, rows: Rows, lane: int) -> Env:
        """Notes which lane's environment is about to be called."""
        self._current = lane
        rows[ACTING].write(lane, 1)
        rows[STEPS].write(lane, rows[STEPS].take(lane) + 1)
        return self._envs[lane]

    def reset(self, lanes: Sequence[int], seeds: Sequence[int | None], options: Mapping[str, Any] | None) -> Stepped:
        rows, result = self._opened(), Stepped([], {})
        for lane, seed in zip(lanes, seeds, strict=True):
            observation, info = self._begin_call(rows, lane).reset(seed=seed, options=options)
            result.rests.append(rows["observation"].write(lane, observation))
            if info:
                result.infos[lane] = info
            rows[ACTING].write(lane, 0)
        return result

    def step(self, lanes: Sequence[int], restarts: Sequence[bool], actions: Sequence[Any] | None) -> Stepped:
        """Steps or restarts lanes, all of them even if one raises an error.

        Raises:
            Exception: The first error of an environment.
        """
        rows = self._opened()
        rests: list[tuple[Any, ...]] = []
        infos: dict[int, Info] = {}
        ended = discounts = False
        failed: tuple[int, Exception] | None = None
        for index, (lane, restart) in enumerate(zip(lanes, restarts, strict=True)):
            env = self._begin_call(rows, lane)
            try:
                if restart:
                    (observation, info), terminated, truncated = env.reset(), False, False
                    reward, discount = self._nothing
                else:
                    step = self._steps.get(lane)
                    if step is None:
                        step = self._steps[lane] = fast_step(env)
                    action = rows["action"].take(lane) if actions is None else actions[index]
                    observation, reward, terminated, truncated, discount, info = step(action)
                rests.append(rows["observation"].write(lane, observation))
                rows["reward"].write(lane, reward)
                rows["terminated"].write(lane, terminated)
                rows["truncated"].write(lane, truncated)
                if discount is None:
                    discount = map_leaves(np.zeros_like, self._nothing[1]) if terminated else self._nothing[1]
                elif not restart:
                    discounts = True
                rows["discount"].write(lane, discount)
            except Exception as error:
                failed = failed or (lane, error)
                rows[ACTING].write(lane, 0)
                continue
            ended = ended or bool(terminated) or bool(truncated)
            if info:
                infos[lane] = info
            rows[ACTING].write(lane, 0)
        if failed is not None:
            self._current, error = failed
            raise error
        return Stepped(rests, infos, ended, discounts)

    def ask(self, lanes: Sequence[int], functions: Sequence[Callable[[Any], Any]]) -> list[Any]:
        results: list[Any] = []
        for lane, function in zip(lanes, functions, strict=True):
            self._current = lane
            results.append(function(self._envs[lane]))
        return results

    def _opened(self) -> Rows:
        if self._rows is None:
            raise RuntimeError("the shared memory is not open yet")
        return self._rows
