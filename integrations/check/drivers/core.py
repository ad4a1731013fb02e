"""Drivers for envoi's own environments: `Env`, `MultiEnv` and `BatchEnv`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from envoi import BatchEnv, Env, MultiEnv
from envoi.lane_values import lane, stack
from envoi.protocol.multi_env import Agent
from envoi.spec import SpecTree

from .base import SINGLE, BadReply, Driver, Reply, single_reset, single_step, unpack


class CoreDriver(Driver):
    """Plays an `envoi.Env`."""

    api = "envoi"
    spaces = ("observation_spec", "action_spec")
    env: Env

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.observation_specs, self.action_specs = {SINGLE: env.observation_spec}, {SINGLE: env.action_spec}
        self.reward_specs, self.discount_specs = {SINGLE: env.reward_spec}, {SINGLE: env.discount_spec}

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        observation, info = unpack(self.env.reset(seed=seed, options=options), 2, "reset")
        return single_reset(observation, info)

    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        observation, reward, terminated, truncated, discount, info = unpack(self.env.step(actions[SINGLE]), 6, "step")
        return single_step(observation, reward, terminated, truncated, info, discount)

    def sample_actions(self) -> None:
        self.env.sample_action()

    def inspect(self) -> None:
        self._read_available(lambda: self.env.observation, lambda: self.env.state, self.render)


class MultiDriver(CoreDriver):
    """Plays an `envoi.MultiEnv`."""

    kind = "multi"
    env: MultiEnv  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, env: MultiEnv) -> None:
        Driver.__init__(self, env)
        self.possible_agents = tuple(env.possible_agents)
        self.observation_specs, self.action_specs = env.observation_spec, env.action_spec
        self.reward_specs, self.discount_specs = env.reward_spec, env.discount_spec
        self._infos: Mapping[Agent, Any] = {}

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        observations, infos = unpack(self.env.reset(seed=seed, options=options), 2, "reset")
        self._infos = infos
        return Reply(observations, infos, tuple(self.env.agents), tuple(self.env.acting))

    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        observations, rewards, terminated, truncated, discounts, infos = unpack(self.env.step(actions), 6, "step")
        self._infos = infos
        agents = tuple(self.env.agents)
        acting = tuple(self.env.acting) if agents else ()
        return Reply(observations, infos, agents, acting, rewards, terminated, truncated, discounts)

    def sample_actions(self) -> None:
        self.env.sample_actions(self._infos)

    def inspect(self) -> None:
        observations = [lambda agent=agent: self.env.observation(agent) for agent in self.env.agents]
        self._read_available(*observations, lambda: self.env.state, self.render)


class BatchDriver(CoreDriver):
    """Plays a batch; lanes that have ended (`ended`, a mask) are restarted in the next step."""

    kind = "batch"
    env: BatchEnv  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, env: BatchEnv) -> None:
        Driver.__init__(self, env)
        self.possible_agents = tuple(range(env.batch_size))
        self.observation_specs = dict.fromkeys(self.possible_agents, env.observation_spec)
        self.action_specs = dict.fromkeys(self.possible_agents, env.action_spec)
        self.reward_specs = dict.fromkeys(self.possible_agents, env.reward_spec)
        self.discount_specs = dict.fromkeys(self.possible_agents, env.discount_spec)
        self.ended = np.zeros(env.batch_size, bool)
        self.restarts_in_step = "step" in env.restarts

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        observations, infos = unpack(self.env.reset(seed=seed, options=options), 2, "reset")
        self.ended = np.zeros(self.env.batch_size, bool)
        by_lane = self.split(self.env.observation_spec, observations, "observation")
        return Reply(by_lane, self._infos(infos), self.possible_agents, self.possible_agents)

    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        restart, restarted = None, frozenset[Agent]()
        if self.restarts_in_step:
            restart, restarted = self.ended, frozenset(np.flatnonzero(self.ended).tolist())
        elif self.ended.any():
            self.env.reset(mask=self.ended)
        reply = unpack(self.env.step(self._stacked(actions), restart=restart), 6, "step")
        observations, rewards, terminated, truncated, discounts, infos = reply
        n = self.env.batch_size
        for name, flags in (("terminated", terminated), ("truncated", truncated)):
            if np.shape(flags) != (n,):
                raise BadReply(f"step: expected {name} of shape ({n},), got {np.shape(flags)}")
        self.ended = np.asarray(terminated, bool) | np.asarray(truncated, bool)
        return Reply(
            self.split(self.env.observation_spec, observations, "observation"),
            self._infos(infos),
            self.possible_agents,
            self.possible_agents,
            self.split(self.env.reward_spec, rewards, "reward"),
            dict(enumerate(terminated)),
            dict(enumerate(truncated)),
            self.split(self.env.discount_spec, discounts, "discount"),
            restarted,
        )

    def split(self, spec: SpecTree, values: Any, name: str) -> dict[Agent, Any]:
        """Splits the values of a batch by lane."""
        try:
            return {index: lane(spec, values, index) for index in range(self.env.batch_size)}
        except (IndexError, KeyError, TypeError) as error:
            raise BadReply(f"{name}: expected a leading axis of {self.env.batch_size} lanes ({error})") from error

    def _infos(self, infos: Any) -> dict[Agent, Any]:
        if len(infos) != len(self.possible_agents):
            raise BadReply(f"info: expected one for each of {len(self.possible_agents)} lanes, got {len(infos)}")
        return dict(enumerate(infos))

    def _stacked(self, actions: Mapping[Agent, Any]) -> Any:
        return stack(self.env.action_spec, [actions[index] for index in self.possible_agents])

    def step_without_restart(self, actions: Mapping[Agent, Any]) -> None:
        """Steps without restarting the lanes that have ended, which is an error of the caller."""
        self.env.step(self._stacked(actions))

    def inspect(self) -> None:
        self._read_available(lambda: self.env.observation, lambda: self.env.state)


def core_driver(env: Env | MultiEnv) -> CoreDriver:
    """Returns a driver for a core environment: of one agent, of several, or a batch."""
    if isinstance(env, MultiEnv):
        return MultiDriver(env)
    return CoreDriver(env) if env.batch_size is None else BatchDriver(cast("BatchEnv", env))
