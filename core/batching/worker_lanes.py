"""`WorkerLanes`, a batch whose lanes run in several processes.

    batch = envoi.batch(make_env, 64, workers=4)

    step = batch.step(actions)                        all lanes; waits for all of them

    batch.send(actions, lanes)                        some lanes; waits for none
    lanes, step = batch.recv(16)                      the first 16 lanes that are done

The first form is that of every batch, and has the same traces as a loop over the lanes. In the second, no lane waits
for a slower one.
"""

from __future__ import annotations

import os
import tempfile
import warnings
import weakref
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from multiprocessing import resource_tracker
from operator import methodcaller
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ..errors import EpisodeError, SnapshotUnsupported, SpecError
from ..lane_values import splitter
from ..protocol.batch_env import BatchEnv, LanesStep, Mask, as_mask, full_lanes_step, make_batch_reset
from ..protocol.env import ENDED_LANES, NOT_RESET, Env, Reset, Step
from ..protocol.infos import Infos
from ..protocol.process import Info, Snapshot
from ..rewards.rewarder import Rewarder, RewardFunction
from ..seeding import lane_seeds
from ..tree import map_leaves
from .lanes import Lanes, check_alike
from .model_batch import batch_streams
from .remote_lane import RemoteLane
from .worker_handle import Worker, error_of, sendable, shut_down, start_context, waiting
from .worker_process import Failure, Stepped
from .worker_rows import ACTING, COUNT, FLAG, STEPS, Rows

RESTARTED = "worker_restarted"
"""Key in the info of a lane that was truncated because its worker failed and was started again; the cause as text."""

StepFields = tuple[Any, Any, Any, Any, Any, Infos]
Answer = tuple[Worker, int, Sequence[int], Any]
"""`(worker, ticket, lanes, content)`, see `worker_process`; the ticket is -1 if the process has ended."""


