"""One leaf of a nested value inside a flat array: its place, and the functions that encode and read it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..spec import Array, Discrete, MultiBinary, MultiDiscrete


@dataclass
class Leaf:
    """A leaf, and its place in the flat array.

    Args:
        path: Its name in messages.
        keys: The keys that lead to it in the nested value.
        spec: Its spec.
        start: The index of its first number in the flat array.
        encoded: If True, discrete values are one-hot encoded.

    Attributes:
        elements: The number of elements of its values.
        low: The lower bounds of its elements, or None.
        high: The upper bounds of its elements, or None.
        counts: The length of each element's one-hot encoding; None if the leaf is not encoded.
        size: The length of its slice of the flat array.
        stop: The index after its last number in the flat array.

    Raises:
        SpecError: It is not an array of numbers.
    """

    path: str
    keys: tuple[Any, ...]
    spec: Any
    start: int
    encoded: bool

    def __post_init__(self) -> None:
        spec = self.spec
        if not isinstance(spec, (Array, Discrete, MultiDiscrete, MultiBinary)):
            raise SpecError(f"{self.path}: expected an array of numbers to flatten, got {spec!r}; leave it out")
        self.shape, self.dtype, self.elements = spec.shape, spec.dtype, math.prod(spec.shape)
        self.low: NDArray[Any] | None
        self.high: NDArray[Any] | None
        counts: list[int] | None = None
        if isinstance(spec, Array):
            self.low, self.high = spec.low, spec.high
        elif isinstance(spec, Discrete):
            self.low, self.high = (np.array(end, spec.dtype) for end in (spec.start, spec.start + spec.n - 1))
            counts = [spec.n]
        elif isinstance(spec, MultiDiscrete):
            self.low, self.high, counts = spec.start, spec.last, spec.nvec.ravel().tolist()
        else:
            self.low, self.high = np.array(0, np.int8), np.array(1, np.int8)
        self.counts = counts if self.encoded else None
        self.size = self.elements if self.counts is None else sum(self.counts)
        self.stop = self.start + self.size

    @property
    def range(self) -> tuple[int, int]:
        """The smallest and the largest integer that may occur in a non-empty leaf of integers or bools."""
        info = None if self.dtype.kind == "b" else np.iinfo(self.dtype)
        least, most = (0, 1) if info is None else (int(info.min), int(info.max))
        return (least if self.low is None else int(self.low.min())), (
            most if self.high is None else int(self.high.max())
        )

    def is_exact(self, dtype: np.dtype[Any]) -> bool:
        """Returns True if `dtype` represents every value of the leaf exactly."""
        if self.dtype == dtype or self.counts is not None or not self.size:
            return True
        if self.dtype.kind in "biu" and dtype.kind in "fc":
            return max(map(abs, self.range)) <= 2 ** (np.finfo(dtype).nmant + 1)
        if self.dtype.kind in "biu" and dtype.kind in "iu":
            info, (least, most) = np.iinfo(dtype), self.range
            return info.min <= least and most <= info.max
        return np.can_cast(self.dtype, dtype)

    def is_rounded(self, dtype: np.dtype[Any]) -> bool:
        """Returns True if `dtype` represents every value of the leaf at least approximately."""
        if dtype.kind not in "fc" or (self.dtype.kind == "c" and dtype.kind == "f"):
            return False
        return self.dtype.kind in "fc" or max(map(abs, self.range)) <= float(np.finfo(dtype).max)


def encoder(leaf: Leaf) -> Callable[[Any], Any] | None:
    """Returns a function from elements of shape (…, elements) to one-hot encodings of shape (…, size), dtype bool.

    Args:
        leaf: The leaf to encode.

    Returns:
        The function; None if the leaf is not encoded.
    """
    if leaf.counts is None:
        return None
    size, place = leaf.size, np.cumsum([0, *leaf.counts[:-1]])[: leaf.elements] - _wide(leaf.low).ravel()

    def encode(elements: Any) -> Any:
        result = np.zeros((*elements.shape[:-1], size), bool)
        np.put_along_axis(result, _wide(elements) + place, True, -1)
        return result

    return encode


def _wide(integers: Any) -> NDArray[np.int64]:
    """Returns integers as int64; uint64 may wrap, which leaves differences of two results right."""
    return np.asarray(integers).astype(np.int64)


def reader(leaf: Leaf, dtype: np.dtype[Any]) -> Callable[[NDArray[Any]], Any]:
    """Returns a function that reads the leaf's value out of a flat array of shape (…, k).

    Args:
        leaf: The leaf to read.
        dtype: The dtype of the flat array.
    """
    start, stop, shape, kind, low, high = leaf.start, leaf.stop, leaf.shape, leaf.dtype, leaf.low, leaf.high
    is_whole, is_scalar, is_exact = kind.kind in "biu", isinstance(leaf.spec, Discrete), leaf.is_exact(dtype)
    parts: list[slice] | None = None
    if leaf.counts is not None:
        parts = [slice(end - count, end) for count, end in zip(leaf.counts, np.cumsum(leaf.counts), strict=True)]

    def plain(flat: NDArray[Any]) -> Any:
        value = flat[..., start:stop].astype(kind)
        return value if len(shape) == 1 else value.reshape((*flat.shape[:-1], *shape))

    def read(flat: NDArray[Any]) -> Any:
        part: Any = flat[..., start:stop]
        lead = flat.shape[:-1]
        if parts is not None:
            found = [part[..., one].argmax(-1) for one in parts]
            part = (np.stack(found, -1) if found else np.zeros((*lead, 0), np.int64)) + _wide(low).ravel()
        if part.dtype.kind == "c" and kind.kind != "c":
            part = part.real
        if is_whole and part.dtype.kind == "f":
            part = np.rint(part)
            part = part if is_exact else np.clip(part, *_limits(kind, part.dtype))
        value: Any = part.astype(kind).reshape((*lead, *shape))
        if not is_exact and not (low is None and high is None):
            value = np.clip(value, low, high)
        return value[()] if is_scalar else np.asarray(value)

    # By far the most common case, usually the action of a step.
    if kind.kind == "f" and is_exact and dtype.kind == "f":
        return plain
    return read


def _limits(kind: np.dtype[Any], dtype: np.dtype[Any]) -> tuple[Any, Any]:
    """Returns the smallest and the largest float of `dtype` that convert to integers of `kind` without overflow."""
    info = np.iinfo(kind)
    found: list[Any] = []
    for limit in (info.min, info.max):
        with np.errstate(over="ignore"):
            near = np.asarray(limit).astype(dtype)
        beyond = not np.isfinite(near) or not info.min <= int(near) <= info.max
        found.append(np.nextafter(near, dtype.type(0)) if beyond else near)
    return found[0], found[1]
