"""Lifts a single-agent change to lanes (functions of arrays) or to several agents (functions of mappings)."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

import numpy as np

from .. import tree
from ..errors import SpecError
from ..lane_values import lane, objects, stack
from ..protocol.multi_env import MultiEnv
from ..spec import Spec, SpecTree, zeros
from ..spec.base import shown
from .change import SPECS, Change, Specs

# Lanes.

Split: TypeAlias = Callable[[Any], Iterable[Any]]
Join: TypeAlias = Callable[[list[Any]], Any]


def over_lanes(change: Change, specs: Specs, kind: type) -> Change:
    """Returns a change whose functions take all lanes. With `by_lane`, they loop over the lanes."""
    n = specs.lanes
    if n is None or not change.by_lane:
        return change

    def lanes(spec: SpecTree) -> Split:
        return lambda values: [lane(spec, values, index) for index in range(n)]

    def stacked(spec: SpecTree, what: str) -> Join:
        return lambda values: stack(spec, values, f"change: {what}")

    def flags(given: Any) -> list[bool]:
        return np.broadcast_to(given, n).tolist()

    def looped(function: Callable[..., Any] | None, join: Join, *splits: Split) -> Any:
        def all_lanes(*arguments: Any) -> Any:
            lanes = (split(argument) for split, argument in zip(splits, arguments, strict=True))
            return join([cast("Any", function)(*one) for one in zip(*lanes, strict=True)])

        return None if function is None else all_lanes

    outside = outer_specs(change, specs)
    acting, seeing, paid = lanes(outside.action), lanes(specs.observation), lanes(specs.reward)
    memory: list[Split] = [] if change.begin is None else [iter]
    return replace(
        change,
        action=looped(change.action, stacked(specs.action, "action"), acting),
        observation=looped(change.observation, stacked(outside.observation, "observation"), seeing, *memory),
        reward=looped(change.reward, stacked(outside.reward, "reward"), paid, *memory),
        begin=looped(change.begin, objects, seeing),
        remember=looped(change.remember, objects, iter, acting, seeing, paid),
        note=looped(change.note, objects, iter, iter),
        truncated=looped(change.truncated, lambda values: np.array(values, bool), flags, iter),
        info=looped(change.info, partial(_columns, kind), iter) if memory else change.info,
        by_lane=False,
    )


def outer_specs(change: Change, specs: Specs) -> Specs:
    """Returns the specs outside of a change: inner specs, unless the change replaces them."""
    own = {name.removesuffix("_spec"): getattr(change, name) for name in SPECS}
    return specs._replace(**{name: spec for name, spec in own.items() if spec is not None})


def _columns(kind: type, lanes: Sequence[Any]) -> dict[str, list[Any]]:
    entries = [entries_for(one, kind, f" in lane {index}") for index, one in enumerate(lanes)]
    return {name: [entry[name] for entry in entries] for name in entries[0]}


def entries_for(info: Any, kind: type, where: str = "") -> Mapping[str, Any]:
    """Returns what the `info` of a change returned, after checking that it is a mapping; errors name the wrapper."""
    if not isinstance(info, (tree.AnyDict, tree.AnyMapping)):
        raise SpecError(f"{kind.__name__}: info{where}: expected a mapping from names, got {shown(info)}")
    return info


# Several agents.


class Memories(NamedTuple):
    """The memories of several agents at one point in time.

    Attributes:
        each: The memory of each agent that has observed.
        acted: The last action of each agent that has acted since its last observation.
        paid: The sum of each agent's rewards since its last observation.
        fresh: The agents whose memory is up to date. An agent that has ended stays one, with its last observation.
    """

    each: Mapping[Any, Any] = {}
    acted: Mapping[Any, Any] = {}
    paid: Mapping[Any, Any] = {}
    fresh: frozenset[Any] = frozenset()


class AgentMemory:
    """Begins and updates the memories of several agents, by each agent's change.

    Args:
        env: The environment inside.
        changes: The change of each agent.
        action_spec: The outer action specs.
    """

    def __init__(self, env: MultiEnv, changes: Mapping[Any, Change], action_spec: Mapping[Any, SpecTree]) -> None:
        self._env, self._action_spec = env, action_spec
        self._begin, self._remember, self._note = (
            functions_of(changes, name) for name in ("begin", "remember", "note")
        )

    def of(self, memory: Memories, agent: Any) -> Any:
        """Returns an agent's memory. If it has none yet, a new one begins with its present observation."""
        return memory.each[agent] if agent in memory.each else self._begin[agent](self._env.observation(agent))

    def begin(self, observations: Mapping[Any, Any]) -> Memories:
        return self.recall(Memories(), observations)

    def remember(
        self, memory: Memories, actions: Mapping[Any, Any], observations: Mapping[Any, Any], rewards: Mapping[Any, Any]
    ) -> Memories:
        acted = {**memory.acted, **actions}
        paid = {**memory.paid, **{a: self._with_earlier(memory.paid, a, own) for a, own in rewards.items()}}
        # Later steps leave out an agent that has ended: its memory holds its last observation.
        memory = Memories(memory.each, acted, paid, memory.fresh.difference(rewards))
        return self.recall(memory, observations)

    def _with_earlier(self, paid: Mapping[Any, Any], agent: Any, reward: Any) -> Any:
        """Adds the rewards that an agent received while it waited."""
        if agent not in paid:
            return reward

        def added(leaf: Spec, one: Any, other: Any) -> Any:
            return one + other

        return tree.map_leaves(added, self._env.reward_spec[agent], paid[agent], reward)

    def recall(self, memory: Memories, observations: Mapping[Any, Any]) -> Memories:
        """Updates the memories of the agents that have observed."""
        return Memories(
            {**memory.each, **{a: self._recalled(memory, a, seen) for a, seen in observations.items()}},
            {agent: action for agent, action in memory.acted.items() if agent not in observations},
            {agent: reward for agent, reward in memory.paid.items() if agent not in observations},
            memory.fresh.union(observations),
        )

    def _recalled(self, memory: Memories, agent: Any, observation: Any) -> Any:
        if agent not in self._begin:
            return None
        if agent not in memory.each:
            return self._begin[agent](observation)
        own = memory.each[agent]
        if agent not in self._remember:
            return own
        action = memory.acted[agent] if agent in memory.acted else zeros(self._action_spec[agent])
        return self._remember[agent](own, action, observation, memory.paid.get(agent, 0.0))

    def note(self, memory: Memories, infos: Mapping[Any, Any]) -> Memories:
        noted = {a: n(memory.each[a], infos[a]) for a, n in self._note.items() if a in infos and a in memory.each}
        return memory._replace(each={**memory.each, **noted})


