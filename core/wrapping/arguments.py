"""Arguments and bounds that wrappers check: counts, leaves of actions, limits of array specs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..errors import SpecError
from ..protocol.batch_env import either
from ..spec import Array, SpecTree
from ..spec.arrays import bounds, bounds_or_inf


def at_least(value: Any, least: int, name: str) -> int:
    """Checks that an argument is an integer of at least `least`, and returns it."""
    if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
        raise SpecError(f"{name}: expected an integer of at least {least}, got {value!r}")
    return int(cast("int", value))


def acting(restart: Any, hold: Any) -> Any:
    """Returns a mask of the lanes that act in a step; True if all act."""
    idle = either(*(None if mask is None else np.asarray(mask) for mask in (restart, hold)))
    return True if idle is None else ~idle


def check_waiting(wrapper: Any) -> None:
    """Checks that the lanes of a wrapped batch can wait for each other; accepts environments without lanes."""
    if getattr(wrapper, "batch_size", None) is None:
        return
    if not wrapper.lanes_can_wait:
        raise SpecError(
            f"env: expected lanes that can wait for each other, and those of {wrapper.env!r} act together; "
            f"put {type(wrapper).__name__} around each of them, before they are a batch"
        )
    from inspect import signature  # imported here, so that `import envoi` stays fast

    inner = wrapper
    while hasattr(inner, "env"):
        inner = inner.env
        found = signature(inner.step).parameters
        if "hold" not in found and not any(one.kind is one.VAR_KEYWORD for one in found.values()):
            raise SpecError(
                f"env: expected steps that let lanes pause, and {type(inner).__name__}.step has no parameter hold; "
                "write step(self, action, restart=None, hold=None), and pass all on"
            )


def each_leaf(spec: SpecTree, function: Callable[..., Any], *others: Any) -> Any:
    """Calls `function(leaf, path, …)` for each leaf. Returns the results in the structure of the spec."""
    paths = iter([path for path, _ in tree.leaves(spec, "action")])

    def called(leaf: Any, *rest: Any) -> Any:
        return function(leaf, next(paths), *rest)

    return tree.map_leaves(called, spec, *others)


def plus(start: NDArray[Any], number: Any) -> Any:
    """Returns `start + number` in the dtype of `start`; numpy would convert int64 and uint64 to floats."""
    return np.add(start, number, dtype=start.dtype, casting="unsafe")


def integers(spec: Any) -> tuple[NDArray[Any], NDArray[Any]] | None:
    """Returns the lowest and highest value of each element of a bounded integer spec; None for other specs."""
    if isinstance(spec, Array) and not (spec.bounded_below & spec.bounded_above).all():
        return None
    low, high = bounds(spec)
    if low is None or high is None or spec.dtype.kind not in "iu":
        return None
    return low, high


def counts(low: NDArray[Any], high: NDArray[Any]) -> NDArray[Any]:
    """Returns the number of integers from `low` to `high`, in an integer dtype that can hold it."""
    # Python integers, because the difference may not fit the dtype.
    number = np.asarray(high.astype(object) - low.astype(object) + 1)
    return np.array(number.tolist(), None if number.size else np.int64).reshape(number.shape)


def with_zero(spec: Any) -> Array:
    """Returns a spec whose bounds are extended to include zero."""
    low, high = bounds_or_inf(spec)
    low = None if low is None else np.minimum(low, 0)
    high = None if high is None else np.maximum(high, 0)
    return Array(spec.shape, spec.dtype, low, high, spec.name)
