"""Functions that kernels call; numba compiles them into each kernel. Importing this module needs numba."""

from __future__ import annotations

from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, types
from numba.core import cgutils
from numba.extending import intrinsic
from numba.np.arrayobj import populate_array


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


NAMES: dict[str, Any] = {"array_at": array_at, "check_length": check_length, "keep_stream": keep_stream}
"""The functions by the names that a kernel's lines have for them."""
