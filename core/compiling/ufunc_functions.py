"""numpy's functions of one number for kernels of scalar models, called as numpy calls them: by the loops of its ufuncs.

Importing this module needs numba.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from .known_functions import LOOPS
from .operators import WIDE, refuse
from .ufunc_loops import loop_address

_BYTE, _WORD, _DOUBLE = ir.IntType(8), ir.IntType(64), ir.DoubleType()


def _loop_function(name: str) -> Any:
    """Returns a function that calls the loop of a numpy ufunc for one element."""
    ufunc = getattr(np, name)
    types_of_loop = "d" * (ufunc.nin + 1)
    cell = (ctypes.c_void_p * 2)(*loop_address(ufunc, types_of_loop))
    _CELLS.append(cell)
    symbol = f"envoi_loop_{name}"
    llvmlite.binding.add_symbol(symbol, ctypes.addressof(cell))

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = _BYTE.as_pointer()
        # A function by its type, since only the addresses of functions may be far away; it has two addresses instead.
        place = cgutils.get_or_insert_function(builder.module, ir.FunctionType(ir.VoidType(), []), symbol)
        held = builder.bitcast(place, byte.as_pointer())
        slots = [cgutils.alloca_once(builder, _DOUBLE) for _ in range(ufunc.nin + 1)]
        for slot, value in zip(slots, arguments, strict=False):
            builder.store(value, slot)
        pointers = cgutils.alloca_once(builder, byte, size=len(slots))
        steps = cgutils.alloca_once(builder, _WORD, size=len(slots))
        count = cgutils.alloca_once_value(builder, _WORD(1))
        for number, slot in enumerate(slots):
            builder.store(builder.bitcast(slot, byte), builder.gep(pointers, [_WORD(number)]))
            builder.store(_WORD(0), builder.gep(steps, [_WORD(number)]))
        kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), _WORD.as_pointer(), _WORD.as_pointer(), byte])
        loop = builder.bitcast(builder.load(held), kind.as_pointer())
        data = builder.load(builder.gep(held, [_WORD(1)]))
        builder.call(loop, [pointers, count, steps, data])
        return builder.load(slots[-1])

    @intrinsic
    def call_one(typing: Any, value: Any) -> Any:
        return types.float64(types.float64), build

    @intrinsic
    def call_two(typing: Any, one: Any, other: Any) -> Any:
        return types.float64(types.float64, types.float64), build

    def check(kinds: Sequence[Any]) -> None:
        if any(kind not in WIDE[:2] for kind in kinds):
            shown = " and ".join(map(str, kinds))
            raise refuse(f"it calls np.{name} of {shown}, whose bits differ between numpy and C; give it float()")

    if ufunc.nin == 1:

        def one_argument(value: Any) -> Any:
            return ufunc(value)

        @overload(one_argument, strict=False)
        def _one(value: Any) -> Any:
            check([value])
            return lambda value: call_one(float(value))  # pyright: ignore

        return one_argument

    def two_arguments(one: Any, other: Any) -> Any:
        return ufunc(one, other)

    @overload(two_arguments, strict=False)
    def _two(one: Any, other: Any) -> Any:
        check([one, other])
        return lambda one, other: call_two(float(one), float(other))  # pyright: ignore

    return two_arguments


_CELLS: list[Any] = []  # the addresses of loops, which machine code reads

NAMES: dict[str, Any] = {f"numpy_{name}": _loop_function(name) for name in LOOPS}
"""The functions by the names that rewritten models have for them."""
