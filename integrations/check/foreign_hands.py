"""Hands for environments of the frameworks, each by its own API; a framework is looked at only if it is imported."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, cast

import numpy as np

from envoi import Array, Env, LossyConversion, MultiEnv, SpecError
from envoi.adapters import from_env
from envoi.spec import spec_equal

from .hands import ONE, BadReply, Beat, Hand, NothingThere, core_hand, true, unpacked

if TYPE_CHECKING:
    from envoi.adapters.dm_env import FromDmEnv

REWARD = Array((), "float64", name="reward")


class GymnasiumHand(Hand):
    """A `gymnasium.Env`."""

    api = "gymnasium"

    def __init__(self, env: Any) -> None:
        from envoi.adapters.gymnasium.source import bare
        from envoi.adapters.gymnasium.specs import encoder, from_space

        super().__init__(env)
        self.observation_specs = {ONE: from_space(env.observation_space, "observation_space")}
        self.action_specs = {ONE: from_space(env.action_space, "action_space")}
        rewards = getattr(bare(env), "reward_space", None)
        self.reward_specs = {ONE: REWARD if rewards is None else from_space(rewards, "reward_space")}
        self._encoders = {ONE: encoder(self.action_specs[ONE], fresh=True)}

    def begin(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Beat:
        observation, info = unpacked(self.env.reset(seed=seed, options=options), 2, "reset")
        return Beat({ONE: observation}, {ONE: info}, (ONE,), (ONE,))

    def act(self, actions: Mapping[Any, Any]) -> Beat:
        observation, reward, terminated, truncated, info = unpacked(self.env.step(actions[ONE]), 5, "step")
        left = () if true(terminated) or true(truncated) else (ONE,)
        return Beat(
            {ONE: observation}, {ONE: info}, left, left, {ONE: reward}, {ONE: terminated}, {ONE: truncated}
        )  # fmt: skip

    def sample(self) -> None:
        self.env.action_space.sample()

    def declared(self) -> dict[str, Callable[[], Any]]:
        return {name: lambda name=name: getattr(self.env, name) for name in ("observation_space", "action_space")}


class DmEnvHand(Hand):
    """A `dm_env.Environment`, seeded as its importer would.

    Args:
        env: The environment.
        core: Its importer, where there is one that knows how to seed it.
    """

    api = "dm_env"
    says_infos = False
    takes_options = False
    after_end = "the first step of another episode"

    def __init__(self, env: Any, core: FromDmEnv | None = None) -> None:
        from envoi.adapters.dm_env import FromDmEnv
        from envoi.adapters.shared.array_specs import encoder

        super().__init__(env)
        self._core = FromDmEnv(env) if core is None else core
        self.observation_specs = {ONE: self._core.observation_spec}
        self.action_specs = {ONE: self._core.action_spec}
        self.reward_specs = {ONE: self._core.reward_spec}
        self.discount_specs = {ONE: self._core.discount_spec}
        self._encoders = {ONE: encoder(self.action_specs[ONE], fresh=True)}

    def begin(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Beat:
        if seed is not None:
            self._core._seed_source(seed)
            self.env = self._core.source  # a factory makes another one for every seed
        step_type, reward, discount, observation = unpacked_time_step(self.env.reset(), "reset")
        if not step_type.first():
            raise BadReply(f"reset: expected a step of the type FIRST, got {step_type!r}")
        if reward is not None or discount is not None:
            raise BadReply(f"reset: expected None as reward and discount of a FIRST step, got {reward!r}, {discount!r}")
        return Beat({ONE: observation}, {}, (ONE,), (ONE,))

    def act(self, actions: Mapping[Any, Any]) -> Beat:
        step_type, reward, discount, observation = unpacked_time_step(self.env.step(actions[ONE]), "step")
        if step_type.first():
            raise BadReply("step: a FIRST step in the middle of an episode")
        last = step_type.last()
        terminated = last and discount is not None and not np.any(np.asarray(discount))
        left = () if last else (ONE,)
        return Beat(
            {ONE: observation}, {}, left, left, {ONE: reward}, {ONE: terminated}, {ONE: last and not terminated},
            {ONE: discount},
        )  # fmt: skip

    def begins_anew(self, action: Any) -> bool:
        """Whether a step with `action` begins another episode."""
        return unpacked_time_step(self.env.step(action), "step")[0].first()

    def look(self) -> None:
        self._looked(self.env.observation_spec, self.env.action_spec, self.env.reward_spec)

    def draw(self) -> Any:
        if not callable(getattr(self.env, "render", None)):
            raise NothingThere
        return super().draw()

    def declared(self) -> dict[str, Callable[[], Any]]:
        return {name: getattr(self.env, name) for name in ("observation_spec", "action_spec")}

    def same_declared(self, one: Any, two: Any) -> bool:
        from envoi.adapters.dm_env import from_spec

        return one is two or spec_equal(from_spec(one, "spec"), from_spec(two, "spec"))

    @property
    def unseeded(self) -> str:
        if not self._core.unseeded:
            return ""
        return "nothing is known that seeds it; give it a method seed(integer), or use from_dm_env(env, seed=function)"

    def core(self) -> Env:
        return self._core

    def over(self, env: Any) -> Self:
        other = super().over(env)
        with suppress(LossyConversion, SpecError):
            other._core = type(self._core)(env)
        return other


def unpacked_time_step(reply: Any, call: str) -> tuple[Any, Any, Any, Any]:
    """The parts of a time step.

    Raises:
        BadReply: It is none.
    """
    if not (isinstance(reply, tuple) and len(reply) == 4 and hasattr(reply[0], "first")):
        raise BadReply(f"{call}: expected a dm_env.TimeStep, got {type(reply).__name__}")
    return reply[0], reply[1], reply[2], reply[3]


class _PettingZooHand(Hand):
    kind = "several"

    def __init__(self, env: Any) -> None:
        from envoi.adapters.gymnasium.specs import encoder, from_space

        super().__init__(env)
        self.possible = tuple(env.possible_agents)
        see = {agent: env.observation_space(agent) for agent in self.possible}
        do = {agent: env.action_space(agent) for agent in self.possible}
        self.observation_specs = {a: from_space(space, f"observation_space({a!r})") for a, space in see.items()}
        self.action_specs = {a: from_space(space, f"action_space({a!r})") for a, space in do.items()}
        self.reward_specs = dict.fromkeys(self.possible, REWARD)
        self._encoders = {agent: encoder(spec, fresh=True) for agent, spec in self.action_specs.items()}

    def sample(self) -> None:
        for agent in self.possible:
            self.env.action_space(agent).sample()

    def declared(self) -> dict[str, Callable[[], Any]]:
        names = ("observation_space", "action_space")
        return {
            f"{name}({agent!r})": lambda name=name, agent=agent: getattr(self.env, name)(agent)
            for name in names
            for agent in self.possible
        }


class ParallelHand(_PettingZooHand):
    """A `pettingzoo.ParallelEnv`."""

    api = "pettingzoo"
    fresh_infos = False  # PettingZoo's own conversions hand out the infos that they keep

    def begin(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Beat:
        observations, infos = unpacked(self.env.reset(seed=seed, options=options), 2, "reset")
        return Beat(_mapping(observations, "observations"), _mapping(infos, "infos"), *self._playing(infos))

    def act(self, actions: Mapping[Any, Any]) -> Beat:
        observations, rewards, terminated, truncated, infos = unpacked(self.env.step(actions), 5, "step")
        return Beat(
            _mapping(observations, "observations"),
            _mapping(infos, "infos"),
            *self._playing(infos),
            _mapping(rewards, "rewards"),
            _mapping(terminated, "terminations"),
            _mapping(truncated, "truncations"),
        )

    def _playing(self, infos: Mapping[Any, Any]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Who is in play, and who acts: all, or whom infos name, as PettingZoo's conversions of turns do."""
        agents = tuple(self.env.agents)
        for agent in agents:
            info = infos.get(agent)
            if isinstance(info, Mapping) and ("active_agent" in info or "active_agents" in info):
                named = info["active_agents"] if "active_agents" in info else (info["active_agent"],)
                return agents, tuple(one for one in agents if one in named)
        return agents, agents

    def look(self) -> None:
        if not self._looked(self.env.state, self.draw):
            raise NothingThere


