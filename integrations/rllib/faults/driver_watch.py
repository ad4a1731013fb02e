"""Stops an algorithm whose env has failed, in whichever process, with the env's own error.

RLlib does not tell an algorithm why an env runner died, nor that it is restarted again and again. It may also wait for
other runners, or for one that hangs. So a thread looks for the records that env runners leave. It cannot raise an error
in the algorithm's thread; it ends the env runners, for which the algorithm waits, and then the algorithm's own public
methods raise it.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import ray

from ...errors import EnvFailure
from . import failure as records
from .failure import Failure
from .guard import in_a_row

PERIOD = 0.5
_PATIENCE = 30.0  # seconds, for env runners to name themselves
_SILENT_END = (
    "without an error of Python, as by os._exit, a crash, lack of memory, or native code that hangs, whose stack is in "
    "the log of the process"
)

Runner = tuple[str, Any]
"""The label of a remote env runner, and the handle of its actor."""


class DriverWatch:
    """Watches the env runners of an algorithm, in the algorithm's process."""

    def __init__(self, algorithm: Any, most_restarts: int) -> None:
        self.failure: Failure | None = None
        self._env, self._most_restarts = algorithm.config.env, most_restarts
        self._runners = _remote_runners(algorithm)
        self.stopped = threading.Event()
        for name in ("training_step", "evaluate"):
            setattr(algorithm, name, self._checking(getattr(algorithm, name)))
        algorithm.cleanup = partial(self._cleanup, algorithm.cleanup)
        if self._runners:
            self_reference, alive = weakref.ref(self), weakref.ref(algorithm)
            threading.Thread(target=_watch, args=(self_reference, alive), name="envoi-watch", daemon=True).start()

    def poll(self) -> None:
        """Looks for records of a failure, and ends the env runners if there is one."""
        if self.failure is not None or not self._runners:
            return
        found = next(iter(records.left_by(records.FAILURE, self._runners).values()), None)
        self.failure = Failure(**found) if found else self._too_many_restarts()
        if self.failure is not None:
            for _, actor in self._runners.values():
                ray.kill(actor)

    def check(self) -> None:
        """Raises the error of an env that has failed."""
        if self.failure is not None:
            raise self.failure.error()

    def _too_many_restarts(self) -> Failure | None:
        for actor, times in records.left_by(records.STARTS, self._runners).items():
            restarts = in_a_row(times) - 1
            if restarts > self._most_restarts:
                last = records.get(records.LAST_END, actor)
                why = last["message"] if last else _SILENT_END
                message = (
                    f"the process of {self._runners[actor][0]} ended {restarts} times in a row while it stepped env "
                    f"{self._env!r}; max_env_restarts={self._most_restarts}; the last time: {why}"
                )
                return Failure(message, last["traceback"] if last else "")
        return None

    def _checking(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def checked(*args: Any, **kwargs: Any) -> Any:
            self.check()
            try:
                result = method(*args, **kwargs)
            except Exception as error:
                self.poll()
                self.check()
                if (failure := failure_in(error)) is not None:
                    raise failure from None
                raise
            self.check()
            return result

        return checked

    def _cleanup(self, cleanup: Callable[[], None]) -> None:
        self.stopped.set()
        try:
            cleanup()
        finally:
            for actor in self._runners:
                records.remove(actor)


def _watch(watch: weakref.ref[DriverWatch], algorithm: weakref.ref[Any]) -> None:
    """Polls while the algorithm and its watch exist; holds only weak references, so that both can be deleted."""
    while algorithm() is not None and (present := watch()) is not None and ray.is_initialized():
        if present.stopped.is_set() or present.failure is not None:
            return
        present.poll()
        present.stopped.wait(PERIOD)
        del present


def _remote_runners(algorithm: Any) -> dict[str, Runner]:
    """Returns the remote env runners of an algorithm, for training and evaluation, by the ID of their actor."""
    found: dict[str, Runner] = {}
    for group, kind in ((algorithm.env_runner_group, ""), (algorithm.eval_env_runner_group, "evaluation ")):
        if group is None or not group.num_remote_env_runners():
            continue
        for index, actor, handle in group.foreach_env_runner(
            _name_runner, local_env_runner=False, timeout_seconds=_PATIENCE
        ):
            found[actor] = f"{kind}worker {index}", handle
    return found


def _name_runner(runner: Any) -> tuple[int, str, Any]:
    context = ray.get_runtime_context()
    return runner.worker_index, str(context.get_actor_id()), context.current_actor


def failure_in(error: BaseException | None) -> EnvFailure | None:
    """Returns the env's failure that caused an error, or None if the error has another cause."""
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        if isinstance(error, EnvFailure):
            return EnvFailure(str(error))  # `error` itself is in the chain of what is raised around it
        failure = getattr(error, "envoi_failure", None)
        if failure is not None:
            return failure.error()
        error = error.__cause__ or error.__context__
    return None
