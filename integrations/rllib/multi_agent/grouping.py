"""Decides which agents share a policy, and checks that they can; imports no Ray."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import envoi
from envoi.errors import UnknownName, nearest

from ...errors import nearest_of_all
from .league import LEARNER, SLOTS, SelfPlayMapping, opponents

SHARED, PER_AGENT, BY_PREFIX, SELF_PLAY = WAYS = ("shared", "per-agent", "by-prefix", "self-play")
"""The names of the ways to group agents."""

Policies: TypeAlias = str | Mapping[str, Sequence[Any]] | Callable[[Any], str]
"""A name of `WAYS`, the agents of each policy, or a function from an agent to its policy."""

_BAD_IN_NAMES = re.compile(r'[<>:"/\\|?,\n]')
"""Characters that RLlib refuses in the name of a policy, which names a folder of its checkpoint, and those of CSV."""


@dataclass(frozen=True)
class Grouping:
    """The policies of a multi-agent env."""

    way: str
    agents: tuple[Any, ...]
    policies: Mapping[str, tuple[Any, ...]]
    spaces: Mapping[Any, tuple[Any, Any]] = field(repr=False)
    slots: int = 0

    @property
    def mapping(self) -> FixedMapping | SelfPlayMapping:
        """The function that maps agents to policies for RLlib."""
        if self.slots:
            return SelfPlayMapping(self.agents, self.slots)
        return FixedMapping(self.learning_seats)

    @property
    def learning_seats(self) -> dict[Any, str]:
        """The learning policy of each agent, by agent."""
        policy_of = {agent: policy for policy, agents in self.policies.items() for agent in agents}
        return {agent: policy_of[agent] for agent in self.agents}

    @property
    def frozen(self) -> tuple[str, ...]:
        """The policies that do not learn."""
        return opponents(self.slots)

    @property
    def measured(self) -> tuple[str, ...]:
        """The names under which returns are reported: `policy/<id>` of the learning policies, and `agent/<id>`."""
        return (*(f"policy/{name}" for name in self.policies), *(f"agent/{agent}" for agent in self.agents))

    def __str__(self) -> str:
        if self.slots:
            return f"policies {self.way}: {LEARNER} plays either side, against itself and {self.slots} past versions"
        parts = [f"{name} plays {', '.join(map(str, agents))}" for name, agents in self.policies.items()]
        return f"policies {self.way}: {'; '.join(parts)}"


def check_way(policies: Policies | None) -> None:
    """Checks the name of a way to group agents; needs no env."""
    if isinstance(policies, str) and policies not in WAYS:
        raise UnknownName(f"policies: no way to group agents is called {policies!r}; {nearest_of_all(policies, WAYS)}")


def group_spaces(policies: Policies | None, observations: Any, actions: Any) -> Grouping | None:
    """Groups the agents of an env by its RLlib spaces; returns None for a single-agent env."""
    if type(actions).__name__ != "Dict":
        if policies is not None:
            raise envoi.EnvoiError(f"policies={policies!r} is for several agents, and this env has one; leave it out")
        return None
    return group_agents(policies, {agent: (observations[agent], actions[agent]) for agent in actions})


def group_agents(policies: Policies | None, spaces: Mapping[Any, tuple[Any, Any]]) -> Grouping:
    """Groups the agents of a multi-agent env into policies."""
    check_way(policies)
    if policies is None:
        for way in (SHARED, BY_PREFIX, PER_AGENT):
            groups = _named(way, spaces)
            if _first_difference(groups, spaces) is None:
                return Grouping(way, tuple(spaces), groups, spaces)
        raise AssertionError("an agent's spaces equal themselves")
    if isinstance(policies, str):
        way, groups = policies, _named(policies, spaces)
    else:
        way, groups = "custom", _custom(policies, spaces)
    for name in groups:
        if not name or _BAD_IN_NAMES.search(name) or name[-1] in " ." or [*groups] == ["default_policy"]:
            raise envoi.EnvoiError(
                f"policies: {name!r} cannot be the name of a policy, which names a folder of the checkpoint; "
                'leave out < > : " / \\ | ? , a space or dot at its end, and "default_policy", that of one agent'
            )
    _check_spaces(way, groups, spaces)
    return Grouping(way, tuple(spaces), groups, spaces, SLOTS if way == SELF_PLAY else 0)


def _named(way: str, spaces: Mapping[Any, Any]) -> dict[str, tuple[Any, ...]]:
    if way == SHARED:
        return {"shared": tuple(spaces)}
    if way == SELF_PLAY:
        if len(spaces) != 2:
            raise envoi.EnvoiError(
                f"policies: self-play is for two agents, got {len(spaces)}: {', '.join(map(str, spaces))}; "
                f"choose {SHARED}, {BY_PREFIX} or {PER_AGENT}"
            )
        return {LEARNER: tuple(spaces)}
    names = {agent: _BAD_IN_NAMES.sub("_", str(agent)).rstrip(" .") or "agent" for agent in spaces}
    if way == BY_PREFIX:
        names = {agent: re.sub(r"[_\-. ]*\d+$", "", name) or "agent" for agent, name in names.items()}
    return _grouped(names)


def _grouped(names: Mapping[Any, str]) -> dict[str, tuple[Any, ...]]:
    """Returns the agents of each policy, given each agent's policy."""
    return {name: tuple(agent for agent in names if names[agent] == name) for name in dict.fromkeys(names.values())}