class AECHand(_PettingZooHand):
    """A `pettingzoo.AECEnv`: agents act in turn. Agents that have ended take their last, empty step by themselves."""

    api = "pettingzoo_aec"
    says_infos = False  # they are an attribute

    def begin(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Beat:
        env = self.env
        env.reset(seed=seed, options=options)
        acting = self._acting()
        seen = {agent: env.observe(agent) for agent in acting}
        return Beat(seen, copy.deepcopy(dict(env.infos)), self._playing(), acting)

    def act(self, actions: Mapping[Any, Any]) -> Beat:
        env = self.env
        before = self._playing()
        env.step(next(iter(actions.values())))
        spoken = [agent for agent in env.possible_agents if agent in before or agent in env.agents]
        told: dict[str, Any] = {
            "rewards": {agent: env.rewards[agent] for agent in spoken if agent in env.rewards},
            "terminated": {agent: env.terminations[agent] for agent in spoken if agent in env.terminations},
            "truncated": {agent: env.truncations[agent] for agent in spoken if agent in env.truncations},
        }
        ended = [a for a in spoken if told["terminated"].get(a, False) or told["truncated"].get(a, False)]
        seen = {agent: env.observe(agent) for agent in ended if agent in env.agents}
        infos = copy.deepcopy(dict(env.infos))
        self._bury()
        acting = self._acting()
        seen |= {agent: env.observe(agent) for agent in acting}
        return Beat(seen, {**copy.deepcopy(dict(env.infos)), **infos}, self._playing(), acting, **told)

    def _bury(self) -> None:
        env = self.env
        for _ in range(2 * len(env.possible_agents) + 2):
            if not env.agents:
                return
            agent = env.agent_selection
            if not (env.terminations[agent] or env.truncations[agent]):
                return
            env.step(None)
        raise BadReply("step(None): the agents that have ended do not leave, and the episode does not go on")

    def _playing(self) -> tuple[Any, ...]:
        env = self.env
        return tuple(a for a in env.agents if not (env.terminations[a] or env.truncations[a]))

    def _acting(self) -> tuple[Any, ...]:
        return (self.env.agent_selection,) if self._playing() else ()

    def look(self) -> None:
        env = self.env
        looks = [lambda agent=agent: env.observe(agent) for agent in self._playing()]
        self._looked(*looks, env.last, env.state, self.draw)


def _mapping(value: Any, what: str) -> Mapping[Any, Any]:
    if not isinstance(value, Mapping):
        raise BadReply(f"{what}: expected a dict from agents, got {type(value).__name__}")
    return value


def own_hand(env: Any) -> Hand | None:
    """The hand for an environment of a framework; None where its own API cannot be played here."""
    several = sys.modules.get("ray.rllib.env.multi_agent_env")
    if several is not None and isinstance(getattr(env, "unwrapped", env), several.MultiAgentEnv):
        return None  # though it is a gymnasium.Env, too
    if (gymnasium := sys.modules.get("gymnasium")) and isinstance(env, gymnasium.Env):
        return GymnasiumHand(env)
    if (dm_env := sys.modules.get("dm_env")) and isinstance(env, dm_env.Environment):
        return DmEnvHand(env)
    if pettingzoo := sys.modules.get("pettingzoo"):
        if isinstance(env, pettingzoo.ParallelEnv):
            return ParallelHand(env)
        if isinstance(env, pettingzoo.AECEnv):
            return AECHand(env)
    return None


def hand_of(env: Any) -> Hand:
    """The hand for any environment: by its own API, or by that of the core where it has no hand of its own.

    Raises:
        envoi.SpecError: It is no environment that anything here knows.
        envoi.LossyConversion: Its spaces are of a kind that the core cannot express.
    """
    if not isinstance(env, (Env, MultiEnv)):
        return own_hand(env) or core_hand(from_env(env))
    source = getattr(env, "source", None)
    if source is not None and env._rewarder is None:
        from_dm_env = sys.modules.get("envoi.adapters.dm_env")
        if from_dm_env is not None and isinstance(env, from_dm_env.FromDmEnv):
            return DmEnvHand(source, cast("FromDmEnv", env))
        return own_hand(source) or core_hand(env)
    return core_hand(env)
