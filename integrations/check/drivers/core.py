"""How an environment is played by its own API: what it says comes through as it said it, neither cast nor copied.

An importer of `envoi.adapters` repairs much of what a careless environment does, so a check that played through it
would find nothing. A `Hand` plays the environment itself. What it hears is told in one shape for all APIs, a `Beat`:
mappings from agents, of whom an environment of one has the one `ONE`, and a batch one for each lane.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal, Self

import numpy as np

from envoi import BatchEnv, Env, EnvoiError, MultiEnv
from envoi.adapters import from_env
from envoi.batching.values import lane, stack
from envoi.protocol.multi_env import MASK
from envoi.spec import SpecTree

ONE: Any = None
"""The agent of an environment of one."""

Kind = Literal["one", "several", "lanes"]


class BadReply(EnvoiError):
    """An environment answered a call in a shape that its API does not know."""


class NothingThere(EnvoiError):
    """An API has no such thing, so there is nothing to check."""


@dataclass(frozen=True)
class Beat:
    """What an environment said to one call: a reset, or a step.

    Attributes:
        observations: What was seen, by agent.
        infos: What else was said, by agent.
        agents: Who is in play now; nobody where the episode is over.
        acting: Who acts next.
        rewards: By agent; empty for a reset, as are the following.
        terminated: Whether the agent reached an end state.
        truncated: Whether the agent was cut off.
        discounts: The factors on what follows, where the API has them.
        begun: Lanes of a batch that began anew instead of acting.
    """

    observations: Mapping[Any, Any]
    infos: Mapping[Any, Any]
    agents: tuple[Any, ...]
    acting: tuple[Any, ...]
    rewards: Mapping[Any, Any] = field(default_factory=dict[Any, Any])
    terminated: Mapping[Any, Any] = field(default_factory=dict[Any, Any])
    truncated: Mapping[Any, Any] = field(default_factory=dict[Any, Any])
    discounts: Mapping[Any, Any] = field(default_factory=dict[Any, Any])
    begun: frozenset[Any] = frozenset()

    @property
    def over(self) -> bool:
        """Whether the episode is over."""
        return not self.agents

    def ended(self, agent: Any) -> bool:
        """Whether this call ended the agent."""
        return bool(self.terminated.get(agent, False)) or bool(self.truncated.get(agent, False))


class Hand(ABC):
    """One environment, played by its own API.

    Args:
        env: The environment.

    Attributes:
        env: The environment.
        possible: Every agent that may ever be in play.
        observation_specs: What each agent may see, as the environment declares it.
        action_specs: What each agent may do.
        reward_specs: What each agent's reward may be.
        discount_specs: What each agent's discount may be; empty where the API has none.
    """

    api: ClassVar[str]
    kind: ClassVar[Kind] = "one"
    says_infos: ClassVar[bool] = True
    """Whether infos are told with each call; otherwise they are a state that may be looked at."""
    fresh_infos: ClassVar[bool] = True
    """Whether the API wants a fresh info with each call."""
    takes_options: ClassVar[bool] = True
    after_end: ClassVar[str] = "an error"
    """What the API wants of a step after the end, for a sentence."""
    exact_specs: ClassVar[bool] = True
    """Whether a Python number is no array."""

    possible: tuple[Any, ...] = (ONE,)

    def __init__(self, env: Any) -> None:
        self.env = env
        self.observation_specs: Mapping[Any, SpecTree] = {}
        self.action_specs: Mapping[Any, SpecTree] = {}
        self.reward_specs: Mapping[Any, SpecTree] = {}
        self.discount_specs: Mapping[Any, SpecTree] = {}
        self._encoders: dict[Any, Callable[[Any], Any] | None] = {}

    @abstractmethod
    def begin(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Beat:
        """Begins an episode."""

    @abstractmethod
    def act(self, actions: Mapping[Any, Any]) -> Beat:
        """Acts once, with the very objects in `actions`, which are of the API's own kind."""

    def native(self, agent: Any, action: Any) -> Any:
        """A value of the agent's action spec as the API takes it, in memory of its own."""
        encode = self._encoders.get(agent)
        return copy.deepcopy(action) if encode is None else encode(action)

    def mask(self, agent: Any, beat: Beat) -> Any:
        """What the agent may do now, where the environment says so."""
        seen, said = beat.observations.get(agent), beat.infos.get(agent)
        for place in (said, seen):
            if isinstance(place, Mapping) and MASK in place:
                return place[MASK]
        return None

    def sample(self) -> None:
        """Lets the environment sample actions, which must change nothing."""
        raise NothingThere

    def look(self) -> None:
        """Looks at whatever can be looked at, which must change nothing.

        Raises:
            NothingThere: There is nothing to look at.
        """
        if not self._looked(self.draw):
            raise NothingThere

    def _looked(self, *looks: Callable[[], Any]) -> bool:
        """Whether any of these could be looked at."""
        seen = False
        for look in looks:
            try:
                look()
                seen = True
            except (NothingThere, NotImplementedError):
                continue
        return seen

    def draw(self) -> Any:
        """A picture.

        Raises:
            NothingThere: The environment was not made to draw, or would open a window.
        """
        if getattr(self.env, "render_mode", None) in (None, "human"):
            raise NothingThere
        return self.env.render()

    @property
    def render_mode(self) -> Any:
        """How the environment was made to draw."""
        return getattr(self.env, "render_mode", None)

    @property
    def metadata(self) -> Any:
        """What the environment says of itself."""
        return getattr(self.env, "metadata", None)

    @abstractmethod
    def declared(self) -> dict[str, Callable[[], Any]]:
        """How to ask for the spaces or specs, by their names; twice the same question has the same answer."""

    def same_declared(self, one: Any, two: Any) -> bool:
        """Whether two answers to the same question about spaces are as they should be."""
        return one is two

    @property
    def unseeded(self) -> str:
        """Why no seed reaches the environment; empty where it does."""
        return ""

    def over(self, env: Any) -> Self:
        """The same hand, in the same episode, on a copy of the environment."""
        other = copy.copy(self)
        other.env = env
        return other

    def core(self) -> Env | MultiEnv:
        """The environment as a core one.

        Raises:
            envoi.LossyConversion: The core cannot express its spaces.
        """
        return from_env(self.env)

    def close(self) -> None:
        """Lets go of the environment."""
        self.env.close()

    def label(self, what: str, agent: Any) -> str:
        """How to call what an agent sees, does or gets."""
        if agent is ONE and self.kind == "one":
            return what
        return f"{what} in lane {agent}" if self.kind == "lanes" else f"{what}[{agent!r}]"

    def layers(self) -> Iterator[Any]:
        """The environment and whatever it is wrapped around, from outside to inside."""
        seen: set[int] = set()
        layer = self.env
        while layer is not None and id(layer) not in seen:
            seen.add(id(layer))
            yield layer
            inner = [vars(layer).get(name) for name in ("env", "_env", "aec_env", "par_env", "_environment", "core")]
            layer = next((one for one in inner if one is not None), None) if hasattr(layer, "__dict__") else None


