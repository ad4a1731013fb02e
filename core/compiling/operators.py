"""Python's operators for kernels of scalar models: checked where numba computes other values without saying so.

numba has one type for Python's and for numpy's numbers. Where the two compute different values, as for 32 bits beside
64 or for the sum of two bools, the operator is refused when it is compiled. Where Python's integers would leave 64
bits, or nan become an integer, it raises an error when it runs. Importing this module needs numba.
"""

from __future__ import annotations

import ctypes
import operator
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic, overload

from .operand_types import WIDE, check_operands, is_scalar, refuse

_OVERFLOW = "an integer of the model does not fit in 64 bits; pass compiled=False"
_BIT, _WORD, _DOUBLE = ir.IntType(1), ir.IntType(64), ir.DoubleType()


def _operator(name: str, function: Any, overflowing: str = "") -> Any:
    """Returns the checked form of an operator.

    Args:
        name: Its sign, for messages.
        function: The function of the module `operator`.
        overflowing: LLVM's function that also tells of an overflow.
    """

    @intrinsic
    def checked(typing: Any, one: Any, other: Any) -> Any:
        check_operands(name, one, other)
        found: Any = typing.resolve_function_type(function, (one, other), {})
        integers = bool(overflowing) and is_scalar(one) and getattr(found, "return_type", None) == types.int64

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values = [
                context.cast(builder, value, have, want)
                for value, have, want in zip(arguments, signature.args, found.args, strict=True)
            ]
            if not integers:
                return context.get_function(function, found)(builder, values)
            pair = ir.FunctionType(ir.LiteralStructType([_WORD, _BIT]), [_WORD, _WORD])
            called = cgutils.get_or_insert_function(builder.module, pair, f"llvm.{overflowing}.with.overflow.i64")
            result = builder.call(called, values)
            with builder.if_then(builder.extract_value(result, 1), likely=False):
                context.call_conv.return_user_exc(builder, OverflowError, (_OVERFLOW,))
            return builder.extract_value(result, 0)

        return (None if found is None else found.return_type(one, other)), build

    return checked


def _comparison(name: str, function: Any) -> Any:
    @intrinsic
    def compared(typing: Any, one: Any, other: Any) -> Any:
        if {one, other} == {types.float32, types.float64}:
            raise refuse(f"it computes {name} of float32 and float64; convert numbers of few bits by float()")
        found: Any = typing.resolve_function_type(function, (one, other), {})

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values = [
                context.cast(builder, value, have, want)
                for value, have, want in zip(arguments, signature.args, found.args, strict=True)
            ]
            return context.get_function(function, found)(builder, values)

        return (None if found is None else found.return_type(one, other)), build

    return compared


_SIGNS = {"add": "+", "sub": "-", "mul": "*", "truediv": "/", "floordiv": "//", "mod": "%"}
_OVERFLOWING = {"add": "sadd", "sub": "ssub", "mul": "smul"}
_COMPARED = {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}


@intrinsic
def _negative(typing: Any, value: Any) -> Any:
    if is_scalar(value) and value not in (*WIDE[:2], types.float32):
        raise refuse(f"it computes - of a {value}; convert it by float() or int()")
    found: Any = typing.resolve_function_type(operator.neg, (value,), {})

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return context.get_function(operator.neg, found)(builder, arguments)

    return (None if found is None else found.return_type(value)), build


@intrinsic
def _c_power(typing: Any, base: Any, exponent: Any) -> Any:
    """Calls C's `pow` by a name that LLVM does not know: it would turn a square into a product, of other bits."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_DOUBLE, [_DOUBLE, _DOUBLE])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "envoi_pow"), arguments)

    return types.float64(types.float64, types.float64), build


llvmlite.binding.add_symbol("envoi_pow", ctypes.cast(ctypes.CDLL(None).pow, ctypes.c_void_p).value)


def power(base: Any, exponent: Any) -> Any:
    """Returns `base ** exponent`, of the same bits as Python's.

    Args:
        base: A number.
        exponent: A number.
    """
    return base**exponent


@overload(power, strict=False)
def _power(base: Any, exponent: Any) -> Any:
    check_operands("**", base, exponent)
    if base == types.int64 and exponent == types.int64:

        def of_integers(base: Any, exponent: Any) -> Any:
            if exponent < 0:
                raise OverflowError("a negative power of an integer, which is no integer; convert the base by float()")
            result = 1
            for _ in range(exponent):
                if result == 0 or (result == 1 and base == 1):
                    break
                result = _multiply(result, base)
            return result

        return of_integers
    return lambda base, exponent: _c_power(float(base), float(exponent))  # pyright: ignore


def shifted_left(value: Any, count: Any) -> Any:
    """Returns `value << count`.

    Args:
        value: An integer.
        count: A number of bits.
    """
    return value << count


@overload(shifted_left, strict=False)
def _shifted_left(value: Any, count: Any) -> Any:
    if value != types.int64 or count != types.int64:
        raise refuse(f"it computes << of {value} and {count}; convert them by int()")

    def shift(value: Any, count: Any) -> Any:
        if count < 0 or count > 62 or ((value << count) >> count) != value:
            raise OverflowError("an integer of the model does not fit in 64 bits; pass compiled=False")
        return value << count

    return shift


def shifted_right(value: Any, count: Any) -> Any:
    """Returns `value >> count`.

    Args:
        value: An integer.
        count: A number of bits.
    """
    return value >> count


@overload(shifted_right, strict=False)
def _shifted_right(value: Any, count: Any) -> Any:
    if value != types.int64 or count != types.int64:
        raise refuse(f"it computes >> of {value} and {count}; convert them by int()")

    def shift(value: Any, count: Any) -> Any:
        if count < 0:
            raise ValueError("negative shift count")
        return value >> min(count, 63)

    return shift


def exact_sum(values: Any) -> Any:
    """Returns the sum of an array of integers.

    Args:
        values: The array.
    """
    return values.sum()


@overload(exact_sum, strict=False)
def _exact_sum(values: Any) -> Any:
    if not isinstance(values, types.Array) or not isinstance(values.dtype, (types.Integer, types.Boolean)):
        raise refuse("it takes a sum of floats, which numpy adds in an order of its own; write the additions")

    def add(values: Any) -> Any:
        result = 0
        for value in values.flat:
            result = _add(result, np.int64(value))
        return result

    return add


_add, _multiply = (_operator(sign, getattr(operator, name), llvm) for sign, name, llvm in (
    ("+", "add", "sadd"), ("*", "mul", "smul")
))  # fmt: skip

NAMES: dict[str, Any] = {
    **{f"checked_{name}": _operator(sign, getattr(operator, name), _OVERFLOWING.get(name, ""))
       for name, sign in _SIGNS.items()},
    **{f"checked_i{name}": _operator(sign, getattr(operator, f"i{name}"), _OVERFLOWING.get(name, ""))
       for name, sign in _SIGNS.items()},
    **{f"checked_{name}": _comparison(sign, getattr(operator, name)) for name, sign in _COMPARED.items()},
    "checked_neg": _negative,
    "power": power,
    "shifted_left": shifted_left,
    "shifted_right": shifted_right,
    "exact_sum": exact_sum,
}  # fmt: skip
"""The functions by the names that rewritten models have for them."""
