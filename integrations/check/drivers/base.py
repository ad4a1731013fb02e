"""The driver's interface: plays an environment by its own API, and passes its values on neither cast nor copied.

An importer of `envoi.adapters` repairs many faults of a careless environment, so a check that played through it would
miss them. A `Driver` plays the environment itself. It returns a `Reply` of the same shape for all APIs: mappings from
agents, where a single-agent environment has the one agent `SINGLE` and a batch has one agent per lane.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np

from envoi import Env, EnvoiError, MultiEnv
from envoi.adapters import from_env
from envoi.protocol.multi_env import MASK, Agent
from envoi.spec import SpecTree

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
    """Plays one environment by its own API; specs are those that it declares, by agent."""

    api: ClassVar[str]
    kind: ClassVar[Kind] = "single"
    returns_infos: ClassVar[bool] = True
    """True if calls return infos; otherwise infos are a state of the environment that can be read."""
    fresh_infos: ClassVar[bool] = True
    """True if the API requires a new info dict with each call."""
    takes_options: ClassVar[bool] = True
    restarts_itself: ClassVar[bool] = False
    """True if the API requires a step before a reset, or after the end, to start an episode."""
    spaces: ClassVar[tuple[str, str]] = ("observation_space", "action_space")

    possible_agents: tuple[Agent, ...] = (SINGLE,)

    def __init__(self, env: Any) -> None:
        self.env = env
        self.observation_specs: Mapping[Agent, SpecTree] = {}
        self.action_specs: Mapping[Agent, SpecTree] = {}
        self.reward_specs: Mapping[Agent, SpecTree] = {}
        self.discount_specs: Mapping[Agent, SpecTree] = {}  # empty where the API has no discounts
        self._encoders: Mapping[Agent, Callable[[Any], Any] | None] = {}

    @abstractmethod
    def reset(self, seed: Any = None, options: Mapping[str, Any] | None = None) -> Reply:
        """Starts an episode."""

    @abstractmethod
    def step(self, actions: Mapping[Agent, Any]) -> Reply:
        """Steps once, with the very objects in `actions`, by agent, as `encode_action` made them."""

    def step_starts_episode(self, action: Any) -> bool:
        """Returns True if a step with `action` starts an episode, for an API that `restarts_itself`."""
        raise NotAvailable

    def encode_action(self, agent: Agent, action: Any) -> Any:
        """Converts an action to the API's own type, in memory of its own."""
        encode = self._encoders.get(agent)
        return copy.deepcopy(action) if encode is None else encode(action)

    def action_mask(self, agent: Agent, reply: Reply) -> Any:
        """Returns an agent's action mask from its info or observation; None where there is none."""
        for place in (reply.infos.get(agent), reply.observations.get(agent)):
            if isinstance(place, Mapping) and MASK in place:
                return place[MASK]
        return None

    def sample_actions(self) -> None:
        """Makes the environment sample actions, which must not change the episode."""
        raise NotAvailable

    def inspect(self) -> None:
        """Reads everything that can be read between steps, which must not change the episode."""
        if not self._read_available(self.render):
            raise NotAvailable

    def _read_available(self, *readers: Callable[[], Any]) -> bool:
        """Calls each reader, and returns True if one of them is implemented."""
        available = False
        for read in readers:
            with suppress(NotAvailable, NotImplementedError):
                read()
                available = True
        return available

    def render(self) -> Any:
        if self.render_mode in (None, "human"):
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
        """Returns True if two readings of one space are the same, as the API requires."""
        return one is other

    @property
    def unseeded_reason(self) -> str:
        """The reason why no seed reaches the environment; empty where one does."""
        return ""

    def with_env(self, env: Any) -> Self:
        """Returns the same driver, in the same episode, of a copy of the environment."""
        other = copy.copy(self)
        other.env = env
        return other

    def core_env(self) -> Env | MultiEnv:
        """Returns the environment as a core one."""
        return from_env(self.env)

    def close(self) -> None:
        self.env.close()

    def label(self, name: str, agent: Agent) -> str:
        """Returns the name of an agent's value for a message, such as `reward['anna']`."""
        if agent is SINGLE and self.kind == "single":
            return name
        return f"{name} in lane {agent}" if self.kind == "batch" else f"{name}[{agent!r}]"

    def layers(self) -> Iterator[Any]:
        """Yields the environment and each environment that it wraps, from outside to inside."""
        seen: set[int] = set()
        layer = self.env
        while layer is not None and id(layer) not in seen:
            seen.add(id(layer))
            yield layer
            inside = getattr(layer, "__dict__", {})
            inner = map(inside.get, ("env", "_env", "aec_env", "par_env", "_environment", "core"))
            layer = next((one for one in inner if one is not None), None)


def single_reset(observation: Any, info: Any) -> Reply:
    """Returns the reply to a reset of an environment of one agent."""
    return Reply({SINGLE: observation}, {SINGLE: info}, (SINGLE,), (SINGLE,))


def single_step(
    observation: Any, reward: Any, terminated: Any, truncated: Any, info: Any, discount: Any = None
) -> Reply:
    """Returns the reply to a step of an environment of one agent."""
    left = () if is_set(terminated) or is_set(truncated) else (SINGLE,)
    flags = {SINGLE: terminated}, {SINGLE: truncated}
    discounts = {} if discount is None else {SINGLE: discount}
    return Reply({SINGLE: observation}, {SINGLE: info}, left, left, {SINGLE: reward}, *flags, discounts)


def unpack(reply: Any, count: int, call: str) -> tuple[Any, ...]:
    """Returns the parts of a reply."""
    if not isinstance(reply, tuple) or len(reply) != count:
        names = {
            ("reset", 2): "(observation, info)",
            ("step", 5): "(observation, reward, terminated, truncated, info)",
            ("step", 6): "(observation, reward, terminated, truncated, discount, info)",
        }
        returned = f"a tuple of {len(reply)}" if isinstance(reply, tuple) else f"a {type(reply).__name__}"
        raise BadReply(f"{call}: expected {names[call, count]}, got {returned}")
    return reply


def is_set(flag: Any) -> bool:
    """Returns the truth of a flag of any type; of an array, whether any element is true."""
    try:
        return bool(flag)
    except ValueError:
        return bool(np.any(flag))
