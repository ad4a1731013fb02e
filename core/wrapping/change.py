"""The change that a wrapper makes, for one agent: specs, and pure functions of values.

A `Change` does not deal with episodes, lanes or agents. What it remembers between steps is a value, the memory: it
begins with the first observation, and each step makes a new one from the last.

    begin(observation)                                → memory
    remember(memory, action, observation, reward)     → memory
    observation(observation, memory)                  → observation, and likewise for the others
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from .. import tree
from ..errors import SpecError
from ..spec import Spec, SpecTree
from ..spec.base import shown

_OfOne: TypeAlias = Callable[[Any], Any]
_OfTwo: TypeAlias = Callable[[Any, Any], Any]


SPECS = ("observation_spec", "action_spec", "reward_spec", "discount_spec")
"""The specs of an environment that a change may change."""


class Specs(NamedTuple):
    """The specs of the environment inside a wrapper, for one agent.

    Attributes:
        observation: The inner observation spec.
        action: The inner action spec.
        reward: The inner reward spec.
        discount: The inner discount spec.
        lanes: The number of lanes if values have a leading lane axis, else None.
        agent: The agent; None in a single-agent environment.
    """

    observation: SpecTree
    action: SpecTree
    reward: SpecTree
    discount: SpecTree
    lanes: int | None = None
    agent: Any = None


@dataclass(frozen=True)
class Change:
    """The new specs of a wrapper and the functions that compute their values. None leaves a part unchanged.

    Functions never change their arguments. Each value is one agent's; in a batch its arrays have a leading lane
    axis, so write functions that index from the end (`value[..., 0]`), or set `by_lane`.

    Attributes:
        observation_spec: The spec of observations.
        action_spec: The spec of actions.
        reward_spec: The spec of rewards.
        discount_spec: The spec of discounts.
        action: `(action) -> action` of the inner environment.
        observation: `(observation) -> observation`, or `(observation, memory)` if there is a memory.
        reward: `(reward) -> reward`, or `(reward, memory)`.
        begin: `(observation) -> memory`, from the first observation of an episode.
        remember: `(memory, action, observation, reward) -> memory`, from the agent's own action and the inner values.
        note: `(memory, info) -> memory`, from the inner info, after `begin` or `remember`. Not called if `shared`.
        truncated: `(flag, memory) -> flag`, bools in a batch. In a multi-agent environment, the memory must be shared.
        terminated: `(state, action, next_state) -> flag`, from states of the inner environment; in a batch, bools, or
            None for none. In a multi-agent environment, only the first agent's is called, with the actions of all.
        limit: The number of steps after which episodes are truncated; it needs no memory. Lanes of models count the
            steps themselves.
        info: `(memory) -> entries` to add to the info, or `() -> entries` without a memory; in a batch each has one
            element per lane.
        watch: `(reward, terminated, truncated, info)`, called at the end of each step with its values. In a batch also
            with the masks of lanes that restart and that hold (or None); both flags are None if no lane has ended. With
            several agents it gets dicts, both flags may be None if none ends, and only the first agent's is called.
        shared: If True, all agents share one memory, and the per-agent arguments of `begin` and `remember` are None.
        by_lane: If True, the functions receive one lane of a batch at a time, in a loop, except `terminated` and
            `watch`.
    """

    observation_spec: SpecTree | None = None
    action_spec: SpecTree | None = None
    reward_spec: SpecTree | None = None
    discount_spec: SpecTree | None = None
    action: Callable[[Any], Any] | None = None
    observation: _OfOne | _OfTwo | None = None
    reward: _OfOne | _OfTwo | None = None
    begin: Callable[[Any], Any] | None = None
    remember: Callable[[Any, Any, Any, Any], Any] | None = None
    note: Callable[[Any, Any], Any] | None = None
    truncated: Callable[[Any, Any], Any] | None = None
    terminated: Callable[[Any, Any, Any], Any] | None = None
    limit: int | None = None
    info: Callable[..., Mapping[str, Any]] | None = None
    watch: Callable[..., None] | None = None
    shared: bool = False
    by_lane: bool = False

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if value is None or isinstance(value, bool) or name == "limit":
                continue
            if name.endswith("_spec"):
                strange = [leaf for _, leaf in tree.leaves(value) if not isinstance(leaf, Spec)]
                if strange:
                    raise SpecError(f"change: {name}: expected specs of envoi, got {shown(strange[0])}")
            elif not callable(value):
                raise SpecError(f"change: {name}: expected a function, got {shown(value)}")
        if self.limit is not None:
            given = [name for name in ("begin", "remember", "note", "truncated") if getattr(self, name) is not None]
            if given:
                raise SpecError(f"change: expected no {given[0]} beside limit, which counts steps itself")
        for name in ("remember", "note", "truncated"):
            if self.begin is None and getattr(self, name) is not None:
                raise SpecError(f"change: expected begin beside {name}, for that takes a memory")

    def counting(self, lanes: int | None) -> Change:
        """Adds functions that truncate at `limit`. Returns the same object if `limit` is None.

        The memory is the number of steps; the stages of the step increment it.

        Args:
            lanes: The number of lanes, or None without a lane axis.
        """
        limit = self.limit
        if limit is None:
            return self
        in_lanes = lanes is not None and not self.by_lane
        none: Any = np.zeros(lanes or 0, np.int64) if in_lanes else 0

        def begin(observation: Any) -> Any:
            return none

        def truncated(flag: Any, elapsed: Any) -> Any:
            cut = elapsed >= limit
            return flag if in_lanes and not np.count_nonzero(cut) else flag | cut

        own: dict[str, Any] = dict(zip(("observation", "reward", "info"), self.with_memory(), strict=True))
        return replace(self, limit=None, shared=True, begin=begin, truncated=truncated, **own)

    def with_memory(self) -> tuple[_OfTwo | None, _OfTwo | None, _OfOne | None]:
        """Returns `observation`, `reward` and `info` as functions that take the memory as their last argument."""
        see, pay, tell = cast("tuple[Any, Any, Any]", (self.observation, self.reward, self.info))
        if self.begin is not None:
            return see, pay, tell
        return (
            None if see is None else (lambda value, memory: see(value)),
            None if pay is None else (lambda value, memory: pay(value)),
            None if tell is None else (lambda memory: tell()),
        )
