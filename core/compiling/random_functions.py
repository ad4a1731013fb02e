"""The methods of a generator for kernels; see `random_streams`. Importing this module needs numba."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.extending import intrinsic
from numba.np.random._constants import fi_double, ki_double, wi_double, ziggurat_nor_inv_r, ziggurat_nor_r


def _caller(kind: Any) -> Any:
    """Returns an intrinsic that calls a C function of the state's address, given the function's address."""

    @intrinsic
    def call(typing: Any, function: Any, state: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            value = context.get_value_type(kind)
            pointer = ir.FunctionType(value, [ir.IntType(8).as_pointer()]).as_pointer()
            held = builder.inttoptr(arguments[1], ir.IntType(8).as_pointer())
            return builder.call(builder.inttoptr(arguments[0], pointer), [held])

        return kind(types.int64, types.int64), build

    return call


next_double, next_uint32, next_uint64 = _caller(types.float64), _caller(types.uint32), _caller(types.uint64)


@njit(cache=True)
def _check_numbers(one: Any, other: Any) -> None:
    """Refuses parameters that are arrays, of which each element would need numbers of its own."""
    float(one)
    float(other)


@njit(cache=True)
def random(rng: Any, size: Any = None) -> Any:
    """Returns `rng.random(size)`."""
    if size is None:
        return next_double(rng[1], rng[0])
    result = np.empty(size)
    flat = result.reshape(-1)
    for k in range(len(flat)):
        flat[k] = next_double(rng[1], rng[0])
    return result


@njit(cache=True)
def uniform(rng: Any, low: Any = 0.0, high: Any = 1.0, size: Any = None) -> Any:
    """Returns `rng.uniform(low, high, size)` for numbers low and high."""
    _check_numbers(low, high)
    span = high - low
    if size is None:
        return low + span * next_double(rng[1], rng[0])
    result = np.empty(size)
    flat = result.reshape(-1)
    for k in range(len(flat)):
        flat[k] = low + span * next_double(rng[1], rng[0])
    return result


@njit(cache=True)
def _below(rng: Any, low: Any, span: Any) -> Any:
    """Returns an integer of low … low + span: Lemire's method (2019) on 32 bits."""
    if span < 0:
        raise ValueError("low >= high")
    if span == 0:
        return np.int64(low)
    if span >= 0xFFFFFFFF:
        raise ValueError("integers of more than 32 bits have no compiled form; pass compiled=False")
    count = np.uint64(span + 1)
    product = np.uint64(next_uint32(rng[2], rng[0])) * count
    rest = product & np.uint64(0xFFFFFFFF)
    if rest < count:
        least = np.uint64(np.uint64(0xFFFFFFFF) - np.uint64(span)) % count
        while rest < least:
            product = np.uint64(next_uint32(rng[2], rng[0])) * count
            rest = product & np.uint64(0xFFFFFFFF)
    return np.int64(low) + np.int64(product >> np.uint64(32))


@njit(cache=True)
def integers(rng: Any, low: Any, high: Any = None, size: Any = None) -> Any:
    """Returns `rng.integers(low, high, size)`."""
    if high is None:
        first, span = np.int64(0), np.int64(low) - 1
    else:
        first, span = np.int64(low), np.int64(high) - np.int64(low) - 1
    if size is None:
        return _below(rng, first, span)
    result = np.empty(size, np.int64)
    flat = result.reshape(-1)
    for k in range(len(flat)):
        flat[k] = _below(rng, first, span)
    return result


@njit(cache=True)
def _one_normal(rng: Any) -> Any:
    """Returns a standard normal number, by Marsaglia and Tsang's ziggurat (2000)."""
    while True:
        bits = next_uint64(rng[3], rng[0])
        layer = bits & np.uint64(0xFF)
        bits >>= np.uint64(8)
        negative = bits & np.uint64(0x1)
        size = (bits >> np.uint64(1)) & np.uint64(0x000FFFFFFFFFFFFF)
        value = size * wi_double[layer]
        if negative:
            value = -value
        if size < ki_double[layer]:
            return value
        if layer == 0:
            while True:
                far = -ziggurat_nor_inv_r * math.log1p(-next_double(rng[1], rng[0]))
                other = -math.log1p(-next_double(rng[1], rng[0]))
                if other + other > far * far:
                    if (size >> np.uint64(8)) & np.uint64(1):
                        return -(ziggurat_nor_r + far)
                    return ziggurat_nor_r + far
        elif (fi_double[layer - np.uint64(1)] - fi_double[layer]) * next_double(rng[1], rng[0]) + fi_double[
            layer
        ] < math.exp(-0.5 * value * value):
            return value


@njit(cache=True)
def normal(rng: Any, loc: Any = 0.0, scale: Any = 1.0, size: Any = None) -> Any:
    """Returns `rng.normal(loc, scale, size)` for numbers loc and scale."""
    _check_numbers(loc, scale)
    if scale < 0:
        raise ValueError("scale < 0")
    if size is None:
        return loc + scale * _one_normal(rng)
    result = np.empty(size)
    flat = result.reshape(-1)
    for k in range(len(flat)):
        flat[k] = loc + scale * _one_normal(rng)
    return result


@njit(cache=True)
def standard_normal(rng: Any, size: Any = None) -> Any:
    """Returns `rng.standard_normal(size)`."""
    if size is None:
        return _one_normal(rng)
    result = np.empty(size)
    flat = result.reshape(-1)
    for k in range(len(flat)):
        flat[k] = _one_normal(rng)
    return result


FUNCTIONS: dict[str, Any] = {
    function.__name__: function for function in (random, uniform, integers, standard_normal, normal)
}
"""The methods of a generator, as functions of a `Stream`."""
