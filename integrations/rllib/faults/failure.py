"""Failures of envs: their description, a job's failure file, and their records in Ray's key-value store.

RLlib hides an exception of an env that runs in another process: the runner logs it there and dies, and the algorithm
sees an `ActorDiedError` or a result without episodes. The store outlives the process, needs no folder that nodes share,
and costs no process of its own, unlike a named actor. Keys begin with the job, so that the records of a job that was
killed mean nothing to the next.
"""

from __future__ import annotations

import json
import multiprocessing
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import ray
from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_initialized,
    _internal_kv_list,
    _internal_kv_put,
)

import envoi
from envoi.atomic_write import write_atomically

from ...errors import EnvFailure, describe
from ..damaged_files import reading


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

    def write(self, path: Path) -> None:
        """Writes the failure to the file of a job."""
        write_atomically(path, json.dumps(vars(self), indent=1))


def read_failure(path: Path) -> str | None:
    """Returns the message of a failure that was written to `path`, or None if there is no such file."""
    if not path.exists():
        return None
    with reading(path):
        return json.loads(path.read_text(encoding="utf-8"))["message"]


def _without_step(error: BaseException) -> BaseException:
    """Returns an error without the step that `Validated` has added, because the guard adds a more precise place."""
    cause = error.__cause__
    is_same = isinstance(cause, envoi.SpecError) and str(error).startswith(f"{cause} (at ")
    return cause if is_same and cause is not None else error


FAILURE, STARTS, LAST_END = "failure", "starts", "last_end"
"""The kinds of records: the failure that stops the training; the times at which the actor's process started; the
failure that ended the process before."""
_NAMESPACE = "envoi"


def own_actor() -> str | None:
    """Returns the ID of the Ray actor that runs in this process; None outside of actors, or without Ray."""
    if multiprocessing.parent_process() is not None or not ray.is_initialized():
        return None  # a process of gymnasium's AsyncVectorEnv has a copy of Ray's connection, which it cannot use
    return ray.get_runtime_context().get_actor_id()


def put(kind: str, value: Any, actor: str) -> None:
    """Writes an actor's record; replaces an earlier one."""
    _internal_kv_put(f"{_prefix(kind)}{actor}", json.dumps(value), namespace=_NAMESPACE)


def get(kind: str, actor: str) -> Any:
    """Returns the record of an actor, or None if there is none."""
    held = _internal_kv_get(f"{_prefix(kind)}{actor}", namespace=_NAMESPACE)
    return None if held is None else json.loads(held)


def left_by(kind: str, actors: Iterable[str] | None = None) -> dict[str, Any]:
    """Returns all records of a kind that this job's actors have written, by actor."""
    if not _internal_kv_initialized():
        return {}
    keys = _internal_kv_list(_prefix(kind), namespace=_NAMESPACE)
    found = [key.decode().rpartition("/")[2] for key in keys]
    records = {actor: get(kind, actor) for actor in found if actors is None or actor in actors}
    return {actor: value for actor, value in records.items() if value is not None}


def remove(actor: str) -> None:
    """Removes the records of an actor."""
    if _internal_kv_initialized():
        for kind in (FAILURE, STARTS, LAST_END):
            _internal_kv_del(f"{_prefix(kind)}{actor}", namespace=_NAMESPACE)


def _prefix(kind: str) -> str:
    return f"{ray.get_runtime_context().get_job_id()}/{kind}/"
