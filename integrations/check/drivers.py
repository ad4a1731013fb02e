"""The drivers: each plays an environment by its own API, and returns its values without casting or copying them."""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from importlib import import_module
from typing import Any, ClassVar, Literal, Self, cast

import numpy as np

from envoi import BatchEnv, Env, EnvoiError, MultiEnv
from envoi.adapters import FRAMEWORKS, from_env
from envoi.adapters.registry import home
from envoi.adapters.shared.exported import inside
from envoi.lane_values import lane, stack
from envoi.protocol.multi_env import MASK, Agent
from envoi.spec import SpecTree, spec_equal

SINGLE: Agent = None
"""The agent of a single-agent environment."""

Kind = Literal["single", "multi", "batch"]


class BadReply(EnvoiError):
    """An environment replied to a call in a shape that its API does not have."""


class NotAvailable(EnvoiError):
    """An API or environment lacks a feature, so there is nothing to check."""


@dataclass(frozen=True)
class Reply:
    """The reply of an environment to one call, a reset or a step: values by agent."""

    observations: Mapping[Agent, Any]
    infos: Mapping[Agent, Any]
    agents: tuple[Agent, ...]
    """The agents in play now; empty where the episode is over."""
    acting: tuple[Agent, ...]
    """The agents that act next."""
    rewards: Mapping[Agent, Any] = field(default_factory=dict[Agent, Any])
    terminated: Mapping[Agent, Any] = field(default_factory=dict[Agent, Any])
    truncated: Mapping[Agent, Any] = field(default_factory=dict[Agent, Any])
    discounts: Mapping[Agent, Any] = field(default_factory=dict[Agent, Any])
    restarted: frozenset[Agent] = frozenset()
    """Lanes of a batch that were reset in this step instead of acting."""

    @property
    def over(self) -> bool:
        """True if the episode is over."""
        return not self.agents

    def ended(self, agent: Agent) -> bool:
        """Returns True if this call terminated or truncated the agent."""
        return bool(self.terminated.get(agent, False)) or bool(self.truncated.get(agent, False))


