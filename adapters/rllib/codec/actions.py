"""Conversion of a neural network's actions, flat numbers, to core actions. See `envoi.adapters.rllib.codec`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envoi import Array, Discrete, LossyConversion, MultiBinary, MultiDiscrete, Spec
from envoi.spec import SpecTree
from envoi.tree import children, leaves, rebuild

from .observations import NAME, Bounds, flat

MAX_INTEGERS = 4096
"""An integer action with more values than this is refused."""


@dataclass(frozen=True)
class _ActionLeaf:
    """A leaf of an action as a part of RLlib's flat action.

    Attributes:
        size: The number of flat elements.
        counts: The number of values of each element, shape (size,), for integers; None for real numbers.
        bounds: The lowest and the highest real numbers, float32 of shape (size,) each; None for integers.
        decode: Converts the elements, of shape (size,) or (n, size), to the leaf's value or that of n lanes.
    """

    size: int
    counts: NDArray[np.int64] | None
    bounds: Bounds | None
    decode: Callable[[NDArray[Any]], Any]


def action_leaf(spec: Spec, path: str) -> _ActionLeaf:
    """Returns the part of RLlib's flat action for a leaf.

    Args:
        spec: The leaf's spec.
        path: The leaf's path, for the error.

    Raises:
        LossyConversion: The leaf has no canonical form.
    """
    if isinstance(spec, Discrete):
        return _ActionLeaf(1, np.array([spec.n]), None, lambda numbers: _shifted(numbers[..., 0], spec))
    if isinstance(spec, MultiDiscrete):
        return _integers(spec, spec.nvec, spec.start)
    if isinstance(spec, MultiBinary):
        return _integers(spec, np.full(spec.shape, 2), np.zeros(spec.shape, np.int64))
    if isinstance(spec, Array) and spec.dtype.kind in "biu":
        low, high = spec.low, spec.high
        if spec.dtype.kind == "b":
            low, high = (np.broadcast_to(0, spec.shape) if low is None else low), (1 if high is None else high)
        if low is None or high is None or (np.subtract(high, low, dtype=float) >= MAX_INTEGERS).any():
            raise LossyConversion(path, "bounds", repr(spec), NAME, f"bound it to at most {MAX_INTEGERS} values")
        return _integers(spec, np.subtract(high, low, dtype=object) + 1, low)
    if isinstance(spec, Array) and spec.dtype.kind == "f":
        size, array = int(np.prod(spec.shape)), spec
        low = np.full(size, -np.inf, np.float32) if spec.low is None else flat(spec.low)
        high = np.full(size, np.inf, np.float32) if spec.high is None else flat(spec.high)

        def decode(numbers: NDArray[Any]) -> NDArray[Any]:
            value = numbers.reshape(numbers.shape[:-1] + array.shape).astype(array.dtype)
            # A bound rounded to float32 may be slightly outside the float64 bound.
            return value if array.low is None and array.high is None else np.clip(value, array.low, array.high)

        return _ActionLeaf(size, None, (low, high), decode)
    raise LossyConversion(path, "type", repr(spec), NAME, "wrap the environment so that it takes an array")


def _integers(spec: Any, counts: NDArray[Any], start: NDArray[Any]) -> _ActionLeaf:
    dtype, shape = spec.dtype, spec.shape
    wide = np.dtype(np.uint64 if dtype == np.uint64 else np.int64)
    first = np.asarray(start).astype(wide)

    def decode(numbers: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(numbers.reshape(numbers.shape[:-1] + shape).astype(wide) + first).astype(dtype)

    return _ActionLeaf(int(np.prod(shape)), np.asarray(counts).ravel().astype(np.int64), None, decode)


def _shifted(numbers: NDArray[Any], spec: Discrete) -> Any:
    """Adds a spec's `start` to integers from 0, in int64, because a narrow dtype could overflow before the addition."""
    return (numbers.astype(np.int64) + spec.start).astype(spec.dtype)


def action_plan(spec: SpecTree, path: str) -> tuple[spaces.Space[Any], Callable[[Any], Any], Callable[[Any], Any]]:
    """Returns the space of an action and the functions that convert its values for the core.

    Args:
        spec: The core's action spec.
        path: The spec's path, for errors.

    Returns:
        The space; a function of one action; and a function of the actions of n lanes, see `Codec.decode_batch`.

    Raises:
        LossyConversion: A leaf has no canonical form, or the action has no numbers at all.
    """
    if isinstance(spec, Discrete):
        kind, start, one = spec.dtype.type, spec.start, spec
        return (
            spaces.Discrete(spec.n),
            lambda action: kind(int(action) + start),
            lambda actions: _shifted(np.asarray(actions), one),
        )
    parts = [action_leaf(leaf, at) for at, leaf in leaves(spec, path)]
    counts = [part.counts for part in parts if part.counts is not None]
    bounds = [part.bounds for part in parts if part.bounds is not None]
    made: list[spaces.Space[Any]] = []
    if any(count.size for count in counts):
        made.append(spaces.MultiDiscrete(np.concatenate(counts)))
    if any(low.size for low, _ in bounds):
        low, high = (np.concatenate(side) for side in zip(*bounds, strict=True))
        made.append(spaces.Box(low, high, dtype=np.float32))
    if not made:
        raise LossyConversion(path, "size", "0 numbers", NAME, "RLlib trains on at least one")
    is_pair = len(made) == 2

    def nested(integers: NDArray[Any], reals: NDArray[Any]) -> Any:
        numbers, at = {True: integers, False: reals}, {True: 0, False: 0}
        values: list[Any] = []
        for part in parts:
            integer = part.counts is not None
            values.append(part.decode(numbers[integer][..., at[integer] : at[integer] + part.size]))
            at[integer] += part.size
        return _nest(spec, iter(values))

    def decode(action: Any) -> Any:
        first, last = action if is_pair else (action, action)
        return nested(np.ravel(first), np.ravel(last))

    def decode_batch(actions: Any) -> Any:
        if is_pair and isinstance(actions, list):  # a pair for each lane, not one of arrays
            actions = zip(*actions, strict=True)
        first, last = (np.asarray(each) for each in (actions if is_pair else (actions, actions)))
        return nested(first.reshape(len(first), -1), last.reshape(len(last), -1))

    return (spaces.Tuple(made) if is_pair else made[0]), decode, decode_batch


def _nest(spec: SpecTree, values: Any) -> Any:
    if isinstance(spec, Spec):
        return next(values)
    return rebuild(spec, [_nest(sub, values) for _, _, sub in children(spec)])
