"""Functions from agents to policies, as RLlib calls them; of module-level classes, so that they can be pickled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LEARNER = "main"
"""The policy that learns in self-play."""
SEATS = "envoi_seats"
"""Key of an episode's custom data for the policy of each agent; RLlib keeps these data when it cuts an episode."""


def opponents(count: int) -> tuple[str, ...]:
    """Returns the names of the frozen policies of self-play, one for each of `count` slots."""
    return tuple(map(opponent, range(count)))


def opponent(slot: int) -> str:
    """Returns the name of the frozen policy in a slot of the league."""
    return f"opponent_{slot}"


class FixedMapping:
    """Maps each agent to the same policy in every episode.

    Args:
        policy_of: The policy of each agent.
    """

    def __init__(self, policy_of: Mapping[Any, str]) -> None:
        self.policy_of = dict(policy_of)

    @property
    def agents(self) -> tuple[Any, ...]:
        """The agents."""
        return tuple(self.policy_of)

    def __call__(self, agent_id: Any, episode: Any = None, **_: Any) -> str:
        """Returns the policy of an agent.

        Args:
            agent_id: The agent.
            episode: The episode, which makes no difference.
            **_: Further arguments of RLlib, which are ignored.
        """
        return self.policy_of[agent_id]


class SelfPlayMapping:
    """Seats the learning policy and an opponent in each episode, on sides chosen at random.

    The opponent is the learning policy itself in a share of the episodes, and otherwise one of the frozen policies,
    each equally likely. The random numbers are those of numpy's global generator, which RLlib seeds in each process.

    Args:
        agents: The two agents.
        slots: Number of frozen policies.
        mirror: Probability of an episode of the learning policy against itself.
    """

    def __init__(self, agents: Sequence[Any], slots: int, mirror: float) -> None:
        self.agents, self.slots, self.mirror = tuple(agents), slots, mirror

    def __call__(self, agent_id: Any, episode: Any = None, **_: Any) -> str:
        """Returns the policy that plays an agent in an episode.

        Args:
            agent_id: The agent.
            episode: The episode, whose custom data keep its seats; None for the learning policy.
            **_: Further arguments of RLlib, which are ignored.
        """
        # The constructor of a cut episode asks before it has custom data, and does not use the answer.
        data: dict[str, Any] | None = getattr(episode, "custom_data", None)
        if data is None:
            return LEARNER
        if SEATS not in data:
            data[SEATS] = self._sample()
        return data[SEATS][agent_id]

    def _sample(self) -> dict[Any, str]:
        seats = dict.fromkeys(self.agents, LEARNER)
        share, slot, side = np.random.random(3)  # noqa: NPY002 - the generator that RLlib seeds
        if share >= self.mirror:
            seats[self.agents[int(side * len(self.agents))]] = opponents(self.slots)[int(slot * self.slots)]
        return seats
