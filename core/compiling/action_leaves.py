"""The leaves of the actions of n lanes, as kernels take them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from .. import tree
from ..errors import SpecError
from ..spec import SpecTree
from .kernel_text import Action


def converted(spec: SpecTree, actions: Sequence[Action], n: int, action: Any) -> list[np.ndarray[Any, Any]] | None:
    """Returns the leaves of actions as a kernel takes them; see `Runner.converted`.

    Args:
        spec: The spec of a lane's action.
        actions: Its leaves.
        n: The number of lanes.
        action: The actions of all lanes.
    """
    found: list[np.ndarray[Any, Any]] = []
    leaves: list[Any] = []
    tree.map_leaves(lambda _, leaf: leaves.append(leaf), spec, action)
    for leaf, own in zip(leaves, actions, strict=True):
        array = np.asarray(leaf)
        if array.shape != (n, *own.shape):
            raise SpecError(f"{own.path}: expected shape {(n, *own.shape)}, got {array.shape}")
        if array.dtype != own.dtype:
            integers = own.dtype.kind in "iu"
            if array.dtype.kind not in ("iu" if integers else "biuf") and own.dtype.kind != "b":
                raise SpecError(f"{own.path}: expected dtype {own.dtype}, got {array.dtype}")
            if not integers or array.dtype not in (np.int64, np.int32, np.uint32):
                return None
            cast = array.astype(own.dtype)
            wrong = (cast != array).reshape(n, -1).any(1)
            if wrong.any():
                lane = int(wrong.argmax())
                raise SpecError(f"{own.path}: expected dtype {own.dtype}, got {array[lane]} in lane {lane}")
            array = cast
        found.append(array if array.flags.carray else array.copy())
    return found


def out_of_bounds(action: Action, value: Any, lane: int) -> SpecError:
    """Returns the error for an action out of its bounds.

    Args:
        action: The leaf of the action.
        value: Its value.
        lane: The lane.
    """
    low, high = np.unique(np.asarray(action.low)), np.unique(np.asarray(action.high))
    bounds = f"{low[0]} … {high[-1]}" if len(low) == len(high) == 1 else f"{action.low} … {action.high}"
    return SpecError(f"{action.path}: expected values of {bounds}, got {value} in lane {lane}")


def idle(action: Action, n: int) -> np.ndarray[Any, Any]:
    """Returns a valid action of n lanes.

    Args:
        action: A leaf of the action.
        n: The number of lanes.
    """
    low, high = action.low, action.high
    one = np.zeros(action.shape, action.dtype)
    if low is not None and high is not None:
        one = np.clip(one, low, high).astype(action.dtype)
    return np.repeat(one[None], n, 0)
