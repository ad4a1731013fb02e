"""Conversion of core observations to one float32 array for neural networks. See `envoi.adapters.rllib.codec`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeGuard

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envoi import Array, Discrete, LossyConversion, MultiBinary, MultiDiscrete, Spec, SpecError
from envoi.spec import SpecTree
from envoi.tree import children, leaves

from .images import is_image, is_square_image, scaled

NAME = "rllib"

MAX_ONE_HOT = 1024
"""An integer leaf with at most this many values becomes one-hot; one with more becomes numbers."""

_EXACT = 2**24
"""Integers up to this one are exact in float32."""


def _one_hot(spec: Discrete | MultiDiscrete) -> tuple[Callable[[Any], NDArray[np.float32]], int]:
    """Returns a function that converts integers to concatenated one-hot vectors, and the number of their elements."""
    if isinstance(spec, Discrete):
        n, start = spec.n, spec.start

        def encode_one(value: Any) -> NDArray[np.float32]:
            result = np.zeros(n, np.float32)
            index = int(value) - start
            if index < 0:  # numpy would count from the end; beyond the end it raises IndexError itself
                raise SpecError(f"observation: expected {start} … {start + n - 1}, got {value}")
            result[index] = 1
            return result

        return encode_one, n
    counts, first = spec.nvec.ravel(), spec.start.ravel()
    size, offsets = int(counts.sum()), np.cumsum(counts) - counts

    def encode(value: Any) -> NDArray[np.float32]:
        result = np.zeros(size, np.float32)
        index = (np.ravel(value) - first).astype(np.int64)
        if np.count_nonzero((index < 0) | (index >= counts)):  # would mark an element of another integer
            spec.validate(np.asarray(value, spec.dtype), "observation")
        result[offsets + index] = 1
        return result

    return encode, size


def _is_one_hot(spec: Spec) -> TypeGuard[Discrete | MultiDiscrete]:
    counts = spec.n if isinstance(spec, Discrete) else spec.nvec.sum() if isinstance(spec, MultiDiscrete) else np.inf
    return bool(counts <= MAX_ONE_HOT)


def flat(value: Any) -> NDArray[np.float32]:
    """Returns numbers of any shape as a float32 array of one axis."""
    with np.errstate(over="ignore"):  # a bound beyond float32's range becomes infinite
        return np.asarray(value, np.float32).ravel()


Bounds = tuple[NDArray[np.float32], NDArray[np.float32]]


def observation_leaf(spec: Spec, path: str) -> tuple[Callable[[Any], NDArray[np.float32]], Bounds]:
    """Returns a function that converts a leaf to a flat float32 array, and the bounds of that array.

    Args:
        spec: The leaf's spec.
        path: The leaf's path, for the error.

    Raises:
        LossyConversion: The leaf has no canonical form.
    """
    if _is_one_hot(spec):
        encode, size = _one_hot(spec)
        return encode, _unit(size)
    if isinstance(spec, MultiBinary):
        return flat, _unit(int(np.prod(spec.shape)))
    if isinstance(spec, Discrete):
        return flat, (flat(spec.start), flat(spec.start + spec.n - 1))
    if isinstance(spec, MultiDiscrete):
        return flat, (flat(spec.start), flat(spec.last))
    if isinstance(spec, Array) and spec.dtype.kind in "biuf":
        size = int(np.prod(spec.shape))
        if _is_scaled(spec):
            numbers = scaled(spec)
            return lambda value: numbers(value).ravel(), _unit(size)
        least, most = (0, 1) if spec.dtype.kind == "b" else (-np.inf, np.inf)
        low = np.full(size, least, np.float32) if spec.low is None else flat(spec.low_or_inf)
        high = np.full(size, most, np.float32) if spec.high is None else flat(spec.high_or_inf)
        return flat, (low, high)
    raise LossyConversion(path, "type", repr(spec), NAME, "wrap the environment so that it shows an array")


def _is_scaled(spec: Spec) -> TypeGuard[Array]:
    """Returns True for an image of unsigned integers, which become numbers from 0 to 1 even where it is flattened."""
    return is_image(spec) and spec.dtype.kind == "u"


def _unit(size: int) -> Bounds:
    return np.zeros(size, np.float32), np.ones(size, np.float32)


def observation_plan(spec: SpecTree, path: str) -> tuple[spaces.Box, Callable[[Any], NDArray[np.float32]]]:
    """Returns the space of an observation and the function that converts core observations to it.

    Args:
        spec: The core's observation spec.
        path: The spec's path, for errors.

    Raises:
        LossyConversion: A leaf has no canonical form, or the observation has no numbers at all.
    """
    if is_square_image(spec):
        image = scaled(spec)
        if spec.dtype.kind == "u":
            return spaces.Box(0.0, 1.0, spec.shape, np.float32), image
        low = -np.inf if spec.low is None else flat(spec.low).reshape(spec.shape)
        high = np.inf if spec.high is None else flat(spec.high).reshape(spec.shape)
        return spaces.Box(low, high, spec.shape, np.float32), image
    parts = [(at, *observation_leaf(leaf, at)) for at, leaf in leaves(spec, path)]
    low = np.concatenate([np.zeros(0, np.float32), *(bounds[0] for _, _, bounds in parts)])
    high = np.concatenate([np.zeros(0, np.float32), *(bounds[1] for _, _, bounds in parts)])
    if not low.size:
        raise LossyConversion(path, "size", "0 numbers", NAME, "RLlib trains on at least one")
    space = spaces.Box(low, high, dtype=np.float32)
    if isinstance(spec, Array) and len(spec.shape) == 1 and spec.dtype == np.float32:
        return space, lambda value: value
    encodes = [encode for _, encode, _ in parts]
    if len(encodes) == 1 and isinstance(spec, Spec):
        return space, encodes[0]
    return space, lambda value: np.concatenate(
        [e(leaf) for e, leaf in zip(encodes, values_of(spec, value), strict=True)]
    )


def batch_observation_plan(spec: SpecTree) -> Callable[[Any], NDArray[np.float32]]:
    """Returns a function that converts the observations of n lanes to one float32 array of shape (n, …)."""
    if is_square_image(spec):
        return scaled(spec)
    encodes = [batch_leaf(leaf) for _, leaf in leaves(spec)]
    if isinstance(spec, Spec):
        return encodes[0]
    return lambda value: np.concatenate([e(leaf) for e, leaf in zip(encodes, values_of(spec, value), strict=True)], 1)


def batch_leaf(spec: Spec) -> Callable[[Any], NDArray[np.float32]]:
    """Returns a function that converts a leaf's values of n lanes to a float32 array of shape (n, size)."""
    if _is_one_hot(spec):
        one = isinstance(spec, Discrete)
        counts = np.array([spec.n]) if one else spec.nvec.ravel()
        first = np.array([spec.start]) if one else spec.start.ravel()
        size, offsets = int(counts.sum()), np.cumsum(counts) - counts

        def encode_integers(value: Any) -> NDArray[np.float32]:
            lanes = np.asarray(value)
            index = (lanes.reshape(len(lanes), -1) - first).astype(np.int64)
            if np.count_nonzero((index < 0) | (index >= counts)):  # would mark an element of another integer
                for lane, integers in enumerate(lanes):
                    spec.validate(np.asarray(integers, spec.dtype)[()], f"observation of lane {lane}")
            result = np.zeros((len(index), size), np.float32)
            result[np.arange(len(index))[:, None], offsets + index] = 1
            return result

        return encode_integers

    if _is_scaled(spec):
        numbers = scaled(spec)
        return lambda value: numbers(value).reshape(len(value), -1)

    def encode(value: Any) -> NDArray[np.float32]:
        with np.errstate(over="ignore"):
            return np.asarray(value, np.float32).reshape(len(value), -1)

    return encode


def values_of(spec: SpecTree, value: Any) -> list[Any]:
    """Returns the leaves of a value, in the order of its spec.

    Args:
        spec: The spec; entries of `value` that it lacks are left out.
        value: The value.
    """
    if isinstance(spec, Spec):
        return [value]
    return [leaf for _, key, sub in children(spec) for leaf in values_of(sub, value[key])]


def is_wide(spec: Spec) -> bool:
    """Returns True if a spec has floating-point numbers that float32 rounds."""
    return isinstance(spec, Array) and spec.dtype.kind == "f" and spec.dtype.itemsize > 4 and 0 not in spec.shape


def narrows(spec: Spec) -> bool:
    """Returns True if some values of a spec are not exact in float32."""
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
        return is_wide(spec)
    return bool((np.abs(ends.astype(float)) > _EXACT).any())