class Driver(ABC):
    """Plays one environment by its own API; reads the specs that it declares for each agent."""

    api: ClassVar[str]
    kind: ClassVar[Kind] = "single"
    returns_infos: ClassVar[bool] = True
    """True if calls return infos; otherwise infos are a state of the environment that can be read."""
    fresh_infos: ClassVar[bool] = True
    """True if the API requires a new info dict with each call."""
    takes_options: ClassVar[bool] = True
    parts: ClassVar[tuple[str, ...]] = ("observation", "reward", "terminated", "truncated", "info")
    """The values of a step."""
    restarts_itself: ClassVar[bool] = False
    """True if the API requires a step before a reset, or after the end, to start an episode."""
    spaces: ClassVar[tuple[str, str]] = ("observation_space", "action_space")
    readers: ClassVar[tuple[str, ...]] = ("render",)
    """The names of what can be read between steps: properties, and functions without arguments."""
    has_discounts: ClassVar[bool] = False
    codec: ClassVar[str] = ""
    """The module of `envoi.adapters` whose `encoder` converts actions for the API; empty if they need no conversion."""

    def __init__(self, env: Any, core: Any = None) -> None:
        """Copies the specs of `core`, by default an import of `env`; each lane of a batch counts as an agent."""
        self.env, self._core = env, FRAMEWORKS[self.api].adapter.IMPORTER(env) if core is None else core
        core, agents = self._core, (SINGLE,)
        if self.kind != "single":
            agents = tuple(core.possible_agents if self.kind == "multi" else range(core.batch_size))
        self.possible_agents: tuple[Agent, ...] = agents
        specs = (core.observation_spec, core.action_spec, core.reward_spec, core.discount_spec)
        by_agent = [one if self.kind == "multi" else dict.fromkeys(agents, one) for one in specs]
        self.observation_specs, self.action_specs, self.reward_specs, discount_specs = by_agent
        self.discount_specs: Mapping[Agent, SpecTree] = discount_specs if self.has_discounts else {}
        encoder = import_module(f"envoi.adapters.{self.codec}").encoder if self.codec else lambda *_, **__: None
        self._encoders = {agent: encoder(spec, fresh=True) for agent, spec in self.action_specs.items()}

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        """Starts an episode."""
        observation, info = unpack(self.env.reset(seed=seed, options=options), RESET, "reset")
        return Reply({SINGLE: observation}, {SINGLE: info}, (SINGLE,), (SINGLE,))

    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        """Steps once. Passes the objects in `actions`, which `encode_action` made, on without copying them."""
        values = unpack(self.env.step(actions[SINGLE]), self.parts, "step")
        observation, reward, terminated, truncated, *discount, info = values
        left = () if np.any(terminated) or np.any(truncated) else (SINGLE,)
        flags = {SINGLE: terminated}, {SINGLE: truncated}
        discounts = {SINGLE: discount[0]} if discount and discount[0] is not None else {}
        return Reply({SINGLE: observation}, {SINGLE: info}, left, left, {SINGLE: reward}, *flags, discounts)

    def step_starts_episode(self, action: Any) -> bool:
        """Returns True if a step with `action` starts an episode, for an API that `restarts_itself`."""
        raise NotAvailable

    def encode_action(self, agent: Agent, action: Any) -> Any:
        """Converts an action to the API's own type, in memory of its own."""
        encode = self._encoders.get(agent)
        return copy.deepcopy(action) if encode is None else encode(action)

    def action_mask(self, agent: Agent, reply: Reply) -> Any:
        """Returns an agent's action mask from its info or observation, or None if there is none."""
        for place in (reply.infos.get(agent), reply.observations.get(agent)):
            if isinstance(place, Mapping) and MASK in place:
                return place[MASK]
        return None

    def sample_actions(self) -> None:
        """Makes the environment sample actions; this must not change the episode."""
        raise NotAvailable

    def inspect(self) -> None:
        """Reads everything that can be read between steps; this must not change the episode."""
        found = list[Any]()
        for name in self.readers:
            with suppress(NotAvailable, NotImplementedError):
                value = self.render if name == "render" else getattr(self.env, name)
                found.append(value() if callable(value) else value)
        if not found:
            raise NotAvailable

    def render(self) -> Any:
        if self.render_mode in (None, "human") or not hasattr(self.env, "render"):
            raise NotAvailable
        return self.env.render()

    @property
    def render_mode(self) -> Any:
        """The render mode that the environment was made with."""
        return getattr(self.env, "render_mode", None)

    @property
    def metadata(self) -> Any:
        return getattr(self.env, "metadata", None)

    def read_spaces(self) -> dict[str, Any]:
        """Returns each space or spec, by its name."""
        return {name: getattr(self.env, name) for name in self.spaces}

    def same_space(self, one: Any, other: Any) -> bool:
        """Returns True if two reads of a space gave results that the API counts as the same."""
        return one is other

    @property
    def unseeded_reason(self) -> str:
        """The reason why no seed reaches the environment; empty if seeds reach it."""
        return ""

    def with_env(self, env: Any) -> Self:
        """Returns a copy of the driver, in the same episode, that plays a copy of the environment."""
        other = copy.copy(self)
        other.env = env
        return other

    def core_env(self) -> Env | MultiEnv:
        """Returns the environment as a core environment."""
        return from_env(self.env)

    def close(self) -> None:
        self.env.close()

    def label(self, name: str, agent: Agent) -> str:
        """Returns the name of an agent's value for a message, such as `reward['anna']`."""
        if agent is SINGLE and self.kind == "single":
            return name
        return f"{name} in lane {agent}" if self.kind == "batch" else f"{name}[{agent!r}]"

    def layers(self) -> list[Any]:
        """Returns the environment and each environment that it wraps, from outside to inside."""
        around, native = inside(self.core_env())
        return [*around, *native]


RESET = ("observation", "info")


def unpack(reply: Any, parts: tuple[str, ...], call: str) -> tuple[Any, ...]:
    """Returns the parts of a reply; raises an error if the number of parts is wrong."""
    if not isinstance(reply, tuple) or len(reply) != len(parts):
        returned = f"a tuple of {len(reply)}" if isinstance(reply, tuple) else f"a {type(reply).__name__}"
        raise BadReply(f"{call}: expected ({', '.join(parts)}), got {returned}")
    return reply


