"""Python's operators for kernels: int64, float64 and bool with Python's values and errors, or refused.

numba has one type for Python's and for numpy's numbers. Where the two compute different values, as for the sum of two
bools, the operator is refused when it is compiled. Where Python's integers would leave 64 bits, it raises an error when
it runs. Importing this module needs numba.
"""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any

import llvmlite.binding
import numpy as np
from llvmlite import ir
from numba import from_dtype, njit, types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic, overload

from .compilation import MARK

INT, FLOAT, BOOL = types.int64, types.float64, types.boolean
WIDE = (INT, FLOAT, BOOL)
_BIT, _WORD, _DOUBLE = ir.IntType(1), ir.IntType(64), ir.DoubleType()
_LEAST = _WORD(-(2**63))
_OVERFLOW = "an integer of the model does not fit in 64 bits; pass compiled=False"


def refuse(reason: str) -> TypingError:
    """Returns the error that makes numba give up, with a reason for the author."""
    return TypingError(f"{MARK}{reason}")


def is_scalar(kind: Any) -> bool:
    """Returns True for the type of one number."""
    return isinstance(kind, (types.Number, types.Boolean))


def shown(*kinds: Any) -> str:
    """Returns types as an author knows them."""
    names = {INT: "int", FLOAT: "float", BOOL: "bool"}
    return " and ".join(names.get(types.unliteral(kind), str(types.unliteral(kind))) for kind in kinds)


def check_numbers(title: str, *kinds: Any) -> None:
    """Refuses operands that are no int, float or bool."""
    if not all(types.unliteral(kind) in WIDE for kind in kinds):
        raise refuse(f"{title} of {shown(*kinds)}; convert numbers by float() or int()")


# Code.


def fail(context: Any, builder: Any, condition: Any, error: type[Exception], message: str) -> None:
    """Raises an error where a condition holds, which is expected to be rare."""
    with builder.if_then(condition, likely=False):
        context.call_conv.return_user_exc(builder, error, (message,))


def native(typing: Any, function: Any, *kinds: Any) -> tuple[Any, Callable[..., Any]]:
    """Returns the type of numba's own result, and a function that writes its code."""
    found: Any = typing.resolve_function_type(function, kinds, {})

    def code(context: Any, builder: Any, arguments: Sequence[Any], given: Sequence[Any] = kinds) -> Any:
        values = [context.cast(builder, *one) for one in zip(arguments, given, found.args, strict=True)]
        return context.get_function(function, found)(builder, values)

    return (None if found is None else found.return_type), code


def llvm_call(builder: Any, name: str, result: Any, *arguments: Any) -> Any:
    """Calls a function that LLVM or the process knows by a name."""
    kind = ir.FunctionType(result, [one.type for one in arguments])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, name), arguments)


def as_float(context: Any, builder: Any, value: Any, kind: Any, exact: bool = False) -> Any:
    """Converts a number to float64; if `exact`, raises an error for an int that no float64 is."""
    kind = types.unliteral(kind)
    if exact and kind == INT:
        outside = builder.icmp_unsigned(">", builder.add(value, _WORD(2**53)), _WORD(2**54))
        fail(context, builder, outside, OverflowError, "an integer beyond 2**53 beside a float; pass compiled=False")
    return context.cast(builder, value, kind, FLOAT)


def whole(context: Any, builder: Any, value: Any) -> Any:
    """Converts a float64 without a fraction to int64; raises Python's errors for nan and inf."""
    nan = builder.fcmp_unordered("uno", value, value)
    fail(context, builder, nan, ValueError, "cannot convert float NaN to integer")
    least, bound = ir.Constant(_DOUBLE, -(2.0**63)), ir.Constant(_DOUBLE, 2.0**63)
    inside = builder.and_(builder.fcmp_ordered(">=", value, least), builder.fcmp_ordered("<", value, bound))
    fail(context, builder, builder.not_(inside), OverflowError, _OVERFLOW)
    return builder.fptosi(value, _WORD)


