"""The functions that a scalar model's functions may call, with what kernels call in their place.

A function is here if its compiled form gives the bits of the interpreted one. `math.hypot`, `np.exp` of arrays, sums of
floats and many others do not: CPython and numpy compute them in their own ways.
"""

from __future__ import annotations

import builtins
import math
from typing import Any

import numpy as np

_AS_THEY_ARE = {
    builtins: ("abs", "min", "max", "bool", "len", "range", "enumerate", "zip", "tuple", "any", "all",
               "reversed"),
    math: ("sqrt", "sin", "cos", "tan", "asin", "acos", "atan", "atan2", "sinh", "cosh", "tanh", "asinh", "acosh",
           "atanh", "exp", "expm1", "log", "log1p", "log2", "log10", "erf", "erfc", "fabs", "copysign", "isnan",
           "isinf", "isfinite", "gcd"),
    np: ("sqrt", "abs", "absolute", "fabs", "floor", "ceil", "trunc", "rint", "square", "sign", "isnan", "isinf",
         "isfinite", "minimum", "maximum", "copysign", "logical_and", "logical_or", "logical_not", "logical_xor",
         "array", "asarray", "zeros", "ones", "empty", "full", "zeros_like", "ones_like", "empty_like", "full_like",
         "copy", "append", "concatenate", "stack", "vstack", "hstack", "column_stack", "ravel", "reshape", "transpose",
         "flip", "fliplr", "flipud", "roll", "repeat", "eye", "identity", "diag", "where", "any", "all", "argmax",
         "argmin", "max", "min", "amax", "amin", "count_nonzero", "flatnonzero", "nonzero", "array_equal",
         "searchsorted", "float32", "float64", "bool_", "shape", "ndim", "size", "expand_dims"),
}  # fmt: skip

_REPLACED: dict[Any, str] = {
    int: "integer", np.int64: "integer", float: "real", round: "rounded", pow: "power",
    math.pow: "power", math.floor: "whole_floor", math.ceil: "whole_ceil", math.trunc: "whole_trunc",
    np.sum: "exact_sum", np.clip: "clipped",
}  # fmt: skip

_METHODS_REPLACED = {"sum": "exact_sum"}
_METHODS_REFUSED = {"mean", "std", "var", "dot", "cumsum", "cumprod", "prod", "trace", "round", "argsort", "sort",
                    "partition", "view"}  # fmt: skip

_IN_MATH = (
    "sin", "cos", "tan", "arcsin", "arccos", "arctan", "sinh", "cosh", "tanh", "arcsinh", "arccosh", "arctanh", "exp",
    "expm1", "log", "log2", "log10", "log1p", "arctan2",
)  # fmt: skip
"""Functions of numpy that `math` has too, without `arc` in their names but `a`."""

_INSTEAD: dict[Any, str] = {
    **dict.fromkeys((math.hypot, np.hypot), "write math.sqrt(x * x + y * y)"),
    **{getattr(np, name): f"write math.{name.replace('arc', 'a')}" for name in _IN_MATH},
    np.power: "write x ** y",
    np.exp2: "write 2.0 ** x",
    **dict.fromkeys((np.deg2rad, np.radians), "write x * math.pi / 180"),
    **dict.fromkeys((np.rad2deg, np.degrees), "write x * 180 / math.pi"),
    sum: "write the additions",
    np.mean: "write the additions",
    np.dot: "write the products and additions",
    np.round: "write np.rint(x * 100) / 100 for two digits",
    print: "leave it out",
    **dict.fromkeys((np.int8, np.int16, np.int32, np.uint8, np.uint16, np.uint32, np.uint64), "write int"),
}

_KNOWN = {id(getattr(module, name)) for module, names in _AS_THEY_ARE.items() for name in names}


def replacement_of(function: Any, arguments: int) -> str | None:
    """Returns the name of the function that a kernel calls in place of another; None for that one itself."""
    name = shown_name(function)
    try:
        replaced = _REPLACED.get(function)
    except TypeError:  # it has no hash
        replaced = None
    if function is math.log and arguments != 1:
        raise ValueError("math.log of two arguments has other bits; write math.log(x) / math.log(base)")
    if replaced is not None:
        wanted = {"power": 2, "clipped": 3}.get(replaced, 1)
        if arguments != wanted:
            raise ValueError(f"{name} is only compiled with {wanted} argument{'s' * (wanted > 1)}")
        return replaced
    if id(function) in _KNOWN or hasattr(function, "_fields"):
        return None
    advice = next((text for other, text in _INSTEAD.items() if other is function), "")
    raise ValueError(f"no compiled form of {name} with the same bits is known{advice and f'; {advice}'}")


def method_replacement(name: str) -> str | None:
    """Returns the kernel replacement for an array method, or None if the kernel may call it directly."""
    if name in _METHODS_REFUSED:
        raise ValueError(f"no compiled form of .{name}() with the same bits is known; write the operations")
    return _METHODS_REPLACED.get(name)


def shown_name(function: Any) -> str:
    """Returns the name of a function as an author writes it."""
    module = str(getattr(function, "__module__", "") or "")
    name = str(getattr(function, "__name__", type(function).__name__))
    prefix = "np." if isinstance(function, np.ufunc) or module.startswith("numpy") else f"{module}."
    return name if module == "builtins" else f"{prefix}{name}"