# envoi's own environments.


class CoreDriver(Driver):
    """Plays an `envoi.Env`."""

    api = "envoi"
    parts = ("observation", "reward", "terminated", "truncated", "discount", "info")
    has_discounts = True
    spaces = ("observation_spec", "action_spec")
    readers = ("observation", "state", "render")

    def __init__(self, env: Any) -> None:
        super().__init__(env, env)

    def sample_actions(self) -> None:
        self.env.sample_action()


class _AgentsDriver(Driver):
    """Plays an environment whose agents act in one step: values are mappings from agents."""

    kind = "multi"

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        values = unpack(self.env.reset(seed=seed, options=options), RESET, "reset")
        observations, infos = map(_mapping, values, RESET)
        return Reply(observations, infos, *self._in_play(infos))

    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        values = map(_mapping, unpack(self.env.step(actions), self.parts, "step"), self.parts)
        observations, rewards, terminated, truncated, *discounts, infos = values
        in_play, given = self._in_play(infos), discounts[0] if discounts else {}
        return Reply(observations, infos, *in_play, rewards, terminated, truncated, given)

    @abstractmethod
    def _in_play(self, infos: Mapping[Agent, Any]) -> tuple[tuple[Agent, ...], tuple[Agent, ...]]:
        """Returns the agents in play, and those that act next."""


class MultiDriver(_AgentsDriver, CoreDriver):
    """Plays an `envoi.MultiEnv`."""

    readers = ("state", "render")
    env: MultiEnv

    def _in_play(self, infos: Mapping[Agent, Any]) -> tuple[tuple[Agent, ...], tuple[Agent, ...]]:
        self._infos, agents = infos, tuple(self.env.agents)
        return agents, tuple(self.env.acting) if agents else ()

    def sample_actions(self) -> None:
        self.env.sample_actions(self._infos)

    def inspect(self) -> None:
        for agent in self.env.agents:
            self.env.observation(agent)
        super().inspect()


class BatchDriver(CoreDriver):
    """Plays a batch; lanes that have ended (`ended`, a mask) are restarted in the next step."""

    kind = "batch"
    readers = ("observation", "state")
    env: BatchEnv

    def __init__(self, env: BatchEnv) -> None:
        super().__init__(env)
        self.ended = np.zeros(env.batch_size, bool)
        self.restarts_in_step = "step" in env.restarts

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        observations, infos = unpack(self.env.reset(seed=seed, options=options), RESET, "reset")
        self.ended = np.zeros(self.env.batch_size, bool)
        by_lane = self.split(self.env.observation_spec, observations, "observation")
        return Reply(by_lane, self._infos(infos), self.possible_agents, self.possible_agents)

    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        restart, restarted = None, frozenset[Agent]()
        if self.restarts_in_step:
            restart, restarted = self.ended, frozenset(np.flatnonzero(self.ended).tolist())
        elif self.ended.any():
            self.env.reset(mask=self.ended)
        reply = unpack(self.env.step(self._stacked(actions), restart=restart), self.parts, "step")
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


def core_driver(env: Env | MultiEnv) -> CoreDriver:
    """Returns a driver for a core environment: single-agent, multi-agent or a batch."""
    if isinstance(env, MultiEnv):
        return MultiDriver(env)
    return CoreDriver(env) if env.batch_size is None else BatchDriver(cast("BatchEnv", env))


# Environments of gymnasium, PettingZoo and dm_env.


class GymnasiumDriver(Driver):
    """Plays a `gymnasium.Env`."""

    api = "gymnasium"
    codec = "gymnasium.specs"

    def sample_actions(self) -> None:
        self.env.action_space.sample()


class _PettingZooDriver(Driver):
    kind = "multi"
    codec = "gymnasium.specs"

    def sample_actions(self) -> None:
        for agent in self.possible_agents:
            self.env.action_space(agent).sample()

    def read_spaces(self) -> dict[str, Any]:
        return {
            f"{name}({agent!r})": getattr(self.env, name)(agent)
            for name in self.spaces
            for agent in self.possible_agents
        }


