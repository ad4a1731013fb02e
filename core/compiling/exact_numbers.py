"""Python's operators and functions of numbers for kernels: with Python's values and errors, or refused.

`FORMS` is the table of what kernels call for each. numba has one type for Python's and for numpy's numbers. Where the
two compute different values, as for the sum of two bools, a form is refused when it is compiled; where Python's
integers would leave 64 bits, it raises an error when it runs. A function that is not in the table is refused, with what
to write instead: CPython computes `math.hypot` and numpy `np.sin` in ways of their own. Importing this module needs
numba.
"""

from __future__ import annotations

import builtins
import math
import operator
from collections.abc import Callable, Sequence
from inspect import signature
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import TypingError
from numba.extending import intrinsic

from .compilation import MARK, C, add_symbols

INT, FLOAT, BOOL = types.int64, types.float64, types.boolean
WIDE = (INT, FLOAT, BOOL)
_BIT, _WORD, _DOUBLE = ir.IntType(1), ir.IntType(64), ir.DoubleType()
_LEAST = _WORD(-(2**63))
_OVERFLOW = "an integer of the model does not fit in 64 bits; pass compiled=False"


def refuse(reason: str) -> TypingError:
    """Returns an error that stops numba's compilation, with a reason for the author."""
    return TypingError(f"{MARK}{reason}")


def is_scalar(kind: Any) -> bool:
    """Returns True for the type of one number."""
    return isinstance(kind, (types.Number, types.Boolean))


def shown(*kinds: Any) -> str:
    """Returns the names of types as the author knows them."""
    names = {INT: "int", FLOAT: "float", BOOL: "bool"}
    return " and ".join(names.get(types.unliteral(kind), str(types.unliteral(kind))) for kind in kinds)


class Code:
    """Writes the machine code of one call, with values of LLVM."""

    def __init__(self, context: Any, builder: Any) -> None:
        self.context, self.builder = context, builder

    def fail(self, condition: Any, error: type[Exception], message: str) -> None:
        """Raises an error if a condition holds, which is expected to be rare."""
        with self.builder.if_then(condition, likely=False):
            self.context.call_conv.return_user_exc(self.builder, error, (message,))

    def call(self, name: str, result: Any, *values: Any) -> Any:
        kind = ir.FunctionType(result, [one.type for one in values])
        return self.builder.call(cgutils.get_or_insert_function(self.builder.module, kind, name), values)

    def native(self, function: Any, kinds: Sequence[Any], values: Sequence[Any]) -> Any:
        found = self.context.typing_context.resolve_function_type(function, tuple(kinds), {})
        cast = [self.context.cast(self.builder, *one) for one in zip(values, kinds, found.args, strict=True)]
        return self.context.get_function(function, found)(self.builder, cast)

    def number(self, value: Any, kind: Any, to: Any, exact: bool = False) -> Any:
        """Converts a number. If `exact`, raises an error for an int that float64 cannot represent."""
        if exact and kind == INT and to == FLOAT:
            outside = self.builder.icmp_unsigned(">", self.builder.add(value, _WORD(2**53)), _WORD(2**54))
            self.fail(outside, OverflowError, "an integer beyond 2**53 beside a float; pass compiled=False")
        return self.context.cast(self.builder, value, kind, to)

    def whole(self, value: Any) -> Any:
        """Converts a float64 without a fraction to int64; raises Python's errors for nan and inf."""
        builder = self.builder
        nan = builder.fcmp_unordered("uno", value, value)
        self.fail(nan, ValueError, "cannot convert float NaN to integer")
        least, bound = ir.Constant(_DOUBLE, -(2.0**63)), ir.Constant(_DOUBLE, 2.0**63)
        inside = builder.and_(builder.fcmp_ordered(">=", value, least), builder.fcmp_ordered("<", value, bound))
        self.fail(builder.not_(inside), OverflowError, _OVERFLOW)
        return builder.fptosi(value, _WORD)

    def checked(self, name: str, one: Any, other: Any) -> Any:
        """Computes with integers, and raises an error if the result overflows."""
        pair = ir.LiteralStructType([_WORD, _BIT])
        result = self.call(f"llvm.{name}.with.overflow.i64", pair, one, other)
        self.fail(self.builder.extract_value(result, 1), OverflowError, _OVERFLOW)
        return self.builder.extract_value(result, 0)

    def compare(self, kind: Any, sign: str, one: Any, other: Any) -> Any:
        if kind == FLOAT:
            return (self.builder.fcmp_unordered if sign == "!=" else self.builder.fcmp_ordered)(sign, one, other)
        return (self.builder.icmp_signed if kind == INT else self.builder.icmp_unsigned)(sign, one, other)

    def infinite(self, value: Any) -> Any:
        """Returns True for infinity and nan."""
        return self.builder.fcmp_unordered("une", self.builder.fsub(value, value), _DOUBLE(0.0))

    def power(self, base: Any, exponent: Any, of_operator: bool) -> Any:
        """Calls C's `pow` under another name; LLVM would turn a square into a product, with other bits."""
        builder = self.builder
        result = self.call("envoi_pow", _DOUBLE, base, exponent)
        regular = builder.or_(self.infinite(base), self.infinite(exponent))
        with builder.if_then(builder.and_(self.infinite(result), builder.not_(regular)), likely=False):
            zero, nan = self.compare(FLOAT, "==", base, _DOUBLE(0.0)), builder.fcmp_unordered("uno", result, result)
            if of_operator:
                self.fail(zero, ZeroDivisionError, "zero to a negative power")
            what = "a power of a negative number is complex" if of_operator else "math domain error"
            self.fail(nan if of_operator else builder.or_(nan, zero), ValueError, what)
            self.context.call_conv.return_user_exc(builder, OverflowError, ("(34, 'Numerical result out of range')",))
        return result


