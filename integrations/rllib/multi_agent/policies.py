"""Adds the policies of several agents to an `AlgorithmConfig`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ray.rllib.core.rl_module.default_model_config import DefaultModelConfig
from ray.rllib.core.rl_module.multi_rl_module import MultiRLModuleSpec
from ray.rllib.core.rl_module.rl_module import RLModuleSpec
from ray.rllib.policy.policy import PolicySpec

from ..algorithms import Algorithm
from .grouping import Grouping

if TYPE_CHECKING:
    from ray.rllib.algorithms.algorithm_config import AlgorithmConfig

_BUFFERS = {
    "EpisodeReplayBuffer": "MultiAgentEpisodeReplayBuffer",
    "PrioritizedEpisodeReplayBuffer": "MultiAgentPrioritizedEpisodeReplayBuffer",
}
"""RLlib's replay buffers of one agent, and those of several, which it does not choose by itself."""


def add_policies(config: AlgorithmConfig, grouping: Grouping, algorithm: Algorithm) -> None:
    """Adds the policies of a grouping to a config: their spaces and modules, the mapping, and a fitting replay buffer.

    Args:
        config: The config, which is changed.
        grouping: The policies.
        algorithm: The algorithm, whose `model` has settings for the networks.
    """
    learned, names = tuple(grouping.policies), (*grouping.policies, *grouping.frozen)
    spaces = {name: grouping.spaces_of(name) for name in names}
    config.multi_agent(
        policies={name: PolicySpec(None, *spaces[name]) for name in names},
        policy_mapping_fn=grouping.mapping,
        policies_to_train=list(learned) if grouping.frozen else None,
    )
    specs = {name: _module(algorithm, *spaces[name]) for name in names}
    config.rl_module(rl_module_spec=MultiRLModuleSpec(rl_module_specs=specs))
    buffer: dict[str, Any] = getattr(config, "replay_buffer_config", None) or {}
    if buffer.get("type") in _BUFFERS:
        config.training(replay_buffer_config={"type": _BUFFERS[buffer["type"]]})  # pyright: ignore[reportCallIssue]


def _module(algorithm: Algorithm, observations: Any, actions: Any) -> RLModuleSpec:
    is_flat = len(observations.shape or ()) == 1
    model = DefaultModelConfig(**algorithm.model) if algorithm.model and is_flat else None
    return RLModuleSpec(observation_space=observations, action_space=actions, model_config=model)
