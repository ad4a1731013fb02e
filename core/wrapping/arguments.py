"""Checks of the arguments of wrappers."""

from __future__ import annotations

from typing import Any, cast

import numpy as np

from ..errors import SpecError


def at_least(value: Any, least: int, name: str) -> int:
    """Returns an argument as an integer of at least `least`.

    Args:
        value: The argument.
        least: The least allowed value.
        name: The name of the argument.

    Raises:
        SpecError: It is not such an integer.
    """
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise SpecError(f"{name}: expected an integer of at least {least}, got {value!r}")
    return int(cast("int", value))


def check_waiting(wrapper: Any) -> None:
    """Checks that the lanes inside a wrapper can wait for each other, where there are lanes.

    Raises:
        SpecError: They act together.
    """
    if getattr(wrapper, "batch_size", None) is not None and not wrapper.lanes_can_wait:
        raise SpecError(
            f"env: expected lanes that can wait for each other, and those of {wrapper.env!r} act together; "
            f"put {type(wrapper).__name__} around each of them, before they are a batch"
        )