add_symbols()


def _form(
    title: str,
    count: int,
    allowed: Sequence[Any] = (),
    write: Any = None,  # None if all is for `others`
    work: Any = None,
    result: Any = None,
    exact: Any = None,
    narrow: bool = False,
    others: Callable[..., Any] | None = None,
) -> Any:
    """Returns an operator or function of `count` numbers for kernels.

    The numbers are converted to their common type (one of `allowed`) or to `work`, exactly if that is `exact`. `write`
    returns the value, of this type or of type `result`. If `narrow`, numbers may have fewer bits. Others, such as
    arrays, go to `others(title, *kinds)`, which refuses them or returns a function that numba supports.
    """

    def typed(typing: Any, *given: Any) -> Any:
        kinds: list[Any] = [types.unliteral(kind) for kind in given]
        if any(isinstance(kind, types.Optional) for kind in kinds):
            raise refuse(f"{_does(title)} what may be None")
        if others is not None and not (allowed and all(map(is_scalar, kinds))):
            function = others(title, *kinds)
            found = typing.resolve_function_type(function, tuple(kinds), {})
            return found and (
                found.return_type(*kinds),
                lambda context, builder, _, values: Code(context, builder).native(function, kinds, values),
            )
        common = _common(title, [_widened(kind) for kind in kinds] if narrow else kinds, allowed)
        inner = work or common

        def build(context: Any, builder: Any, _: Any, values: Any) -> Any:
            code = Code(context, builder)
            pairs = zip(values, kinds, strict=True)
            return write(code, inner, *(code.number(*pair, inner, exact == common) for pair in pairs))

        return (result or inner)(*kinds), build

    functions = {
        1: lambda typing, one: typed(typing, one),  # pyright: ignore
        2: lambda typing, one, other: typed(typing, one, other),  # pyright: ignore
        3: lambda typing, one, low, high: typed(typing, one, low, high),  # pyright: ignore
    }
    function: Any = functions[count]
    function.__name__ = title
    return intrinsic(function)


def _does(title: str) -> str:
    return f"it {'calls' if title[0].isalpha() else 'computes'} {title} of"


def _widened(kind: Any) -> Any:
    if isinstance(kind, types.Float):
        return FLOAT
    return INT if isinstance(kind, types.Integer) and kind != types.uint64 else kind


def _common(title: str, kinds: Sequence[Any], allowed: Sequence[Any]) -> Any:
    """Returns the common type of numbers, or refuses them."""
    does = _does(title)
    if not all(kind in WIDE for kind in kinds):
        raise refuse(f"{does} {shown(*kinds)}; convert numbers by float() or int()")
    common = next(kind for kind in (FLOAT, INT, BOOL) if kind in kinds)
    if common not in allowed:
        several = "two bools" if len(kinds) > 1 else "a bool"
        why = f"{several}, which differs between Python and numpy" if common == BOOL else shown(*kinds)
        raise refuse(f"{does} {why}; convert by {'int' if INT in allowed else 'float'}()")
    return common


