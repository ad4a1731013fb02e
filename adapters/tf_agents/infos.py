"""Infos of a batch as TF-Agents has them: a nest of arrays with a leading lane axis. See `envoi.adapters.tf_agents`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from envoi import Infos, SpecError
from envoi.structural_equality import structure
from envoi.tree import children, is_branch, leaves, map_leaves, rebuild

HINT = "read the form's `infos`, one dict a lane"


class StackedInfo(dict[Any, Any]):
    """A nest of arrays that are stacked over lanes, and what they were made of, for who reads a form back.

    Attributes:
        infos: One dict a lane.
    """

    infos: Sequence[Mapping[Any, Any]] = ()


class NotStackable(SpecError):
    """Infos of lanes that differ in their keys, shapes or kinds.

    Args:
        message: What is wrong.
        infos: One dict a lane.
    """

    def __init__(self, message: str, infos: Sequence[Mapping[Any, Any]] = ()) -> None:
        super().__init__(message)
        self.infos = infos


def stacked(infos: Sequence[Mapping[Any, Any]]) -> StackedInfo:
    """Stacks the infos of all lanes, as `BatchedPyEnvironment.get_info` does.

    Args:
        infos: One for each of n lanes, all with the same keys, to any depth.

    Returns:
        A nest like the first info, fresh, with arrays of shape (n, …) in the dtype that numpy finds for all lanes:
        numbers are promoted together, text is of kind `U`, and None and other objects are in arrays of objects.

    Raises:
        NotStackable: Lanes differ in their keys or shapes, or one has text where another has none; names them.
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
    """Checks that all lanes are alike in something.

    Raises:
        SpecError: They are not.
    """
    if all(one == found[0] for one in found):
        return
    lanes: dict[str, list[int]] = {}
    for lane, one in enumerate(found):
        lanes.setdefault(shown(one), []).append(lane)
    said = ", ".join(f"{what} in lanes {of}" for what, of in lanes.items())
    raise SpecError(f"{path}: expected values {wanted} to stack over the lanes, got {said}; {HINT}")


def unstacked(get_info: Callable[[], Any], n: int) -> Infos:
    """The infos of n lanes, from what an environment says of all.

    A nest that `stacked` made, and that no wrapper has changed, is the infos that it was made of, whose values keep
    their types; and so is the error of infos that cannot be stacked.

    Args:
        get_info: Gives a sequence of one info a lane, a nest of arrays of shape (n, …), or one info for all lanes.
        n: How many lanes.
    """
    try:
        info = get_info()
    except NotStackable as error:
        return Infos([lane_info(one) for one in error.infos])
    if isinstance(info, StackedInfo) and len(info.infos) == n and structure(info) == structure(stacked(info.infos)):
        return Infos([lane_info(one) for one in info.infos])
    if isinstance(info, (list, tuple, Infos)) and len(cast("Sequence[Any]", info)) == n:
        return Infos([lane_info(one) for one in cast("Sequence[Any]", info)])
    if isinstance(info, Mapping):
        columns = {**cast("Mapping[Any, Any]", info)}
        shapes = [np.shape(leaf)[:1] for _, leaf in leaves(columns)]
        if shapes and all(shape == (n,) for shape in shapes):
            if not any(map(is_branch, columns.values())):
                return Infos(columns=columns, n=n)
            return Infos([map_leaves(lambda leaf, lane=lane: leaf[lane], columns) for lane in range(n)])
    return Infos([lane_info(info) for _ in range(n)])


def lane_info(info: Any) -> dict[Any, Any]:
    """Returns the result of `get_info` as a dict of its own."""
    if info is None:
        return {}
    return {**info} if isinstance(info, Mapping) else {"info": info}
