"""Arrays of nodes, and the values beside them in an operation as such arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from .errors import Unsupported
from .expressions import Recorder


class NodeArray:
    """An array of nodes.

    Args:
        nodes: An object array of nodes, all of one dtype; or one node.
        dtype: That dtype.
        recorder: The recorder of the nodes.
    """

    def __init__(self, nodes: Any, dtype: Any, recorder: Recorder) -> None:
        if not isinstance(nodes, np.ndarray):
            held, nodes = nodes, np.empty((), object)
            nodes[()] = held
        self.nodes: np.ndarray[Any, Any] = nodes
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.recorder = recorder


def dtype_of(value: Any) -> np.dtype[Any]:
    """Returns the dtype of an array of nodes, or of what numpy takes for an array."""
    return value.dtype if isinstance(value, NodeArray) else np.asarray(value).dtype


def kind_of(value: Any) -> Any:
    """Returns what numpy resolves a loop by: a dtype, or `int` or `float` for a Python number."""
    if type(value) in (int, float):
        return type(value)
    return dtype_of(value)


def collect(value: Any, found: list[Any]) -> None:
    """Adds the leaves of nested sequences and dicts to a list.

    Args:
        value: The sequences, or a leaf.
        found: The list.
    """
    if isinstance(value, (list, tuple)):
        for part in value:
            collect(part, found)
    elif isinstance(value, dict):
        collect(list(value.values()), found)
    else:
        found.append(value)


def replaced(value: Any, recorder: Recorder, dtype: np.dtype[Any]) -> Any:
    """Returns nested sequences and dicts with all arrays in them as object arrays of nodes.

    Args:
        value: The sequences, or a leaf.
        recorder: The recorder of the nodes.
        dtype: The dtype of the nodes.
    """
    if isinstance(value, (list, tuple)):
        return type(value)(replaced(part, recorder, dtype) for part in value)
    if isinstance(value, dict):
        return {key: replaced(part, recorder, dtype) for key, part in value.items()}
    return nodes_of(value, recorder, dtype) if isinstance(value, (NodeArray, np.ndarray)) else value


def nodes_of(value: Any, recorder: Recorder, dtype: np.dtype[Any] | None = None) -> np.ndarray[Any, Any]:
    """Returns a value as an object array of nodes.

    Args:
        value: An array of nodes, or what numpy takes for an array.
        recorder: The recorder of the nodes.
        dtype: The dtype of the nodes; None for that of the value.

    Raises:
        Unsupported: They have no such dtype.
    """
    if isinstance(value, NodeArray):
        if dtype is None or dtype == value.dtype:
            return value.nodes
        return each(lambda node: recorder.cast(node, dtype), value.nodes)
    array = np.asarray(value)
    if array.dtype.kind not in "biuf":
        raise Unsupported(f"it computes with values of dtype {array.dtype}")
    target = dtype or array.dtype
    if type(value) is int and target.kind in "iu" and not np.iinfo(target).min <= value <= np.iinfo(target).max:
        raise Unsupported(f"it combines {target} and {value}, which {target} cannot hold; convert the array by astype")
    result = np.empty(array.shape, object)
    for place in np.ndindex(array.shape):
        result[place] = recorder.const(array[place], target)
    return result


def each(function: Any, *arrays: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Returns the results of a function of one element of each array, as an object array.

    Args:
        function: The function.
        *arrays: Arrays of one shape.
    """
    result = np.empty(arrays[0].shape, object)
    for place in np.ndindex(arrays[0].shape):
        result[place] = function(*(array[place] for array in arrays))
    return result