# Operators.


def _of_arrays(function: Any) -> Callable[..., Any]:
    """Returns a check for operators of arrays; refuses those whose bits may differ between numpy and numba."""

    def found(title: str, *kinds: Any) -> Any:
        if not any(isinstance(kind, types.Array) for kind in kinds):
            return function  # of tuples
        if title not in "+-*/" or not all(isinstance(kind, types.Array) or is_scalar(kind) for kind in kinds):
            raise refuse(
                f"it computes {title} of arrays, whose bits differ between numpy and C; compute it by elements"
            )
        elements = [types.unliteral(getattr(kind, "dtype", kind)) for kind in kinds]
        if BOOL in elements or (elements[0] != elements[1] and not all(kind in WIDE for kind in elements)):
            raise refuse(f"it computes {title} of arrays of {shown(*elements)}; give both the same dtype")
        return function

    return found


def _arithmetic(title: str, function: Any, write: Callable[..., Any], **options: Any) -> Any:
    return _form(title, 2, (INT, FLOAT), write, others=_of_arrays(function), **options)


def _sum(name: str) -> Callable[..., Any]:
    """Returns the code of +, - or *; `name` is LLVM's name of the integer operation."""

    def write(code: Code, kind: Any, *values: Any) -> Any:
        return code.checked(name, *values) if kind == INT else getattr(code.builder, f"f{name[1:]}")(*values)

    return write


def _native_of(function: Any) -> Callable[..., Any]:
    """Returns code that calls numba's own implementation, for numbers of one type."""
    return lambda code, kind, *values: code.native(function, (kind,) * len(values), values)


def _floor_quotient(code: Code, kind: Any, *values: Any) -> Any:
    if kind == INT:
        least, minus = (code.compare(INT, "==", *pair) for pair in zip(values, (_LEAST, _WORD(-1)), strict=True))
        code.fail(code.builder.and_(least, minus), OverflowError, _OVERFLOW)
    return code.native(operator.floordiv, (kind, kind), values)


def _comparison(title: str, function: Any) -> Any:
    def others(title: str, *kinds: Any) -> Any:
        if {FLOAT, types.float32} == {getattr(kind, "dtype", kind) for kind in kinds}:
            raise refuse(f"it computes {title} of arrays of float32 and float64; give both the same dtype")
        if any(isinstance(kind, types.BaseTuple) for kind in kinds):
            raise refuse(f"it computes {title} of tuples; compare their elements")
        return function

    def write(code: Code, kind: Any, *values: Any) -> Any:
        return code.compare(kind, title, *values)

    return _form(title, 2, WIDE, write, result=BOOL, exact=FLOAT, others=others)


def _power(code: Code, kind: Any, base: Any, exponent: Any) -> Any:
    if kind == FLOAT:
        return code.power(base, exponent, of_operator=True)
    return code.context.compile_internal(code.builder, _integer_power, INT(INT, INT), (base, exponent))


def _integer_power(base: Any, exponent: Any) -> Any:
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


def _shift(code: Code, count: Any) -> None:
    code.fail(code.compare(INT, "<", count, _WORD(0)), ValueError, "negative shift count")
    code.fail(code.compare(INT, ">", count, _WORD(62)), OverflowError, f"a shift by more than 62 bits, or {_OVERFLOW}")


def _shifted_left(code: Code, kind: Any, value: Any, count: Any) -> Any:
    _shift(code, count)
    result = code.builder.shl(value, count)
    code.fail(code.compare(INT, "!=", code.builder.ashr(result, count), value), OverflowError, _OVERFLOW)
    return result


def _shifted_right(code: Code, kind: Any, value: Any, count: Any) -> Any:
    _shift(code, count)
    return code.builder.ashr(value, count)


def _negative(code: Code, kind: Any, value: Any) -> Any:
    return code.builder.fneg(value) if kind == FLOAT else code.checked("ssub", _WORD(0), value)


