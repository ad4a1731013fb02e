"""What a wrapper changes, said once for one agent: specs, and pure functions of values.

A `Change` knows nothing of episodes, lanes or agents. What it must remember from step to step is a value of its own,
the memory: it begins with the first observation, and each step makes a new one of the last.

    begin(observation)                                → memory
    remember(memory, action, observation, reward)     → memory
    observation(observation, memory)                  → what the agent sees, and likewise for the others
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..batching.values import lane, stack
from ..errors import SpecError
from ..spec import Spec, SpecTree
from ..spec.base import shown

_OneOrTwo: TypeAlias = Callable[[Any], Any] | Callable[[Any, Any], Any]


SPECS = ("observation_spec", "action_spec", "reward_spec", "discount_spec")
"""What a change may change of an environment."""


class Specs(NamedTuple):
    """What a wrapper finds inside, for one agent.

    Attributes:
        observation: The inner observation spec.
        action: The inner action spec.
        reward: The inner reward spec.
        discount: The inner discount spec.
        lanes: How many lanes the values have as their leading axis; None where they have no such axis.
        agent: Which agent's these are; None where there is but one.
    """

    observation: SpecTree
    action: SpecTree
    reward: SpecTree
    discount: SpecTree
    lanes: int | None = None
    agent: Any = None


@dataclass(frozen=True)
class Change:
    """New specs and the functions that make their values; what is None stays as it is.

    Functions never change what they are given. Each value is one agent's; in a batch its arrays have a leading lane
    axis, so that functions are best written from the last axes (`value[..., 0]`), or else with `by_lane`.

    Attributes:
        observation_spec: What the agent sees.
        action_spec: What the agent does.
        reward_spec: What the agent is paid.
        discount_spec: What the factor on all that follows may be.
        action: `(action) -> action` of the inner environment.
        observation: `(observation) -> observation`, or `(observation, memory)` where there is a memory.
        reward: `(reward) -> reward`, or `(reward, memory)`.
        begin: `(observation) -> memory`, from the first observation of an episode.
        remember: `(memory, action, observation, reward) -> memory`, from the agent's own action and what came inside.
        note: `(memory, info) -> memory`, from the info inside, at resets and steps, after the above; not where shared.
        truncated: `(flag, memory) -> flag`, bools in a batch. For several agents the memory must be shared.
        info: `(memory) -> entries` to be added to the info, or `() -> entries` where there is no memory; in a batch
            each with one element a lane.
        shared: Whether several agents share one memory; then `begin` and `remember` are given None for what is an
            agent's own.
        by_lane: Whether the functions take one lane at a time, and are to be looped over the lanes of a batch.
    """

    observation_spec: SpecTree | None = None
    action_spec: SpecTree | None = None
    reward_spec: SpecTree | None = None
    discount_spec: SpecTree | None = None
    action: Callable[[Any], Any] | None = None
    observation: _OneOrTwo | None = None
    reward: _OneOrTwo | None = None
    begin: Callable[[Any], Any] | None = None
    remember: Callable[[Any, Any, Any, Any], Any] | None = None
    note: Callable[[Any, Any], Any] | None = None
    truncated: Callable[[Any, Any], Any] | None = None
    info: Callable[..., Mapping[str, Any]] | None = None
    shared: bool = False
    by_lane: bool = False

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None or isinstance(value, bool):
                continue
            if name.endswith("_spec"):
                strange = [leaf for _, leaf in tree.leaves(value) if not isinstance(leaf, Spec)]
                if strange:
                    raise SpecError(f"change: {name}: expected specs of envoi, got {shown(strange[0])}")
            elif not callable(value):
                raise SpecError(f"change: {name}: expected a function, got {shown(value)}")
        for name in ("remember", "note", "truncated"):
            if self.begin is None and getattr(self, name) is not None:
                raise SpecError(f"change: expected begin beside {name}, for that takes a memory")


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
