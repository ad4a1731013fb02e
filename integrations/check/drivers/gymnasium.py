"""The drivers for gymnasium and PettingZoo environments."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from typing import Any

from envoi import Array
from envoi.protocol.multi_env import Agent

from .base import SINGLE, BadReply, Driver, NotAvailable, Reply, single_reset, single_step, unpack

REWARD = Array((), "float64", name="reward")
"""The reward spec of an API that declares none."""


class GymnasiumDriver(Driver):
    """Plays a `gymnasium.Env`."""

    api = "gymnasium"

    def __init__(self, env: Any) -> None:
        from envoi.adapters.gymnasium.source import bare
        from envoi.adapters.gymnasium.specs import encoder, from_space

        super().__init__(env)
        self.observation_specs = {SINGLE: from_space(env.observation_space, "observation_space")}
        self.action_specs = {SINGLE: from_space(env.action_space, "action_space")}
        rewards = getattr(bare(env), "reward_space", None)
        self.reward_specs = {SINGLE: REWARD if rewards is None else from_space(rewards, "reward_space")}
        self._encoders = {SINGLE: encoder(self.action_specs[SINGLE], fresh=True)}

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        observation, info = unpack(self.env.reset(seed=seed, options=options), 2, "reset")
        return single_reset(observation, info)

    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        observation, reward, terminated, truncated, info = unpack(self.env.step(actions[SINGLE]), 5, "step")
        return single_step(observation, reward, terminated, truncated, info)

    def sample_actions(self) -> None:
        self.env.action_space.sample()


class _PettingZooDriver(Driver):
    kind = "multi"

    def __init__(self, env: Any) -> None:
        from envoi.adapters.gymnasium.specs import encoder, from_space

        super().__init__(env)
        self.possible_agents = tuple(env.possible_agents)
        agents = self.possible_agents
        self.observation_specs = {a: from_space(env.observation_space(a), f"observation_space({a!r})") for a in agents}
        self.action_specs = {a: from_space(env.action_space(a), f"action_space({a!r})") for a in agents}
        self.reward_specs = dict.fromkeys(self.possible_agents, REWARD)
        self._encoders = {agent: encoder(spec, fresh=True) for agent, spec in self.action_specs.items()}

    def sample_actions(self) -> None:
        for agent in self.possible_agents:
            self.env.action_space(agent).sample()

    def read_spaces(self) -> dict[str, Any]:
        return {
            f"{name}({agent!r})": getattr(self.env, name)(agent)
            for name in self.spaces
            for agent in self.possible_agents
        }


class ParallelDriver(_PettingZooDriver):
    """Plays a `pettingzoo.ParallelEnv`."""

    api = "pettingzoo"
    fresh_infos = False  # PettingZoo's own conversions return the infos that they keep

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        observations, infos = unpack(self.env.reset(seed=seed, options=options), 2, "reset")
        return Reply(_mapping(observations, "observations"), _mapping(infos, "infos"), *self._in_play(infos))

    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        observations, rewards, terminated, truncated, infos = unpack(self.env.step(actions), 5, "step")
        return Reply(
            _mapping(observations, "observations"),
            _mapping(infos, "infos"),
            *self._in_play(infos),
            _mapping(rewards, "rewards"),
            _mapping(terminated, "terminations"),
            _mapping(truncated, "truncations"),
        )

    def _in_play(self, infos: Mapping[Agent, Any]) -> tuple[tuple[Agent, ...], tuple[Agent, ...]]:
        """Returns the agents in play and those that act: all, or those that infos name in a turn-based game."""
        agents = tuple(self.env.agents)
        for agent in agents:
            info = infos.get(agent)
            if isinstance(info, Mapping) and ("active_agent" in info or "active_agents" in info):
                named = info["active_agents"] if "active_agents" in info else (info["active_agent"],)
                return agents, tuple(one for one in agents if one in named)
        return agents, agents

    def inspect(self) -> None:
        if not self._read_available(self.env.state, self.render):
            raise NotAvailable


class AECDriver(_PettingZooDriver):
    """Plays a `pettingzoo.AECEnv`, where agents act in turn. It makes the empty last step of ended agents itself."""

    api = "pettingzoo_aec"
    returns_infos = False  # they are an attribute

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        env = self.env
        env.reset(seed=seed, options=options)
        acting = self._acting()
        observations = {agent: env.observe(agent) for agent in acting}
        return Reply(observations, copy.deepcopy(dict(env.infos)), self._in_play(), acting)

    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        env = self.env
        before = self._in_play()
        env.step(next(iter(actions.values())))
        stepped = [agent for agent in env.possible_agents if agent in before or agent in env.agents]
        rewards = {agent: env.rewards[agent] for agent in stepped if agent in env.rewards}
        terminated = {agent: env.terminations[agent] for agent in stepped if agent in env.terminations}
        truncated = {agent: env.truncations[agent] for agent in stepped if agent in env.truncations}
        ended = [agent for agent in stepped if terminated.get(agent, False) or truncated.get(agent, False)]
        observations = {agent: env.observe(agent) for agent in ended if agent in env.agents}
        infos = copy.deepcopy(dict(env.infos))
        self._remove_ended()
        acting = self._acting()
        observations |= {agent: env.observe(agent) for agent in acting}
        infos = {**copy.deepcopy(dict(env.infos)), **infos}
        return Reply(observations, infos, self._in_play(), acting, rewards, terminated, truncated)

    def _remove_ended(self) -> None:
        """Makes the empty last step of each agent that has ended."""
        env = self.env
        for _ in range(2 * len(env.possible_agents) + 2):
            if not env.agents:
                return
            agent = env.agent_selection
            if not (env.terminations[agent] or env.truncations[agent]):
                return
            env.step(None)
        raise BadReply("step(None): agents that have ended are not removed, and the episode does not continue")

    def _in_play(self) -> tuple[Agent, ...]:
        env = self.env
        return tuple(a for a in env.agents if not (env.terminations[a] or env.truncations[a]))

    def _acting(self) -> tuple[Agent, ...]:
        return (self.env.agent_selection,) if self._in_play() else ()

    def inspect(self) -> None:
        env = self.env
        observations = [lambda agent=agent: env.observe(agent) for agent in self._in_play()]
        self._read_available(*observations, env.last, env.state, self.render)


def _mapping(value: Any, name: str) -> Mapping[Agent, Any]:
    if not isinstance(value, Mapping):
        raise BadReply(f"{name}: expected a dict from agents, got {type(value).__name__}")
    return value
