"""Records that the processes of a job leave for each other in Ray's key-value store, by the actor that left them.

RLlib hides an exception of an env that runs in another process: the runner logs it there and dies, and the algorithm
sees an `ActorDiedError` or a result without episodes. The store outlives the process, needs no folder that nodes share,
and costs no process of its own, unlike a named actor.
"""

from __future__ import annotations

import json
import multiprocessing
import time
from collections.abc import Iterable
from typing import Any

import ray
from ray.experimental.internal_kv import (
    _internal_kv_del,
    _internal_kv_get,
    _internal_kv_initialized,
    _internal_kv_list,
    _internal_kv_put,
)

NAMESPACE = "envoi"
EXPIRY = 86_400.0
"""Seconds after which a record of a job that was killed is removed, by the next job; it would mean nothing any more."""

FAILURE, STARTS, LAST_END, SLOW = "failure", "starts", "last_end", "slow"
"""The kinds of records: the failure that stops the training; the times at which the actor's process started; the
failure that ended the process before; the message of a call that takes long."""
KINDS = FAILURE, STARTS, LAST_END, SLOW


def own_actor() -> str | None:
    """Returns the ID of the Ray actor that runs in this process; None outside of actors, or without Ray."""
    if multiprocessing.parent_process() is not None or not ray.is_initialized():
        return None  # a process of gymnasium's AsyncVectorEnv has a copy of Ray's connection, which it cannot use
    return ray.get_runtime_context().get_actor_id()


def put(kind: str, value: Any, actor: str) -> None:
    """Leaves a record, in place of an earlier one.

    Args:
        kind: Its kind.
        value: Its value, of plain values.
        actor: The actor.
    """
    record = json.dumps({"time": time.time(), "value": value})
    _internal_kv_put(f"{kind}/{actor}", record, namespace=NAMESPACE)


def get(kind: str, actor: str) -> Any:
    """Returns the record of an actor; None if there is none.

    Args:
        kind: The kind of record.
        actor: The actor.
    """
    return _read(f"{kind}/{actor}")[1]


def left_by(kind: str, actors: Iterable[str] | None = None, since: float = 0.0) -> dict[str, Any]:
    """Returns the records of a kind, by actor.

    Args:
        kind: The kind of record.
        actors: The actors; None for all of the cluster, whose records may be of other jobs.
        since: The time of the earliest record to return, in seconds of `time.time`.
    """
    found = {key.partition("/")[2]: key for key in _keys(f"{kind}/")}
    records = {actor: _read(found[actor]) for actor in found.keys() & (found if actors is None else actors)}
    return {actor: value for actor, (at, value) in records.items() if value is not None and at >= since}


def remove(kind: str, actor: str) -> None:
    """Removes a record, if there is one.

    Args:
        kind: Its kind.
        actor: The actor.
    """
    if _internal_kv_initialized():
        _internal_kv_del(f"{kind}/{actor}", namespace=NAMESPACE)


def remove_expired() -> None:
    """Removes the records that are older than `EXPIRY`; jobs that were killed have left them."""
    for kind in KINDS:
        for key in _keys(f"{kind}/"):
            if _read(key)[0] < time.time() - EXPIRY:
                _internal_kv_del(key, namespace=NAMESPACE)


def _keys(prefix: str) -> list[str]:
    return (
        [key.decode() for key in _internal_kv_list(prefix, namespace=NAMESPACE)] if _internal_kv_initialized() else []
    )


def _read(key: str) -> tuple[float, Any]:
    """Returns the time and the value of a record; 0 and None if there is none."""
    held = _internal_kv_get(key, namespace=NAMESPACE)
    record = json.loads(held) if held is not None else {"time": 0.0, "value": None}
    return record["time"], record["value"]