def _checked(context: Any, builder: Any, name: str, one: Any, other: Any) -> Any:
    """Computes with integers by an LLVM operation that tells if it overflows."""
    pair = ir.LiteralStructType([_WORD, _BIT])
    result = llvm_call(builder, f"llvm.{name}.with.overflow.i64", pair, one, other)
    fail(context, builder, builder.extract_value(result, 1), OverflowError, _OVERFLOW)
    return builder.extract_value(result, 0)


# Operators of two numbers.


def _common(one: Any, other: Any) -> Any:
    return FLOAT if FLOAT in (types.unliteral(one), types.unliteral(other)) else INT


def _check_arrays(sign: str, one: Any, other: Any) -> None:
    """Refuses operators of arrays whose bits may differ between numpy and numba."""
    pair = (one, other)
    if sign not in ("+", "-", "*", "/") or not all(isinstance(kind, types.Array) or is_scalar(kind) for kind in pair):
        raise refuse(f"it computes {sign} of arrays, whose bits differ between numpy and C; compute it by elements")
    elements = [types.unliteral(getattr(kind, "dtype", kind)) for kind in pair]
    if BOOL in elements or (elements[0] != elements[1] and not all(kind in WIDE for kind in elements)):
        raise refuse(f"it computes {sign} of arrays of {shown(*elements)}; give both the same dtype")


def _arithmetic(sign: str, function: Any, overflowing: str = "") -> Any:
    """Returns the exact form of an operator, of arrays too."""

    @intrinsic
    def operate(typing: Any, one: Any, other: Any) -> Any:
        one, other = types.unliteral(one), types.unliteral(other)
        if isinstance(one, types.Array) or isinstance(other, types.Array):
            _check_arrays(sign, one, other)
            kind, code = native(typing, function, one, other)
            return kind(one, other), lambda context, builder, _, values: code(context, builder, values)
        if not (is_scalar(one) and is_scalar(other)):
            if isinstance(one, types.Optional) or isinstance(other, types.Optional):
                raise refuse(f"it computes {sign} of what may be None")
            kind, code = native(typing, function, one, other)
            return kind and (kind(one, other), lambda context, builder, _, values: code(context, builder, values))
        check_numbers(f"it computes {sign}", one, other)
        if one == other == BOOL:
            raise refuse(f"it computes {sign} of two bools, which differs between Python and numpy; convert by int()")
        common = _common(one, other)
        inner = FLOAT if sign == "/" else common
        result, code = native(typing, getattr(operator, function.__name__.removeprefix("i")), inner, inner)

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if inner == FLOAT:
                exact = sign == "/" and common == INT
                values = [
                    as_float(context, builder, *pair, exact) for pair in zip(arguments, signature.args, strict=True)
                ]
            else:
                values = [context.cast(builder, *pair, INT) for pair in zip(arguments, signature.args, strict=True)]
                if overflowing:
                    return _checked(context, builder, overflowing, *values)
                if sign == "//":
                    least = builder.icmp_signed("==", values[0], _LEAST)
                    both = builder.and_(least, builder.icmp_signed("==", values[1], _WORD(-1)))
                    fail(context, builder, both, OverflowError, _OVERFLOW)
            return code(context, builder, values)

        return result(one, other), build

    return operate


def _comparison(sign: str, function: Any) -> Any:
    """Returns the exact form of a comparison."""

    @intrinsic
    def compare(typing: Any, one: Any, other: Any) -> Any:
        one, other = types.unliteral(one), types.unliteral(other)
        scalars = is_scalar(one) and is_scalar(other)
        kinds = (_common(one, other),) * 2 if scalars else (one, other)
        if scalars:
            check_numbers(f"it compares {sign}", one, other)
        elif {FLOAT, types.float32} == {getattr(kind, "dtype", kind) for kind in kinds}:
            raise refuse(f"it computes {sign} of arrays of float32 and float64; give both the same dtype")
        elif any(isinstance(kind, types.BaseTuple) for kind in kinds):
            raise refuse(f"it computes {sign} of tuples; compare their elements")
        result, code = native(typing, function, *kinds)

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            if kinds[0] == FLOAT and scalars:
                arguments = [
                    as_float(context, builder, *pair, True) for pair in zip(arguments, signature.args, strict=True)
                ]
            elif scalars:
                arguments = [context.cast(builder, *pair, INT) for pair in zip(arguments, signature.args, strict=True)]
            return code(context, builder, arguments)

        return result and (result(one, other), build)

    return compare


