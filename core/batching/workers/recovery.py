"""New environments in the place of those that failed in a worker."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from ...protocol.batch_env import Mask
from ...protocol.env import Env
from ...protocol.process import Info
from .handle import error_of
from .pool import WorkerPool
from .process import Failure
from .rows import ACTING
from .values import LaneValues

RESTARTED = "worker_restarted"
"""Key in the info of a lane that was truncated because its worker failed and was started again; the cause as text."""


class Recovery:
    """Makes new environments after failures, and gives them what the old ones had been given.

    Args:
        pool: The processes.
        values: The values of the lanes.
        begun: The mask of lanes that were reset, of the batch, which this changes.
        restarts: False to raise the error of a failure instead.

    Attributes:
        restarts: As above.
        lost: Lanes whose episode a failure ended, and why.
    """

    def __init__(self, pool: WorkerPool, values: LaneValues, begun: Mask, restarts: bool) -> None:
        self._pool, self._values, self._begun, self.restarts = pool, values, begun, restarts
        self.lost: dict[int, str] = {}
        self._counts: dict[int, int] = {}  # lanes with a new environment, and how many they have had
        self._seeds: dict[int, int] = {}
        self._settings: dict[str, Sequence[Callable[[Env], Any]]] = {}

    def note_setting(self, what: str, functions: Sequence[Callable[[Env], Any]]) -> None:
        """Notes what a new environment must be given.

        Args:
            what: The name of the setting; a later one of that name replaces it.
            functions: A function for each lane of the batch.
        """
        self._settings[what] = list(functions)

    def note_seeds(self, lanes: Sequence[int], seeds: Sequence[int | None]) -> None:
        """Notes the seeds of a reset, from which those of new environments are derived.

        Args:
            lanes: The lanes that are reset.
            seeds: The seed of each lane of the batch, or None.
        """
        for lane in lanes:
            seed = seeds[lane]
            if seed is not None:
                self._seeds[lane] = seed

    def seed_of(self, lane: int) -> int:
        """Returns a seed for the first reset of an environment that has taken the place of another."""
        words = [self._seeds.get(lane, 0), lane, self._counts[lane]]
        return int(np.random.SeedSequence(words).generate_state(1)[0] >> 1)

    def begin(self, lane: int) -> None:
        """Prepares a new environment for a restart, which gives no seed."""
        self._pool.each([partial(_seeded, seed=self.seed_of(lane))], [lane])
        self._begun[lane] = True
        del self.lost[lane]

    def write_lost(self, lane: int) -> Info:
        """Writes the step that truncates a lane whose environment was lost.

        Returns:
            The info of the step.
        """
        self._values.write_end(lane, True)
        self._begun[lane] = True
        return {RESTARTED: self.lost[lane]}

    def renew(self, failures: Mapping[int, Failure], call: str) -> None:
        """Makes new environments after failures, whose lanes are lost then.

        Args:
            failures: By the number of the process.
            call: What the batch was asked for, for messages.

        Raises:
            WorkerError: Workers are not restarted, or the new environments cannot be made either.
        """
        renewed: list[int] = []
        for index, failure in sorted(failures.items()):
            lanes = self._renew_one(index, failure, call)
            for lane in lanes:
                self._counts[lane] = self._counts.get(lane, 0) + 1
                self.lost[lane] = failure.text
                self._begun[lane] = False
            for functions in self._settings.values():
                self._pool.each([functions[lane] for lane in lanes], lanes, call)
            renewed += lanes
        causes = {self.lost[lane].splitlines()[0] for lane in renewed}
        warnings.warn(f"{call}: lanes {renewed} have new environments: {'; '.join(sorted(causes))}", stacklevel=4)

    def _renew_one(self, index: int, failure: Failure, call: str) -> list[int]:
        """Makes the environments of a process, or the one that failed, again, and returns their lanes."""
        error, worker = error_of(failure, call), self._pool.workers[index]
        if not self.restarts or (worker.failure is None and failure.lane is None):
            raise error
        if worker.failure is None:
            lanes = [failure.lane] if failure.lane is not None else []
            self._pool.answers({index: self._pool.ask(index, "make", lanes)}, call)
            return lanes
        self._pool.replace(index, call)
        for lane in worker.lanes:
            self._pool.rows[ACTING].write(lane, 0)
        return worker.lanes


def _seeded(env: Env, seed: int) -> None:
    env.reset(seed=seed)
