"""The functions of `math` and numpy that kernels have: those with the bits and the errors of the interpreted ones.

A function that is not here is refused, with what to write instead: CPython computes `math.hypot` and numpy `np.sin` in
ways of their own. Importing this module needs numba.
"""

from __future__ import annotations

import builtins
import math
import operator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload

from .exact_numbers import (
    BOOL,
    FLOAT,
    FUNCTIONS,
    INT,
    OPERATORS,
    as_float,
    check_numbers,
    fail,
    is_scalar,
    native,
    of_one,
    power_of_floats,
    refuse,
    shown,
)  # fmt: skip

_DOUBLE = ir.DoubleType()


def _of_math(name: str) -> Any:
    """Returns a function of `math` of one number, which is C's, with Python's errors."""
    function, overflows = getattr(math, name), name in ("exp", "expm1", "sinh", "cosh")

    @intrinsic
    def call(typing: Any, value: Any) -> Any:
        value = types.unliteral(value)
        check_numbers(f"it calls math.{name}", value)
        result, code = native(typing, function, FLOAT)

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            given = as_float(context, builder, arguments[0], value)
            found = code(context, builder, [given])
            with builder.if_then(_is_infinite(builder, found), likely=False):  # or nan
                nan = builder.fcmp_unordered("uno", found, found)
                real = builder.not_(builder.fcmp_unordered("uno", given, given))
                fail(context, builder, builder.and_(nan, real), ValueError, "math domain error")
                finite = builder.not_(_is_infinite(builder, given))
                error, what = (OverflowError, "range") if overflows else (ValueError, "domain")
                fail(context, builder, finite, error, f"math {what} error")
            return found

        return result(value), build

    call.__name__ = f"math.{name}"
    return call


def _is_infinite(builder: Any, value: Any) -> Any:
    """Returns True for infinity and nan."""
    return builder.fcmp_unordered("une", builder.fsub(value, value), _DOUBLE(0.0))


def _of_two(title: str, function: Any) -> Any:
    """Returns a function of `math` of two numbers that raises no errors."""

    @intrinsic
    def call(typing: Any, one: Any, other: Any) -> Any:
        check_numbers(f"it calls {title}", one, other)
        result, code = native(typing, function, FLOAT, FLOAT)

        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return code(
                context,
                builder,
                [as_float(context, builder, *pair) for pair in zip(arguments, signature.args, strict=True)],
            )

        return result(types.unliteral(one), types.unliteral(other)), build

    return call


@intrinsic
def _math_pow(typing: Any, base: Any, exponent: Any) -> Any:
    check_numbers("it calls math.pow", base, exponent)

    def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        values = [as_float(context, builder, *pair) for pair in zip(arguments, signature.args, strict=True)]
        return power_of_floats(context, builder, *values, of_operator=False)

    return FLOAT(types.unliteral(base), types.unliteral(exponent)), build


def _test(name: str) -> Any:
    """Returns `math.isnan` and the like."""

    def code(context: Any, builder: Any, value: Any, kind: Any) -> tuple[Any, Any]:
        check_numbers(f"it calls {name}", kind)
        if builder is not None:
            value = as_float(context, builder, value, kind)
            nan, infinite = builder.fcmp_unordered("uno", value, value), _is_infinite(builder, value)
            value = {"isnan": nan, "isinf": builder.and_(infinite, builder.not_(nan)),
                     "isfinite": builder.not_(infinite)}[name]  # fmt: skip
        return BOOL, value

    return of_one(name, code, getattr(np, name))


def _magnitude(context: Any, builder: Any, value: Any, kind: Any) -> tuple[Any, Any]:
    check_numbers("it calls math.fabs", kind)
    if builder is not None:
        value = builder.call(builder.module.declare_intrinsic("llvm.fabs", [_DOUBLE]),
                             [as_float(context, builder, value, kind)])  # fmt: skip
    return FLOAT, value


def _of_numpy(name: str) -> Any:
    """Returns a function of numpy that is exact for a float, and element by element for arrays."""
    function = getattr(np, name)

    @intrinsic
    def call(typing: Any, value: Any) -> Any:
        value = types.unliteral(value)
        if not isinstance(value, types.Array) and value != FLOAT:
            raise refuse(f"it calls np.{name} of {shown(value)}; convert it by float()")
        result, code = native(typing, function, value)
        return result(value), lambda context, builder, _, arguments: code(context, builder, arguments)

    call.__name__ = f"np.{name}"
    return call


def _of_arrays(name: str) -> Any:
    """Returns a function of numpy of two arrays."""
    function = getattr(np, name)

    @intrinsic
    def call(typing: Any, one: Any, other: Any) -> Any:
        kinds = [getattr(kind, "dtype", None) for kind in (one, other)]
        if kinds[0] != kinds[1] or kinds[0] is None:
            instead = {"minimum": "; write min(x, y)", "maximum": "; write max(x, y)"}.get(name, "")
            raise refuse(f"it calls np.{name} of {shown(one, other)}, not of arrays of one dtype{instead}")
        result, code = native(typing, function, one, other)
        return result(one, other), lambda context, builder, _, arguments: code(context, builder, arguments)

    call.__name__ = f"np.{name}"
    return call


def exact_sum(values: Any) -> Any:
    """Returns the sum of an array of integers."""
    return values.sum()


