"""The step of `configure` that sets the policies of several agents."""

from __future__ import annotations

from typing import Any

from ray.rllib.algorithms.algorithm_config import AlgorithmConfig
from ray.rllib.policy.policy import PolicySpec

import envoi

from ..multi_agent.grouping import Policies, group_spaces
from ..multi_agent.mapping import FixedMapping, SelfPlayMapping
from .described_env import DescribedEnv

_BUFFERS = {
    "EpisodeReplayBuffer": "MultiAgentEpisodeReplayBuffer",
    "PrioritizedEpisodeReplayBuffer": "MultiAgentPrioritizedEpisodeReplayBuffer",
}
"""RLlib's replay buffers of one agent, and those of several, which it does not choose by itself."""


def set_policies(config: AlgorithmConfig, env: DescribedEnv, policies: Policies | None) -> None:
    """Sets the policies of several agents, their mapping, and a fitting replay buffer.

    RLlib makes the module of each policy from the module that the user has set, or from its own.

    Args:
        config: The config. Policies of an earlier call stay if `policies` is None and the agents are the same.
        env: The env.
        policies: As in `group_agents`.

    Raises:
        envoi.EnvoiError: As `group_spaces`; or the user has set policies on the config as well.
    """
    mapping: Any = config.policy_mapping_fn
    is_replaced = isinstance(mapping, (FixedMapping, SelfPlayMapping)) and (
        policies is not None or set(mapping.agents) != env.spaces_of_agents.keys()
    )
    if config.is_multi_agent and not is_replaced:
        if policies is not None:
            raise envoi.EnvoiError(
                f"policies: the config has policies of its own, {', '.join(config.policies)}, so that policies="
                f"{policies!r} has no effect; leave it out, or leave out multi_agent(policies=…)"
            )
        return
    grouping = group_spaces(policies, env.observation_space, env.action_space)
    if grouping is None:
        return
    config.multi_agent(
        policies={name: PolicySpec() for name in (*grouping.policies, *grouping.frozen)},
        policy_mapping_fn=grouping.mapping,
        policies_to_train=list(grouping.policies) if grouping.frozen else None,
    )
    buffer: dict[str, Any] = getattr(config, "replay_buffer_config", None) or {}
    if buffer.get("type") in _BUFFERS:
        # With all of its settings, which RLlib drops where the type changes.
        config.training(replay_buffer_config={**buffer, "type": _BUFFERS[buffer["type"]]})  # pyright: ignore[reportCallIssue]
