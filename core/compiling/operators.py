"""Python's operators for kernels of scalar models: checked where numba computes other values without saying so.

numba has one type for Python's and for numpy's numbers. Where the two compute different values, as for 32 bits beside
64 or for the sum of two bools, the operator is refused when it is compiled. Where Python's integers would leave 64
bits, or nan become an integer, it raises an error when it runs. Importing this module needs numba.
"""

from __future__ import annotations

import ctypes
import math
import operator
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import njit, typeof, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

from .compilation import MARK
from .layout import CONVERSIONS

WIDE = (types.int64, types.float64, types.boolean)
"""The types that numbers of Python and of numpy have in common."""


def refuse(reason: str) -> TypingError:
    """Returns the error that makes numba give up, with a reason for the author."""
    return TypingError(f"{MARK}{reason}")


def is_scalar(kind: Any) -> bool:
    """Returns True for the type of one number."""
    return isinstance(kind, (types.Number, types.Boolean))


def check_operands(name: str, one: Any, other: Any) -> None:
    """Refuses operands for which Python and numpy, or numpy and numba, compute different values."""
    pair = (one, other)
    if all(is_scalar(kind) for kind in pair):
        if one == other == types.boolean:
            raise refuse(f"it computes {name} of two bools; convert them by int()")
        if any(kind not in WIDE for kind in pair) and not (one == other and _is_exact_in_32_bits(name, one)):
            raise refuse(f"it computes {name} of {one} and {other}; convert numbers of few bits by float() or int()")
        return
    if not any(isinstance(kind, types.Array) for kind in pair):
        return
    if name not in ("+", "-", "*", "/") or not all(isinstance(kind, types.Array) or is_scalar(kind) for kind in pair):
        raise refuse(f"it computes {name} of arrays, whose bits differ between numpy and C; compute it by elements")
    elements = [kind.dtype if isinstance(kind, types.Array) else kind for kind in pair]
    if elements[0] != elements[1] and not all(kind in WIDE for kind in elements):
        raise refuse(f"it computes {name} of {elements[0]} and {elements[1]}; give both the same dtype")


def _is_exact_in_32_bits(name: str, kind: Any) -> bool:
    return kind == types.float32 and name in ("+", "-", "*", "/")


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
    """Returns `int(value)`."""
    return int(value)


@overload(integer, strict=False)
def _integer(value: Any) -> Any:
    if isinstance(value, types.Float):
        return lambda value: _truncated(float(value))  # pyright: ignore
    if isinstance(value, types.Boolean) or (isinstance(value, types.Integer) and value != types.uint64):
        return lambda value: np.int64(value)
    return None


def real(value: Any) -> Any:
    """Returns `float(value)`, which in Python has 64 bits whatever the value has."""
    return float(value)


@overload(real, strict=False)
def _real(value: Any) -> Any:
    return (lambda value: np.float64(value)) if is_scalar(value) else None


@intrinsic
def _nearest(typing: Any, value: Any) -> Any:
    """Returns the nearest whole number, the even one of two."""

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        kind = ir.FunctionType(_DOUBLE, [_DOUBLE])
        return builder.call(cgutils.get_or_insert_function(builder.module, kind, "llvm.rint.f64"), arguments)

    return types.float64(types.float64), build


def rounded(value: Any) -> Any:
    """Returns `round(value)`."""
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
            to = "int" if wanted == types.int64 else "bool" if wanted == types.boolean else "float"
            raise refuse(
                f"transition or initial: it returns a state with a {value} where the first state has a {wanted}; "
                f"convert it by {to}()"
            )

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return context.cast(builder, arguments[0], value, wanted)

        return wanted(value), build

    return keep


@njit
def check_shape(shape: Any, expected: Any) -> None:
    """Raises an error if an array of a state has another shape than at first."""
    if shape != expected:
        raise ValueError("a function of the model returns an array of another shape than the first state has")


_OVERFLOW = "an integer of the model does not fit in 64 bits; pass compiled=False"
_BIT, _WORD, _DOUBLE = ir.IntType(1), ir.IntType(64), ir.DoubleType()


def _operator(name: str, function: Any, overflowing: str = "") -> Any:
    """Returns the checked form of an operator."""

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
    """Returns `base ** exponent`, of the same bits as Python's."""
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
    """Returns `value << count`."""
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
    """Returns `value >> count`."""
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
    """Returns the sum of an array of integers."""
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


def clipped(value: Any, low: Any, high: Any) -> Any:
    """Returns `np.clip(value, low, high)`, which numba has for arrays only."""
    return np.clip(value, low, high)


@overload(clipped, strict=False)
def _clipped(value: Any, low: Any, high: Any) -> Any:
    given = (value, low, high)
    if isinstance(value, types.Array) or not all(is_scalar(kind) or isinstance(kind, types.NoneType) for kind in given):
        return lambda value, low, high: np.clip(value, low, high)  # pyright: ignore
    if not all(is_scalar(kind) for kind in given):
        raise refuse("it computes np.clip of a number with one bound; write min(x, high) or max(x, low)")
    if isinstance(value, types.Boolean) or any(types.unliteral(kind) not in WIDE for kind in given):
        kinds = " and ".join(str(types.unliteral(kind)) for kind in given)
        raise refuse(f"it computes np.clip of {kinds}; convert numbers by float() or int()")
    to = float if types.float64 in given else int

    def clip(value: Any, low: Any, high: Any) -> Any:
        result = to(value)
        result = result if math.isnan(result) or result >= low else to(low)  # of equal numbers, it keeps the value
        return result if math.isnan(result) or result <= high else to(high)

    return clip


_add, _multiply = (_operator(sign, getattr(operator, name), llvm) for sign, name, llvm in (
    ("+", "add", "sadd"), ("*", "mul", "smul")
))  # fmt: skip

NAMES: dict[str, Any] = {
    **{f"kept_{name}": _kept(name, False) for name in CONVERSIONS},
    **{f"item_{name}": _kept(name, True) for name in CONVERSIONS},
    **{f"whole_{function.__name__}": _whole(function) for function in (math.floor, math.ceil, math.trunc)},
    "integer": integer,
    "real": real,
    "rounded": rounded,
    "check_shape": check_shape,
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
    "clipped": clipped,
}  # fmt: skip
"""The functions by the names that rewritten models have for them."""
