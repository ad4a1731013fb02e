"""Values as neural networks take them: one float32 array in, flat numbers out.

`Codec` maps the observations and actions of an environment, whatever their structure, to the spaces that common
policy networks are built for, and back. The table is in `envoi.adapters.rllib`, which is the first to need it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeGuard

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envoi import Array, Discrete, Env, LossyConversion, MultiBinary, MultiDiscrete, Spec, SpecError
from envoi.spec import SpecTree
from envoi.tree import children, leaves, rebuild

from .losses import Loss

NAME = "rllib"

IMAGE_SIZES = (42, 64, 84, 96)
"""The heights and widths for which RLlib has convolutions."""

MAX_ONE_HOT = 1024
"""An integer leaf with more values than this is given as a number."""

MAX_INTEGERS = 4096
"""An integer action with more values than this is refused."""

_EXACT = 2**24
"""Integers up to here are exact in float32."""


# Observations: a nested value as one array.


def _one_hot(spec: Discrete | MultiDiscrete) -> tuple[Callable[[Any], NDArray[np.float32]], int]:
    """Integers as rows of an identity matrix, one after the other; and how many numbers these are."""
    if isinstance(spec, Discrete):
        n, start = spec.n, spec.start

        def encode_one(value: Any) -> NDArray[np.float32]:
            result = np.zeros(n, np.float32)
            index = int(value) - start
            if index < 0:  # would count from the end; beyond the end numpy itself complains
                raise SpecError(f"observation: expected {start} … {start + n - 1}, got {value}")
            result[index] = 1
            return result

        return encode_one, n
    counts, first = spec.nvec.ravel(), spec.start.ravel()
    size, offsets = int(counts.sum()), np.cumsum(counts) - counts

    def encode(value: Any) -> NDArray[np.float32]:
        result = np.zeros(size, np.float32)
        index = (np.ravel(value) - first).astype(np.int64)
        if np.count_nonzero((index < 0) | (index >= counts)):  # would mark a neighbour
            spec.validate(np.asarray(value, spec.dtype), "observation")
        result[offsets + index] = 1
        return result

    return encode, size


def _is_one_hot(spec: Spec) -> TypeGuard[Discrete | MultiDiscrete]:
    counts = spec.n if isinstance(spec, Discrete) else spec.nvec.sum() if isinstance(spec, MultiDiscrete) else np.inf
    return bool(counts <= MAX_ONE_HOT)


def _flat(value: Any) -> NDArray[np.float32]:
    with np.errstate(over="ignore"):  # a bound such as the largest float64 is no bound in float32
        return np.asarray(value, np.float32).ravel()


Bounds = tuple[NDArray[np.float32], NDArray[np.float32]]


def _observation_leaf(spec: Spec, path: str) -> tuple[Callable[[Any], NDArray[np.float32]], Bounds]:
    """How a leaf becomes a flat float32 array, and between which bounds."""
    if _is_one_hot(spec):
        encode, size = _one_hot(spec)
        return encode, _unit(size)
    if isinstance(spec, MultiBinary):
        return _flat, _unit(int(np.prod(spec.shape)))
    if isinstance(spec, Discrete):
        return _flat, (_flat(spec.start), _flat(spec.start + spec.n - 1))
    if isinstance(spec, MultiDiscrete):
        return _flat, (_flat(spec.start), _flat(spec.last))
    if isinstance(spec, Array) and spec.dtype.kind in "biuf":
        size = int(np.prod(spec.shape))
        least, most = (0, 1) if spec.dtype.kind == "b" else (-np.inf, np.inf)
        low = np.full(size, least, np.float32) if spec.low is None else _flat(spec.low)
        high = np.full(size, most, np.float32) if spec.high is None else _flat(spec.high)
        return _flat, (low, high)
    raise LossyConversion(path, "type", repr(spec), NAME, "wrap the environment so that it shows an array")


def _unit(size: int) -> Bounds:
    return np.zeros(size, np.float32), np.ones(size, np.float32)


def _is_image(spec: SpecTree) -> bool:
    return (
        isinstance(spec, Array)
        and len(spec.shape) == 3
        and spec.shape[0] == spec.shape[1]
        and spec.shape[0] in IMAGE_SIZES
        and spec.dtype.kind in "uf"
    )


def _observation_plan(spec: SpecTree) -> tuple[spaces.Box, Callable[[Any], NDArray[np.float32]]]:
    if _is_image(spec):
        if spec.dtype.kind == "u":
            most = np.float32(np.iinfo(spec.dtype).max)
            scaled = functools.partial(np.divide, dtype=np.float32, casting="same_kind")
            return spaces.Box(0.0, 1.0, spec.shape, np.float32), lambda value: scaled(value, most)
        low = -np.inf if spec.low is None else _flat(spec.low).reshape(spec.shape)
        high = np.inf if spec.high is None else _flat(spec.high).reshape(spec.shape)
        space = spaces.Box(low, high, spec.shape, np.float32)
        return space, lambda value: _flat(value).reshape(spec.shape)
    parts = [(path, *_observation_leaf(leaf, path)) for path, leaf in leaves(spec, "observation")]
    low = np.concatenate([np.zeros(0, np.float32), *(bounds[0] for _, _, bounds in parts)])
    high = np.concatenate([np.zeros(0, np.float32), *(bounds[1] for _, _, bounds in parts)])
    if not low.size:
        raise LossyConversion("observation", "size", "0 numbers", NAME, "RLlib trains on at least one")
    space = spaces.Box(low, high, dtype=np.float32)
    if isinstance(spec, Array) and len(spec.shape) == 1 and spec.dtype == np.float32:
        return space, lambda value: value
    encodes = [encode for _, encode, _ in parts]
    if len(encodes) == 1 and isinstance(spec, Spec):
        return space, encodes[0]
    return space, lambda value: np.concatenate([e(leaf) for e, leaf in zip(encodes, _values(spec, value), strict=True)])


def _values(spec: SpecTree, value: Any) -> list[Any]:
    """The leaves of a value, in the order of its spec."""
    if isinstance(spec, Spec):
        return [value]
    return [leaf for _, key, sub in children(spec) for leaf in _values(sub, value[key])]


# Actions: flat numbers back to a nested value.


@dataclass(frozen=True)
class _ActionLeaf:
    """How a leaf of an action is made from its share of RLlib's flat action.

    Attributes:
        size: How many numbers it takes.
        counts: How many values each has, for integers; None for real numbers.
        bounds: The lowest and highest real numbers; None for integers.
        decode: Its numbers, shape (size,), to the leaf's value.
    """

    size: int
    counts: NDArray[np.int64] | None
    bounds: Bounds | None
    decode: Callable[[NDArray[Any]], Any]


def _action_leaf(spec: Spec, path: str) -> _ActionLeaf:
    if isinstance(spec, Discrete):
        kind, start = spec.dtype.type, spec.start
        return _ActionLeaf(1, np.array([spec.n]), None, lambda numbers: kind(int(numbers[0]) + start))
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
        low = np.full(size, -np.inf, np.float32) if spec.low is None else _flat(spec.low)
        high = np.full(size, np.inf, np.float32) if spec.high is None else _flat(spec.high)

        def decode(numbers: NDArray[Any]) -> NDArray[Any]:
            value = numbers.reshape(array.shape).astype(array.dtype)
            # A float32 bound may lie a little outside a float64 one.
            return value if array.low is None and array.high is None else np.clip(value, array.low, array.high)

        return _ActionLeaf(size, None, (low, high), decode)
    raise LossyConversion(path, "type", repr(spec), NAME, "wrap the environment so that it takes an array")


def _integers(spec: Any, counts: NDArray[Any], start: NDArray[Any]) -> _ActionLeaf:
    dtype, shape = spec.dtype, spec.shape
    wide = np.dtype(np.uint64 if dtype == np.uint64 else np.int64)
    first = np.asarray(start).astype(wide)

    def decode(numbers: NDArray[Any]) -> NDArray[Any]:
        return np.asarray(np.reshape(numbers, shape).astype(wide) + first).astype(dtype)

    return _ActionLeaf(int(np.prod(shape)), np.asarray(counts).ravel().astype(np.int64), None, decode)


def _action_plan(spec: SpecTree) -> tuple[spaces.Space[Any], Callable[[Any], Any]]:
    if isinstance(spec, Discrete):
        kind, start = spec.dtype.type, spec.start
        return spaces.Discrete(spec.n), lambda action: kind(int(action) + start)
    parts = [_action_leaf(leaf, path) for path, leaf in leaves(spec, "action")]
    counts = [part.counts for part in parts if part.counts is not None]
    bounds = [part.bounds for part in parts if part.bounds is not None]
    made: list[spaces.Space[Any]] = []
    if any(count.size for count in counts):
        made.append(spaces.MultiDiscrete(np.concatenate(counts)))
    if any(low.size for low, _ in bounds):
        low, high = (np.concatenate(side) for side in zip(*bounds, strict=True))
        made.append(spaces.Box(low, high, dtype=np.float32))
    if not made:
        raise LossyConversion("action", "size", "0 numbers", NAME, "RLlib trains on at least one")

    def decode(action: Any) -> Any:
        flows = list(action) if len(made) == 2 else [action, action]
        numbers = {True: np.ravel(flows[0]), False: np.ravel(flows[1])}
        at = {True: 0, False: 0}
        values: list[Any] = []
        for part in parts:
            integer = part.counts is not None
            values.append(part.decode(numbers[integer][at[integer] : at[integer] + part.size]))
            at[integer] += part.size
        return _nest(spec, iter(values))

    return (made[0] if len(made) == 1 else spaces.Tuple(made)), decode


def _nest(spec: SpecTree, values: Any) -> Any:
    if isinstance(spec, Spec):
        return next(values)
    return rebuild(spec, [_nest(sub, values) for _, _, sub in children(spec)])


class Codec:
    """Between a core environment's values and the canonical ones that RLlib's networks see.

    Args:
        env: The core environment.

    Attributes:
        observation_space: A float32 `Box`, flat or an image.
        action_space: `Discrete` or `MultiDiscrete` from 0, a flat float32 `Box`, or a `Tuple` of the last two.

    Raises:
        LossyConversion: A leaf has no canonical form; the message names it.
    """

    def __init__(self, env: Env) -> None:
        reward = env.reward_spec
        if not isinstance(reward, Array) or reward.shape != ():
            raise LossyConversion("reward", "shape", repr(reward), NAME, "set a rewarder that gives one number")
        self.observation_space, self._encode = _observation_plan(env.observation_spec)
        self.action_space, self._decode = _action_plan(env.action_spec)

    def encode(self, observation: Any) -> NDArray[np.float32]:
        """A core observation as the network sees it."""
        return self._encode(observation)

    def decode(self, action: Any) -> Any:
        """A network's action as the core environment takes it."""
        return self._decode(action)