class ParallelDriver(_AgentsDriver, _PettingZooDriver):
    """Plays a `pettingzoo.ParallelEnv`."""

    api = "pettingzoo"
    readers = ("state", "render")
    fresh_infos = False  # PettingZoo's own conversions return the infos that they keep

    def _in_play(self, infos: Mapping[Agent, Any]) -> tuple[tuple[Agent, ...], tuple[Agent, ...]]:
        # All act, or those that infos name in a turn-based game.
        agents = tuple(self.env.agents)
        for agent in agents:
            info = infos.get(agent)
            if isinstance(info, Mapping) and ("active_agent" in info or "active_agents" in info):
                named = info["active_agents"] if "active_agents" in info else (info["active_agent"],)
                return agents, tuple(one for one in agents if one in named)
        return agents, agents


class AECDriver(_PettingZooDriver):
    """Plays a `pettingzoo.AECEnv`, where agents act in turn. It makes the empty last step of ended agents itself."""

    api = "pettingzoo_aec"
    returns_infos = False  # they are an attribute
    readers = ("last", "state", "render")

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
        for agent in self._in_play():
            self.env.observe(agent)
        super().inspect()


def _mapping(value: Any, name: str) -> Mapping[Agent, Any]:
    if not isinstance(value, Mapping):
        raise BadReply(f"{name}: expected a dict from agents, got {type(value).__name__}")
    return value


class DmEnvDriver(Driver):
    """Plays a `dm_env.Environment`, seeded as its importer would."""

    api = "dm_env"
    returns_infos = False
    takes_options = False
    restarts_itself = has_discounts = True
    codec = "shared.array_specs"
    spaces = ("observation_spec", "action_spec")
    readers = (*spaces, "reward_spec")

    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        if seed is not None:
            self._core.seed_source(seed)
            self.env = self._core.source  # a factory makes another environment for each seed
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
        left = () if step_type.last() else (SINGLE,)
        terminated = not left and discount is not None and not np.any(np.asarray(discount))
        flags = {SINGLE: terminated}, {SINGLE: not left and not terminated}
        return Reply({SINGLE: observation}, {}, left, left, {SINGLE: reward}, *flags, {SINGLE: discount})

    def step_starts_episode(self, action: Any) -> bool:
        return _unpack_time_step(self.env.step(action), "step")[0].first()

    def read_spaces(self) -> dict[str, Any]:
        return {name: getattr(self.env, name)() for name in self.spaces}

    def same_space(self, one: Any, other: Any) -> bool:
        from envoi.adapters.dm_env import from_spec

        return one is other or spec_equal(from_spec(one, "spec"), from_spec(other, "spec"))

    @property
    def unseeded_reason(self) -> str:
        if not self._core.unseeded:
            return ""
        return "no way to seed it is known; give it a method seed(integer), or use from_dm_env(env, seed=function)"

    def core_env(self) -> Env:
        return self._core


def _unpack_time_step(reply: Any, call: str) -> tuple[Any, Any, Any, Any]:
    if not (isinstance(reply, tuple) and len(reply) == 4 and hasattr(reply[0], "first")):
        raise BadReply(f"{call}: expected a dm_env.TimeStep, got {type(reply).__name__}")
    return reply[0], reply[1], reply[2], reply[3]


_DRIVERS: dict[str, type[Driver]] = {
    kind.api: kind for kind in (GymnasiumDriver, DmEnvDriver, ParallelDriver, AECDriver)
}


def framework_driver(env: Any, core: Env | MultiEnv | None = None) -> Driver | None:
    """Returns a driver that plays an environment by its framework's API, or None if the framework has no driver."""
    row = home(env)
    if row is None:
        return None
    if row.name == "rllib" and isinstance(env, row.adapter.RLlibEnv):  # the form of one agent, also of gymnasium
        return GymnasiumDriver(env)
    driver = _DRIVERS.get(row.name)
    return None if driver is None else driver(env, core)


def driver_for(env: Any) -> Driver:
    """Returns a driver for any environment, for its own API if there is one, otherwise for envoi's."""
    if not isinstance(env, (Env, MultiEnv)):
        return framework_driver(env) or core_driver(from_env(env))
    source = getattr(env, "source", None)
    if source is not None and env.is_unchanged:
        return framework_driver(source, env) or core_driver(env)
    return core_driver(env)
