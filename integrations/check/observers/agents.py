"""Observes the agents of each transition: who is in play, who acts, who ended, and which values each one received."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from envoi import Discrete
from envoi.protocol.multi_env import Agent

from ..drivers.base import Driver
from ..drivers.core import CoreDriver
from ..transition import Transition
from .base import Observer

ENDED, MASKED = "ended agents", "action masks"
"""Names of counts."""

ZERO_SUM = "zero_sum"
"""Metadata key by which an environment declares that its rewards sum to 0."""


def declares_zero_sum(driver: Driver) -> bool:
    """Returns True if the environment's metadata declare that its rewards sum to 0."""
    return isinstance(driver.metadata, Mapping) and bool(driver.metadata.get(ZERO_SUM, False))


class AgentObserver(Observer):
    """Follows the agents through each episode.

    Args:
        driver: Plays the environment of several agents.
    """

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self._start_episode()

    def _start_episode(self) -> None:
        self._ended: set[Agent] = set()
        self._before: tuple[Agent, ...] = ()
        self._reward_sum = self._reward_scale = 0.0

    def observe(self, transition: Transition) -> None:
        if transition.step == 0:
            self._start_episode()
        self._observe_order(transition)
        self._observe_ended_agents(transition)
        if transition.step:
            self._observe_completeness(transition)
            self._observe_ends(transition)
        self._observe_turn(transition)
        self._observe_masks(transition)
        self._observe_reward_sum(transition)
        reply = transition.reply
        self._ended |= {agent for agent in (*reply.terminated, *reply.truncated) if reply.ended(agent)}
        self._before = reply.agents

    def _observe_order(self, transition: Transition) -> None:
        reply, possible = transition.reply, self.driver.possible_agents
        ordered: dict[str, Any] = {"agents": reply.agents}
        if isinstance(self.driver, CoreDriver):  # whose API promises the order of its mappings
            ordered |= {"observations": reply.observations, "rewards": reply.rewards, "terminated": reply.terminated}
        for name, agents in ordered.items():
            unknown = [agent for agent in agents if agent not in possible]
            if unknown:
                self.report("agents-in-order", f"{name}: {unknown} are not among possible_agents", transition)
            elif list(agents) != [agent for agent in possible if agent in agents]:
                reason = f"{name}: {list(agents)}, while possible_agents has the order {list(possible)}"
                self.report("agents-in-order", reason, transition)

    def _observe_ended_agents(self, transition: Transition) -> None:
        reply = transition.reply
        back = [agent for agent in reply.agents if agent in self._ended]
        if back:
            reason = f"agents: {back} ended before in this episode, and are back"
            self.report("ended-are-silent", reason, transition)
        names = ("observations", "rewards", "terminated", "truncated", "infos")
        for name in names if self.driver.returns_infos else names[:-1]:
            late = [agent for agent in getattr(reply, name) if agent in self._ended]
            if late:
                reason = f"{name}: still values for {late}, which ended in an earlier step"
                self.report("ended-are-silent", reason, transition)

    def _observe_completeness(self, transition: Transition) -> None:
        reply = transition.reply
        names = ("rewards", "terminated", "truncated", "infos")
        for name in names if self.driver.returns_infos else names[:-1]:
            missing = [agent for agent in self._before if agent not in getattr(reply, name)]
            if missing:
                reason = f"{name}: no value for {missing}, in play before this step"
                self.report("agents-complete", reason, transition)
        gone = [agent for agent in self._before if agent not in reply.agents and not reply.ended(agent)]
        if gone:
            reason = f"agents: {gone} left without being terminated or truncated"
            self.report("agents-complete", reason, transition)

    def _observe_ends(self, transition: Transition) -> None:
        reply = transition.reply
        for agent in filter(reply.ended, self._before):
            self.counts[ENDED] += 1
            if agent in reply.agents:
                self.report("ended-are-silent", f"agents: {agent!r} has ended, and is still in play", transition)
            if agent not in reply.observations:
                reason = f"observations: {agent!r} has ended, and has no final observation"
                self.report("final-observation", reason, transition)

    def _observe_turn(self, transition: Transition) -> None:
        reply = transition.reply
        if reply.agents and not reply.acting:
            self.report("turn", f"no agent acts, while {list(reply.agents)} are in play", transition)
        absent = [agent for agent in reply.acting if agent not in reply.agents]
        if absent:
            self.report("turn", f"it is the turn of {absent}, which are not in play", transition)
        blind = [agent for agent in reply.acting if agent not in reply.observations]
        if blind:
            self.report("agents-complete", f"observations: no value for {blind}, which act next", transition)

    def _observe_masks(self, transition: Transition) -> None:
        for agent in transition.reply.acting:
            mask, spec = self.driver.action_mask(agent, transition.reply), self.driver.action_specs.get(agent)
            if mask is None or not isinstance(spec, Discrete):
                continue
            self.counts[MASKED] += 1
            array = np.asarray(mask)
            path = self.driver.label("action mask", agent)
            if array.shape != (spec.n,):
                reason = f"{path}: expected the shape ({spec.n},), got {array.shape}"
                self.report("mask-legal", reason, transition)
            elif not array.any():
                self.report("mask-legal", f"{path}: it allows no action, though the agent acts next", transition)

    def _observe_reward_sum(self, transition: Transition) -> None:
        if not declares_zero_sum(self.driver):
            return
        for reward in transition.reply.rewards.values():
            if isinstance(reward, (bool, int, float, np.number)):
                self._reward_sum += float(reward)
                self._reward_scale += abs(float(reward))
        if transition.reply.over and abs(self._reward_sum) > 1e-6 * max(1.0, self._reward_scale):
            self.report("zero-sum", f"the rewards of all agents sum to {self._reward_sum:g}", transition)
