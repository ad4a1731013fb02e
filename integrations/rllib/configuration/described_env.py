"""The description of an env that the steps of `configure` decide by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import envoi
from envoi.adapters.rllib.codec.masks import can_mask, declares_masks
from envoi.adapters.rllib.creator import FORM
from envoi.batching.loop import Lanes
from envoi.protocol.multi_env import MASK

try:
    from gymnasium import spaces
    from gymnasium.vector import VectorEnv
except ImportError as error:
    raise envoi.MissingBackend("gymnasium is not installed; pip install 'envoi[rllib]'") from error

from ..env_options import EnvOptions
from ..env_preflight import check_lanes
from ..registration import RegisteredEnv


@dataclass(frozen=True)
class DescribedEnv:
    """A registered env, and what one instance of it shows.

    Args:
        registered: The env as registered.
        observation_space: The space of an observation, as RLlib sees it; a `Dict` from agents for several agents, the
            space of one lane for a batch.
        action_space: The space of an action, likewise.
        lanes: The number of lanes of a batch; None if the env is none.
        has_own_batch: True if the env has a step of its own for many lanes, so that no loop runs over them.
        masked_agents: The agents that have action masks, declared or in their infos at the reset; `[None]` for the one
            agent of an env that has only one, an empty list without masks.
        is_multi_agent: True for an env of several agents.
        form: The form in which RLlib has the env, for its `env_config`; see `envoi.adapters.rllib.creator.FORM`.
    """

    registered: RegisteredEnv
    observation_space: spaces.Space[Any]
    action_space: spaces.Space[Any]
    lanes: int | None
    has_own_batch: bool
    masked_agents: list[Any]
    is_multi_agent: bool
    form: Mapping[str, Any] = field(default_factory=dict[str, Any])

    @property
    def name(self) -> str:
        """The name that the env is registered under."""
        return self.registered.name

    @property
    def options(self) -> EnvOptions:
        """The options of the env."""
        return self.registered.options

    @property
    def spaces_of_agents(self) -> Mapping[Any, tuple[spaces.Space[Any], spaces.Space[Any]]]:
        """The observation and the action space of each agent; of the agent None, if there is only one."""
        observations, actions = self.observation_space, self.action_space
        if not self.is_multi_agent:
            return {None: (observations, actions)}
        assert isinstance(observations, spaces.Dict)
        assert isinstance(actions, spaces.Dict)
        return {agent: (observations[agent], actions[agent]) for agent in actions.spaces}


def describe_env(
    registered: RegisteredEnv,
    env_config: Mapping[str, Any],
    num_envs: int | None,
    form: Mapping[str, Any] | None = None,
) -> DescribedEnv:
    """Makes one instance of a registered env, looks at it, and closes it.

    Args:
        registered: The env as registered.
        env_config: RLlib's `env_config`.
        num_envs: How many envs a runner is asked to step together; None for no preference.
        form: The form to make it in, see `DescribedEnv`; None for the registered one.

    Returns:
        The description.

    Raises:
        envoi.EnvoiError: An unknown env, one that RLlib cannot have, or a batch of other than `num_envs` lanes.
    """
    made = registered.make({**env_config, FORM: form or {}})
    is_batch = isinstance(made, VectorEnv)
    try:
        lanes = check_lanes(made, num_envs) if is_batch else None
        is_multi_agent = hasattr(made, "action_spaces")
        of_one = "single_" if lanes is not None else ""
        _, infos = made.reset()
        masked = _masked(infos, made, is_multi_agent, lanes)
        return DescribedEnv(
            registered,
            getattr(made, f"{of_one}observation_space"),
            getattr(made, f"{of_one}action_space"),
            lanes,
            lanes is not None or (not is_multi_agent and _has_own_batch(made.core)),
            masked,
            is_multi_agent,
            form or {},
        )
    finally:
        made.close()


def _masked(infos: Mapping[Any, Any], made: Any, is_multi_agent: bool, lanes: int | None) -> list[Any]:
    """Returns the agents that have action masks."""
    declaring = declares_masks(made.core)
    if is_multi_agent:
        able = [agent for agent in made.action_spaces if can_mask(made.core.action_spec[agent])]
        return [agent for agent in able if agent in declaring or MASK in infos.get(agent, {})]
    each = made.last.info if lanes is not None else [infos]
    return [None] if can_mask(made.core.action_spec) and (declaring or any(MASK in info for info in each)) else []


def _has_own_batch(core: Any) -> bool:
    """Returns True if a batch of a core environment is no loop over its lanes."""
    if not isinstance(core.unwrapped, envoi.BatchModel):
        return False
    inside: Any = envoi.batch(core, 1)
    while not isinstance(inside, Lanes):
        if not hasattr(inside, "env"):
            return True
        inside = inside.env
    return False
