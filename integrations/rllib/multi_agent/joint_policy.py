"""Acts for all agents of an env with the policies of a checkpoint, without starting Ray."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

import envoi
from envoi.adapters.rllib.masks import is_masked
from envoi.errors import UnknownName, nearest

from ...env_contexts import fits
from ...errors import missing_rllib, reading
from .grouping import Policies, group_spaces

try:
    import torch
    from ray.rllib.connectors.env_to_module import EnvToModulePipeline
    from ray.rllib.connectors.module_to_env import ModuleToEnvPipeline
    from ray.rllib.core.columns import Columns
    from ray.rllib.core.rl_module.multi_rl_module import MultiRLModule
    from ray.rllib.env.multi_agent_episode import MultiAgentEpisode
except ImportError as error:
    raise missing_rllib(error) from error


MODULES = Path("learner_group", "learner", "rl_module")
"""The folder of the policies in a checkpoint."""


class TrainedModule:
    """A module of a checkpoint, between the connectors that it was trained with."""

    def __init__(self, checkpoint: str | Path, kind: Any, name: str, explore: bool, env_steps: int) -> None:
        root = Path(checkpoint).resolve()
        runner = root / "env_runner" if (root / "env_runner").is_dir() else root
        with reading(Path(checkpoint)):
            self.module: Any = kind.from_checkpoint(root / MODULES / name)
            self._to_module = EnvToModulePipeline.from_checkpoint(runner / "env_to_module_connector")
            self._to_env = ModuleToEnvPipeline.from_checkpoint(runner / "module_to_env_connector")
        self.observation_space: Any = self._to_module.input_observation_space
        self.action_space: Any = self._to_module.input_action_space
        self.explore = explore
        self._env_steps = env_steps

    def _begin(self, episode: Any, seed: int | None) -> None:
        self._episode, self._pending = episode, None
        self._shared: dict[str, Any] = {}
        if seed is not None:
            torch.manual_seed(seed)
            np.random.seed(seed % 2**32)  # noqa: NPY002 - some of RLlib's exploration samples from it

    def _outputs(self) -> Any:
        """Returns the columns that the module and the connectors compute from the episode's latest observation."""
        common: dict[str, Any] = {
            "episodes": [self._episode],
            "rl_module": self.module,
            "explore": self.explore,
            "shared_data": self._shared,
        }
        with torch.no_grad():
            batch = self._to_module(batch={}, **common)
            if self.explore:
                batch = self.module.forward_exploration(batch, t=self._env_steps)
            else:
                batch = self.module.forward_inference(batch)
            return self._to_env(batch=batch, **common)