def _bitwise(sign: str, function: Any) -> Any:
    @intrinsic
    def combine(typing: Any, one: Any, other: Any) -> Any:
        one, other = types.unliteral(one), types.unliteral(other)
        check_numbers(f"it computes {sign}", one, other)
        if FLOAT in (one, other):
            raise refuse(f"it computes {sign} of {shown(one, other)}")
        kind = BOOL if one == other == BOOL else INT
        result, code = native(typing, function, kind, kind)

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return code(context, builder, arguments, signature.args)

        return result(one, other), build

    return combine


@intrinsic
def _contains(typing: Any, values: Any, value: Any) -> Any:
    value = types.unliteral(value)
    inside: list[Any] = list(getattr(values, "types", [getattr(values, "dtype", None)]))
    if any(types.unliteral(kind) != types.unliteral(value) for kind in inside) or value == FLOAT:
        raise refuse(f"it looks for {shown(value)} in a {shown(values)}; compare by == one by one")
    result, code = native(typing, operator.contains, values, value)
    return result(values, value), lambda context, builder, _, arguments: code(context, builder, arguments)


def _same_object(symbol: str, instead: str, function: Any) -> Any:
    """Returns the function for `is` or `is not`, which kernels have for None alone."""

    @intrinsic
    def same(typing: Any, one: Any, other: Any) -> Any:
        if not any(isinstance(kind, types.NoneType) for kind in (one, other)):
            raise refuse(f"`{symbol}` compares objects, which numbers of a kernel are not; write {instead}")
        result, code = native(typing, function, one, other)
        return result(one, other), lambda context, builder, _, arguments: code(context, builder, arguments)

    return same


def _matmul(one: Any, other: Any) -> Any:
    return one @ other


@overload(_matmul, strict=False)
def _(one: Any, other: Any) -> Any:
    raise refuse("@ adds floats in an order of its own; write the products and additions")


# Powers and shifts.

llvmlite.binding.add_symbol("envoi_pow", ctypes.cast(ctypes.CDLL(None).pow, ctypes.c_void_p).value)


def power_of_floats(context: Any, builder: Any, base: Any, exponent: Any, of_operator: bool) -> Any:
    """Calls C's `pow` by a name that LLVM does not know: it would turn a square into a product, of other bits."""
    result = llvm_call(builder, "envoi_pow", _DOUBLE, base, exponent)
    finite = [builder.fcmp_ordered("==", builder.fsub(one, one), _DOUBLE(0.0)) for one in (result, base, exponent)]
    wrong = builder.and_(builder.not_(finite[0]), builder.and_(finite[1], finite[2]))
    with builder.if_then(wrong, likely=False):
        zero = builder.fcmp_ordered("==", base, _DOUBLE(0.0))
        if of_operator:
            fail(context, builder, zero, ZeroDivisionError, "zero to a negative power")
        nan = builder.fcmp_unordered("uno", result, result)
        what = "a power of a negative number is complex" if of_operator else "math domain error"
        fail(context, builder, nan if of_operator else builder.or_(nan, zero), ValueError, what)
        context.call_conv.return_user_exc(builder, OverflowError, ("(34, 'Numerical result out of range')",))
    return result


@intrinsic
def _float_power(typing: Any, base: Any, exponent: Any) -> Any:
    base, exponent = types.unliteral(base), types.unliteral(exponent)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = [as_float(context, builder, *pair) for pair in zip(arguments, signature.args, strict=True)]
        return power_of_floats(context, builder, *values, of_operator=True)

    return FLOAT(base, exponent), build


def power(base: Any, exponent: Any) -> Any:
    """Returns `base ** exponent`, of the same bits as Python's."""
    return base**exponent


