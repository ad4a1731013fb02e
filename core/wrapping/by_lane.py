"""Looping a change of one lane over the lanes of a batch."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ..lane_values import lane, stack
from ..spec import SpecTree
from .change import SPECS, Change, Specs

Split: TypeAlias = Callable[[Any], Iterable[Any]]
Join: TypeAlias = Callable[[list[Any]], Any]


def vectorise(function: Callable[..., Any], join: Join, *splits: Split) -> Callable[..., Any]:
    """Returns a function of all lanes that calls `function` once per lane.

    Args:
        function: A function of one lane's values.
        join: Makes one value of a list of n results.
        splits: For each argument, the function that makes n lanes' values of it.
    """

    def all_lanes(*arguments: Any) -> Any:
        lanes = (split(argument) for split, argument in zip(splits, arguments, strict=True))
        return join([function(*one) for one in zip(*lanes, strict=True)])

    return all_lanes


def over_lanes(change: Change, specs: Specs) -> Change:
    """Returns a change whose functions take all lanes: the same, or with `by_lane` one that loops.

    Args:
        change: The change of one agent.
        specs: The specs that it was made for.

    Returns:
        With `by_lane`, a change whose memories are object arrays of shape (n,).
    """
    n = specs.lanes
    if n is None or not change.by_lane:
        return change

    def lanes(spec: SpecTree) -> Split:
        return lambda values: [lane(spec, values, index) for index in range(n)]

    def stacked(spec: SpecTree) -> Join:
        return lambda values: stack(spec, values)

    def flags(given: Any) -> list[bool]:
        return np.broadcast_to(given, n).tolist()

    def looped(function: Callable[..., Any] | None, join: Join, *splits: Split) -> Any:
        return None if function is None else vectorise(function, join, *splits)

    outside = outer_specs(change, specs)
    acting, seeing, paid = lanes(outside.action), lanes(specs.observation), lanes(specs.reward)
    memory: list[Split] = [] if change.begin is None else [iter]
    return replace(
        change,
        action=looped(change.action, stacked(specs.action), acting),
        observation=looped(change.observation, stacked(outside.observation), seeing, *memory),
        reward=looped(change.reward, stacked(outside.reward), paid, *memory),
        begin=looped(change.begin, _objects, seeing),
        remember=looped(change.remember, _objects, iter, acting, seeing, paid),
        note=looped(change.note, _objects, iter, iter),
        truncated=looped(change.truncated, lambda values: np.array(values, bool), flags, iter),
        info=looped(change.info, _columns, iter) if memory else change.info,
        by_lane=False,
    )


def outer_specs(change: Change, specs: Specs) -> Specs:
    """Returns the specs outside a change: its own, and the inner ones that it leaves as they are.

    Args:
        change: The change.
        specs: The specs inside.
    """
    own = {name.removesuffix("_spec"): getattr(change, name) for name in SPECS}
    return specs._replace(**{name: spec for name, spec in own.items() if spec is not None})


def _objects(values: Sequence[Any]) -> NDArray[Any]:
    array = np.empty(len(values), object)
    array[:] = values
    return array


def _columns(entries: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    return {name: [entry[name] for entry in entries] for name in entries[0]}
