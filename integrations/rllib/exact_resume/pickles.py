"""Pickles of objects with functions in them, such as envs."""

from __future__ import annotations

import pickle
from typing import Any

from ray import cloudpickle

_typed: Any = cloudpickle  # type checkers do not see its functions


def pickled(value: Any) -> bytes:
    """Returns the pickle of a value, which may contain functions without a name to import."""
    return _typed.dumps(value)


def unpickled(data: bytes) -> Any:
    """Returns the value that was pickled by `pickled`."""
    return pickle.loads(data)  # noqa: S301 - of a checkpoint, which RLlib unpickles too
