"""`WorkerLanes`, a batch whose lanes run in several processes.

    batch = envoi.batch(make_env, 64, workers=4)

    step = batch.step(actions)                        all lanes; waits for all of them

    batch.send(actions, lanes)                        some lanes; waits for none
    lanes, step = batch.recv(16)                      the first 16 lanes that are done

The first form is that of every batch, and has the same traces as a loop over the lanes. In the second, no lane waits
for a slower one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from ...errors import EpisodeError, SpecError
from ...protocol.batch_env import BatchEnv, LanesStep, Mask, as_mask, full_lanes_step, make_batch_reset
from ...protocol.env import ENDED_LANES, Env, Reset, Step
from ...protocol.infos import Infos
from ...protocol.process import Info
from ...seeding import batch_streams, lane_seeds
from .handle import error_of
from .pool import WorkerPool
from .recovery import Recovery
from .remote_lane import RemoteLane
from .remote_lanes import RemoteLanes
from .sending import Sending, indices_of
from .values import LaneValues

StepFields = tuple[Any, Any, Any, Any, Any, Infos]


class WorkerLanes(RemoteLanes):
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
        self._settings = {"workers": workers, "timeout": timeout, "restart": restart, "start_method": start_method}
        # Both masks are shared with `Recovery` and `Sending`, and change in place.
        self._over: Mask = np.zeros(n, bool)
        self._begun: Mask = np.zeros(n, bool)
        self._pool = WorkerPool(source, n, self.workers, timeout, start_method)
        self._values = LaneValues(self._pool, n)
        self._recovery = Recovery(self._pool, self._values, self._begun, restart)
        self._sending = Sending(self._pool, self._values, self._recovery, self._over, self._begun)
        self.envs: Any = tuple(RemoteLane(self._ask_lane, lane) for lane in range(n))
        try:
            self._pool.start()
            self._describe()
        except BaseException:
            self.close()
            raise

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments after `source` and `n` that make an equal batch."""
        return dict(self._settings)

    # Episodes.

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: Mapping[str, Any] | None = None,
        mask: Mask | None = None,
    ) -> Reset:
        seeds, mask = lane_seeds(seed, self.batch_size), as_mask(mask, self.batch_size, "mask")
        self._sending.finish()
        chosen: list[int] = list(range(self.batch_size)) if mask is None else np.flatnonzero(mask).tolist()
        infos: list[Info] = [{} for _ in range(self.batch_size)]
        self._check_begun([] if mask is None else np.flatnonzero(~mask).tolist(), "reset")
        self._streams = batch_streams(seed, self.batch_size) or self._streams
        self._recovery.note_seeds(chosen, seeds)
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
        pool, recovery = self._pool, self._recovery
        given = {
            lane: recovery.seed_of(lane) if seeds[lane] is None and lane in recovery.lost else seeds[lane]
            for lane in lanes
        }
        parts = pool.parts(lanes)
        tickets = {
            index: pool.ask(index, "reset", part, [given[lane] for lane in part], options)
            for index, part in parts.items()
        }
        contents, failures = pool.gather(tickets)
        for index, content in contents.items():
            self._values.keep(parts[index], content)
            for lane, info in content.infos.items():
                infos[lane] = info
            for lane in parts[index]:
                self._begun[lane] = True
                recovery.lost.pop(lane, None)
        if failures:
            if attempts <= 1:
                raise error_of(next(iter(failures.values())), "reset")
            recovery.renew(failures, "reset")
            again = [lane for index in failures for lane in parts[index]]
            self._reset_lanes(again, seeds, options, infos, attempts - 1)

    def step(self, action: Any, restart: Mask | None = None) -> Step:
        return full_lanes_step(self.step_values(action, restart), self.discount_spec, self.batch_size)

    def step_values(self, action: Any, restart: Mask | None = None) -> StepFields:
        restart = as_mask(restart, self.batch_size, "restart")
        over = self._over if restart is None else self._over & ~restart
        values = self._step_some(action, list(range(self.batch_size)), restart, over)
        terminated, truncated = values[2], values[3]
        self._over[:] = False if terminated is None else terminated | truncated
        return values

    def step_lanes(self, action: Any, lanes: Mask) -> Step:
        chosen = as_mask(lanes, self.batch_size, "lanes")
        acting: list[int] = np.flatnonzero(chosen).tolist()
        for lane in np.flatnonzero(~chosen).tolist():
            self._values.write_end(lane, False)
        *values, infos = self._step_some(action, acting, None, self._over & chosen)
        # Infos by lane, because wrappers add entries to those of acting lanes only.
        step = full_lanes_step((*values, Infos(list(infos))), self.discount_spec, self.batch_size)
        self._over[:] = np.where(chosen, step.terminated | step.truncated, self._over)
        return step

    def _step_some(self, action: Any, lanes: list[int], restart: Mask | None, over: Mask) -> StepFields:
        """Steps some lanes, and returns the values of all; those of the others as they are in shared memory."""
        pool, lost, n = self._pool, self._recovery.lost, self.batch_size
        self._sending.check_idle("step")
        actions = self._values.write_actions(self.action_spec, action)
        self._check_begun(lanes, "step")
        if np.count_nonzero(over):
            raise EpisodeError(f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")
        begin = [False] * n if restart is None else restart.tolist()
        for lane in [lane for lane in lost if begin[lane]]:
            self._recovery.begin(lane)
        parts = pool.parts(lane for lane in lanes if lane not in lost)
        tickets = {
            index: pool.ask(
                index, "step", part, [begin[i] for i in part], actions and [actions[i] for i in part], False
            )
            for index, part in parts.items()
        }
        begun = self._begun.copy()
        self._begun[:] = False  # until all have answered: a Ctrl-C leaves steps open
        contents, failures = pool.gather(tickets)
        self._begun[:] = begun
        infos: list[Info] = [{}] * n
        ended, discounts = bool(lost), bool(lost)
        for index, content in contents.items():
            self._values.keep(parts[index], content)
            for lane, info in content.infos.items():
                infos[lane] = info
            ended, discounts = ended or content.ended, discounts or content.discounts
        if failures:
            self._recovery.renew(failures, "step")
            ended = discounts = True
        for lane in [lane for lane in lost if lane in set(lanes)]:
            infos[lane] = self._recovery.write_lost(lane)
        numbers = self._values.numbers
        return (
            self.observation,
            numbers("reward"),
            numbers("terminated") if ended else None,
            numbers("truncated") if ended else None,
            numbers("discount") if discounts else None,
            Infos(infos) if any(infos) else Infos(columns={}, n=n),
        )

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
        chosen = indices_of(lanes, self.batch_size)
        self._sending.check_free(chosen.tolist())
        self._check_begun(chosen.tolist(), "send")
        self._sending.send(self.action_spec, action, chosen, restart)

    def recv(self, count: int | None = None) -> LanesStep:
        """Returns the steps of lanes that are done, in the order in which they were.

        Args:
            count: The number of lanes to wait for; None for all that are done by now, at least one.

        Returns:
            A pair `(lanes, step)` of the indices of k lanes, int of shape (k,), and their steps, with leaves of shape
            (k, …).

        Raises:
            EpisodeError: Fewer lanes than that have been sent.
            WorkerError: See the class.
        """
        return self._sending.recv(count)
