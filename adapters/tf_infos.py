"""Infos of a batch as TF-Agents has them: a nest of arrays with a leading lane axis. See `envoi.adapters.tf_agents`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import numpy as np

from envoi import Infos, SpecError
from envoi.tree import children, is_branch, leaves, map_leaves, rebuild

HINT = "read the form's `infos`, one dict a lane"


def stacked(infos: Sequence[Mapping[Any, Any]]) -> Any:
    """Stacks the infos of all lanes, as `BatchedPyEnvironment.get_info` does.

    Args:
        infos: One for each of n lanes, all with the same keys, to any depth.

    Returns:
        A nest like the first info, fresh, with arrays of shape (n, …) in the dtype that numpy finds for all lanes:
        numbers are promoted together, text is of kind `U`, and None and other objects are in arrays of objects.

    Raises:
        SpecError: Lanes differ in their keys or shapes, or one has text where another has none; names them.
    """
    if isinstance(infos, Infos) and infos.columns is not None and (infos.mask is None or infos.mask.all()):
        columns = infos.columns
        if all(isinstance(column, np.ndarray) for column in columns.values()):
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


def unstacked(info: Any, n: int) -> Infos | None:
    """The infos of n lanes out of a nest of arrays that are stacked over them; None where it is no such nest."""
    if not isinstance(info, Mapping) or not info:
        return None
    columns = cast("Mapping[Any, Any]", info)
    held = [leaf for _, leaf in leaves({**columns})]
    if not held or not all(np.shape(leaf)[:1] == (n,) for leaf in held):
        return None
    if not any(map(is_branch, columns.values())):
        return Infos(columns={**columns}, n=n)
    return Infos([map_leaves(lambda leaf, lane=lane: leaf[lane], {**columns}) for lane in range(n)])