@overload(power, strict=False, jit_options={"forceinline": True})
def _power(base: Any, exponent: Any) -> Any:
    base, exponent = types.unliteral(base), types.unliteral(exponent)
    check_numbers("it computes **", base, exponent)
    if base == exponent == BOOL:
        raise refuse("it computes ** of two bools; convert them by int()")
    if _common(base, exponent) == FLOAT:
        return lambda base, exponent: _float_power(base, exponent)  # pyright: ignore

    def of_integers(base: Any, exponent: Any) -> Any:
        base, exponent = int(base), int(exponent)
        if exponent < 0 and base == 0:
            raise ZeroDivisionError("zero to a negative power")
        if exponent < 0:
            raise OverflowError("a negative power of an integer, which is no integer; convert the base by float()")
        result = 1
        for _ in range(exponent):
            if result == 0 or (result == 1 and base == 1):
                break
            if base == -1:
                return 1 - 2 * (exponent % 2)
            result = _multiply(result, base)
        return result

    return of_integers


def shifted_left(value: Any, count: Any) -> Any:
    """Returns `value << count`."""
    return value << count


@overload(shifted_left, strict=False)
def _shifted_left(value: Any, count: Any) -> Any:
    value, count = types.unliteral(value), types.unliteral(count)
    if value != INT or count != INT:
        raise refuse(f"it computes << of {shown(value, count)}; convert them by int()")

    def shift(value: Any, count: Any) -> Any:
        if count < 0:
            raise ValueError("negative shift count")
        if value != 0 and (count > 62 or ((value << count) >> count) != value):
            raise OverflowError("an integer of the model does not fit in 64 bits; pass compiled=False")
        return value << min(count, 62)

    return shift


def shifted_right(value: Any, count: Any) -> Any:
    """Returns `value >> count`."""
    return value >> count


@overload(shifted_right, strict=False)
def _shifted_right(value: Any, count: Any) -> Any:
    value, count = types.unliteral(value), types.unliteral(count)
    if value != INT or count != INT:
        raise refuse(f"it computes >> of {shown(value, count)}; convert them by int()")

    def shift(value: Any, count: Any) -> Any:
        if count < 0:
            raise ValueError("negative shift count")
        return value >> min(count, 63)

    return shift


# Functions of one number.


def of_one(title: str, code: Callable[[Any, Any, Any, Any], tuple[Any, Any]], arrays: Any = None) -> Any:
    """Returns a kernel's function of one number.

    `code` returns the type of its result, and the value, from `(context, builder, value, kind)`; without a builder, the
    type alone.
    """

    @intrinsic
    def compute(typing: Any, value: Any) -> Any:
        if arrays is not None and isinstance(value, types.Array):
            result, inner = native(typing, arrays, value)
            return result(value), lambda context, builder, _, values: inner(context, builder, values)
        result, _ = code(None, None, None, types.unliteral(value))
        return result(value), lambda context, builder, signature, values: code(
            context, builder, values[0], types.unliteral(value)
        )[1]

    compute.__name__ = title
    return compute


def _to_whole(title: str, rounding: str) -> Any:
    """Returns `round`, `math.floor`, `math.ceil` or `math.trunc`, whose results are integers."""

    def code(context: Any, builder: Any, value: Any, kind: Any) -> tuple[Any, Any]:
        check_numbers(f"it calls {title}", kind)
        if kind == BOOL:
            raise refuse(f"it calls {title} of a bool; convert it by int()")
        if builder is not None and kind == FLOAT:
            value = whole(context, builder, llvm_call(builder, f"llvm.{rounding}.f64", _DOUBLE, value))
        return INT, value

    return of_one(title, code)


def _integer(context: Any, builder: Any, value: Any, kind: Any) -> tuple[Any, Any]:
    if not is_scalar(kind) or isinstance(kind, types.Complex) or kind == types.uint64:
        raise refuse(f"it calls int of a {shown(kind)}")
    if builder is not None:
        if isinstance(kind, types.Float):
            value = context.cast(builder, value, kind, FLOAT)
            value = whole(context, builder, llvm_call(builder, "llvm.trunc.f64", _DOUBLE, value))
        else:
            value = context.cast(builder, value, kind, INT)
    return INT, value