def functions_of(changes: Mapping[Any, Change], name: str) -> dict[Any, Any]:
    """Returns the named function of each change that has one, by agent."""
    return {agent: found for agent, change in changes.items() if (found := getattr(change, name)) is not None}


def over_agents(env: MultiEnv, changes: dict[Any, Change], action_spec: Any, kind: type) -> tuple[Change, AgentMemory]:
    """Returns a change whose functions take mappings by agent, and the object that updates agents' memories.

    Its `info` takes and returns the infos of all agents: `(infos, memory) -> infos`. `action_spec` has the outer specs,
    and errors name the class of the wrapper, `kind`.
    """
    if any(change.truncated is not None and not change.shared for change in changes.values()):
        raise SpecError("change: expected a shared memory to truncate by, for several agents end together")
    some = next(iter(changes.values()), Change())
    own = {agent: change for agent, change in changes.items() if not change.shared}
    memories = AgentMemory(env, own, action_spec)
    remembering = changes if some.shared and some.begin else functions_of(own, "begin")
    begin: Any = memories.begin if remembering else None
    remember: Any = memories.remember if remembering else None
    if some.shared and some.begin:  # one memory, which knows neither actions nor observations
        first, later = some.begin, cast("Any", some.remember)

        def begin_shared(observations: Any) -> Any:
            return first(None)

        def remember_shared(memory: Any, *values: Any) -> Any:
            return later(memory, None, None, None)

        begin, remember = begin_shared, later and remember_shared

    def called(functions: Mapping[Any, Any], agent: Any, memory: Any, *value: Any) -> Any:
        given = () if agent not in remembering else (memory if some.shared else memories.of(memory, agent),)
        return functions[agent](*value, *given)

    def mapped(name: str) -> Any:
        functions = functions_of(changes, name)

        def changed(values: Mapping[Any, Any], memory: Any = None) -> dict[Any, Any]:
            return {a: called(functions, a, memory, one) if a in functions else one for a, one in values.items()}

        def unremembered(values: Mapping[Any, Any]) -> dict[Any, Any]:
            return {a: functions[a](one) if a in functions else one for a, one in values.items()}

        return None if not functions else changed if remembering and name != "action" else unremembered

    tell = functions_of(changes, "info")

    def told(infos: Mapping[Any, Any], memory: Any = None) -> dict[Any, Any]:
        found = {a: entries_for(called(tell, a, memory), kind, f"[{a!r}]") for a in infos if a in tell}
        return {a: {**info, **found[a]} if a in found else info for a, info in infos.items()}

    lifted = Change(
        action=mapped("action"),
        observation=mapped("observation"),
        reward=mapped("reward"),
        begin=begin,
        remember=remember,
        note=memories.note if functions_of(own, "note") else None,
        truncated=some.truncated,
        info=told if tell else None,
        terminated=some.terminated,
        watch=some.watch,
        shared=some.shared,
    )
    return lifted, memories


def end_all(look: Callable[[Any], Any], values: Sequence[Any], terminates: bool) -> tuple[Any, ...]:
    """Ends the episodes of all agents in the values of a step. Missing final observations come from `look`."""
    observation, reward, terminated, truncated, discount = values
    ends = dict.fromkeys(reward, True)
    seen = {agent: observation[agent] if agent in observation else look(agent) for agent in reward}
    if terminated is None:
        terminated, truncated = dict.fromkeys(reward, False), dict.fromkeys(reward, False)
        discount = dict.fromkeys(reward, 1.0)
    if terminates:
        return seen, reward, ends, truncated, {agent: 0.0 * factor for agent, factor in discount.items()}
    return seen, reward, terminated, ends, discount