class JointPolicy(TrainedModule):
    """The policies of several agents, with the connectors that they were trained with.

    It acts in one episode at a time and keeps that episode, as connectors and recurrent modules read past steps.
    Observations and actions have the form of `envoi.adapters.rllib`.

    Attributes:
        grouping: The policies and the agents that each can play.
        module: RLlib's module of all policies.
    """

    def __init__(
        self, checkpoint: str | Path, policies: Policies | None = None, *, explore: bool = False, env_steps: int = 0
    ) -> None:
        super().__init__(checkpoint, MultiRLModule, "", explore, env_steps)
        observations, actions = self.observation_space, self.action_space
        grouping = group_spaces(policies, observations, actions)
        if grouping is None:
            raise envoi.EnvoiError(f"{checkpoint} is the checkpoint of a policy of one agent")
        self.grouping = grouping
        self.observation_spaces: Mapping[Any, Any] = {agent: observations[agent] for agent in grouping.agents}
        self.action_spaces: Mapping[Any, Any] = {agent: actions[agent] for agent in grouping.agents}
        self.reset()

    @property
    def sees_masks(self) -> bool:
        """True if observations come with action masks."""
        return any(is_masked(space) for space in self.observation_spaces.values())

    def seats_of_episode(self, index: int) -> dict[Any, str]:
        """Returns each agent's policy in an evaluation episode: after self-play, opponents and sides alternate."""
        seats = self.grouping.learning_seats
        if self.grouping.frozen:
            slot, side = index // len(seats) % self.grouping.slots, index % len(seats)
            seats[self.grouping.agents[side]] = self.grouping.frozen[slot]
        return seats

    def check_fits(self, name: str, env: Any) -> None:
        """Checks that the policies can play an env."""
        if set(env.possible_agents) != set(self.grouping.agents):
            trained, has = (", ".join(map(str, agents)) for agents in (self.grouping.agents, env.possible_agents))
            raise envoi.EnvoiError(f"{name}: the policies were trained for the agents {trained}, this env has {has}")
        for agent in self.grouping.agents:
            for what in ("observation", "action"):
                has, wants = (getattr(one, f"{what}_spaces")[agent] for one in (env, self))
                if not fits(has, wants):
                    raise envoi.EnvoiError(
                        f"{name}: {agent} was trained with the {what} space {wants}, and this env has {has}"
                    )

    def reset(self, seed: int | None = None, seats: Mapping[Any, str] | None = None) -> None:
        """Starts an episode."""
        self.seats = self.grouping.learning_seats if seats is None else dict(seats)
        for name in self.seats.values():
            if name not in self.module:
                raise UnknownName(f"no policy is called {name!r}; {nearest(name, self.module.keys())}")
        episode = MultiAgentEpisode(
            observation_space=dict(self.observation_spaces),  # pyright: ignore[reportArgumentType]
            action_space=dict(self.action_spaces),  # pyright: ignore[reportArgumentType]
            agent_to_module_mapping_fn=lambda agent, _episode: self.seats[agent],
        )
        self._begin(episode, seed)

    def __call__(
        self,
        observations: Mapping[Any, Any],
        rewards: Mapping[Any, float] | None = None,
        ended: Mapping[Any, bool] | None = None,
    ) -> dict[Any, Any]:
        """Chooses the actions of the agents that are observed and have not ended."""
        if self._pending is None:
            self._episode.add_env_reset(observations=dict(observations))
        else:
            actions, extra = self._pending
            over = {agent: bool(flag) for agent, flag in (ended or {}).items()} | {"__all__": False}
            given = {agent: float(reward) for agent, reward in (rewards or {}).items()}
            self._episode.add_env_step(
                observations=dict(observations),
                actions=actions,
                rewards={**dict.fromkeys(observations, 0.0), **given},
                terminateds=over,
                extra_model_outputs=extra,
            )
        output = self._outputs()
        # Each column is a list with a dict by agent for each episode.
        chosen = dict(output.pop(Columns.ACTIONS)[0])
        for_env = dict(output.pop(Columns.ACTIONS_FOR_ENV, [chosen])[0])
        extra = {agent: {name: values[0][agent] for name, values in output.items()} for agent in chosen}
        self._pending = chosen, extra
        return for_env


class SeatedPolicy:
    """One policy of a `JointPolicy`, acting for one agent at a time, as `Policy` does in an env of one agent."""

    def __init__(self, joint: JointPolicy, policy_id: str) -> None:
        self._joint = joint
        self.policy_id = policy_id
        self._agent = joint.grouping.policies.get(policy_id, joint.grouping.agents)[0]
        self.observation_space = joint.observation_spaces[self._agent]
        self.action_space = joint.action_spaces[self._agent]
        self.reset()

    @property
    def module(self) -> Any:
        """RLlib's module of the policy."""
        return self._joint.module[self.policy_id]

    def reset(self, seed: int | None = None) -> None:
        """Starts an episode."""
        self._joint.reset(seed, {self._agent: self.policy_id})

    def __call__(self, observation: Any, reward: float = 0.0) -> Any:
        """Chooses an action."""
        return self._joint({self._agent: observation}, {self._agent: reward})[self._agent]
