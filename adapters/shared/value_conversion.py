"""Conversion of nested values to and from a framework, part by part."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from envoi import SpecError
from envoi.spec import SpecTree
from envoi.spec.base import shown
from envoi.tree import rebuild

Convert = Callable[[Any], Any]


def branch_encoder(spec: SpecTree, parts: list[tuple[Any, Convert | None]], fresh: bool) -> Convert | None:
    """Returns a function that converts a core dict, list or tuple for a framework, or None if nothing is to be done.

    Args:
        spec: The spec of the container, or one of the container that the framework has in its place.
        parts: The key of each part, and the function that converts it, or None.
        fresh: If True, the container is copied even if no part needs a conversion.
    """
    if not fresh and not any(part for _, part in parts):
        return None
    if type(spec) is dict:
        return lambda value: {key: part(value[key]) if part else value[key] for key, part in parts}
    if type(spec) is tuple:
        return lambda value: tuple([part(value[key]) if part else value[key] for key, part in parts])
    return lambda value: rebuild(spec, [part(value[key]) if part else value[key] for key, part in parts])


def branch_decoder(spec: SpecTree, parts: list[tuple[Any, Convert | None]], path: str, exact: bool) -> Convert:
    """Returns a function that converts a framework's dict, list or tuple for the core.

    The container's type is not checked: any value with these keys or of this length is accepted. A value with a
    missing part raises `SpecError`, which names the path.

    Args:
        spec: The spec of the container.
        parts: The key of each part, and the function that converts it, or None.
        path: The path of the container, for errors.
        exact: If True, a value with more parts is refused too; otherwise they are left out.
    """
    is_dict = type(spec) is dict

    def decode(value: Any) -> Any:
        try:
            if is_dict:
                return {key: part(value[key]) if part else value[key] for key, part in parts}
            return rebuild(spec, [part(value[key]) if part else value[key] for key, part in parts])
        except (KeyError, IndexError, TypeError):
            _check_parts(spec, value, path)
            raise

    def decode_exactly(value: Any) -> Any:
        _check_parts(spec, value, path)
        return decode(value)

    return decode_exactly if exact else decode


def _check_parts(spec: SpecTree, value: Any, path: str) -> None:
    if isinstance(spec, dict):
        keys = list(spec)
        if not isinstance(value, Mapping):
            raise SpecError(f"{path}: expected a dict with keys {keys}, got {shown(value)}")
        given: Mapping[Any, Any] = value
        missing, extra = [key for key in keys if key not in given], [key for key in given if key not in spec]
        if missing or extra:
            raise SpecError(f"{path}: expected keys {keys}; missing {missing}, too many {extra}")
    elif not isinstance(value, (list, tuple)) and not (isinstance(value, np.ndarray) and value.ndim):
        raise SpecError(f"{path}: expected a {type(spec).__name__} of {len(spec)} elements, got {shown(value)}")
    elif len(value) != len(spec):
        raise SpecError(f"{path}: expected {len(spec)} elements, got {len(value)}")