def _absolute(code: Code, kind: Any, value: Any) -> Any:
    if kind == FLOAT:
        return code.call("llvm.fabs.f64", _DOUBLE, value)
    negative = code.compare(INT, "<", value, _WORD(0))
    return code.builder.select(negative, code.checked("ssub", _WORD(0), value), value)


def _extreme(sign: str) -> Callable[..., Any]:
    """Returns the code of min or max: the first number, unless the second is less (or more)."""

    def write(code: Code, kind: Any, one: Any, other: Any) -> Any:
        return code.builder.select(code.compare(kind, sign, other, one), other, one)

    return write


def _same_object(instead: str, function: Any) -> Callable[..., Any]:
    """Returns the function for `is` or `is not`, which kernels only allow if one side is None."""

    def others(title: str, *kinds: Any) -> Any:
        if not any(isinstance(kind, types.NoneType) for kind in kinds):
            raise refuse(f"`{title}` compares objects, which numbers of a kernel are not; write {instead}")
        return function

    return others


def _contains(title: str, values: Any, value: Any) -> Any:
    inside: list[Any] = list(getattr(values, "types", [getattr(values, "dtype", None)]))
    if any(types.unliteral(kind) != value for kind in inside) or value == FLOAT:
        raise refuse(f"it looks for {shown(value)} in a {shown(values)}; compare by == one by one")
    return operator.contains


_BITS, _NUMBERS = (INT, BOOL), (INT, FLOAT)
_multiply = _arithmetic("*", operator.mul, _sum("smul"))
_OPERATORS = {
    "add": _arithmetic("+", operator.add, _sum("sadd")),
    "sub": _arithmetic("-", operator.sub, _sum("ssub")),
    "mul": _multiply,
    "truediv": _arithmetic("/", operator.truediv, _native_of(operator.truediv), work=FLOAT, exact=INT),
    "floordiv": _arithmetic("//", operator.floordiv, _floor_quotient),
    "mod": _arithmetic("%", operator.mod, _native_of(operator.mod)),
    "pow": _arithmetic("**", operator.pow, _power),
    "matmul": _form("@", 2, others=_of_arrays(operator.matmul)),
    "and_": _form("&", 2, _BITS, lambda code, kind, *values: code.builder.and_(*values)),
    "or_": _form("|", 2, _BITS, lambda code, kind, *values: code.builder.or_(*values)),
    "xor": _form("^", 2, _BITS, lambda code, kind, *values: code.builder.xor(*values)),
    "lshift": _form("<<", 2, (INT,), _shifted_left),
    "rshift": _form(">>", 2, (INT,), _shifted_right),
    **{name: _comparison(title, getattr(operator, name))
       for name, title in {"lt": "<", "le": "<=", "gt": ">", "ge": ">=", "eq": "==", "ne": "!="}.items()},
    "contains": _form("in", 2, others=_contains),
    "is_": _form("is", 2, others=_same_object("==", operator.is_)),
    "is_not": _form("is not", 2, others=_same_object("!=", operator.is_not)),
    "neg": _form("-", 1, _NUMBERS, _negative),
    "pos": _form("+", 1, _NUMBERS, lambda code, kind, value: value),
    "invert": _form("~", 1, (INT,), lambda code, kind, value: code.builder.not_(value)),
}  # fmt: skip


# Functions.


def _of_math(name: str) -> Any:
    """Returns a one-argument function of `math`: it calls C's function and raises Python's errors."""
    error, what = (OverflowError, "range") if name in ("exp", "expm1", "sinh", "cosh") else (ValueError, "domain")

    def write(code: Code, kind: Any, value: Any) -> Any:
        builder, pair = code.builder, ir.LiteralStructType([_DOUBLE, _DOUBLE])
        if name in ("sin", "cos") and hasattr(C, "gnu_get_libc_version"):
            # glibc's `sincos` returns the same bits in less time than both; LLVM merges its calls for one angle.
            found = builder.extract_value(code.call("llvm.sincos.f64", pair, value), int(name == "cos"))
        else:
            found = code.native(getattr(math, name), (FLOAT,), [value])
        with builder.if_then(code.infinite(found), likely=False):
            nan, real = builder.fcmp_unordered("uno", found, found), builder.fcmp_ordered("ord", value, value)
            code.fail(builder.and_(nan, real), ValueError, "math domain error")
            code.fail(builder.not_(code.infinite(value)), error, f"math {what} error")
        return found

    return _form(f"math.{name}", 1, WIDE, write, work=FLOAT)


