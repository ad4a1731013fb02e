"""Requirements on environments of several agents: who is in play, who acts, and which values each one receives."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..hash_seeds import CannotCompare, agent_order_difference
from ..observers.agents import ENDED, MASKED, ZERO_SUM, declares_zero_sum
from ..outcome import Outcome, failed_if, skipped
from ..requirement import Requirement, no_violation

if TYPE_CHECKING:
    from ..env_under_test import EnvUnderTest
    from ..rollout import Rollout


def _no_masks(rollout: Rollout) -> str:
    return "" if rollout.counts.get(MASKED) else "it has no action masks"


def _no_ends(rollout: Rollout) -> str:
    return "" if rollout.counts.get(ENDED) else "no agent ended"


def _not_zero_sum(rollout: Rollout) -> str:
    if not declares_zero_sum(rollout.driver):
        return f"its metadata do not have {ZERO_SUM!r}"
    return "" if rollout.ends else "no episode ended"


def hash_order(env: EnvUnderTest) -> Outcome:
    """The order of agents does not depend on Python's hash seed."""
    try:
        return failed_if(agent_order_difference(env.origin, env.extent.seed, env.driver.possible_agents))
    except CannotCompare as error:
        return skipped(str(error))


AGENTS = (
    Requirement(
        "agents-in-order",
        "Agents are among `possible_agents`, and in that order.",
        (38,),
        no_violation("agents-in-order"),
        kinds=("multi",),
        on_forms=True,
    ),
    Requirement(
        "hash-order",
        "The order of agents is the same under every hash seed of Python.",
        (38,),
        hash_order,
        kinds=("multi",),
    ),
    Requirement(
        "agents-complete",
        "Each agent in play has values in each step until it ends, and an observation before it acts.",
        (34, 39),
        no_violation("agents-complete"),
        kinds=("multi",),
        on_forms=True,
    ),
    Requirement(
        "ended-are-silent",
        "An agent that has ended has no more values in the episode.",
        (36,),
        no_violation("ended-are-silent", _no_ends),
        kinds=("multi",),
        on_forms=True,
    ),
    Requirement(
        "final-observation",
        "Each agent that ends has a final observation.",
        (34, 35),
        no_violation("final-observation", _no_ends),
        kinds=("multi",),
        on_forms=True,
    ),
    Requirement(
        "turn",
        "While agents are in play, at least one of them acts.",
        (41,),
        no_violation("turn"),
        kinds=("multi",),
        on_forms=True,
    ),
    Requirement(
        "mask-legal",
        "An action mask has one entry per action, and allows an action to each agent that acts.",
        (42,),
        no_violation("mask-legal", _no_masks),
        kinds=("multi",),
        on_forms=True,
    ),
    Requirement(
        "zero-sum",
        "Where the metadata have 'zero_sum', the rewards of all agents sum to 0 in each episode.",
        (33,),
        no_violation("zero-sum", _not_zero_sum),
        kinds=("multi",),
        on_forms=True,
    ),
)

AGENT_KEYS = tuple(requirement.key for requirement in AGENTS)
"""Keys of requirements on agents, whose violations importers refuse."""
