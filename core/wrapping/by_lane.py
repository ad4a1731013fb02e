"""A change of one lane, looped over the lanes of a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from ..batching.values import lane, stack
from ..errors import SpecError
from ..spec import SpecTree
from ..spec.base import shown
from .change import Change, Specs


def over_lanes(change: Change, specs: Specs) -> Change:
    """A change whose functions take all lanes: as it is, or looped; then memories are an array of one object a lane."""
    if not isinstance(cast("object", change), Change):
        raise SpecError(f"change: expected an envoi.Change, got {shown(change)}; return one from the method `change`")
    n = specs.lanes
    if n is None or not change.by_lane:
        return change
    seen = specs.observation if change.observation_spec is None else change.observation_spec
    done = specs.action if change.action_spec is None else change.action_spec
    paid = specs.reward if change.reward_spec is None else change.reward_spec
    has_memory = change.begin is not None

    def objects(values: list[Any]) -> NDArray[Any]:
        array = np.empty(n, object)
        array[:] = values
        return array

    def looped(function: Callable[..., Any] | None, inside: SpecTree, outside: SpecTree) -> Any:
        if function is None:
            return None

        def all_lanes(values: Any, memories: Any = None) -> Any:
            ones = [lane(inside, values, index) for index in range(n)]
            if not has_memory:
                return stack(outside, [function(one) for one in ones])
            return stack(outside, [function(one, memory) for one, memory in zip(ones, memories, strict=True)])

        return all_lanes

    def begin(observation: Any) -> Any:
        one_by_one = cast("Callable[[Any], Any]", change.begin)
        return objects([one_by_one(lane(specs.observation, observation, index)) for index in range(n)])

    def remember(memories: Any, action: Any, observation: Any, reward: Any) -> Any:
        one_by_one = cast("Callable[..., Any]", change.remember)
        return objects(
            [
                one_by_one(
                    memories[index],
                    lane(done, action, index),
                    lane(specs.observation, observation, index),
                    lane(specs.reward, reward, index),
                )
                for index in range(n)
            ]
        )

    def note(memories: Any, infos: Any) -> Any:
        one_by_one = cast("Callable[[Any, Any], Any]", change.note)
        return objects([one_by_one(memory, info) for memory, info in zip(memories, infos, strict=True)])

    def truncated(flags: Any, memories: Any) -> Any:
        one_by_one = cast("Callable[[Any, Any], Any]", change.truncated)
        flags = np.broadcast_to(flags, n).tolist()
        return np.array([one_by_one(flag, memory) for flag, memory in zip(flags, memories, strict=True)], bool)

    def info(memories: Any) -> dict[str, list[Any]]:
        one_by_one = cast("Callable[..., Mapping[str, Any]]", change.info)
        entries = [one_by_one(memory) for memory in memories]
        return {name: [entry[name] for entry in entries] for name in entries[0]}

    return replace(
        change,
        action=_looped_actions(change.action, done, specs.action, n),
        observation=looped(change.observation, specs.observation, seen),
        reward=looped(change.reward, specs.reward, paid),
        begin=begin if has_memory else None,
        remember=None if change.remember is None else remember,
        note=None if change.note is None else note,
        truncated=None if change.truncated is None else truncated,
        info=info if has_memory and change.info is not None else change.info,
        by_lane=False,
    )


def _looped_actions(
    function: Callable[[Any], Any] | None, outside: SpecTree, inside: SpecTree, n: int
) -> Callable[[Any], Any] | None:
    if function is None:
        return None
    return lambda actions: stack(inside, [function(lane(outside, actions, index)) for index in range(n)])