@overload(exact_sum, strict=False)
def _exact_sum(values: Any) -> Any:
    if not isinstance(values, types.Array) or values.dtype not in (INT, BOOL):
        raise refuse("it takes a sum of floats, which numpy adds in an order of its own; write the additions")
    add = OPERATORS[operator.add]

    def total(values: Any) -> Any:
        result = 0
        for value in values.flat:
            result = add(result, np.int64(value))
        return result

    return total


def clipped(value: Any, low: Any, high: Any) -> Any:
    """Returns `np.clip(value, low, high)`, which numba has for arrays only."""
    return np.clip(value, low, high)


@overload(clipped, strict=False)
def _clipped(value: Any, low: Any, high: Any) -> Any:
    given = [types.unliteral(kind) for kind in (value, low, high)]
    if isinstance(value, types.Array) or not all(is_scalar(kind) or isinstance(kind, types.NoneType) for kind in given):
        return lambda value, low, high: np.clip(value, low, high)  # pyright: ignore
    if not all(is_scalar(kind) for kind in given):
        raise refuse("it computes np.clip of a number with one bound; write min(x, high) or max(x, low)")
    check_numbers("it computes np.clip", *given)
    if given[0] == BOOL or (given[0] == INT and FLOAT in given):
        raise refuse(f"it computes np.clip of {shown(*given)}; convert them by float() or int()")
    to = given[0]

    def clip(value: Any, low: Any, high: Any) -> Any:
        result = value
        result = result if result != result or result >= low else to(low)  # of equal numbers, it keeps the value
        return result if result != result or result <= high else to(high)

    return clip


_EXACT = ("sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "sinh", "cosh", "tanh", "asinh", "acosh", "atanh", "exp",
          "expm1", "log", "log1p", "log2", "log10", "erf", "erfc")  # fmt: skip

REPLACED: dict[Any, Any] = {
    **FUNCTIONS,
    **{getattr(math, name): _of_math(name) for name in _EXACT},
    math.atan2: _of_two("math.atan2", math.atan2),
    math.copysign: _of_two("math.copysign", math.copysign),
    math.pow: _math_pow,
    math.fabs: of_one("math.fabs", _magnitude),
    **{getattr(module, name): _test(name) for name in ("isnan", "isinf", "isfinite") for module in (math, np)},
    **{getattr(np, name): _of_numpy(name) for name in ("sqrt", "fabs", "floor", "ceil", "trunc", "rint", "square")},
    **{getattr(np, name): _of_arrays(name)
       for name in ("minimum", "maximum", "logical_and", "logical_or", "logical_xor")},
    np.abs: FUNCTIONS[abs],
    np.sum: exact_sum,
    np.clip: clipped,
    np.int64: FUNCTIONS[int],
    np.float64: FUNCTIONS[float],
}  # fmt: skip
"""The functions that kernels call for functions of numbers."""

_OF_BUILTINS = ("bool", "len", "range", "enumerate", "zip", "tuple", "list", "any", "all", "reversed", "slice")
_OF_NUMPY = (
    "array", "asarray", "zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like", "copy",
    "append", "concatenate", "stack", "vstack", "hstack", "column_stack", "ravel", "reshape", "transpose", "flip",
    "fliplr", "flipud", "roll", "repeat", "eye", "identity", "diag", "any", "all", "argmax", "argmin", "max", "min",
    "amax", "amin", "count_nonzero", "flatnonzero", "nonzero", "array_equal", "searchsorted", "float32", "bool_",
    "shape", "ndim", "size", "expand_dims", "where", "logical_not", "sign",
)  # fmt: skip
_KNOWN = [getattr(module, name) for module, names in ((builtins, _OF_BUILTINS), (np, _OF_NUMPY)) for name in names]

_INSTEAD: dict[str, str] = {
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
    **{f"np.{name}": f"math.{name.replace('arc', 'a')}"
       for name in ("sin", "cos", "tan", "arcsin", "arccos", "arctan", "arctan2", "sinh", "cosh", "tanh", "arcsinh",
                    "arccosh", "arctanh", "exp", "expm1", "log", "log2", "log10", "log1p")},
    **{f"np.{name}": "int" for name in ("int8", "int16", "int32", "uint8", "uint16", "uint32", "uint64")},
}  # fmt: skip
_ARGUMENTS = {"atan2": 2, "copysign": 2, "pow": 2, "minimum": 2, "maximum": 2, "logical_and": 2, "logical_or": 2,
              "logical_xor": 2, "clip": 3}  # fmt: skip


def kernel_form(function: Any, arguments: int) -> Any:
    """Returns what a kernel calls for a function; None for that function itself."""
    title = shown_name(function)
    form = next((form for known, form in REPLACED.items() if known is function), None)
    if form is not None:
        wanted = _ARGUMENTS.get(title.rpartition(".")[2], 1)
        if arguments != wanted:
            raise ValueError(f"{title} is only compiled with {wanted} argument{'s' * (wanted > 1)}")
        return form
    if any(known is function for known in _KNOWN) or hasattr(function, "_fields"):
        return None
    if isinstance(function, type) and issubclass(function, BaseException):
        return None
    instead = _INSTEAD.get(title)
    raise ValueError(
        f"no compiled form of {title} with the same bits is known{f'; write {instead}' if instead else ''}"
    )


def shown_name(function: Any) -> str:
    """Returns the name of a function as an author writes it."""
    module = str(getattr(function, "__module__", "") or "")
    name = str(getattr(function, "__name__", type(function).__name__))
    prefix = "np." if isinstance(function, np.ufunc) or module.startswith("numpy") else f"{module}."
    return name if module == "builtins" else f"{prefix}{name}"