class WorkerLanes(Lanes):
    """A batch that divides separate environments over processes. Lane i behaves exactly as environment i alone.

    Values that are arrays go through shared memory. What the batch returns are copies, which later steps do not change.

    Args:
        source: An environment, of which each lane has a copy, or a function that makes one. It must be picklable; with
            the start method "fork" a function need not be.
        n: The number of lanes.
        workers: The number of processes; at most one per lane is used.
        timeout: The seconds that one reset or step of an environment may take; None for any time.
        restart: If True, lanes whose environment raises an error, and all lanes of a process that crashes or hangs,
            are truncated, with the cause in `info["worker_restarted"]`, and begin their next episode in a new
            environment. If False, this raises a `WorkerError`.
        start_method: The way to start processes: `"spawn"`, `"fork"`, `"forkserver"`; None for that of the platform.

    Attributes:
        envs: The lanes as environments, whose attributes and methods are those in the processes.
        workers: The number of processes.

    Raises:
        SpecError: A number is below 1, the environments cannot be sent, or their specs differ.
        UnknownName: There is no such start method.
        WorkerError: A worker fails while it makes its environments.
    """

    def __init__(
        self,
        source: Env | Callable[[], Env],
        n: int,
        workers: int,
        *,
        timeout: float | None = None,
        restart: bool = False,
        start_method: str | None = None,
    ) -> None:
        BatchEnv.__init__(self, n)
        if workers < 1:
            raise SpecError(f"workers: expected at least 1 process, got {workers}")
        if timeout is not None and not timeout > 0:
            raise SpecError(f"timeout: expected a number of seconds above 0, or None, got {timeout}")
        self.workers = min(workers, n)
        self._timeout, self._restarts_workers = timeout, restart
        self._context = start_context(start_method)
        self._source = sendable(source, self._context.get_start_method())
        self.envs: Any = tuple(RemoteLane(self._ask_lane, lane) for lane in range(n))
        self._ticket = 0
        self._over: Mask = np.zeros(n, bool)
        self._begun: Mask = np.zeros(n, bool)
        self._lost: dict[int, str] = {}  # lanes whose episode a failure ended, and why
        self._renewed: dict[int, int] = {}  # lanes with a new environment, and how many they have had
        self._seeds: list[int | None] = [None] * n
        self._rests: list[tuple[Any, ...]] = [()] * n  # the leaves of the latest observations that are not arrays
        self._settings: dict[str, list[Callable[[Env], Any]]] = {}  # what a new environment must be given
        self._in_flight: dict[int, int] = {}  # lanes that were sent, and the tickets of their requests
        self._arrived: deque[tuple[int, Stepped | None]] = deque()
        self._late: list[Answer] = []  # answers that came while another one was waited for
        resource_tracker.ensure_running()  # before any fork, so that all processes share it
        folder = tempfile.mkdtemp(prefix="envoi-workers-")
        self._folder = folder
        self._processes: dict[int, Worker] = {}
        self._memory: dict[str, Rows] = {}
        self._finish = weakref.finalize(self, shut_down, self._processes, self._memory, folder, os.getpid())
        try:
            self._start(n)
        except BaseException:
            self.close()
            raise

    # Processes.

    def _start(self, n: int) -> None:
        parts = [part.tolist() for part in np.array_split(np.arange(n), self.workers)]
        self._worker_of = [index for index, lanes in enumerate(parts) for _ in lanes]
        for index, lanes in enumerate(parts):
            self._processes[index] = self._new_worker(index, lanes)
        for worker in [*self._processes.values()]:
            self._answers({worker.index: 0})
        self._describe()

    def _new_worker(self, index: int, lanes: Sequence[int]) -> Worker:
        return Worker(index, lanes, self._source, self._context, self._folder)

    def _describe(self) -> None:
        """Sets the specs, as the lanes have them, and makes the shared memory."""
        found = [SimpleNamespace(**facts) for facts in self._each([_facts] * self.batch_size)]
        check_alike(cast("Any", found))
        for name, value in vars(found[0]).items():
            setattr(self, name, value)
        self._split = splitter(self.action_spec, self.batch_size)
        self._open_memory()

    def _open_memory(self) -> None:
        specs = {
            **{what: getattr(self, f"{what}_spec") for what in ("observation", "action", "reward", "discount")},
            "terminated": FLAG,
            "truncated": FLAG,
            ACTING: FLAG,
            STEPS: COUNT,
        }
        old, rows = self._memory.get("rows"), Rows(specs, self.batch_size)
        self._row_specs = specs
        self._memory["rows"] = rows
        if old is not None:
            old.close()
            old.unlink()
        self._answers({index: self._ask(index, "rows", *self._opening()) for index in self._processes})

    def _opening(self) -> tuple[Any, ...]:
        return self._row_specs, self.batch_size, self._memory["rows"].name

    @property
    def _rows(self) -> Rows:
        if not self._finish.alive:
            raise EpisodeError("the batch is closed")
        return self._memory["rows"]

    def close(self) -> None:
        """Ends all processes and removes the shared memory; also called when the program ends."""
        self._finish()

    # Requests and answers.

    def _ask(self, index: int, command: str, *arguments: Any) -> int:
        """Sends a request to a worker, and returns its ticket."""
        if not self._finish.alive:
            raise EpisodeError(f"{command}: the batch is closed")
        self._ticket += 1
        self._processes[index].ask(self._ticket, command, *arguments)
        return self._ticket

    def _next_answers(self, among: Iterable[int]) -> list[Answer]:
        """Waits for answers of some workers; also returns failures of these workers."""
        workers = [self._processes[index] for index in among]
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

    def _gather(self, tickets: Mapping[int, int]) -> tuple[dict[int, Any], dict[int, Failure]]:
        """Waits for the answers to a request of each worker.

        Args:
            tickets: By worker.

        Returns:
            The contents of the answers by worker, and the failures by worker.
        """
        contents: dict[int, Any] = {}
        failures: dict[int, Failure] = {}
        waited = dict(tickets)
        while waited:
            for worker, ticket, lanes, content in self._next_answers(waited):
                index = worker.index
                if ticket not in (-1, waited.get(index)):
                    # Of lanes that were sent, or of a request that was interrupted.
                    self._late.append((worker, ticket, lanes, content))
                    continue
                del waited[index]
                (failures if isinstance(content, Failure) else contents)[index] = content
        return contents, failures

    def _answers(self, tickets: Mapping[int, int], call: str = "") -> dict[int, Any]:
        """Returns the answers to a request of each worker.

        Raises:
            WorkerError: A worker failed, or an environment raised an error.
        """
        contents, failures = self._gather(tickets)
        for _, failure in sorted(failures.items()):
            raise error_of(failure, call)
        return contents

    def _each(self, functions: Sequence[Callable[[Any], Any]], lanes: Sequence[int] | None = None) -> list[Any]:
        """Runs one function of an environment for each lane, in its worker, and returns the results."""
        self._wait_for_all()
        chosen = list(range(self.batch_size)) if lanes is None else list(lanes)
        given = dict(zip(chosen, functions, strict=True))
        tickets: dict[int, int] = {}
        for index, part in self._parts(chosen).items():
            tickets[index] = self._ask(index, "ask", part, [given[lane] for lane in part])
        answers = self._answers(tickets)
        results = {
            lane: result
            for index, part in self._parts(chosen).items()
            for lane, result in zip(part, answers[index], strict=True)
        }
        return [results[lane] for lane in chosen]

    def _ask_lane(self, lane: int, function: Callable[[Env], Any]) -> Any:
        return self._each([function], [lane])[0]

    def _set_in_each(self, what: str, functions: Sequence[Callable[[Env], Any]]) -> list[Any]:
        """Runs one function for each lane, and again for each environment that takes the place of another."""
        results = self._each(functions)
        self._settings[what] = list(functions)
        return results

    def _parts(self, lanes: Iterable[int]) -> dict[int, list[int]]:
        parts: dict[int, list[int]] = {}
        for lane in lanes:
            parts.setdefault(self._worker_of[lane], []).append(lane)
        return parts

    # Failures.

    def _renew(self, failures: Iterable[Failure], indices: Iterable[int], call: str) -> list[int]:
        """Makes new environments after failures, and returns their lanes.

        Raises:
            WorkerError: Workers are not restarted, or the new environments cannot be made either.
        """
        renewed: list[int] = []
        for index, failure in sorted(zip(indices, failures, strict=True)):
            error, worker = error_of(failure, call), self._processes[index]
            if not self._restarts_workers:
                raise error
            if worker.failure is not None:
                lanes = worker.lanes
                worker.connection.close()
                self._processes[index] = self._new_worker(index, lanes)
                self._answers({index: 0}, call)
                for lane in lanes:
                    self._rows[ACTING].write(lane, 0)
                self._answers({index: self._ask(index, "rows", *self._opening())}, call)
            elif failure.lane is None:
                raise error
            else:
                lanes = [failure.lane]
                self._answers({index: self._ask(index, "make", lanes)}, call)
            for lane in lanes:
                self._renewed[lane] = self._renewed.get(lane, 0) + 1
                self._lost[lane] = failure.text
                self._begun[lane] = False
            for functions in self._settings.values():
                functions_of = [functions[lane] for lane in lanes]
                self._answers({index: self._ask(index, "ask", lanes, functions_of)}, call)
            renewed += lanes
        causes = {self._lost[lane].splitlines()[0] for lane in renewed}
        warnings.warn(f"{call}: lanes {renewed} have new environments: {'; '.join(sorted(causes))}", stacklevel=4)
        return renewed

    def _fresh_seed(self, lane: int) -> int:
        """Returns a seed for the first reset of an environment that has taken the place of another."""
        words = [0 if self._seeds[lane] is None else cast("int", self._seeds[lane]), lane, self._renewed[lane]]
        return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)

    # Episodes.

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        seeds, mask = lane_seeds(seed, self.batch_size), as_mask(mask, self.batch_size, "mask")
        self._wait_for_all()
        chosen: list[int] = list(range(self.batch_size)) if mask is None else np.flatnonzero(mask).tolist()
        infos: list[Info] = [{} for _ in range(self.batch_size)]
        self._check_begun([] if mask is None else np.flatnonzero(~mask).tolist(), "reset")
        self._streams = batch_streams(seed, self.batch_size) or self._streams
        for lane in chosen:
            if seeds[lane] is not None:
                self._seeds[lane] = seeds[lane]
        self._reset_lanes(chosen, seeds, options, infos, attempts=2)
        self._over[chosen] = False
        return make_batch_reset((self.observation, Infos(infos)))

    def _reset_lanes(
        self,
        lanes: Sequence[int],
        seeds: Sequence[int | None],
        options: Mapping[str, Any] | None,
        infos: list[Info],
        attempts: int,
    ) -> None:
        """Resets lanes, and writes their infos into `infos`; lanes of a worker that fails are tried again."""
        given = {
            lane: self._fresh_seed(lane) if seeds[lane] is None and lane in self._lost else seeds[lane]
            for lane in lanes
        }
        parts = self._parts(lanes)
        tickets = {
            index: self._ask(index, "reset", part, [given[lane] for lane in part], options)
            for index, part in parts.items()
        }
        contents, failures = self._gather(tickets)
        for index, content in contents.items():
            self._keep(parts[index], content)
            for lane, info in content.infos.items():
                infos[lane] = info
            for lane in parts[index]:
                self._begun[lane] = True
                self._lost.pop(lane, None)
        if failures:
            if attempts <= 1:
                raise error_of(next(iter(failures.values())), "reset")
            self._renew(failures.values(), failures, "reset")
            again = [lane for index in failures for lane in parts[index]]
            self._reset_lanes(again, seeds, options, infos, attempts - 1)

    def _keep(self, lanes: Sequence[int], content: Stepped) -> None:
        for lane, rest in zip(lanes, content.rests, strict=True):
            self._rests[lane] = rest

    def step(self, action: Any, restart: Mask | None = None) -> Step:
        return full_lanes_step(self.step_values(action, restart), self.discount_spec, self.batch_size)

    def step_values(self, action: Any, restart: Mask | None = None) -> StepFields:
        restart = as_mask(restart, self.batch_size, "restart")
        over = self._over if restart is None else self._over & ~restart
        values = self._step_some(action, list(range(self.batch_size)), restart, over)
        terminated, truncated = values[2], values[3]
        self._over = np.zeros(self.batch_size, bool) if terminated is None else terminated | truncated
        return values

    def step_lanes(self, action: Any, lanes: Mask) -> Step:
        chosen = as_mask(lanes, self.batch_size, "lanes")
        acting: list[int] = np.flatnonzero(chosen).tolist()
        for lane in np.flatnonzero(~chosen).tolist():
            self._write_end(lane, False)
        *values, infos = self._step_some(action, acting, None, self._over & chosen)
        # Infos by lane, because wrappers add entries to those of acting lanes only.
        step = full_lanes_step((*values, Infos(list(infos))), self.discount_spec, self.batch_size)
        self._over = np.where(chosen, step.terminated | step.truncated, self._over)
        return step

    def _step_some(self, action: Any, lanes: list[int], restart: Mask | None, over: Mask) -> StepFields:
        """Steps some lanes, and returns the values of all; those of the others as they are in shared memory."""
        self._check_idle("step")
        actions = self._actions(action, None)
        self._check_begun(lanes, "step")
        if np.count_nonzero(over):
            raise EpisodeError(f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")
        n, begin = self.batch_size, [False] * self.batch_size if restart is None else restart.tolist()
        for lane in [lane for lane in self._lost if begin[lane]]:
            self._set_anew(lane)
        acting = [lane for lane in lanes if lane not in self._lost]
        parts = self._parts(acting)
        tickets = {
            index: self._ask(
                index, "step", part, [begin[i] for i in part], actions and [actions[i] for i in part], False
            )
            for index, part in parts.items()
        }
        begun, self._begun = self._begun, np.zeros(n, bool)  # until all have answered: a Ctrl-C leaves steps open
        contents, failures = self._gather(tickets)
        self._begun = begun
        infos: list[Info] = [{}] * n
        ended, discounts = bool(self._lost), bool(self._lost)
        for index, content in contents.items():
            self._keep(parts[index], content)
            for lane, info in content.infos.items():
                infos[lane] = info
            ended, discounts = ended or content.ended, discounts or content.discounts
        if failures:
            self._renew(failures.values(), failures, "step")
            ended = discounts = True
        for lane in [lane for lane in self._lost if lane in set(lanes)]:
            infos[lane] = self._write_lost(lane)
        rows = self._rows
        return (
            self.observation,
            rows["reward"].read(None, [()] * n),
            rows["terminated"].read(None, ()) if ended else None,
            rows["truncated"].read(None, ()) if ended else None,
            rows["discount"].read(None, [()] * n) if discounts else None,
            Infos(infos) if any(infos) else Infos(columns={}, n=n),
        )

    def _set_anew(self, lane: int) -> None:
        """Prepares a new environment for a restart, which gives no seed."""
        self._each([partial(_seeded, seed=self._fresh_seed(lane))], [lane])
        self._begun[lane] = True
        del self._lost[lane]

    def _write_lost(self, lane: int) -> Info:
        """Writes the step that truncates a lane whose environment was lost, and returns its info."""
        self._write_end(lane, True)
        self._begun[lane] = True
        return {RESTARTED: self._lost[lane]}

    def _write_end(self, lane: int, truncated: bool) -> None:
        """Writes a step of a lane that does not act, with its latest observation."""
        rows, specs = self._rows, self._row_specs
        rows["reward"].write(lane, map_leaves(lambda leaf: np.zeros(leaf.shape, leaf.dtype), specs["reward"]))
        rows["discount"].write(lane, map_leaves(lambda leaf: np.ones(leaf.shape, leaf.dtype), specs["discount"]))
        rows["terminated"].write(lane, False)
        rows["truncated"].write(lane, truncated)

    def _actions(self, action: Any, lanes: NDArray[np.intp] | None) -> list[Any] | None:
        """Writes actions into shared memory; returns them, one per lane, if they must be sent instead."""
        n = self.batch_size if lanes is None else len(lanes)
        if self._rows["action"].fill(lanes, action):
            return None
        each = splitter(self.action_spec, n)(action)
        if len(each) != n:
            raise SpecError(f"action: expected one for each of {n} lanes, got {len(each)}")
        return list(each)

    def _check_begun(self, lanes: Sequence[int], call: str) -> None:
        if not self._begun[lanes].all():
            missing = [lane for lane in lanes if not self._begun[lane] and lane not in self._lost]
            if missing:
                raise EpisodeError(f"{call}: in lanes {missing}, {NOT_RESET}")

    # Some lanes at a time.

    def send(self, action: Any, lanes: ArrayLike, restart: Mask | None = None) -> None:
        """Sends actions to some lanes, and does not wait for them.

        Args:
            action: The actions, with leaves of shape (k, …).
            lanes: The indices of k lanes, shape (k,), which are not being stepped already.
            restart: The lanes among these that begin a new episode instead, bool of shape (k,); None for none.

        Raises:
            EpisodeError: One of the lanes has not been received since it was sent, has not been reset, or has ended and
                does not restart.
            SpecError: A lane is given twice, or does not exist.
        """
        chosen = self._indices(lanes)
        count = len(chosen)
        begin: list[bool] = [False] * count if restart is None else as_mask(restart, count, "restart").tolist()
        busy = [lane for lane in chosen.tolist() if lane in self._in_flight]
        if busy:
            raise EpisodeError(f"send: lanes {busy} have been sent; receive them first, by recv()")
        self._check_begun(chosen.tolist(), "send")
        ended = [lane for lane, new in zip(chosen.tolist(), begin, strict=True) if self._over[lane] and not new]
        if ended:
            raise EpisodeError(f"send: in lanes {ended}, the episode has ended; restart them by send(…, restart=mask)")
        actions = self._actions(action, chosen)
        place = {lane: index for index, lane in enumerate(chosen.tolist())}
        for lane in [lane for lane in place if lane in self._lost]:
            if begin[place[lane]]:
                self._set_anew(lane)
            else:
                self._in_flight[lane] = 0
                self._arrived.append((lane, None))
        for index, part in self._parts(lane for lane in place if lane not in self._in_flight).items():
            given = None if actions is None else [actions[place[lane]] for lane in part]
            ticket = self._ask(index, "step", part, [begin[place[lane]] for lane in part], given, True)
            self._in_flight.update(dict.fromkeys(part, ticket))

    def recv(self, count: int | None = None) -> LanesStep:
        """Returns the steps of lanes that are done, in the order in which they were.

        Args:
            count: The number of lanes to wait for; None for all that are done by now, at least one.

        Returns:
            `(lanes, step)`: the indices of k lanes, int of shape (k,), and their steps, with leaves of shape (k, …).

        Raises:
            EpisodeError: Fewer lanes than that have been sent.
            WorkerError: See the class.
        """
        wanted = 1 if count is None else count
        if not 1 <= wanted <= len(self._in_flight):
            raise EpisodeError(f"recv: expected 1 to {len(self._in_flight)} lanes, which have been sent, got {wanted}")
        while len(self._arrived) < wanted:
            self._receive()
        size = len(self._arrived) if count is None else count
        taken = [self._arrived.popleft() for _ in range(size)]
        lanes, rows = np.array([lane for lane, _ in taken], np.intp), self._rows
        infos: list[Info] = []
        for lane, content in taken:
            del self._in_flight[lane]
            infos.append(self._write_lost(lane) if content is None else content.infos.get(lane, {}))
            if content is not None:
                self._rests[lane] = content.rests[0]
        rests = [self._rests[lane] for lane, _ in taken]
        terminated, truncated = rows["terminated"].read(lanes, ()), rows["truncated"].read(lanes, ())
        self._over[lanes] = terminated | truncated
        values = (
            rows["observation"].read(lanes, rests),
            rows["reward"].read(lanes, [()] * size),
            terminated,
            truncated,
            rows["discount"].read(lanes, [()] * size),
            Infos(infos),
        )
        return LanesStep(lanes, full_lanes_step(values, self.discount_spec, size))

    def _receive(self) -> None:
        """Waits for one or more of the lanes that were sent."""
        done = {lane for lane, _ in self._arrived}
        working = self._parts(lane for lane in self._in_flight if lane not in done)
        late, self._late = self._late, []
        for worker, ticket, lanes, content in late or self._next_answers(working):
            if ticket != -1 and any(self._in_flight.get(lane) != ticket for lane in lanes):
                continue  # of a request that was interrupted
            if not isinstance(content, Failure):
                self._arrived += [(lane, content) for lane in lanes]
                continue
            done = {lane for lane, _ in self._arrived}
            mine = [lane for lane in lanes if lane in self._in_flight and lane not in done]
            if not self._restarts_workers:
                for lane in mine:
                    del self._in_flight[lane]
                    self._begun[lane] = False
            self._renew([content], [worker.index], "recv")
            # Requests to a process that has ended are lost with it.
            self._arrived += [(lane, None) for lane in mine]

    def _indices(self, lanes: ArrayLike) -> NDArray[np.intp]:
        found = np.asarray(lanes)
        if found.dtype == bool or found.dtype.kind not in "iu" or found.ndim != 1 or not len(found):
            raise SpecError(f"lanes: expected indices of lanes, at least one, got {lanes!r}")
        wrong = [lane for lane in found.tolist() if not 0 <= lane < self.batch_size]
        if wrong or len(set(found.tolist())) < len(found):
            raise SpecError(f"lanes: expected different indices below {self.batch_size}, got {found.tolist()}")
        return found.astype(np.intp)

    def _check_idle(self, call: str) -> None:
        if self._finish.alive and self._in_flight:
            lanes = sorted(self._in_flight)
            raise EpisodeError(f"{call}: lanes {lanes} have been sent; receive them first, by recv()")

    def _wait_for_all(self) -> None:
        """Receives all lanes that were sent, and drops their steps."""
        if self._finish.alive and self._in_flight:
            self.recv(len(self._in_flight))

    # Everything else.

    @property
    def observation(self) -> Any:
        if not self._begun.all() and not self._lost:
            raise EpisodeError(f"observation: {NOT_RESET}")
        return self._rows["observation"].read(None, self._rests)

    @property
    def state(self) -> tuple[Any, ...]:
        """A copy of the state of each lane."""
        return tuple(self._each([partial(_get, name="state")] * self.batch_size))

    @property
    def rewarder(self) -> Rewarder:
        """A copy of the rewarder of the lanes; can be set for all of them."""
        return self.envs[0].rewarder

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self._set_in_each("rewarder", [partial(_set, name="rewarder", value=rewarder)] * self.batch_size)
        self.reward_spec = self.envs[0].reward_spec
        self._open_memory_again()

    def _open_memory_again(self) -> None:
        """Opens memory for another reward spec, with the observations of the old one."""
        if not self._begun.any():
            self._open_memory()
            return
        before = self.observation
        self._open_memory()
        split = splitter(self.observation_spec, self.batch_size)(before)
        for lane, value in enumerate(split):
            self._rows["observation"].write(lane, value)

    def assign_lane(self, number: int) -> None:
        functions = [methodcaller("assign_lane", number + lane) for lane in range(self.batch_size)]
        self._set_in_each("lane", cast("Any", functions))

    @property
    def context(self) -> dict[str, list[Any]]:
        """The contexts of the coming episodes, see `Lanes.context`."""
        lanes = self._each([partial(_get, name="context")] * self.batch_size)
        return {name: [context[name] for context in lanes] for name in lanes[0]}

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        Lanes.context.__set__(self, context)  # lane by lane, so that a refused value leaves all as they were
        self._note_contexts()

    def put_context(self, context: Mapping[str, Any], lanes: Sequence[int]) -> None:
        super().put_context(context, lanes)
        self._note_contexts()

    def _note_contexts(self) -> None:
        held = self._each([partial(_get, name="context")] * self.batch_size)
        self._settings["context"] = [partial(_set, name="context", value=one) for one in held]

    def snapshot(self) -> Snapshot:
        lanes = self._each([cast("Any", methodcaller("snapshot"))] * self.batch_size)
        return Snapshot(type(self), (lanes, self._over.copy(), self._begun.copy(), self.streams.copy()))

    def restore(self, snapshot: Snapshot) -> None:
        lanes, over, begun, streams = self._content(snapshot)
        if len(lanes) != self.batch_size:
            raise SnapshotUnsupported(f"restore: expected a snapshot of {self.batch_size} lanes, got {len(lanes)}")
        self._each([cast("Any", methodcaller("restore", held)) for held in lanes])
        self._over, self._begun, self._streams = over.copy(), begun.copy(), streams.copy()
        self._lost.clear()
        shown: list[int] = np.flatnonzero(begun).tolist()
        for lane, value in zip(shown, self._each([partial(_get, name="observation")] * len(shown), shown), strict=True):
            self._rests[lane] = self._rows["observation"].write(lane, value)

    def __getstate__(self) -> dict[str, Any]:
        raise SnapshotUnsupported(f"{self!r}: cannot be copied, because its lanes are in other processes")

    def __repr__(self) -> str:
        return f"WorkerLanes(n={self.batch_size}, workers={self.workers})"


# Functions that `_each` sends by their names.


def _get(env: Env, name: str) -> Any:
    return getattr(env, name)


def _set(env: Env, name: str, value: Any) -> None:
    setattr(env, name, value)


def _seeded(env: Env, seed: int) -> None:
    env.reset(seed=seed)


_FACTS = (
    *("observation_spec", "action_spec", "reward_spec", "discount_spec", "state_spec", "metadata", "render_mode"),
)


def _facts(env: Env) -> dict[str, Any]:
    return {name: getattr(env, name) for name in _FACTS}
