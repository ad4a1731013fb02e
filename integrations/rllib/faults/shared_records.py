"""Records that the processes of a job leave for each other in Ray's key-value store, by the actor that left them.

RLlib hides an exception of an env that runs in another process: the runner logs it there and dies, and the algorithm
sees an `ActorDiedError` or a result without episodes. The store outlives the process, needs no folder that nodes share,
and costs no process of its own, unlike a named actor.
"""

from __future__ import annotations

import json
import multiprocessing
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
    _internal_kv_put(f"{kind}/{actor}", json.dumps(value), namespace=NAMESPACE)


def get(kind: str, actor: str) -> Any:
    """Returns the record of an actor; None if there is none.

    Args:
        kind: The kind of record.
        actor: The actor.
    """
    value = _internal_kv_get(f"{kind}/{actor}", namespace=NAMESPACE)
    return None if value is None else json.loads(value)


def left_by(kind: str, actors: Iterable[str] | None = None) -> dict[str, Any]:
    """Returns the records of a kind, by actor.

    Args:
        kind: The kind of record.
        actors: The actors; None for all of the cluster.
    """
    if not _internal_kv_initialized():
        return {}
    keys = _internal_kv_list(f"{kind}/", namespace=NAMESPACE)
    found = {key.decode().partition("/")[2] for key in keys}
    records = {actor: get(kind, actor) for actor in (found if actors is None else found.intersection(actors))}
    return {actor: record for actor, record in records.items() if record is not None}


def remove(kind: str, actor: str) -> None:
    """Removes a record, if there is one.

    Args:
        kind: Its kind.
        actor: The actor.
    """
    if _internal_kv_initialized():
        _internal_kv_del(f"{kind}/{actor}", namespace=NAMESPACE)
