"""Infos of a batch in TF-Agents: nested arrays with a leading axis of n lanes. See `envoi.adapters.tf_agents`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from envoi import Infos, SpecError
from envoi.lane_values import take
from envoi.structural_equality import structure
from envoi.tree import children, is_branch, leaves, rebuild

HINT = "read the form's `infos`, one dict a lane"


class StackedInfo(dict[Any, Any]):
    """Infos stacked over lanes, as nested arrays, together with the original infos, from which an import reads them.

    Attributes:
        infos: The original infos, one dict per lane.
    """

    infos: Sequence[Mapping[Any, Any]] = ()


class NotStackable(SpecError):
    """The error for infos of lanes that differ in their keys, shapes or types.

    Args:
        message: The message.
        infos: The infos, one dict per lane.
    """

    def __init__(self, message: str, infos: Sequence[Mapping[Any, Any]] = ()) -> None:
        super().__init__(message)
        self.infos = infos


def stacked(infos: Sequence[Mapping[Any, Any]]) -> StackedInfo:
    """Stacks the infos of all lanes, as `BatchedPyEnvironment.get_info` does.

    Args:
        infos: One per lane, all with the same keys at any depth.

    Returns:
        A new dict, nested like the first info, with arrays of shape (n, …) in the dtype that numpy finds for all
        lanes: numbers are promoted together, text has kind `U`, and None and other objects are in object arrays.

    Raises:
        NotStackable: Lanes differ in their keys or shapes, or only some have text; the message names them.
    """
    try:
        result = StackedInfo(_nest(infos))
    except SpecError as error:
        raise NotStackable(str(error), infos) from None
    result.infos = infos
    return result


def _nest(infos: Sequence[Mapping[Any, Any]]) -> Any:
    if isinstance(infos, Infos) and infos.masks is None and (infos.mask is None or infos.mask.all()):
        columns = infos.columns
        if columns is not None and all(isinstance(column, np.ndarray) for column in columns.values()):
            return {key: np.array(column) for key, column in columns.items()}
    return _stacked(list(infos), "info")


def _stacked(values: list[Any], path: str) -> Any:
    first = values[0]
    if not any(map(is_branch, values)):
        arrays = [np.asanyarray(value) for value in values]
        _agree(path, "of one shape", [array.shape for array in arrays])
        if not any(array.dtype.hasobject for array in arrays):  # numpy would write numbers beside text as text
            _agree(path, "of text or of no text", [array.dtype.kind in "US" for array in arrays], _text)
        return np.stack(arrays)
    _agree(path, "nested alike", [_kind(value) for value in values])
    for key in {key: None for value in values for _, key, _ in children(value)}:
        _agree(f"{path}[{key!r}]", "in all lanes or in none", [_has(value, key) for value in values], _presence)
    below = ((f"{path}{part}", [value[key] for value in values]) for part, key, _ in children(first))
    return rebuild(first, [_stacked(held, where) for where, held in below])


def _kind(value: Any) -> str:
    return "a dict" if isinstance(value, dict) else type(value).__name__ if is_branch(value) else "one value"


def _has(branch: Any, key: Any) -> bool:
    return key in branch if isinstance(branch, dict) else key < len(branch)


def _text(is_text: Any) -> str:
    return "text" if is_text else "no text"


def _presence(is_there: Any) -> str:
    return "a value" if is_there else "none"


def _agree(path: str, wanted: str, found: list[Any], shown: Callable[[Any], str] = str) -> None:
    """Checks that a property is the same in all lanes.

    Args:
        path: The path of the value, for the error.
        wanted: The expected property, for the error.
        found: The property in each lane.
        shown: Describes the property of one lane, for the error.

    Raises:
        SpecError: It differs.
    """
    if all(one == found[0] for one in found):
        return
    lanes: dict[str, list[int]] = {}
    for lane, one in enumerate(found):
        lanes.setdefault(shown(one), []).append(lane)
    by_lanes = ", ".join(f"{what} in lanes {of}" for what, of in lanes.items())
    raise SpecError(f"{path}: expected values {wanted} to stack over the lanes, got {by_lanes}; {HINT}")


def unstacked(get_info: Callable[[], Any], n: int) -> Infos:
    """Returns the infos of n lanes from an environment's `get_info`.

    If `stacked` made its result (or its error), and no wrapper has changed it, these are the original infos, whose
    values keep their types.

    Args:
        get_info: Returns a sequence of one info per lane, nested arrays of shape (n, …), or one info for all lanes.
        n: The number of lanes.
    """
    try:
        info = get_info()
    except NotStackable as error:
        return Infos([lane_info(one) for one in error.infos])
    if isinstance(info, StackedInfo) and len(info.infos) == n and structure(info) == structure(stacked(info.infos)):
        return Infos([lane_info(one) for one in info.infos])
    if isinstance(info, (list, tuple, Infos)) and len(info) == n:
        return Infos([lane_info(one) for one in info])
    if isinstance(info, Mapping):
        columns = {**info}
        shapes = [np.shape(leaf)[:1] for column in columns.values() for _, leaf in leaves(column)]
        if shapes and all(shape == (n,) for shape in shapes):
            if not any(map(is_branch, columns.values())):
                return Infos(columns=columns, n=n)
            return Infos([{key: take(column, lane) for key, column in columns.items()} for lane in range(n)])
    return Infos([lane_info(info) for _ in range(n)])


def lane_info(info: Any) -> dict[Any, Any]:
    """Returns the result of `get_info` as a dict of its own."""
    if info is None:
        return {}
    return {**info} if isinstance(info, Mapping) else {"info": info}