def _of_numpy(name: str) -> Any:
    """Returns a numpy function that is exact for floats; it takes arrays element by element."""
    function = getattr(np, name)
    return _form(f"np.{name}", 1, (FLOAT,), _native_of(function), others=lambda title, kind: function)


def _of_two_arrays(name: str) -> Any:
    def others(title: str, *kinds: Any) -> Any:
        elements = {getattr(kind, "dtype", None) for kind in kinds}
        if len(elements) > 1 or None in elements:
            instead = f"; write {name[:3]}(x, y)" if name in ("minimum", "maximum") else ""
            raise refuse(f"it calls {title} of {shown(*kinds)}, not of arrays of one dtype{instead}")
        return getattr(np, name)

    return _form(f"np.{name}", 2, others=others)


@intrinsic
def _sum_of_array(typing: Any, values: Any) -> Any:
    if not isinstance(values, types.Array) or values.dtype not in (INT, BOOL):
        raise refuse("it takes a sum of floats, which numpy adds in an order of its own; write the additions")
    return INT(values), lambda context, builder, signature, arguments: context.compile_internal(
        builder, _total, signature, arguments
    )


def _total(values: Any) -> Any:
    result = 0
    for value in values.flat:
        result += value
    return result


def _to_whole(title: str, rounding: str) -> Any:
    """Returns `round`, `math.floor`, `math.ceil` or `math.trunc` for kernels; their results are integers."""

    def write(code: Code, kind: Any, value: Any) -> Any:
        return value if kind == INT else code.whole(code.call(f"llvm.{rounding}.f64", _DOUBLE, value))

    return _form(title, 1, _NUMBERS, write, result=INT)


def _integer(code: Code, kind: Any, value: Any) -> Any:
    if kind == FLOAT:
        return code.whole(code.call("llvm.trunc.f64", _DOUBLE, value))
    return code.number(value, kind, INT)


def float_form(title: str) -> Any:
    """Returns a function that converts a number to float64."""
    return _form(title, 1, WIDE, lambda code, kind, value: value, work=FLOAT, narrow=True)


def _test(name: str, sign: str) -> Any:
    """Returns `math.isnan` or a similar test for kernels."""

    def write(code: Code, kind: Any, value: Any) -> Any:
        size = _absolute(code, FLOAT, value)
        return code.compare(FLOAT, sign, size, size if name == "isnan" else _DOUBLE(math.inf))

    return _form(name, 1, WIDE, write, work=FLOAT, result=BOOL, others=lambda title, kind: getattr(np, name))


def _clipped(code: Code, kind: Any, value: Any, low: Any, high: Any) -> Any:
    """Returns `np.clip(value, low, high)`; a value equal to a bound is kept, as for -0.0."""
    for sign, bound in ((">=", low), ("<=", high)):
        keeps = code.compare(kind, sign, value, bound)
        if kind == FLOAT:
            keeps = code.builder.or_(keeps, code.builder.fcmp_unordered("uno", value, value))
        value = code.builder.select(keeps, value, bound)
    return value


def _clip_of_others(title: str, value: Any, *bounds: Any) -> Any:
    what = "a number with one bound" if is_scalar(value) else "an array"
    raise refuse(f"it computes np.clip of {what}; write min(x, high) or max(x, low) of each number")


_EXACT = ("sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp",
          "expm1", "log", "log1p", "log2", "log10", "erf", "erfc")  # fmt: skip
MINIMUM, MAXIMUM = _form("min", 2, WIDE, _extreme("<"), exact=FLOAT), _form("max", 2, WIDE, _extreme(">"), exact=FLOAT)
_INT = _form("int", 1, WIDE, _integer, result=INT, narrow=True)
_FLOAT = float_form("float")
_ABS = _form("abs", 1, _NUMBERS, _absolute, others=lambda title, kind: np.abs)