class CoreHand(Hand):
    """An `envoi.Env`."""

    api = "envoi"
    env: Env

    def __init__(self, env: Env) -> None:
        super().__init__(env)
        self.observation_specs, self.action_specs = {ONE: env.observation_spec}, {ONE: env.action_spec}
        self.reward_specs, self.discount_specs = {ONE: env.reward_spec}, {ONE: env.discount_spec}

    def begin(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Beat:
        observation, info = unpacked(self.env.reset(seed=seed, options=options), 2, "reset")
        return Beat({ONE: observation}, {ONE: info}, (ONE,), (ONE,))

    def act(self, actions: Mapping[Any, Any]) -> Beat:
        observation, reward, terminated, truncated, discount, info = unpacked(self.env.step(actions[ONE]), 6, "step")
        left = () if true(terminated) or true(truncated) else (ONE,)
        return Beat(
            {ONE: observation}, {ONE: info}, left, left, {ONE: reward}, {ONE: terminated}, {ONE: truncated},
            {ONE: discount},
        )  # fmt: skip

    def sample(self) -> None:
        self.env.sample_action()

    def look(self) -> None:
        self._looked(lambda: self.env.observation, lambda: self.env.state, self.draw)

    def declared(self) -> dict[str, Callable[[], Any]]:
        return {name: lambda name=name: getattr(self.env, name) for name in ("observation_spec", "action_spec")}


class MultiHand(CoreHand):
    """An `envoi.MultiEnv`."""

    kind = "several"
    env: MultiEnv  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, env: MultiEnv) -> None:
        Hand.__init__(self, env)
        self.possible = tuple(env.possible_agents)
        self.observation_specs, self.action_specs = env.observation_spec, env.action_spec
        self.reward_specs, self.discount_specs = env.reward_spec, env.discount_spec
        self._infos: Mapping[Any, Any] = {}

    def begin(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Beat:
        observations, infos = unpacked(self.env.reset(seed=seed, options=options), 2, "reset")
        self._infos = infos
        return Beat(observations, infos, tuple(self.env.agents), tuple(self.env.acting))

    def act(self, actions: Mapping[Any, Any]) -> Beat:
        observations, rewards, terminated, truncated, discounts, infos = unpacked(self.env.step(actions), 6, "step")
        self._infos = infos
        agents = tuple(self.env.agents)
        acting = tuple(self.env.acting) if agents else ()
        return Beat(observations, infos, agents, acting, rewards, terminated, truncated, discounts)

    def sample(self) -> None:
        self.env.sample_actions(self._infos)

    def look(self) -> None:
        waiting = [lambda agent=agent: self.env.observation(agent) for agent in self.env.agents]
        self._looked(*waiting, lambda: self.env.state, self.draw)


class LanesHand(CoreHand):
    """A batch; lanes that have ended are restarted in the next step."""

    kind = "lanes"
    env: BatchEnv  # pyright: ignore[reportIncompatibleVariableOverride]

    def __init__(self, env: BatchEnv) -> None:
        Hand.__init__(self, env)
        self.possible = tuple(range(env.batch_size))
        self.observation_specs = dict.fromkeys(self.possible, env.observation_spec)
        self.action_specs = dict.fromkeys(self.possible, env.action_spec)
        self.reward_specs = dict.fromkeys(self.possible, env.reward_spec)
        self.discount_specs = dict.fromkeys(self.possible, env.discount_spec)
        self._over = np.zeros(env.batch_size, bool)

    def begin(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Beat:
        observations, infos = unpacked(self.env.reset(seed=seed, options=options), 2, "reset")
        self._over = np.zeros(self.env.batch_size, bool)
        seen = self._split(self.env.observation_spec, observations, "observation")
        return Beat(seen, self._infos(infos), self.possible, self.possible)

    def act(self, actions: Mapping[Any, Any]) -> Beat:
        stacked = stack(self.env.action_spec, [actions[index] for index in self.possible])
        begun = frozenset(np.flatnonzero(self._over).tolist())
        step = unpacked(self.env.step(stacked, restart=self._over), 6, "step")
        observations, rewards, terminated, truncated, discounts, infos = step
        n = self.env.batch_size
        for what, flags in (("terminated", terminated), ("truncated", truncated)):
            if np.shape(flags) != (n,):
                raise BadReply(f"step: expected {what} of shape ({n},), got {np.shape(flags)}")
        self._over = np.asarray(terminated, bool) | np.asarray(truncated, bool)
        return Beat(
            self._split(self.env.observation_spec, observations, "observation"),
            self._infos(infos),
            self.possible,
            self.possible,
            self._split(self.env.reward_spec, rewards, "reward"),
            {index: terminated[index] for index in self.possible},
            {index: truncated[index] for index in self.possible},
            self._split(self.env.discount_spec, discounts, "discount"),
            begun,
        )

    def _split(self, spec: SpecTree, values: Any, what: str) -> dict[Any, Any]:
        try:
            return {index: lane(spec, values, index) for index in self.possible}
        except (IndexError, KeyError, TypeError) as error:
            raise BadReply(f"{what}: expected a leading axis of {self.env.batch_size} lanes ({error})") from error

    def _infos(self, infos: Any) -> dict[Any, Any]:
        if len(infos) != len(self.possible):
            raise BadReply(f"info: expected one for each of {len(self.possible)} lanes, got {len(infos)}")
        return dict(enumerate(infos))

    def act_beyond(self, actions: Mapping[Any, Any]) -> None:
        """A step that restarts no lane, whichever has ended."""
        self.env.step(stack(self.env.action_spec, [actions[index] for index in self.possible]))

    def sample(self) -> None:
        self.env.sample_action()

    def look(self) -> None:
        self._looked(lambda: self.env.observation, lambda: self.env.state)


def unpacked(reply: Any, count: int, call: str) -> tuple[Any, ...]:
    """The parts of a reply.

    Raises:
        BadReply: There are more or fewer.
    """
    if not isinstance(reply, tuple) or len(reply) != count:
        names = {
            ("reset", 2): "(observation, info)",
            ("step", 5): "(observation, reward, terminated, truncated, info)",
            ("step", 6): "(observation, reward, terminated, truncated, discount, info)",
        }
        came = f"a tuple of {len(reply)}" if isinstance(reply, tuple) else f"a {type(reply).__name__}"
        raise BadReply(f"{call}: expected {names[call, count]}, got {came}")
    return reply


def true(flag: Any) -> bool:
    """Whether a flag of any kind says yes."""
    try:
        return bool(flag)
    except ValueError:
        return bool(np.any(flag))


def core_hand(env: Env | MultiEnv) -> Hand:
    """The hand for a core environment."""
    if isinstance(env, MultiEnv):
        return MultiHand(env)
    return CoreHand(env) if env.batch_size is None else LanesHand(env)  # pyright: ignore[reportArgumentType]
