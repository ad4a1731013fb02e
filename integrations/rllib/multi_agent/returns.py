"""The return of each agent and of each policy in an episode, logged for RLlib's results."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

AGENT_RETURNS, POLICY_RETURNS = "agent_returns", "policy_returns"
"""Keys of a result, under `env_runners`: returns of the episodes that ended in its iteration, by agent or policy."""


def returns_by_agent(episode: Any, earlier_chunks: Sequence[Any]) -> dict[Any, float]:
    """Returns the return of each agent that acted in an episode.

    Args:
        episode: The last chunk of RLlib's `MultiAgentEpisode`.
        earlier_chunks: The chunks before it.
    """
    totals: dict[Any, float] = defaultdict(float)
    for chunk in (*earlier_chunks, episode):
        for agent, own in chunk.agent_episodes.items():
            totals[agent] += float(own.get_return())
    return dict(totals)


def log_returns(episode: Any, earlier_chunks: Sequence[Any], metrics_logger: Any) -> None:
    """Logs the returns of a whole episode of several agents.

    The return of a policy is the mean over the agents that it played in the episode.

    Args:
        episode: The last chunk of RLlib's `MultiAgentEpisode`.
        earlier_chunks: The chunks before it.
        metrics_logger: RLlib's metrics logger.
    """
    returns = returns_by_agent(episode, earlier_chunks)
    by_policy: dict[str, list[float]] = defaultdict(list)
    for agent, total in returns.items():
        by_policy[episode.module_for(agent)].append(total)
        metrics_logger.log_value((AGENT_RETURNS, str(agent)), total, reduce="item_series")
    for policy, totals in by_policy.items():
        metrics_logger.log_value((POLICY_RETURNS, policy), sum(totals) / len(totals), reduce="item_series")


def ended_returns(result: Mapping[str, Any]) -> dict[str, list[float]]:
    """Reads the returns that an iteration has logged.

    Args:
        result: The result of an iteration of RLlib's.

    Returns:
        The returns by `agent/<id>` and `policy/<id>`, of the episodes that ended.
    """
    found: dict[str, list[float]] = {}
    for key, what in ((POLICY_RETURNS, "policy"), (AGENT_RETURNS, "agent")):
        for name, values in result.get("env_runners", {}).get(key, {}).items():
            if isinstance(values, list):  # a NaN if none ended
                found[f"{what}/{name}"] = [float(value) for value in values]
    return found