FORMS: dict[Any, Any] = {
    **{getattr(operator, known): form
       for name, form in _OPERATORS.items() for known in (name, f"i{name.rstrip('_')}") if hasattr(operator, known)},
    abs: _ABS, np.abs: _ABS, int: _INT, np.int64: _INT, float: _FLOAT, np.float64: _FLOAT,
    round: _to_whole("round", "rint"),
    pow: _OPERATORS["pow"],
    **{getattr(math, name): _to_whole(f"math.{name}", name) for name in ("floor", "ceil", "trunc")},
    **{getattr(math, name): _of_math(name) for name in _EXACT},
    **{getattr(math, name): _form(f"math.{name}", 2, WIDE, _native_of(getattr(math, name)), work=FLOAT)
       for name in ("atan2", "copysign")},
    math.pow: _form("math.pow", 2, WIDE, lambda code, kind, *values: code.power(*values, False), work=FLOAT),
    math.fabs: _form("math.fabs", 1, WIDE, _absolute, work=FLOAT),
    **{getattr(module, name): _test(name, sign)
       for name, sign in (("isnan", "!="), ("isinf", "=="), ("isfinite", "<")) for module in (math, np)},
    **{getattr(np, name): _of_numpy(name) for name in ("sqrt", "fabs", "floor", "ceil", "trunc", "rint", "square")},
    **{getattr(np, name): _of_two_arrays(name)
       for name in ("minimum", "maximum", "logical_and", "logical_or", "logical_xor")},
    np.sum: _sum_of_array,
    np.clip: _form("np.clip", 3, _NUMBERS, _clipped, exact=FLOAT, others=_clip_of_others),
}  # fmt: skip
"""The forms that kernels call for operators and functions of numbers."""

_OF_BUILTINS = ("bool", "len", "range", "enumerate", "zip", "tuple", "list", "any", "all", "reversed", "slice")
_OF_NUMPY = (
    "array", "asarray", "zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like", "copy",
    "append", "concatenate", "stack", "vstack", "hstack", "column_stack", "ravel", "reshape", "transpose", "flip",
    "fliplr", "flipud", "roll", "repeat", "eye", "identity", "diag", "any", "all", "argmax", "argmin", "max", "min",
    "amax", "amin", "count_nonzero", "flatnonzero", "nonzero", "array_equal", "searchsorted", "float32", "bool_",
    "shape", "ndim", "size", "expand_dims", "where", "logical_not", "sign",
)  # fmt: skip
_KNOWN = [getattr(module, name) for module, names in ((builtins, _OF_BUILTINS), (np, _OF_NUMPY)) for name in names]

_INSTEAD = {
    "math.hypot": "math.sqrt(x * x + y * y)",
    "math.fmod": "x % y",
    "math.dist": "math.sqrt of the sum of squares",
    "np.hypot": "math.sqrt(x * x + y * y)",
    "np.power": "x ** y",
    "np.mean": "the additions",
    "np.dot": "the products and additions",
    "np.round": "np.rint(x * 100) / 100 for two digits",
    "sum": "the additions",
    "divmod": "x // y and x % y",
}


def kernel_form(function: Any, arguments: int, has_names: bool) -> Any:
    """Returns the kernel replacement for a function, or None if the kernel may call it directly."""
    title = shown_name(function)
    form = next((form for known, form in FORMS.items() if known is function), None)
    if form is not None:
        wanted = len(signature(form).parameters) - 1
        if arguments != wanted or has_names:
            raise ValueError(f"{title} is only compiled with {wanted} argument{'s' * (wanted > 1)}, without names")
        return form
    is_type = isinstance(function, type)
    if any(known is function for known in _KNOWN) or hasattr(function, "_fields"):
        return None
    if is_type and issubclass(function, BaseException):
        return None
    of_math = title.removeprefix("np.").replace("arc", "a")
    instead = _INSTEAD.get(title) or (f"math.{of_math}" if title != of_math and hasattr(math, of_math) else "")
    instead = "int" if is_type and issubclass(function, np.integer) else instead
    raise ValueError(
        f"no compiled form of {title} with the same bits is known{f'; write {instead}' if instead else ''}"
    )


def shown_name(function: Any) -> str:
    """Returns a function's name as authors write it."""
    module = str(getattr(function, "__module__", "") or "")
    name = str(getattr(function, "__name__", type(function).__name__))
    prefix = "np." if isinstance(function, np.ufunc) else f"{module.replace('numpy', 'np', 1)}."
    return name if module == "builtins" else f"{prefix}{name}"