def _custom(policies: Mapping[str, Sequence[Any]] | Callable[[Any], str], spaces: Mapping[Any, Any]) -> Any:
    if not isinstance(policies, Mapping):
        names = {agent: policies(agent) for agent in spaces}
        for agent, name in names.items():
            if not isinstance(name, str):
                raise envoi.EnvoiError(
                    f"policies: expected the name of a policy for the agent {agent!r}, got {name!r}; "
                    "give a function from an agent to a str"
                )
        return _grouped(names)
    known = {str(agent): agent for agent in spaces}
    found: dict[str, tuple[Any, ...]] = {}
    policy_of: dict[Any, str] = {}
    for name, agents in policies.items():
        members: list[Any] = []
        for agent in [agents] if isinstance(agents, str) else agents:
            if str(agent) not in known:
                raise UnknownName(f"policies[{name!r}]: the env has no agent {agent!r}; {nearest(str(agent), known)}")
            own = known[str(agent)]
            if own in policy_of:
                raise envoi.EnvoiError(
                    f"policies: the agent {agent!r} has two policies, {policy_of[own]!r} and {name!r}; list it once"
                )
            policy_of[own] = name
            members.append(own)
        if not members:
            raise envoi.EnvoiError(f"policies[{name!r}]: expected at least one agent, got none; leave it out")
        found[name] = tuple(members)
    missing = [repr(agent) for agent in spaces if agent not in policy_of]
    if missing:
        raise envoi.EnvoiError(
            f"policies: no policy plays {', '.join(missing)}; list each agent of the env under one policy"
        )
    return found


def _first_difference(groups: Mapping[str, Sequence[Any]], spaces: Mapping[Any, tuple[Any, Any]]) -> Any:
    """Finds agents of a policy with different spaces; returns policy, two agents and the space's index, or None."""
    for policy, (first, *others) in groups.items():
        for agent in others:
            for index in (0, 1):
                if spaces[agent][index] != spaces[first][index]:
                    return policy, first, agent, index
    return None


def _check_spaces(way: str, groups: Mapping[str, Sequence[Any]], spaces: Mapping[Any, tuple[Any, Any]]) -> None:
    found = _first_difference(groups, spaces)
    if found is None:
        return
    policy, first, agent, index = found
    what = ("observation", "action")[index]
    fitting = [
        other
        for other in (BY_PREFIX, PER_AGENT)
        if other != way and _first_difference(_named(other, spaces), spaces) is None
    ]
    raise envoi.EnvoiError(
        f"policies={way}: the policy {policy!r} cannot play both {first!r}, whose {what} space is "
        f"{spaces[first][index]}, and {agent!r}, whose {what} space is {spaces[agent][index]}; "
        f"choose {' or '.join(fitting)}, or a mapping from policies to agents of equal spaces"
    )


class FixedMapping:
    """Maps each agent to the same policy in every episode."""

    def __init__(self, policy_of: Mapping[Any, str]) -> None:
        self.policy_of = dict(policy_of)

    @property
    def agents(self) -> tuple[Any, ...]:
        """The agents."""
        return tuple(self.policy_of)

    def __call__(self, agent_id: Any, episode: Any = None, **_: Any) -> str:
        """Returns the policy of an agent."""
        return self.policy_of[agent_id]
