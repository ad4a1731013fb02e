"""Finds out where an error of an env was raised, from its traceback."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium.vector.async_vector_env as asynchronous

from envoi.adapters.rllib import codec
from envoi.batching import lanes
from envoi.errors import WorkerError
from envoi.wrappers import validated

_CODEC = str(Path(codec.__file__).parent)
_LOOP = lanes.__file__
_BY_INDEX = {_LOOP, validated.__file__, asynchronous.__file__}
"""Files with a loop over lanes, whose variable is `index`; gymnasium's raises the error of a lane's process."""


def lane_of(error: BaseException) -> int | str | None:
    """Returns the lane of a batch in which an error was raised, or words for it; None if it is not known."""
    if isinstance(error, WorkerError):
        return error.lane
    lane = getattr(error, "envoi_lane", None)
    if lane is not None:
        return lane
    # A step of all lanes is a comprehension over a function for each.
    looped: dict[str, Any] = {}
    for frame in _frames(error):
        if frame.f_code.co_filename == _LOOP:
            looped.update(frame.f_locals)
    if "calls" in looped:
        return next((lane for lane, call in enumerate(looped["calls"]) if call is looped.get("call")), None)
    for frame in _frames(error):
        if frame.f_code.co_filename in _BY_INDEX and isinstance(index := frame.f_locals.get("index"), int):
            return index
    return None


def is_of_conversion(error: BaseException) -> bool:
    """Returns True if an error was raised while a value was converted for RLlib."""
    return any(frame.f_code.co_filename.startswith(_CODEC) for frame in _frames(error))


def _frames(error: BaseException) -> Iterator[Any]:
    trace = error.__traceback__
    while trace is not None:
        yield trace.tb_frame
        trace = trace.tb_next
