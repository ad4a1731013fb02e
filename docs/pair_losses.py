"""Losses between two frameworks: tables computed by asking `envoi.adapters.losses` about probes.

A probe is an environment with one property that some framework cannot express. What a framework expresses without a
loss can arrive from it, so what the one keeps and the other loses is lost on the way from the one to the other.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Sequence
from string import ascii_lowercase
from typing import Any

import envoi
from envoi.adapters import FRAMEWORKS, TARGETS, losses
from envoi.models import Nim

SPACES_OF = {"rllib": "pettingzoo"}
"""Frameworks whose own environments can have the spaces of another one: RLlib's losses are those of the form that its
networks take (`canonical=True`), while an environment written for RLlib has any space of gymnasium."""

LEAF = envoi.Array((2,), "float32", -1, 1)
CHOICE = envoi.Discrete(2)


class Functions:
    """The functions of a model that is never played."""

    initial = transition = observe = reward = terminal = envoi.Model.info


class Single(Functions, envoi.Model):
    """An environment of one agent, declared by its specs alone."""

    def __init__(self, observation: Any = LEAF, action: Any = CHOICE, reward: Any = None) -> None:
        self.observation_spec, self.action_spec = observation, action
        self.reward_spec = envoi.Array((), "float32") if reward is None else reward
        self.discount_spec = envoi.Array((), "float32", 0, 1)
        super().__init__()


class Several(Functions, envoi.MultiModel):
    """A game of two agents that act at the same time, declared by its specs alone."""

    possible_agents = ("a", "b")

    def __init__(self, *observations: Any) -> None:
        self.observation_spec = dict(zip(self.possible_agents, observations, strict=True))
        self.action_spec = dict.fromkeys(self.possible_agents, CHOICE)
        self.reward_spec = dict.fromkeys(self.possible_agents, envoi.Array((), "float32"))
        self.discount_spec = dict.fromkeys(self.possible_agents, envoi.Array((), "float32", 0, 1))
        super().__init__()


PROBES: dict[str, Callable[[], Any]] = {
    "nested observations": lambda: Single({"a": {"b": LEAF}}),
    "nested actions": lambda: Single(action={"a": CHOICE, "b": LEAF}),
    "actions that count from another number than 0": lambda: Single(action=envoi.Discrete(3, start=5)),
    "`Text`": lambda: Single({"a": envoi.Text(3)}),
    "`Sequence`": lambda: Single({"a": envoi.Sequence(LEAF)}),
    "`Graph`": lambda: Single({"a": envoi.Graph(LEAF)}),
    "`OneOf`": lambda: Single({"a": envoi.OneOf([LEAF, CHOICE])}),
    "complex numbers": lambda: Single({"a": envoi.Array((2,), "complex64")}),
    "observations in float64": lambda: Single({"a": envoi.Array((2,), "float64")}),
    "integer observations beyond 2²⁴": lambda: Single({"a": envoi.Array((2,), "int64")}),
    "arrays of two axes beside others": lambda: Single({"a": envoi.Array((2, 2)), "b": LEAF}),
    "rewards in float64": lambda: Single(reward=envoi.Array((), "float64")),
    "rewards of several numbers": lambda: Single(reward=envoi.Array((2,), "float32")),
    "several agents": lambda: Several(LEAF, LEAF),
    "several agents of different spaces": lambda: Several(LEAF, {"a": LEAF}),
    "several agents that take turns": Nim,
}
"""An environment for each property, by its name in the tables."""


def installed() -> bool:
    """Returns True if the losses of all frameworks can be asked for."""
    rows = (FRAMEWORKS[name] for name in TARGETS)
    return all(row.stands_alone or importlib.util.find_spec(row.package) for row in rows)


def outcomes() -> dict[str, dict[str, str]]:
    """Returns, by property and framework, `""` if it is kept, else `"refused"`, `"narrowed"` or `"flattened"`."""
    found = {}
    for what, make in PROBES.items():
        found[what] = {name: _word(losses(make(), name)) for name in TARGETS}
    return found


def _word(found: Sequence[Any]) -> str:
    if not found:
        return ""
    if any(loss.refused for loss in found):
        return "refused"
    return "flattened" if any(loss.field == "shape" for loss in found) else "narrowed"


def lost_between(found: dict[str, dict[str, str]], one: str, other: str) -> list[str]:
    """Returns the properties that a framework keeps and another one loses.

    Args:
        found: What `outcomes` returns.
        one: The framework that the environment comes from.
        other: The framework that it goes to.
    """
    return [what for what, by in found.items() if not by[SPACES_OF.get(one, one)] and by[other]]


def rows_of_properties() -> list[list[str]]:
    """Returns the rows of the first table: a letter, a property, and its outcome in each framework."""
    lettered = zip(ascii_lowercase, outcomes().items(), strict=False)
    return [[letter, what, *(by[name] or "✓" for name in TARGETS)] for letter, (what, by) in lettered]


def rows_of_pairs() -> list[list[str]]:
    """Returns the rows of the second table: the letters of what is lost from one framework to each other."""
    found = outcomes()
    letter = dict(zip(found, ascii_lowercase, strict=False))

    def cell(one: str, other: str) -> str:
        return "" if one == other else ", ".join(letter[what] for what in lost_between(found, one, other)) or "-"

    return [[one, *(cell(one, other) for other in TARGETS)] for one in TARGETS]
