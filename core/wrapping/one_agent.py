"""Single-agent environments as multi-agent ones, and back: exact both ways.

`as_multi(env)` is a `MultiEnv` with one agent that behaves like `env`. `as_single(multi)` is an `Env` that behaves like
the one agent of `multi`. Each undoes the other.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, cast

import numpy as np

from ..errors import EpisodeError, SpecError
from ..protocol.env import Env, Reset, Step, refuse_masks
from ..protocol.multi_env import COMMON, MultiEnv, MultiReset, MultiStep, make_multi_step
from ..protocol.process import Info
from ..protocol.roster import NOT_IN_PLAY, check_actions
from ..rewards.rewarder import Rewarder, RewardFunction, as_rewarder
from ..spec import SpecTree
from ..spec.base import shown
from ..steps.record import NOT_BEGUN, OVER, RUNNING, EpisodeState
from ..tree import AnyMapping
from .delegate import Around


class Converted(Around[Any]):
    """Base class of conversions between an `Env` and a `MultiEnv` with one agent."""

    is_many: ClassVar[bool]

    def __init__(self, env: Env | MultiEnv, agent: Any) -> None:
        super().__init__(env)
        self.agent = agent
        for name in ("observation_spec", "action_spec", "discount_spec"):
            setattr(self, name, self._outward(getattr(env, name)))

    def _outward(self, value: Any) -> Any:
        return {self.agent: value} if self.is_many else value[self.agent]

    @property
    def reward_spec(self) -> Any:
        """The reward spec of the one agent."""
        return self._outward(self.env.reward_spec)

    @property
    def declared_reward_spec(self) -> Any:
        return self._outward(self.env.declared_reward_spec)

    @property
    def rewarder(self) -> Any:
        """The rewarder, which returns a mapping in a `MultiEnv`; settable."""
        return _converted(self.env.rewarder, self.agent, self.is_many)

    @rewarder.setter
    def rewarder(self, rewarder: Rewarder | RewardFunction) -> None:
        self.env.rewarder = _converted(as_rewarder(rewarder), self.agent, not self.is_many)


class OneOfMany(Converted, MultiEnv):
    """A single-agent environment as a `MultiEnv` of one agent; made by `as_multi`."""

    memory = ("_episode_state",)
    is_many = True

    def __init__(self, env: Env, agent: Any) -> None:
        self.possible_agents = (agent,)
        super().__init__(env, agent)
        self._episode_state: EpisodeState = NOT_BEGUN

    @property
    def agents(self) -> tuple[Any, ...]:
        return self.possible_agents if self._episode_state is RUNNING else ()

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        observation, info = self.env.reset(seed=seed, options=options)
        self._episode_state = RUNNING
        return MultiReset({self.agent: observation}, self._infos(info))

    def step(self, actions: Mapping[Any, Any], restart: Any = None, hold: Any = None) -> MultiStep:
        if restart is not None or hold is not None:
            refuse_masks(restart, hold)
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


class Sole(Converted, Env):
    """A `MultiEnv` of one agent as a single-agent environment; made by `as_single`."""

    is_many = False

    def __init__(self, env: MultiEnv) -> None:
        if len(agents := getattr(env, "possible_agents", ())) != 1:
            raise SpecError(f"env: expected a MultiEnv of one agent, got {list(agents) or shown(env)}")
        super().__init__(env, env.possible_agents[0])

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        observations, infos = self.env.reset(seed=seed, options=options)
        return Reset(observations[self.agent], self._info(infos))

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Step:
        refuse_masks(restart, hold)
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


class _ConvertedRewarder(Rewarder):
    """Converts a rewarder so that it returns a mapping from one agent, or no longer does."""

    def __init__(self, rewarder: Rewarder, agent: Any, is_many: bool) -> None:
        self.rewarder, self.agent, self.is_many = rewarder, agent, is_many

    @property
    def reward_range(self) -> tuple[float, float]:  # pyright: ignore[reportIncompatibleVariableOverride]
        return self.rewarder.reward_range

    @property
    def draws(self) -> bool:
        return self.rewarder.draws

    @property
    def spec(self) -> SpecTree:
        return self._outward(self.rewarder.spec)

    def _outward(self, value: Any) -> Any:
        if self.is_many:
            return {self.agent: value}
        return value[self.agent] if isinstance(value, AnyMapping) else value

    def __call__(self, state: Any, action: Any, next_state: Any, *, rng: np.random.Generator | None = None) -> Any:
        inward = action[self.agent] if self.is_many else {self.agent: action}
        return self._outward(self.rewarder.drawn(state, inward, next_state, rng))


def _converted(rewarder: Rewarder, agent: Any, is_many: bool) -> Rewarder:
    if isinstance(rewarder, _ConvertedRewarder) and rewarder.is_many is not is_many:
        return rewarder.rewarder
    return _ConvertedRewarder(rewarder, agent, is_many)


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
    if not isinstance(cast("Any", env), Env) or env.batch_size is not None:
        raise SpecError(f"env: expected an environment of one agent and one lane, got {shown(env)}")
    return env.env if isinstance(env, Sole) else OneOfMany(env, agent)


def as_single(env: MultiEnv) -> Env:
    """Converts a `MultiEnv` with one agent to a single-agent environment.

    Returns:
        An `Env`. For a result of `as_multi`, returns its original environment.

    Raises:
        SpecError: There is more than one possible agent.
    """
    return env.env if isinstance(env, OneOfMany) else Sole(env)