def _float(context: Any, builder: Any, value: Any, kind: Any) -> tuple[Any, Any]:
    if not is_scalar(kind) or isinstance(kind, types.Complex):
        raise refuse(f"it calls float of a {shown(kind)}")
    return FLOAT, None if builder is None else context.cast(builder, value, kind, FLOAT)


def _absolute(context: Any, builder: Any, value: Any, kind: Any) -> tuple[Any, Any]:
    check_numbers("it calls abs", kind)
    if kind == BOOL:
        raise refuse("it calls abs of a bool; convert it by int()")
    if builder is not None and kind == FLOAT:
        value = llvm_call(builder, "llvm.fabs.f64", _DOUBLE, value)
    elif builder is not None:
        negative = builder.icmp_signed("<", value, _WORD(0))
        value = builder.select(negative, _checked(context, builder, "ssub", _WORD(0), value), value)
    return kind, value


def _negative(context: Any, builder: Any, value: Any, kind: Any) -> tuple[Any, Any]:
    check_numbers("it computes -", kind)
    if kind == BOOL:
        raise refuse("it computes - of a bool; convert it by int()")
    if builder is not None:
        value = builder.fneg(value) if kind == FLOAT else _checked(context, builder, "ssub", _WORD(0), value)
    return kind, value


def _positive(context: Any, builder: Any, value: Any, kind: Any) -> tuple[Any, Any]:
    check_numbers("it computes +", kind)
    if kind == BOOL:
        raise refuse("it computes + of a bool; convert it by int()")
    return kind, value


def _inverted(context: Any, builder: Any, value: Any, kind: Any) -> tuple[Any, Any]:
    if kind != INT:
        raise refuse("~ differs between Python's and numpy's bools; write `not`, or int() around it")
    return kind, None if builder is None else builder.not_(value)


def _extreme(title: str, sign: str) -> Any:
    """Returns `min` or `max` of two numbers: the first one, unless the second is less or more."""

    @intrinsic
    def choose(typing: Any, one: Any, other: Any) -> Any:
        one, other = types.unliteral(one), types.unliteral(other)
        check_numbers(f"it calls {title}", one, other)
        kind = BOOL if one == other == BOOL else _common(one, other)

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            values = [
                as_float(context, builder, value, own, True)
                if kind == FLOAT
                else context.cast(builder, value, own, kind)
                for value, own in zip(arguments, signature.args, strict=True)
            ]
            compare = (
                builder.fcmp_ordered
                if kind == FLOAT
                else (builder.icmp_unsigned if kind == BOOL else builder.icmp_signed)
            )
            return builder.select(compare(sign, values[1], values[0]), values[1], values[0])

        return kind(one, other), build

    choose.__name__ = title
    return choose


def keep(name: str) -> Any:
    """Returns a function that passes numbers of a state on, which must be of the dtype of those in the first state."""
    wanted = from_dtype(np.dtype(name))

    @intrinsic
    def kept(typing: Any, value: Any) -> Any:
        if types.unliteral(value) != wanted:
            to = {INT: "int", BOOL: "bool"}.get(wanted, "float")
            raise refuse(
                f"transition or initial: it returns a state with a {shown(value)} where the first state has a "
                f"{shown(wanted)}; convert it by {to}()"
            )
        return wanted(wanted), lambda context, builder, signature, arguments: arguments[0]

    return kept


