"""Single-agent environments as multi-agent ones, and back: exact both ways.

`as_multi(env)` is a `MultiEnv` of one agent that behaves as `env` does; `as_single(multi)` an `Env` that behaves as the
one agent of `multi` does; either undoes the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from ..errors import EpisodeError, SpecError
from ..protocol.env import Env, Reset, Step
from ..protocol.multi_env import COMMON, MultiEnv, MultiReset, MultiStep, make_multi_step
from ..protocol.process import Info
from ..protocol.roster import NOT_IN_PLAY, check_actions
from ..rewards.rewarder import Rewarder, RewardFunction, as_rewarder
from ..spec import SpecTree
from ..steps.record import NOT_BEGUN, OVER, RUNNING, EpisodeState
from ..tree import AnyDict, AnyMapping
from .delegate import Around


class OneOfMany(Around[Env], MultiEnv):
    """A single-agent environment as a `MultiEnv` of one agent; made by `as_multi`."""

    memory = ("_episode_state",)

    def __init__(self, env: Env, agent: Any) -> None:
        super().__init__(env)
        self.agent, self.possible_agents = agent, (agent,)
        self.observation_spec, self.action_spec = {agent: env.observation_spec}, {agent: env.action_spec}
        self.discount_spec = {agent: env.discount_spec}
        self._episode_state: EpisodeState = NOT_BEGUN

    @property
    def reward_spec(self) -> SpecTree:
        """The reward spec of the one agent."""
        return {self.agent: self.env.reward_spec}

    @property
    def declared_reward_spec(self) -> SpecTree:
        return {self.agent: self.env.declared_reward_spec}

    @property
    def rewarder(self) -> Rewarder:
        """The rewarder, which returns a mapping; settable."""
        inner = self.env.rewarder
        return inner.rewarder if isinstance(inner, _ForOne) else _ForMany(inner, self.agent)

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        given = as_rewarder(rewarder)
        self.env.rewarder = given.rewarder if isinstance(given, _ForMany) else _ForOne(given, self.agent)

    @property
    def agents(self) -> tuple[Any, ...]:
        return self.possible_agents if self._episode_state is RUNNING else ()

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        observation, info = self.env.reset(seed=seed, options=options)
        self._episode_state = RUNNING
        return MultiReset({self.agent: observation}, self._infos(info))

    def step(self, actions: Mapping[Any, Any]) -> MultiStep:
        agent = self.agent
        if self._episode_state is not RUNNING or len(actions) != 1 or agent not in actions:
            check_actions(actions, self.possible_agents, self._episode_state)
        seen, reward, terminated, truncated, discount, info = self.env.step(actions[agent])
        if terminated or truncated:
            self._episode_state = OVER
        flags = {agent: terminated}, {agent: truncated}
        return make_multi_step(({agent: seen}, {agent: reward}, *flags, {agent: discount}, self._infos(info)))

    def _infos(self, info: Info) -> dict[Any, Info]:
        if COMMON not in info:
            return {self.agent: info}
        return {self.agent: {k: v for k, v in info.items() if k != COMMON}, COMMON: info[COMMON]}

    def observation(self, agent: Any) -> Any:
        if agent != self.agent:
            raise EpisodeError(f"observation: {agent!r} {NOT_IN_PLAY}")
        return self.env.observation

    def sample_actions(self, infos: Mapping[Any, Info] | None = None) -> dict[Any, Any]:
        return {self.agent: self.env.sample_action()}

    def __repr__(self) -> str:
        return f"as_multi({self.env!r}, {self.agent!r})"


class Sole(Around[MultiEnv], Env):
    """A `MultiEnv` of one agent as a single-agent environment; made by `as_single`."""

    def __init__(self, env: MultiEnv) -> None:
        super().__init__(env)
        if len(env.possible_agents) != 1:
            raise SpecError(f"env: expected one agent, got {len(env.possible_agents)}: {list(env.possible_agents)}")
        (agent,) = env.possible_agents
        self.agent = agent
        self.observation_spec, self.action_spec = env.observation_spec[agent], env.action_spec[agent]
        self.discount_spec = env.discount_spec[agent]

    @property
    def reward_spec(self) -> SpecTree:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The reward spec of the one agent."""
        return self.env.reward_spec[self.agent]

    @property
    def declared_reward_spec(self) -> SpecTree:
        return self.env.declared_reward_spec[self.agent]

    @property
    def rewarder(self) -> Rewarder:
        """The rewarder; settable."""
        inner = self.env.rewarder
        return inner.rewarder if isinstance(inner, _ForMany) else _ForOne(inner, self.agent)

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        given = as_rewarder(rewarder)
        self.env.rewarder = given.rewarder if isinstance(given, _ForOne) else _ForMany(given, self.agent)

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        observations, infos = self.env.reset(seed=seed, options=options)
        return Reset(observations[self.agent], self._info(infos))

    def step(self, action: Any) -> Step:
        agent = self.agent
        *values, infos = self.env.step({agent: action})
        return Step._make([*[value[agent] for value in values], self._info(infos)])

    def _info(self, infos: Mapping[Any, Info]) -> Info:
        own = infos[self.agent]
        return {**own, COMMON: infos[COMMON]} if COMMON in infos else own

    @property
    def observation(self) -> Any:
        return self.env.observation(self.agent)

    def sample_action(self) -> Any:
        return self.env.sample_actions()[self.agent]

    def __repr__(self) -> str:
        return f"as_single({self.env!r})"


class _Converted(Rewarder):
    """A rewarder for the other number of agents."""

    def __init__(self, rewarder: Rewarder, agent: Any) -> None:
        self.rewarder, self.agent = rewarder, agent

    @property
    def reward_range(self) -> tuple[float, float]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.rewarder.reward_range

    @property
    def draws(self) -> bool:
        return self.rewarder.draws


class _ForMany(_Converted):
    """A single-agent rewarder as one that returns a mapping."""

    @property
    def spec(self) -> SpecTree:
        return {self.agent: self.rewarder.spec}

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Any:
        return {self.agent: self.rewarder.drawn(state, action[self.agent], next_state, rng)}


class _ForOne(_Converted):
    """The one agent's part of a rewarder that returns a mapping."""

    @property
    def spec(self) -> SpecTree:
        spec = self.rewarder.spec
        return spec[self.agent] if isinstance(spec, AnyDict) else spec

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Any:
        rewards = self.rewarder.drawn(state, {self.agent: action}, next_state, rng)
        return rewards[self.agent] if isinstance(rewards, AnyMapping) else rewards


def as_multi(env: Env, agent: Any = "agent") -> MultiEnv:
    """Converts a single-agent environment to a `MultiEnv` with one agent.

    Args:
        env: The environment, not a batch.
        agent: The name of its agent.

    Returns:
        A `MultiEnv` of one agent. For a result of `as_single`, returns its original environment.

    Raises:
        SpecError: `env` is a batch.
    """
    if env.batch_size is not None:
        raise SpecError(f"env: expected an environment of one lane, got a batch of {env.batch_size}")
    return env.env if isinstance(env, Sole) else OneOfMany(env, agent)


def as_single(env: MultiEnv) -> Env:
    """Converts a `MultiEnv` with one agent to a single-agent environment.

    Returns:
        An `Env`. For a result of `as_multi`, returns its original environment.

    Raises:
        SpecError: There is more than one possible agent.
    """
    return env.env if isinstance(env, OneOfMany) else Sole(env)
