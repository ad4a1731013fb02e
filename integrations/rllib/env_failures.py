"""Failures of envs: their records in Ray's key-value store, and the watch that ends an algorithm.

RLlib hides an exception of an env that runs in another process: the runner logs it there and dies, and the algorithm
sees an `ActorDiedError` or a result without episodes. The store outlives the process, needs no folder that nodes share,
and costs no process of its own, unlike a named actor. Keys begin with the job, so that the records of a job that was
killed mean nothing to the next.

RLlib may also restart a runner again and again, or wait for one that hangs. So a thread of the algorithm's process
looks for records. It cannot raise an error in the algorithm's thread; it ends the env runners, for which the algorithm
waits, and then the algorithm's own public methods raise it.
"""

from __future__ import annotations

import json
import multiprocessing
import threading
import traceback
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial, wraps
from itertools import pairwise
from typing import Any, Self

import ray
from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_initialized,
    _internal_kv_put,
)

import envoi

from ..errors import EnvFailure, describe


@dataclass(frozen=True)
class Failure:
    """A failure of an env, which can be sent between processes as JSON."""

    message: str
    traceback: str = ""

    @classmethod
    def of(cls, error: BaseException, where: str) -> Self:
        """Describes an error."""
        return cls(f"{describe(_without_step(error))}; {where}", "".join(traceback.format_exception(error)))

    def error(self) -> EnvFailure:
        """Returns the failure as an error."""
        text = self.traceback.rstrip()
        return EnvFailure(f"{self.message}\n\nTraceback of the env:\n{text}" if text else self.message)


def _without_step(error: BaseException) -> BaseException:
    """Returns an error without the step that `Validated` has added, because the guard adds a more precise place."""
    cause = error.__cause__
    is_same = isinstance(cause, envoi.SpecError) and str(error).startswith(f"{cause} (at ")
    return cause if is_same and cause is not None else error


def own_actor() -> str | None:
    """Returns the ID of the Ray actor that runs in this process; None outside of actors, or without Ray."""
    if multiprocessing.parent_process() is not None or not ray.is_initialized():
        return None  # a process of gymnasium's AsyncVectorEnv has a copy of Ray's connection, which it cannot use
    return ray.get_runtime_context().get_actor_id()


def record_of(actor: str) -> dict[str, Any]:
    """Returns what an actor has noted.

    `failure` stops the training, `starts` are the times at which the actor's process has started, and `last_end` is the
    failure that ended the process before.
    """
    held = _internal_kv_get(_key(actor), namespace="envoi") if _internal_kv_initialized() else None
    return {} if held is None else json.loads(held)


def note(actor: str, **values: Any) -> None:
    """Adds to the record of an actor."""
    _internal_kv_put(_key(actor), json.dumps(record_of(actor) | values), namespace="envoi")


def _key(actor: str) -> str:
    return f"{ray.get_runtime_context().get_job_id()}/{actor}"


# In the process of the algorithm.

PERIOD = 0.5
CALM_SECONDS = 600.0
"""A worker that has run for so long since its last restart counts its restarts from 0 again."""
_PATIENCE = 30.0  # seconds, for env runners to name themselves
_SILENT_END = (
    "without an error of Python, as by os._exit, a crash, lack of memory, or native code that hangs, whose stack is in "
    "the log of the process"
)


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
        held = {name: record_of(actor) for actor, (name, _) in self._runners.items()}
        found = next((record["failure"] for record in held.values() if "failure" in record), None)
        self.failure = Failure(**found) if found else self._too_many_restarts(held)
        if self.failure is not None:
            for _, actor in self._runners.values():
                ray.kill(actor)

    def check(self) -> None:
        """Raises the error of an env that has failed."""
        if self.failure is not None:
            raise self.failure.error()

    def _too_many_restarts(self, held: Mapping[str, Mapping[str, Any]]) -> Failure | None:
        for name, record in held.items():
            restarts = in_a_row(record.get("starts", [])) - 1
            if restarts > self._most_restarts:
                last = record.get("last_end", {"message": _SILENT_END, "traceback": ""})
                message = (
                    f"the process of {name} ended {restarts} times in a row while it stepped env {self._env!r}; "
                    f"max_env_restarts={self._most_restarts}; the last time: {last['message']}"
                )
                return Failure(message, last["traceback"])
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
            for actor in self._runners if _internal_kv_initialized() else ():
                _internal_kv_del(_key(actor), namespace="envoi")


def _watch(watch: weakref.ref[DriverWatch], algorithm: weakref.ref[Any]) -> None:
    """Polls while the algorithm and its watch exist; holds only weak references, so that both can be deleted."""
    while algorithm() is not None and (present := watch()) is not None and ray.is_initialized():
        if present.stopped.is_set() or present.failure is not None:
            return
        present.poll()
        present.stopped.wait(PERIOD)
        del present


def in_a_row(times: list[float]) -> int:
    """Counts the most recent events that are less than `CALM_SECONDS` apart."""
    pauses = [index for index, (one, two) in enumerate(pairwise(times), 1) if two - one > CALM_SECONDS]
    return len(times) - max(pauses, default=0)


def _remote_runners(algorithm: Any) -> dict[str, tuple[str, Any]]:
    """Returns labels and handles of the remote env runners of an algorithm, by the ID of their actor."""
    found: dict[str, tuple[str, Any]] = {}
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
