"""Serialisation of arguments to JSON values, and back to equal arguments."""

from __future__ import annotations

import importlib
import pathlib
import sys
from types import BuiltinFunctionType, FunctionType
from typing import Any

import numpy as np

import envoi
from envoi.context import ContextSet

TAG = "python"
"""The key that marks a value which JSON cannot express: `{"python": kind, …}`."""


class UnwrittenValue(ValueError):
    """The error for a value that cannot be serialised, such as a lambda."""


def written(value: Any) -> Any:
    """Returns a JSON value from which `read` makes an equal value of the same type.

    Lists, dicts with string keys, numbers, strings and None stay as they are. Tuples, other dicts, sets of contexts,
    numpy arrays and scalars, dtypes, paths, and classes and functions that can be imported by name become tagged dicts.

    Args:
        value: Any object.

    Raises:
        UnwrittenValue: It is of another type, or contains such a value.
    """
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is list:
        return [written(one) for one in value]
    if kind is tuple:
        return {TAG: "tuple", "of": [written(one) for one in value]}
    if kind is dict:
        if TAG not in value and all(type(key) is str for key in value):
            return {key: written(one) for key, one in value.items()}
        return {TAG: "dict", "of": [[written(key), written(one)] for key, one in value.items()]}
    if kind is ContextSet:
        return {TAG: "contexts", "of": [[written(key), written(one)] for key, one in value.items()]}
    if isinstance(value, (np.ndarray, np.generic)) and kind in (np.ndarray, value.dtype.type):
        if value.dtype.kind in "biufU" and (value.dtype.kind != "f" or value.dtype.itemsize <= 8):
            flat = np.asarray(value).ravel().tolist()
            form = {"shape": list(value.shape)} if kind is np.ndarray else {}
            return {TAG: "array" if form else "scalar", "dtype": value.dtype.str, "of": flat, **form}
    elif isinstance(value, np.dtype) and value.kind in "biufU":
        return {TAG: "dtype", "of": value.str}
    elif isinstance(value, pathlib.PurePath):
        return {TAG: "path", "of": str(value)}
    elif isinstance(value, (type, FunctionType, BuiltinFunctionType)):
        place = place_of(value)
        if place is not None:
            return {TAG: "import", "of": place}
    raise UnwrittenValue(f"{value!r} cannot be written down")


def read(value: Any) -> Any:
    """Returns the value from which `written` made a JSON value; any other object is returned as it is.

    Args:
        value: A JSON value.
    """
    if isinstance(value, list):
        return [read(one) for one in value]
    if not isinstance(value, dict):
        return value
    if TAG not in value:
        return {key: read(one) for key, one in value.items()}
    what: Any = value[TAG]
    of: Any = value.get("of")
    if what == "tuple":
        return tuple(read(one) for one in of)
    if what == "dict":
        return {read(key): read(one) for key, one in of}
    if what == "contexts":
        return ContextSet({read(key): read(one) for key, one in of})
    if what == "array":
        return np.array(of, value["dtype"]).reshape(value["shape"])
    if what == "scalar":
        return np.array(of, value["dtype"])[0]
    if what == "dtype":
        return np.dtype(of)
    if what == "path":
        return pathlib.Path(of)
    if what == "import":
        return imported(of)
    return value


def place_of(thing: Any) -> str | None:
    """Returns the place from which a class or function can be imported, `"module:name"`, or None."""
    module, name = getattr(thing, "__module__", None), getattr(thing, "__qualname__", None)
    if not isinstance(module, str) or not isinstance(name, str):
        return None
    if module.startswith("envoi.") and name in envoi.__all__ and getattr(envoi, name) is thing:
        return f"envoi:{name}"  # the public name, which does not move
    found = sys.modules.get(module)
    for part in name.split("."):
        found = getattr(found, part, None)
    return f"{module}:{name}" if found is thing else None


def imported(place: str) -> Any:
    """Imports the class or function of a `"module:name"`.

    Raises:
        SpecError: There is no such class or function.
    """
    module, _, name = place.partition(":")
    try:
        found: Any = importlib.import_module(module)
        for part in name.split("."):
            found = getattr(found, part)
    except (ImportError, AttributeError, ValueError) as error:
        raise envoi.SpecError(f"{place}: expected the module and name of a class or function; {error}") from error
    return found
