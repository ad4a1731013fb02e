"""The constants of rewritten functions: globals and attributes whose values the code has in it."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

import numpy as np


def is_constant(value: Any) -> bool:
    """Returns True for numbers, texts, arrays of numbers, and tuples of these."""
    if isinstance(value, tuple):
        parts: tuple[Any, ...] = value
        return all(is_constant(part) for part in parts)
    if isinstance(value, np.ndarray):
        return value.dtype.kind in "biuf"
    return isinstance(value, (bool, int, float, str, np.number, np.bool_))


def globals_of(function: FunctionType) -> Mapping[str, Any]:
    """Returns the globals of a function, and the variables of the functions around it that it uses."""
    found = dict(function.__globals__)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            found[name] = cell.cell_contents
        except ValueError:
            continue
    return found


def reader_of(function: FunctionType, name: str) -> Callable[[], Any]:
    """Returns a function that reads a global of another function, or a variable of the function around it.

    Args:
        function: The other function.
        name: The name of the global.
    """
    if name in function.__code__.co_freevars:
        cell = (function.__closure__ or ())[function.__code__.co_freevars.index(name)]
        return lambda: cell.cell_contents
    return lambda: function.__globals__[name]


def held_value(value: Any) -> Any:
    """Returns a copy of a constant, since arrays may be changed in place; any other value as it is."""
    return copy.deepcopy(value) if is_constant(value) else value


def is_equal(one: Any, other: Any) -> bool:
    """Returns True for equal numbers, arrays and tuples of these, and for the same other object.

    Args:
        one: A value.
        other: Another one.
    """
    if one is other and not isinstance(one, np.ndarray):
        return True
    if not is_constant(one) or not is_constant(other) or type(one) is not type(other):
        return False
    return constant_text(one) == constant_text(other)


def constant_text(value: Any) -> str:
    """Returns a text that differs for values that compile to different code."""
    if isinstance(value, np.ndarray):
        return f"{value.dtype.str} {value.shape} {value.tobytes().hex()}"
    if isinstance(value, tuple):
        parts: tuple[Any, ...] = value
        return f"{type(value).__name__} ({', '.join(map(constant_text, parts))})"
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__} {getattr(value, '_fields', '')}"
    return repr(value) if is_constant(value) else getattr(value, "__name__", type(value).__name__)
