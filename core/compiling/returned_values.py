"""Observations that a function returns as arrays or dicts, as tuples of scalars."""

from __future__ import annotations

import ast
from collections.abc import Callable
from typing import Any

import numpy as np


def return_scalars(
    definition: ast.FunctionDef, keys: tuple[Any, ...], dtype: Any, resolve: Callable[[ast.expr], Any]
) -> tuple[Any, ...] | None:
    """Replaces arrays and dicts that a function returns by tuples, if every return allows it.

    `np.array([x, v], dtype)` needs memory in each step, and numba has no dicts of different values.

    Args:
        definition: The function, which this changes.
        keys: The keys of the observation, if that is a dict.
        dtype: The dtype of the observation, if that is one array.
        resolve: Returns the value of a global name.

    Returns:
        The keys in the order of the tuples, `()` for arrays; None if nothing was replaced.
    """
    returns = [node for node in ast.walk(definition) if isinstance(node, ast.Return)]
    new: list[ast.expr] = []
    orders: set[tuple[Any, ...]] = set()
    for node in returns:
        value = node.value
        if isinstance(value, ast.Dict) and keys:
            order = tuple(key.value if isinstance(key, ast.Constant) else None for key in value.keys)
            if len(order) != len(keys) or {*order} != {*keys}:
                return None
            orders.add(order)
            new.append(ast.Tuple(value.values, ast.Load()))
        elif isinstance(value, ast.Call) and not keys and _makes_array(value, dtype, resolve):
            (elements,) = [one.elts for one in value.args[:1] if isinstance(one, (ast.List, ast.Tuple))]
            orders.add(())
            new.append(ast.Tuple(list(elements), ast.Load()))
        else:
            return None
    if len(orders) != 1:
        return None
    for node, value in zip(returns, new, strict=True):
        node.value = ast.copy_location(value, node)
    return orders.pop()


def _makes_array(call: ast.Call, dtype: Any, resolve: Callable[[ast.expr], Any]) -> bool:
    """Returns True for `np.array([a, b, …])` of single elements, with no dtype or the observation's."""
    if resolve(call.func) not in (np.array, np.asarray) or not 1 <= len(call.args) <= 2:
        return False
    if not isinstance(call.args[0], (ast.List, ast.Tuple)) or any(one.arg != "dtype" for one in call.keywords):
        return False
    given: list[ast.expr] = [*call.args[1:], *(one.value for one in call.keywords)]
    try:
        if len(given) > 1 or any(np.dtype(resolve(one)) != dtype for one in given):
            return False
    except TypeError:  # that is no dtype
        return False
    return not any(isinstance(one, (ast.Starred, ast.List, ast.Tuple)) for one in call.args[0].elts)
