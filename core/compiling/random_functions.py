"""A generator's methods for kernels, which return the same bits as numpy; see `layout.Stream`.

The algorithms come from numpy/random/src/distributions/distributions.c. Importing this module needs numba.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload
from numba.np.random.distributions import random_standard_normal
from numba.np.random.generator_core import next_double, next_uint32, next_uint64

from .exact_numbers import float_form
from .layout import INSIDE, Stream

_of_uniform, _of_normal = float_form("rng.uniform"), float_form("rng.normal")


def _bind(function: Any, place: int, kind: Any) -> Any:
    """Returns a function of a `Stream`, which calls the C function at field `place`; numba's own does the same then."""

    @intrinsic
    def call(typing: Any, stream: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            state, address = (builder.extract_value(values[0], k) for k in (0, place))
            pointer = ir.FunctionType(context.get_value_type(kind), [state.type]).as_pointer()
            return builder.call(builder.inttoptr(address, pointer), [state])

        return kind(stream), build

    @overload(function, strict=False)
    def _(bitgen: Any) -> Any:
        if getattr(bitgen, "instance_class", None) is Stream:
            return lambda bitgen: call(bitgen)  # pyright: ignore
        return None

    return call


_double, _uint32, _ = (
    _bind(next_double, 1, types.float64), _bind(next_uint32, 2, types.uint32), _bind(next_uint64, 3, types.uint64)
)  # fmt: skip


@njit(**INSIDE)
def filled(size: Any, kind: Any, draw: Any, *arguments: Any) -> Any:
    """Returns an array of random numbers."""
    result = np.empty(size, kind)
    flat = result.reshape(-1)
    for k in range(len(flat)):
        flat[k] = draw(*arguments)
    return result


@njit(**INSIDE)
def random(rng: Any, size: Any = None) -> Any:
    """Returns `rng.random()`."""
    return _double(rng)


@njit(**INSIDE)
def uniform(rng: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    """Returns `rng.uniform(low, high)`."""
    low = _of_uniform(low)
    span = _of_uniform(high) - low
    if not math.isfinite(span):
        raise OverflowError("high - low range exceeds valid bounds")
    if math.copysign(1.0, span) < 0.0:
        raise ValueError("high - low < 0")
    return low + span * _double(rng)


@njit(**INSIDE)
def _below(rng: Any, first: Any, last: Any) -> Any:
    """Returns an integer from first to last, exclusive, by Lemire's method as numpy does."""
    count = last - first
    if count <= 0:
        raise ValueError("low >= high")
    if count > 2**31:
        raise ValueError("integers of more than 31 bits have no compiled form; pass compiled=False")
    if count == 1:
        return first
    product = np.int64(_uint32(rng)) * count
    if (product & 0xFFFFFFFF) < count:
        least = (2**32 - count) % count
        while (product & 0xFFFFFFFF) < least:
            product = np.int64(_uint32(rng)) * count
    return first + (product >> 32)


@njit(**INSIDE)
def integers(rng: Any, low: Any, high: Any = None, size: Any = None) -> Any:
    """Returns `rng.integers(low, high)`."""
    if high is None:
        return _below(rng, np.int64(0), np.int64(low))
    return _below(rng, np.int64(low), np.int64(high))


@njit(**INSIDE)
def standard_normal(rng: Any, size: Any = None) -> Any:
    """Returns `rng.standard_normal()`."""
    return random_standard_normal(rng)


@njit(**INSIDE)
def normal(rng: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    """Returns `rng.normal(loc, scale)`."""
    loc, scale = _of_normal(loc), _of_normal(scale)
    if math.copysign(1.0, scale) < 0.0 and not math.isnan(scale):
        raise ValueError("scale < 0")
    return loc + scale * random_standard_normal(rng)


FUNCTIONS: dict[str, Any] = {
    function.__name__: function for function in (random, uniform, integers, standard_normal, normal)
}
"""The methods of a generator, as functions of a `Stream`; for a `size`, kernels call `filled`."""