def losses(env: Env) -> list[Loss]:
    """What of a core environment would not reach RLlib's networks exactly, or is refused."""
    found: list[Loss] = []
    sides = (
        ("observation", env.observation_spec, _observation_leaf, _observation_plan, _narrows, "sees"),
        ("action", env.action_spec, _action_leaf, _action_plan, _is_wide, "gives"),
    )
    for what, spec, read, plan, narrows, does in sides:
        refused = False
        for path, leaf in leaves(spec, what):
            try:
                read(leaf, path)
            except LossyConversion as error:
                refused = True
                found.append(Loss.of(error))
            else:
                if narrows(leaf):
                    found.append(Loss(path, "precision", repr(leaf), NAME, False, f"the network {does} float32"))
        if not refused:
            try:
                plan(spec)
            except LossyConversion as error:
                found.append(Loss.of(error))
    if not isinstance(env.reward_spec, Array) or env.reward_spec.shape != ():
        found.append(Loss("reward", "shape", repr(env.reward_spec), NAME, True, "set a rewarder that gives one number"))
    return found


def _is_wide(spec: Spec) -> bool:
    return isinstance(spec, Array) and spec.dtype.kind == "f" and spec.dtype.itemsize > 4 and 0 not in spec.shape


def _narrows(spec: Spec) -> bool:
    """Whether some of its values come to the network as others."""
    if isinstance(spec, (Discrete, MultiDiscrete)):
        if _is_one_hot(spec):
            return False
        last = spec.start + spec.n - 1 if isinstance(spec, Discrete) else spec.last
        ends = np.array([spec.start, last])
    elif isinstance(spec, Array) and spec.dtype.kind in "iu":
        if spec.dtype.itemsize <= 2:
            return False
        if spec.low is None or spec.high is None:
            return 0 not in spec.shape
        ends = np.array([spec.low, spec.high])
    else:
        return _is_wide(spec)
    return bool((np.abs(ends.astype(float)) > _EXACT).any())
