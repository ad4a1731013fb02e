"""The env runner around guarded envs: its restarts, and its reports to the process of the algorithm."""

from __future__ import annotations

import logging
import os
import time
from pathlib import Path
from typing import Any

from ..env_options import EnvOptions
from ..failure_file import write_failure
from . import shared_records
from .failure import Failure

CALM_SECONDS = 600.0
"""A worker that has run for so long since its last restart counts its restarts from 0 again."""

logger = logging.getLogger("envoi")


def in_a_row(times: list[float]) -> int:
    """Returns the number of the last of some events, in seconds, with no pause of `CALM_SECONDS` between them."""
    count = 0
    for index in range(len(times) - 1, -1, -1):
        count += 1
        if index and times[index] - times[index - 1] > CALM_SECONDS:
            break
    return count


class RunnerProcess:
    """The state of an env runner that its envs share, and that outlives them when they are made again.

    Args:
        env_runner: RLlib's env runner; None for envs outside of one, or without the callbacks of `configure`.

    Attributes:
        worker: The index of the env runner; 0 is in the process of the algorithm.
        in_evaluation: True if it evaluates.
    """

    def __init__(self, env_runner: Any = None) -> None:
        self._env_runner = env_runner
        self._restarts: list[float] = []
        self.worker = int(getattr(env_runner, "worker_index", 0) or 0)
        self.in_evaluation = bool(getattr(getattr(env_runner, "config", None), "in_evaluation", False))
        self.actor = shared_records.own_actor()

    def __reduce__(self) -> tuple[type[RunnerProcess], tuple[()]]:
        return RunnerProcess, ()  # a copy of an env is in no env runner yet

    @property
    def is_remote(self) -> bool:
        """True if the process has no other task than to step envs."""
        return self.worker > 0 and self.actor is not None

    def __str__(self) -> str:
        return f"{'evaluation ' if self.in_evaluation else ''}worker {self.worker}"

    def may_restart(self, options: EnvOptions, failure: Failure) -> bool:
        """Returns True if RLlib shall make the envs again, and counts it.

        Args:
            options: The options of the env.
            failure: The failure, for the log.
        """
        if options.on_env_error != "restart":
            return False
        now = time.monotonic()
        if self._restarts and now - self._restarts[-1] > CALM_SECONDS:
            self._restarts.clear()
        if len(self._restarts) >= options.max_env_restarts:
            if self._env_runner is not None:  # which makes the envs again otherwise, for ever
                self._env_runner.config.restart_failed_sub_environments = False
            return False
        self._restarts.append(now)
        logger.warning(
            "%s; its worker's envs are made again (%d of %d)",
            failure.message,
            len(self._restarts),
            options.max_env_restarts,
        )
        return True

    def report(self, failure: Failure, file: Path | None) -> None:
        """Leaves a failure for the process of the algorithm.

        Args:
            failure: The failure.
            file: A file to write it to as well; None for no file.
        """
        if file is not None:
            write_failure(file, failure.message, failure.traceback)
        if self.actor is not None:
            shared_records.put(shared_records.FAILURE, failure.to_dict(), self.actor)

    def report_slow(self, message: str | None) -> None:
        """Leaves a note that a call takes long, or removes it.

        Args:
            message: The note; None to remove it.
        """
        if self.actor is None:
            return
        if message is None:
            shared_records.remove(shared_records.SLOW, self.actor)
        else:
            shared_records.put(shared_records.SLOW, message, self.actor)

    def end(self, failure: Failure) -> None:
        """Ends the process of a remote env runner at once, so that Ray starts it again.

        Args:
            failure: The reason, which the algorithm raises if this happens too often.
        """
        if self.actor is not None:
            shared_records.put(shared_records.LAST_END, failure.to_dict(), self.actor)
        logger.error("%s; the process is ended", failure.message)
        os._exit(1)


_noted_start = False


def note_start() -> None:
    """Notes the start of this process, once, if it is that of a Ray actor; before it makes its first env."""
    global _noted_start
    if _noted_start or (actor := shared_records.own_actor()) is None:
        return
    _noted_start = True
    times = shared_records.get(shared_records.STARTS, actor) or []
    shared_records.put(shared_records.STARTS, [*times, time.time()], actor)
