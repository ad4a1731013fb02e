"""Conversions of numbers for kernels of scalar models: to integers of 64 bits, and to the types of the first state.

Importing this module needs numba.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from llvmlite import ir
from numba import njit, typeof, types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from .expression_text import CONVERSIONS
from .operand_types import WIDE, refuse

_WORD, _DOUBLE = ir.IntType(64), ir.DoubleType()


@intrinsic
def _truncated(typing: Any, value: Any) -> Any:
    """Returns a float64 as an integer, after checking that it is one of 64 bits."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (number,) = arguments
        least, bound = ir.Constant(_DOUBLE, -(2.0**63)), ir.Constant(_DOUBLE, 2.0**63)
        inside = builder.and_(
            builder.fcmp_ordered(">=", number, least), builder.fcmp_ordered("<", number, bound)
        )  # False for nan
        with builder.if_then(builder.not_(inside), likely=False):
            context.call_conv.return_user_exc(builder, OverflowError, ("an integer of nan, or of over 64 bits",))
        return builder.fptosi(number, _WORD)

    return types.int64(types.float64), build


def integer(value: Any) -> Any:
    """Returns `int(value)`.

    Args:
        value: A number.
    """
    return int(value)


@overload(integer, strict=False)
def _integer(value: Any) -> Any:
    if isinstance(value, types.Float):
        return lambda value: _truncated(float(value))  # pyright: ignore
    if isinstance(value, types.Boolean) or (isinstance(value, types.Integer) and value != types.uint64):
        return lambda value: np.int64(value)
    return None


@intrinsic
def _nearest(typing: Any, value: Any) -> Any:
    """Returns the nearest whole number, the even one of two."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_DOUBLE, [_DOUBLE])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.rint.f64"), arguments)

    return types.float64(types.float64), build


def rounded(value: Any) -> Any:
    """Returns `round(value)`.

    Args:
        value: A number.
    """
    return round(value)


@overload(rounded, strict=False)
def _rounded(value: Any) -> Any:
    if value == types.float64:
        return lambda value: _truncated(_nearest(value))  # pyright: ignore
    return (lambda value: value) if value == types.int64 else None


def _whole(function: Any) -> Any:
    """Returns `math.floor`, `math.ceil` or `math.trunc`, whose results are integers."""

    def whole(value: Any) -> Any:
        return function(value)

    makers = {math.floor: np.floor, math.ceil: np.ceil, math.trunc: np.trunc}
    to_float = makers[function]

    @overload(whole, strict=False)
    def _(value: Any) -> Any:
        if value == types.float64:
            return lambda value: _truncated(to_float(value))  # pyright: ignore
        return (lambda value: value) if value == types.int64 else None

    return whole


# Numbers of states, which must be of the types that they had at first.


def _kept(name: str, of_array: bool) -> Any:
    """Returns a function that gives a number of a state the dtype of the first state, and refuses to change it."""
    wanted = typeof(CONVERSIONS[name](0))

    @intrinsic
    def keep(typing: Any, value: Any) -> Any:
        allowed = () if of_array else {types.float64: WIDE, types.int64: (types.int64, types.boolean)}.get(wanted, ())
        if value != wanted and value not in allowed:
            raise refuse(f"it returns a state with a {value} where the first state has a {wanted}")

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.cast(builder, arguments[0], value, wanted)

        return wanted(value), build

    return keep


@njit
def check_shape(shape: Any, expected: Any) -> None:
    """Raises an error if an array of a state has another shape than at first.

    Args:
        shape: The shape.
        expected: The shape at first.
    """
    if shape != expected:
        raise ValueError("a function of the model returns an array of another shape than the first state has")


NAMES: dict[str, Any] = {
    **{f"kept_{name}": _kept(name, False) for name in CONVERSIONS},
    **{f"item_{name}": _kept(name, True) for name in CONVERSIONS},
    **{f"whole_{function.__name__}": _whole(function) for function in (math.floor, math.ceil, math.trunc)},
    "integer": integer,
    "rounded": rounded,
    "check_shape": check_shape,
}
"""The functions by the names that rewritten models have for them."""
