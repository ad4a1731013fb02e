"""Lanes in workers that step by themselves: sent, and received when they are done."""

from __future__ import annotations

from collections import deque
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from ...errors import EpisodeError, SpecError
from ...protocol.batch_env import LanesStep, Mask, as_mask, full_lanes_step
from ...protocol.infos import Infos
from ...protocol.process import Info
from ...spec import SpecTree
from .pool import WorkerPool
from .process import Failure, Stepped
from .recovery import Recovery
from .values import LaneValues


class Sending:
    """The lanes of a batch that were sent and not received yet.

    Args:
        pool: The processes.
        values: The values of the lanes.
        recovery: Makes new environments after failures.
        over: The mask of lanes that have ended, of the batch, which this changes.
        begun: The mask of lanes that were reset, as well.
    """

    def __init__(self, pool: WorkerPool, values: LaneValues, recovery: Recovery, over: Mask, begun: Mask) -> None:
        self._pool, self._values, self._recovery = pool, values, recovery
        self._over, self._begun = over, begun
        self._in_flight: dict[int, int] = {}  # lanes that were sent, and the tickets of their requests
        self._arrived: deque[tuple[int, Stepped | None]] = deque()

    def send(self, spec: SpecTree, action: Any, chosen: NDArray[np.intp], restart: Mask | None) -> None:
        """Sends actions to lanes that were reset.

        Args:
            spec: The spec of one lane's action.
            action: The actions, with leaves of shape (k, …).
            chosen: The indices of the k lanes, see `indices_of`.
            restart: The lanes among these that begin a new episode instead; None for none.

        Raises:
            EpisodeError: One of the lanes was sent already, or has ended and does not restart.
            SpecError: The actions, or the mask, are not one for each of these lanes.
        """
        count, lanes, lost = len(chosen), chosen.tolist(), self._recovery.lost
        begin: list[bool] = [False] * count if restart is None else as_mask(restart, count, "restart").tolist()
        ended = [lane for lane, new in zip(lanes, begin, strict=True) if self._over[lane] and not new]
        if ended:
            raise EpisodeError(f"send: in lanes {ended}, the episode has ended; restart them by send(…, restart=mask)")
        actions = self._values.write_actions(spec, action, chosen)
        place = {lane: index for index, lane in enumerate(lanes)}
        for lane in [lane for lane in place if lane in lost]:
            if begin[place[lane]]:
                self._recovery.begin(lane)
            else:
                self._in_flight[lane] = 0
                self._arrived.append((lane, None))
        for index, part in self._pool.parts(lane for lane in place if lane not in self._in_flight).items():
            given = None if actions is None else [actions[place[lane]] for lane in part]
            ticket = self._pool.ask(index, "step", part, [begin[place[lane]] for lane in part], given, True)
            self._in_flight.update(dict.fromkeys(part, ticket))

    def recv(self, count: int | None = None) -> LanesStep:
        """Waits for lanes that are done.

        Args:
            count: The number of lanes to wait for; None for all that are done by now, at least one.

        Returns:
            The indices of k lanes, in the order in which they were done, and their steps, with leaves of shape (k, …).

        Raises:
            EpisodeError: Fewer lanes than that have been sent.
            WorkerError: See `WorkerLanes`.
        """
        wanted = 1 if count is None else count
        if not 1 <= wanted <= len(self._in_flight):
            raise EpisodeError(f"recv: expected 1 to {len(self._in_flight)} lanes, which have been sent, got {wanted}")
        while len(self._arrived) < wanted:
            self._receive()
        size = len(self._arrived) if count is None else count
        taken = [self._arrived.popleft() for _ in range(size)]
        infos: list[Info] = []
        for lane, content in taken:
            del self._in_flight[lane]
            infos.append(self._recovery.write_lost(lane) if content is None else content.infos.get(lane, {}))
            if content is not None:
                self._values.keep([lane], content)
        lanes, numbers = np.array([lane for lane, _ in taken], np.intp), self._values.numbers
        terminated, truncated = numbers("terminated", lanes), numbers("truncated", lanes)
        self._over[lanes] = terminated | truncated
        observation, reward = self._values.observations(lanes), numbers("reward", lanes)
        values = (observation, reward, terminated, truncated, numbers("discount", lanes), Infos(infos))
        return LanesStep(lanes, full_lanes_step(values, self._pool.specs["discount"], size))

    def _receive(self) -> None:
        """Waits for one or more of the lanes that were sent."""
        waiting = self._pool.late
        if not waiting:
            done = {lane for lane, _ in self._arrived}
            waiting += self._pool.next_answers(self._pool.parts(lane for lane in self._in_flight if lane not in done))
        while waiting:  # one by one, so that the others are still there after an error
            worker, ticket, lanes, content = waiting.pop(0)
            if ticket != -1 and any(self._in_flight.get(lane) != ticket for lane in lanes):
                continue  # of a request that was interrupted
            if not isinstance(content, Failure):
                self._arrived += [(lane, content) for lane in lanes]
                continue
            done = {lane for lane, _ in self._arrived}
            mine = [lane for lane in lanes if lane in self._in_flight and lane not in done]
            if not self._recovery.restarts:
                for lane in mine:
                    del self._in_flight[lane]
                    self._begun[lane] = False
            self._recovery.renew({worker.index: content}, "recv")
            # Requests to a process that has ended are lost with it.
            self._arrived += [(lane, None) for lane in mine]

    def check_free(self, lanes: list[int]) -> None:
        """Checks that lanes can be sent.

        Raises:
            EpisodeError: One has not been received since it was sent.
        """
        busy = [lane for lane in lanes if lane in self._in_flight]
        if busy:
            raise EpisodeError(f"send: lanes {busy} have been sent; receive them first, by recv()")

    def check_idle(self, call: str) -> None:
        """Checks that all lanes were received.

        Args:
            call: What the batch is asked for, for the message.

        Raises:
            EpisodeError: Some were not.
        """
        if self._pool.is_open and self._in_flight:
            lanes = sorted(self._in_flight)
            raise EpisodeError(f"{call}: lanes {lanes} have been sent; receive them first, by recv()")

    def finish(self) -> None:
        """Receives all lanes that were sent, and drops their steps."""
        if self._pool.is_open and self._in_flight:
            self.recv(len(self._in_flight))


def indices_of(lanes: ArrayLike, n: int) -> NDArray[np.intp]:
    """Returns lanes as indices.

    Args:
        lanes: Their indices.
        n: The number of lanes in the batch.

    Raises:
        SpecError: These are no indices, a lane is given twice, or it does not exist.
    """
    found = np.asarray(lanes)
    if found.dtype == bool or found.dtype.kind not in "iu" or found.ndim != 1 or not len(found):
        raise SpecError(f"lanes: expected indices of lanes, at least one, got {lanes!r}")
    wrong = [lane for lane in found.tolist() if not 0 <= lane < n]
    if wrong or len(set(found.tolist())) < len(found):
        raise SpecError(f"lanes: expected different indices below {n}, got {found.tolist()}")
    return found.astype(np.intp)
