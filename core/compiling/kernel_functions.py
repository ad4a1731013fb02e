"""Functions that kernels call; numba compiles them into each kernel. Importing this module needs numba."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import load_item, populate_array, store_item

from .exact_numbers import BOOL, FLOAT, INT, WIDE, is_scalar, refuse, shown

_WORD = ir.IntType(64)


@njit(inline="always")
def check_length(values: Any, count: Any) -> None:
    """Raises an error if there are more or fewer values than there must be."""
    if len(values) != count:
        raise ValueError("another number of values than observation_spec has, or than there are lanes")


@njit
def check_shape(shape: Any, expected: Any) -> None:
    """Raises an error if an array of a state has another shape than at first."""
    if shape != expected:
        raise ValueError("a function of the model returns an array of another shape than the first state has")


@intrinsic
def array_at(typing: Any, address: Any, shape: Any, kind: Any) -> Any:
    """Returns the array at an address, which does not own its memory, and whose elements lie in C order."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        element, lengths = context.get_data_type(kind.dtype), cgutils.unpack_tuple(builder, arguments[1])
        strides = [_WORD(context.get_abi_sizeof(element))]
        for length in lengths[:0:-1]:
            strides.insert(0, builder.mul(strides[0], length))
        result = context.make_array(signature.return_type)(context, builder)
        pointer = builder.inttoptr(arguments[0], element.as_pointer())
        populate_array(result, pointer, lengths, strides, strides[-1], meminfo=None)
        return result._getvalue()

    return types.Array(kind.dtype, len(shape), "C")(types.int64, shape, kind), build


@intrinsic
def store(typing: Any, rows: Any, lane: Any, value: Any) -> Any:
    """Stores a number, an array, or a tuple of the numbers of an array, as the value of a lane."""
    is_tuple = isinstance(value, types.BaseTuple)
    kinds = [types.unliteral(kind) for kind in getattr(value, "types", [getattr(value, "dtype", value)])]
    axes = 1 if is_tuple else getattr(value, "ndim", 0)
    if not all(map(is_scalar, kinds)) or rows.ndim != 1 + axes:
        raise refuse(f"observe: it returns {shown(value)}, of another shape than observation_spec has")
    is_real = isinstance(rows.dtype, types.Float)
    for kind in kinds:
        if not is_real and kind not in (rows.dtype, BOOL, *([INT] * isinstance(rows.dtype, types.Integer))):
            raise refuse(f"observe: it returns {shown(kind)} where the spec has {shown(rows.dtype)}; convert it")

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        own = context.make_array(rows)(context, builder, arguments[0])

        def put(number: Any, kind: Any, to: Any, *place: Any) -> None:
            wide = FLOAT if is_real and to in WIDE else to
            for source, target in pairwise((kind, to, wide, rows.dtype)):
                number = context.cast(builder, number, source, target)
            pointer = cgutils.get_item_pointer(context, builder, rows, own, [arguments[1], *place])
            store_item(context, builder, rows, number, pointer)

        sizes = cgutils.unpack_tuple(builder, own.shape)[1:]
        array = context.make_array(value)(context, builder, arguments[2]) if isinstance(value, types.Array) else None
        lengths = (
            [_WORD(len(kinds))] if is_tuple else [] if array is None else cgutils.unpack_tuple(builder, array.shape)
        )
        for size, length in zip(sizes, lengths, strict=True):
            with builder.if_then(builder.icmp_signed("!=", size, length), likely=False):
                what = "observe: it returns another number of values than observation_spec has"
                context.call_conv.return_user_exc(builder, ValueError, (what,))
        if array is not None:
            with cgutils.loop_nest(builder, sizes, _WORD) as place:
                number = cgutils.get_item_pointer(context, builder, value, array, place)
                put(load_item(context, builder, value, number), kinds[0], kinds[0], *place)
        elif is_tuple:
            for k, (given, kind) in enumerate(zip(signature.args[2].types, kinds, strict=True)):
                put(builder.extract_value(arguments[2], k), given, kind, _WORD(k))
        else:
            put(arguments[2], signature.args[2], kinds[0])
        return context.get_dummy_value()

    return types.none(rows, INT, value), build


_INTEGERS = np.dtype(np.int64)
_array_at: Any = array_at  # as numba takes it


@njit
def keep_stream(saved: Any, lane: Any, which: Any, state: Any, numbers: Any) -> None:
    """Copies the state of a lane's generator, see `envoi.seeding.addresses`, unless it is of an unusual kind."""
    if numbers != 0:
        words = _array_at(numbers, (4,), _INTEGERS)
        for k in range(4):
            saved[lane, 5 * which + k] = words[k]
        saved[lane, 10 + which] = 1
        saved[lane, 5 * which + 4] = _array_at(state + 8, (1,), _INTEGERS)[0]


NAMES: dict[str, Any] = {
    function.__name__: function for function in (array_at, check_length, check_shape, keep_stream, store)
}
"""The functions by the names that a kernel's lines have for them."""
