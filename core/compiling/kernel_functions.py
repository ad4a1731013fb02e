"""Functions that kernels call; numba compiles them into each kernel. Importing this module needs numba."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array


@njit(inline="always")
def place(index: Any, size: Any) -> Any:
    """Returns an index of an axis as numpy understands it, after checking that it lies inside."""
    if index < 0:
        index += size
    if index < 0 or index >= size:
        raise IndexError("an array of the model is indexed out of its bounds")
    return index


@njit(inline="always")
def clip(value: Any, low: Any, high: Any) -> Any:
    """Returns `np.clip` of a scalar: nan stays nan."""
    result = value if (value != value or value > low) else low
    return result if (result != result or result < high) else high


@njit(inline="always")
def check_length(values: Any, count: Any) -> None:
    """Raises an error if there are more or fewer values than there must be."""
    if len(values) != count:
        raise ValueError("another number of values than observation_spec has, or than there are lanes")


def _array(context: Any, builder: Any, kind: Any, data: Any, shape: list[Any]) -> Any:
    """Returns an array that does not own its memory, whose elements lie in C order."""
    word, element = ir.IntType(64), context.get_data_type(kind.dtype)
    size = word(context.get_abi_sizeof(element))
    strides = [size]
    for length in shape[:0:-1]:
        strides.insert(0, builder.mul(strides[0], length))
    result = context.make_array(kind)(context, builder)
    pointer = builder.bitcast(data, element.as_pointer())
    populate_array(result, pointer, shape, strides, size, meminfo=None)
    return result._getvalue()


@intrinsic
def array_at(typing: Any, address: Any, shape: Any, kind: Any) -> Any:
    """Returns the array at an address, whose elements lie in C order."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = builder.inttoptr(arguments[0], ir.IntType(8).as_pointer())
        return _array(context, builder, signature.return_type, data, cgutils.unpack_tuple(builder, arguments[1]))

    return types.Array(kind.dtype, len(shape), "C")(types.int64, shape, kind), build


@intrinsic(prefer_literal=True)
def row(typing: Any, size: Any, kind: Any) -> Any:
    """Returns an array on the stack, with any values."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        count = size.literal_value
        data = cgutils.alloca_once(builder, context.get_data_type(kind.dtype), size=count)
        return _array(context, builder, signature.return_type, data, [ir.IntType(64)(count)])

    return types.Array(kind.dtype, 1, "C")(size, kind), build


@intrinsic
def block(typing: Any, array: Any, place: Any, start: Any, count: Any) -> Any:
    """Returns `array[*place, start : start + count]` of an array in C order; the indices must be inside."""
    rank = len(place)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        own = context.make_array(array)(context, builder, arguments[0])
        shape = cgutils.unpack_tuple(builder, own.shape)
        offset = ir.IntType(64)(0)
        for index, length in zip([*cgutils.unpack_tuple(builder, arguments[1]), arguments[2]], shape, strict=False):
            offset = builder.add(builder.mul(offset, length), index)
        for length in shape[rank + 1 :]:
            offset = builder.mul(offset, length)
        data = builder.gep(own.data, [offset])
        return _array(context, builder, signature.return_type, data, [arguments[3], *shape[rank + 1 :]])

    return types.Array(array.dtype, array.ndim - rank, "C")(array, place, types.int64, types.int64), build


@intrinsic
def call_loop(typing: Any, address: Any, data: Any, zero: Any, values: Any) -> Any:
    """Calls a loop of a numpy ufunc for one element: `loop(char **args, npy_intp *n, npy_intp *steps, void *data)`."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kinds = [*signature.args[3], signature.args[2]]
        inputs = cgutils.unpack_tuple(builder, arguments[3])
        byte, word = ir.IntType(8).as_pointer(), ir.IntType(64)
        pointers = cgutils.alloca_once(builder, byte, size=len(kinds))
        steps = cgutils.alloca_once(builder, word, size=len(kinds))
        count = cgutils.alloca_once(builder, word)
        builder.store(word(1), count)
        slots: list[Any] = []
        for number, kind in enumerate(kinds):
            slot = cgutils.alloca_once(builder, context.get_data_type(kind))
            if number < len(inputs):
                context.pack_value(builder, kind, inputs[number], slot)
            builder.store(builder.bitcast(slot, byte), builder.gep(pointers, [word(number)]))
            builder.store(word(0), builder.gep(steps, [word(number)]))
            slots.append(slot)
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), word.as_pointer(), word.as_pointer(), byte])
        loop = builder.inttoptr(arguments[0], kind.as_pointer())
        builder.call(loop, [pointers, count, steps, builder.inttoptr(arguments[1], byte)])
        return context.unpack_value(builder, kinds[-1], slots[-1])

    return zero(types.int64, types.int64, zero, values), build


NAMES: dict[str, Any] = {
    "array_at": array_at,
    "row": row,
    "block": block,
    "place": place,
    "check_length": check_length,
    "clip": clip,
    "call_loop": call_loop,
    "sqrt": math.sqrt,
    "sin": math.sin,
    "cos": math.cos,
    "inf": np.inf,
    "nan": np.nan,
}
"""The functions and constants by the names that a kernel's lines have for them."""
