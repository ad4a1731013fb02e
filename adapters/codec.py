"""Values as neural networks take them: one float32 array in, flat numbers out.

`Codec` maps the observations and actions of an environment, whatever their structure, to the spaces that common
policy networks are built for, and back. The table is in `envoi.adapters.rllib`, which is the first to need it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envoi import Array, Discrete, Env, LossyConversion, MultiBinary, MultiDiscrete, Spec
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


def _one_hot(counts: NDArray[np.int64], start: NDArray[Any] | int) -> Callable[[Any], NDArray[np.float32]]:
    """Integers as rows of an identity matrix, one after the other."""
    flat = counts.ravel()
    offsets, first = np.concatenate(([0], np.cumsum(flat)[:-1])), np.ravel(start)
    size = int(flat.sum())

    def encode(value: Any) -> NDArray[np.float32]:
        result = np.zeros(size, np.float32)
        result[offsets + np.ravel(value) - first] = 1
        return result

    return encode


def _flat(value: Any) -> NDArray[np.float32]:
    return np.asarray(value, np.float32).ravel()


Bounds = tuple[NDArray[np.float32], NDArray[np.float32]]


def _observation_leaf(spec: Spec, path: str) -> tuple[Callable[[Any], NDArray[np.float32]], Bounds]:
    """How a leaf becomes a flat float32 array, and between which bounds."""
    if isinstance(spec, Discrete) and spec.n <= MAX_ONE_HOT:
        return _one_hot(np.array([spec.n]), spec.start), _unit(spec.n)
    if isinstance(spec, MultiDiscrete) and spec.nvec.sum() <= MAX_ONE_HOT:
        return _one_hot(spec.nvec, spec.start), _unit(int(spec.nvec.sum()))
    if isinstance(spec, MultiBinary):
        return _flat, _unit(int(np.prod(spec.shape)))
    if isinstance(spec, Discrete):
        return _flat, (np.float32([spec.start]), np.float32([spec.start + spec.n - 1]))
    if isinstance(spec, MultiDiscrete):
        return _flat, (_flat(spec.start), _flat(spec.last))
    if isinstance(spec, Array) and spec.dtype.kind in "biuf":
        size = int(np.prod(spec.shape))
        low = np.full(size, -np.inf, np.float32) if spec.low is None else _flat(spec.low)
        high = np.full(size, np.inf, np.float32) if spec.high is None else _flat(spec.high)
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
            scale = np.float32(1 / np.iinfo(spec.dtype).max)
            return spaces.Box(0.0, 1.0, spec.shape, np.float32), lambda value: value * scale
        low = -np.inf if spec.low is None else np.asarray(spec.low, np.float32)
        high = np.inf if spec.high is None else np.asarray(spec.high, np.float32)
        return spaces.Box(low, high, spec.shape, np.float32), lambda value: np.asarray(value, np.float32)
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
    if isinstance(spec, Array) and spec.dtype.kind == "b":
        return _integers(spec, np.full(spec.shape, 2), np.zeros(spec.shape, np.int64))
    if isinstance(spec, Array) and spec.dtype.kind in "iu":
        if spec.low is None or spec.high is None or (spec.high.astype(float) - spec.low > MAX_INTEGERS).any():
            raise LossyConversion(path, "bounds", repr(spec), NAME, f"bound it to at most {MAX_INTEGERS} values")
        return _integers(spec, spec.high.astype(np.int64) - spec.low.astype(np.int64) + 1, spec.low)
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

    def decode(numbers: NDArray[Any]) -> NDArray[Any]:
        return (np.reshape(numbers, shape).astype(np.int64) + start).astype(dtype)

    return _ActionLeaf(int(np.prod(shape)), counts.ravel().astype(np.int64), None, decode)


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
    for path, leaf in leaves(env.observation_spec, "observation"):
        try:
            _observation_leaf(leaf, path)
        except LossyConversion as error:
            found.append(Loss.of(error))
        else:
            if _narrows(leaf):
                found.append(Loss(path, "precision", repr(leaf), NAME, False, "the network sees float32"))
    for path, leaf in leaves(env.action_spec, "action"):
        try:
            _action_leaf(leaf, path)
        except LossyConversion as error:
            found.append(Loss.of(error))
        else:
            if isinstance(leaf, Array) and leaf.dtype == np.float64:
                found.append(Loss(path, "precision", repr(leaf), NAME, False, "the network gives float32"))
    if not isinstance(env.reward_spec, Array) or env.reward_spec.shape != ():
        found.append(Loss("reward", "shape", repr(env.reward_spec), NAME, True, "set a rewarder that gives one number"))
    return found


def _narrows(spec: Spec) -> bool:
    if isinstance(spec, Array):
        if spec.dtype.kind == "f":
            return spec.dtype.itemsize > 4
        if spec.dtype.kind in "iu" and spec.dtype.itemsize > 2:
            return (
                spec.low is None or spec.high is None or bool(max(-int(spec.low.min()), int(spec.high.max())) > _EXACT)
            )
        return False
    return isinstance(spec, Discrete) and spec.n > MAX_ONE_HOT and abs(spec.start) + spec.n > _EXACT
