"""Counts the steps of several agents for RLlib's metrics, with one log entry per key rather than one per step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from ray.rllib.utils.metrics import (
    NUM_AGENT_STEPS_SAMPLED,
    NUM_AGENT_STEPS_SAMPLED_LIFETIME,
    NUM_ENV_STEPS_SAMPLED,
    NUM_ENV_STEPS_SAMPLED_LIFETIME,
    NUM_EPISODES,
    NUM_EPISODES_LIFETIME,
    NUM_MODULE_STEPS_SAMPLED,
    NUM_MODULE_STEPS_SAMPLED_LIFETIME,
)
from ray.rllib.utils.metrics.metrics_logger import MetricsLogger

__all__ = ["StepCounts"]


class StepCounts:
    """Sums what `MultiAgentEnvRunner._increase_sampled_metrics` logs in each step of each environment.

    Attributes:
        env_steps: The number of environment steps since the last `log`.
    """

    def __init__(self) -> None:
        self.env_steps = 0
        self._episodes = 0
        self._agents: Counter[tuple[Any, Any]] = Counter()

    def add(self, observed: Iterable[Any], episode: Any) -> None:
        """Counts a step of one environment.

        Args:
            observed: The agents that the step observes.
            episode: The environment's `MultiAgentEpisode`, with the step.
        """
        self.env_steps += 1
        self._episodes += bool(episode.is_terminated or episode.is_truncated)
        agents, modules = self._agents, episode._agent_to_module_mapping
        for agent in observed:
            module = modules[agent] if agent in modules else episode.module_for(agent)
            agents[agent, module] += 1

    def log(self, metrics: MetricsLogger) -> None:
        """Logs the sums since the last call, and begins at zero again."""
        if not self.env_steps:
            return
        metrics.log_value(NUM_ENV_STEPS_SAMPLED, self.env_steps, reduce="sum")
        metrics.log_value(NUM_ENV_STEPS_SAMPLED_LIFETIME, self.env_steps, reduce="lifetime_sum", with_throughput=True)
        if self._episodes:
            metrics.log_value(NUM_EPISODES, self._episodes, reduce="sum")
            metrics.log_value(NUM_EPISODES_LIFETIME, self._episodes, reduce="lifetime_sum")
        for (agent, module), steps in self._agents.items():
            metrics.log_value((NUM_AGENT_STEPS_SAMPLED, str(agent)), steps, reduce="sum")
            metrics.log_value((NUM_AGENT_STEPS_SAMPLED_LIFETIME, str(agent)), steps, reduce="lifetime_sum")
            metrics.log_value((NUM_MODULE_STEPS_SAMPLED, module), steps, reduce="sum")
            metrics.log_value((NUM_MODULE_STEPS_SAMPLED_LIFETIME, module), steps, reduce="lifetime_sum")
        self.env_steps = self._episodes = 0
        self._agents.clear()
