"""The drivers for gymnasium, PettingZoo and dm_env environments."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from envoi import Array, Env, LossyConversion, SpecError
from envoi.protocol.multi_env import Agent
from envoi.spec import spec_equal

from .base import SINGLE, BadReply, Driver, NotAvailable, Reply, single_reset, single_step, unpack

if TYPE_CHECKING:
    from envoi.adapters.dm_env import FromDmEnv

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


class DmEnvDriver(Driver):
    """Plays a `dm_env.Environment`, seeded as its importer would."""

    api = "dm_env"
    returns_infos = False
    takes_options = False
    restarts_itself = True
    spaces = ("observation_spec", "action_spec")

    def __init__(self, env: Any, importer: FromDmEnv | None = None) -> None:
        from envoi.adapters.dm_env import FromDmEnv
        from envoi.adapters.shared.array_specs import encoder

        super().__init__(env)
        self._importer = FromDmEnv(env) if importer is None else importer
        self.observation_specs = {SINGLE: self._importer.observation_spec}
        self.action_specs = {SINGLE: self._importer.action_spec}
        self.reward_specs = {SINGLE: self._importer.reward_spec}
        self.discount_specs = {SINGLE: self._importer.discount_spec}
        self._encoders = {SINGLE: encoder(self.action_specs[SINGLE], fresh=True)}

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        if seed is not None:
            self._importer.seed_source(seed)
            self.env = self._importer.source  # a factory makes another environment for each seed
        step_type, reward, discount, observation = _unpack_time_step(self.env.reset(), "reset")
        if not step_type.first():
            raise BadReply(f"reset: expected a step of the type FIRST, got {step_type!r}")
        if reward is not None or discount is not None:
            raise BadReply(f"reset: expected None as reward and discount of a FIRST step, got {reward!r}, {discount!r}")
        return Reply({SINGLE: observation}, {}, (SINGLE,), (SINGLE,))

    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        step_type, reward, discount, observation = _unpack_time_step(self.env.step(actions[SINGLE]), "step")
        if step_type.first():
            raise BadReply("step: a FIRST step in the middle of an episode")
        last = step_type.last()
        terminated = last and discount is not None and not np.any(np.asarray(discount))
        left = () if last else (SINGLE,)
        flags = {SINGLE: terminated}, {SINGLE: last and not terminated}
        return Reply({SINGLE: observation}, {}, left, left, {SINGLE: reward}, *flags, {SINGLE: discount})

    def step_starts_episode(self, action: Any) -> bool:
        return _unpack_time_step(self.env.step(action), "step")[0].first()

    def inspect(self) -> None:
        self._read_available(self.env.observation_spec, self.env.action_spec, self.env.reward_spec)

    def render(self) -> Any:
        if not callable(getattr(self.env, "render", None)):
            raise NotAvailable
        return super().render()

    def read_spaces(self) -> dict[str, Any]:
        return {name: getattr(self.env, name)() for name in self.spaces}

    def same_space(self, one: Any, other: Any) -> bool:
        from envoi.adapters.dm_env import from_spec

        return one is other or spec_equal(from_spec(one, "spec"), from_spec(other, "spec"))

    @property
    def unseeded_reason(self) -> str:
        if not self._importer.unseeded:
            return ""
        return "no way to seed it is known; give it a method seed(integer), or use from_dm_env(env, seed=function)"

    def core_env(self) -> Env:
        return self._importer

    def with_env(self, env: Any) -> Self:
        other = super().with_env(env)
        with suppress(LossyConversion, SpecError):
            other._importer = type(self._importer)(env)
        return other


def _unpack_time_step(reply: Any, call: str) -> tuple[Any, Any, Any, Any]:
    if not (isinstance(reply, tuple) and len(reply) == 4 and hasattr(reply[0], "first")):
        raise BadReply(f"{call}: expected a dm_env.TimeStep, got {type(reply).__name__}")
    return reply[0], reply[1], reply[2], reply[3]