@intrinsic
def store(typing: Any, rows: Any, lane: Any, value: Any) -> Any:
    """Stores a number, or a tuple of the numbers of an array, as the value of a lane."""
    parts: list[Any] = list(getattr(value, "types", [value]))
    parts = [types.unliteral(kind) for kind in parts]
    if isinstance(value, types.BaseTuple) and (rows.ndim != 2 or not all(map(is_scalar, parts))):
        raise refuse("observe: it returns an array of another shape than observation_spec has")
    is_real = isinstance(rows.dtype, types.Float)
    for kind in parts:
        number = types.unliteral(getattr(kind, "dtype", kind))
        if not is_real and number not in (rows.dtype, BOOL, *([INT] * isinstance(rows.dtype, types.Integer))):
            raise refuse(f"it returns {shown(kind)} where the spec has {shown(rows.dtype)}; convert it")
    index = types.UniTuple(INT, 2) if isinstance(value, types.BaseTuple) else INT
    kinds = [FLOAT if kind in WIDE and is_real else kind for kind in parts]
    writers = [native(typing, operator.setitem, rows, index, kind)[1] for kind in kinds]

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        if isinstance(value, types.BaseTuple):
            size = cgutils.unpack_tuple(builder, context.make_array(rows)(context, builder, arguments[0]).shape)[1]
            wrong = builder.icmp_signed("!=", size, _WORD(len(parts)))
            fail(context, builder, wrong, ValueError, "observe: another number of values than observation_spec has")
        for number, (write, kind, to) in enumerate(zip(writers, parts, kinds, strict=True)):
            place, one = arguments[1], arguments[2]
            if isinstance(value, types.BaseTuple):
                place = context.make_tuple(builder, index, [place, _WORD(number)])
                one = builder.extract_value(one, number)
                one = context.cast(builder, one, signature.args[2].types[number], kind)
            write(context, builder, [arguments[0], place, context.cast(builder, one, kind, to)])
        return context.get_dummy_value()

    return types.none(rows, INT, value), build


@njit
def check_shape(shape: Any, expected: Any) -> None:
    """Raises an error if an array of a state has another shape than at first."""
    if shape != expected:
        raise ValueError("a function of the model returns an array of another shape than the first state has")


_add, _multiply = _arithmetic("+", operator.add, "sadd"), _arithmetic("*", operator.mul, "smul")

_and, _or, _xor = _bitwise("&", operator.and_), _bitwise("|", operator.or_), _bitwise("^", operator.xor)
MINIMUM, MAXIMUM = _extreme("min", "<"), _extreme("max", ">")

OPERATORS: dict[Any, Any] = {
    operator.add: _add,
    operator.mul: _multiply,
    operator.sub: _arithmetic("-", operator.sub, "ssub"),
    operator.truediv: _arithmetic("/", operator.truediv),
    operator.floordiv: _arithmetic("//", operator.floordiv),
    operator.mod: _arithmetic("%", operator.mod),
    operator.iadd: _arithmetic("+", operator.iadd, "sadd"),
    operator.imul: _arithmetic("*", operator.imul, "smul"),
    operator.isub: _arithmetic("-", operator.isub, "ssub"),
    operator.itruediv: _arithmetic("/", operator.itruediv),
    operator.ifloordiv: _arithmetic("//", operator.ifloordiv),
    operator.imod: _arithmetic("%", operator.imod),
    **{getattr(operator, name): _comparison(sign, getattr(operator, name))
       for name, sign in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items()},
    operator.and_: _and,
    operator.iand: _and,
    operator.or_: _or,
    operator.ior: _or,
    operator.xor: _xor,
    operator.ixor: _xor,
    operator.pow: power,
    operator.ipow: power,
    operator.lshift: shifted_left,
    operator.ilshift: shifted_left,
    operator.rshift: shifted_right,
    operator.irshift: shifted_right,
    operator.matmul: _matmul,
    operator.imatmul: _matmul,
    operator.contains: _contains,
    operator.is_: _same_object("is", "==", operator.is_),
    operator.is_not: _same_object("is not", "!=", operator.is_not),
    operator.neg: of_one("-", _negative),
    operator.pos: of_one("+", _positive),
    operator.invert: of_one("~", _inverted),
}  # fmt: skip
"""The functions that kernels call for Python's operators."""

FUNCTIONS: dict[Any, Any] = {
    abs: of_one("abs", _absolute, np.abs),
    int: of_one("int", _integer),
    float: of_one("float", _float),
    round: _to_whole("round", "rint"),
    pow: power,
    math.floor: _to_whole("math.floor", "floor"),
    math.ceil: _to_whole("math.ceil", "ceil"),
    math.trunc: _to_whole("math.trunc", "trunc"),
}
"""The functions that kernels call for Python's functions of one number."""
