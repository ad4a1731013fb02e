"""The loops of numpy's ufuncs, by their addresses."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np


class _UFunc(ctypes.Structure):
    """The beginning of `PyUFuncObject`, after the object's head; see numpy/ufuncobject.h."""

    _fields_ = (
        ("head", ctypes.c_char * object.__basicsize__),
        ("counts", ctypes.c_int * 4),
        ("functions", ctypes.POINTER(ctypes.c_void_p)),
        ("data", ctypes.POINTER(ctypes.c_void_p)),
        ("ntypes", ctypes.c_int),
    )


def loop_address(ufunc: np.ufunc, types: str) -> tuple[int, int]:
    """Returns the address of a ufunc's loop for some dtypes, and of its data."""
    kinds: list[Any] = ufunc.types
    number = kinds.index(f"{types[:-1]}->{types[-1]}")
    held = _UFunc.from_address(id(ufunc))
    return held.functions[number] or 0, held.data[number] or 0 if held.data else 0
