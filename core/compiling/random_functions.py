"""A generator's methods for kernels, which return the same bits as numpy; see `layout.Stream`.

The algorithms come from numpy/random/src/distributions/distributions.c. Importing this module needs numba.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic, overload
from numba.np.random.distributions import random_standard_normal
from numba.np.random.generator_core import next_double, next_uint32, next_uint64
from numba.np.random.random_methods import buffered_bounded_lemire_uint32

from .exact_numbers import float_form
from .layout import INSIDE, Stream

_of_uniform, _of_normal = float_form("rng.uniform"), float_form("rng.normal")


def _bind(function: Any, place: int, kind: Any) -> None:
    """Makes numba's function of a generator work for `Stream`: it calls the C function at field `place`."""

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


_bind(next_double, 1, types.float64)
_bind(next_uint32, 2, types.uint32)
_bind(next_uint64, 3, types.uint64)


def _drawn(size: Any, kind: Any, draw: Any, *arguments: Any) -> Any:
    """Returns a random number, or an array of them if there is a size."""
    raise NotImplementedError


@overload(_drawn, strict=False)
def _(size: Any, kind: Any, draw: Any, *arguments: Any) -> Any:
    if isinstance(size, (types.NoneType, types.Omitted)):
        return lambda size, kind, draw, *arguments: draw(*arguments)  # pyright: ignore

    def filled(size: Any, kind: Any, draw: Any, *arguments: Any) -> Any:
        result = np.empty(size, kind)
        flat = result.reshape(-1)
        for k in range(len(flat)):
            flat[k] = draw(*arguments)
        return result

    return filled


@njit(**INSIDE)
def _between(rng: Any, low: Any, span: Any) -> Any:
    return low + span * next_double(rng)


@njit(**INSIDE)
def _below(rng: Any, low: Any, span: Any) -> Any:
    """Returns an integer from low to low + span, inclusive."""
    if span < 0:
        raise ValueError("low >= high")
    if span >= 0xFFFFFFFF:
        raise ValueError("integers of more than 32 bits have no compiled form; pass compiled=False")
    return low + np.int64(buffered_bounded_lemire_uint32(rng, span)) if span else low


@njit(**INSIDE)
def _normal(rng: Any, loc: Any, scale: Any) -> Any:
    return loc + scale * random_standard_normal(rng)


@njit(**INSIDE)
def random(rng: Any, size: Any = None) -> Any:
    """Returns `rng.random(size)`."""
    return _drawn(size, np.float64, _between, rng, 0.0, 1.0)


@njit(**INSIDE)
def uniform(rng: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    """Returns `rng.uniform(low, high, size)` for numbers low and high."""
    low = _of_uniform(low)
    span = _of_uniform(high) - low
    return _drawn(size, np.float64, _between, rng, low, span)


@njit(**INSIDE)
def integers(rng: Any, low: Any, high: Any = None, size: Any = None) -> Any:
    """Returns `rng.integers(low, high, size)`."""
    first, last = (np.int64(0), np.int64(low)) if high is None else (np.int64(low), np.int64(high))
    span = last - first - 1
    return _drawn(size, np.int64, _below, rng, first, span)


@njit(**INSIDE)
def standard_normal(rng: Any, size: Any = None) -> Any:
    """Returns `rng.standard_normal(size)`."""
    return _drawn(size, np.float64, random_standard_normal, rng)


@njit(**INSIDE)
def normal(rng: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    """Returns `rng.normal(loc, scale, size)` for numbers loc and scale."""
    loc, scale = _of_normal(loc), _of_normal(scale)
    if scale < 0:
        raise ValueError("scale < 0")
    return _drawn(size, np.float64, _normal, rng, loc, scale)


FUNCTIONS: dict[str, Any] = {
    function.__name__: function for function in (random, uniform, integers, standard_normal, normal)
}
"""The methods of a generator, as functions of a `Stream`."""
