"""The neutral protocol for several agents.

    reset(seed)      → observations, infos
    step(actions)    → observations, rewards, terminated, truncated, discounts, infos      mappings agent → value
    step(actions)    → …                  until no agent is left

Who is in play is `agents`; who acts next is `acting`: those whose `turn` it is, or all where nobody waits.
An agent ends by being terminated or truncated, each at its own time; it is then heard of no more, and the
episode is over when nobody is left. Agents may also join late.

A step's mappings speak of every agent that was in play before it or has just joined; its observations, of those
that act next or have ended. What a waiting agent would see is told when asked for, by `observation(agent)`.

Most steps are quiet: nobody ends, nobody joins, and all discounts are 1. Forms step by `raw_step`, in which a quiet
step has no flags and discounts at all, so that nobody makes or reads mappings that say nothing.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

from ..rewards.rewarder import Rewarder
from ..spec import Discrete, SpecTree, sample
from .env import DISCOUNT, REWARD
from .process import Info, Process

Agent: TypeAlias = Hashable

COMMON = "__common__"
"""The key of what infos say of nobody in particular."""

MASK = "action_mask"
"""The key, in an agent's info, of its action mask: for `Discrete` int8 of shape (n,), 1 where an action is legal."""

SYNTHETIC = "synthetic_observation"
"""The key, in an agent's info, that marks a final observation which is only the last one repeated."""


class MultiReset(NamedTuple):
    """What the beginning of an episode gives: observations of the agents that act first, infos of all in play."""

    observations: dict[Any, Any]
    infos: dict[Any, Info]


class MultiStep(NamedTuple):
    """What one step gives, as mappings from agents, in the order of `possible_agents`.

    Attributes:
        observations: Of the agents that act next, and the final one of those that have just ended.
        rewards: A value of `reward_spec[agent]` for each agent that was in play or has just joined.
        terminated: Whether the agent reached an end state.
        truncated: Whether the agent was cut off; both may be true.
        discounts: The factor on all that follows for the agent; 0 after a termination, else 1, unless the
            environment says otherwise.
        infos: Whatever else there is to say, with an entry for each agent that `rewards` names; under `"__common__"`
            of nobody in particular.
    """

    observations: dict[Any, Any]
    rewards: dict[Any, Any]
    terminated: dict[Any, bool]
    truncated: dict[Any, bool]
    discounts: dict[Any, Any]
    infos: dict[Any, Info]


RawMultiStep: TypeAlias = tuple[dict[Any, Any], dict[Any, Any], Any, Any, Any, dict[Any, Info]]
"""The values of a `MultiStep`; both flags and the discounts are None, all three, where the step is quiet."""

make_multi_step = cast(
    "Callable[[RawMultiStep], MultiStep]",
    partial(tuple.__new__, MultiStep),  # pyright: ignore[reportUnknownMemberType]
)
"""`MultiStep(*values)` for hot paths, as `make_step`."""


def full_multi_step(values: RawMultiStep) -> MultiStep:
    """What `raw_step` gave as a `MultiStep`, with what a quiet step left out."""
    observations, rewards, terminated, _, _, infos = values
    if terminated is not None:
        return make_multi_step(values)
    alive, cut, ones = dict.fromkeys(rewards, False), dict.fromkeys(rewards, False), dict.fromkeys(rewards, 1.0)
    return make_multi_step((observations, rewards, alive, cut, ones, infos))


def quickest_multi_step(env: MultiEnv) -> Callable[[Mapping[Any, Any]], RawMultiStep]:
    """What a form steps an environment by: its `raw_step`, unless a subclass of who defines that has its own `step`."""
    return _beside_multi_step(env, "raw_step") or partial(MultiEnv.raw_step, env)


def five_step(env: MultiEnv) -> Callable[[Mapping[Any, Any], Mapping[Any, bool]], tuple[Any, ...]] | None:
    """An environment's `five_step(actions, flags)`, where it has one: a step for forms that have no discounts.

    A quiet step gives five values, both flags as copies of `flags`, which may say more than the agents' own. Any other
    gives what `raw_step` does.
    """
    return _beside_multi_step(env, "five_step")


def lanes_step(env: MultiEnv) -> Callable[[Sequence[Any]], tuple[Any, ...]] | None:
    """An environment's `lanes_step(actions)`, where it has one: a step for agents that are lanes, while all play.

    It takes an action for each of `possible_agents`, in their order. A quiet step gives three values: the observations
    as one new array, a sequence of rewards, both in that order, and infos or None where they say nothing. Any other
    gives what `raw_step` does. Until the next one, `observation(agent)` knows what each agent saw last.
    """
    return _beside_multi_step(env, "lanes_step")


def _beside_multi_step(env: MultiEnv, name: str) -> Any:
    """Another kind of step of an environment, if no subclass of who defines it has a step of its own."""
    if getattr(env.step, "__func__", None) is type(env).step:  # see `env.beside_step`
        for kind in type(env).__mro__:
            if name in vars(kind):
                return getattr(env, name)
            if "step" in vars(kind) or "raw_step" in vars(kind):
                break
    return None


class _ForEach:
    """An attribute that is one spec for each possible agent until a class or an instance sets its own."""

    def __init__(self, spec: SpecTree) -> None:
        self._spec = spec

    def __get__(self, env: MultiEnv | None, owner: type) -> Any:
        return self if env is None else dict.fromkeys(env.possible_agents, self._spec)


class MultiEnv(Process):
    """An environment of several agents. Its specs are mappings from each possible agent.

    Attributes:
        possible_agents: Every agent that may ever be in play, in the order in which mappings list them.
        observation_spec: What each agent may see.
        action_spec: What each agent may do.
        reward_spec: What each agent's reward may be; follows `rewarder`, which gives a mapping too.
        discount_spec: What each agent's discount may be.
        state_spec: What `state` may be, or None where it is not described.
    """

    possible_agents: tuple[Any, ...]
    observation_spec: Mapping[Any, SpecTree]
    action_spec: Mapping[Any, SpecTree]
    reward_spec = cast("Any", _ForEach(REWARD))
    discount_spec = cast("Any", _ForEach(DISCOUNT))

    @property
    @abstractmethod
    def agents(self) -> tuple[Any, ...]:
        """The agents in play, in the order of `possible_agents`; empty before the first reset and after the end."""

    @property
    def turn(self) -> tuple[Any, ...] | None:
        """The agents that act next while others wait; None where all agents in play act."""
        return None

    @property
    def acting(self) -> tuple[Any, ...]:
        """The agents whose actions the next step takes."""
        turn = self.turn
        return self.agents if turn is None else turn

    @abstractmethod
    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        """Begins an episode; see `Env.reset`."""

    @abstractmethod
    def step(self, actions: Mapping[Any, Any]) -> MultiStep:
        """Acts once.

        Args:
            actions: A value of `action_spec[agent]` for each agent in `acting`, and for nobody else.

        Raises:
            EpisodeError: Before the first reset, after the end, or where the wrong agents act.
        """

    def raw_step(self, actions: Mapping[Any, Any]) -> RawMultiStep:
        """`step` for forms: a tuple of the six values, flags and discounts None where nobody ends or joins (see above).

        An environment may define it beside `step` where that is cheaper. The mapping of actions remains the caller's:
        it is neither kept nor changed.
        """
        return self.step({**actions})

    @abstractmethod
    def observation(self, agent: Any) -> Any:
        """What an agent in play sees now, or an ended one saw last; the same until the next step.

        Asking changes nothing that follows.

        Raises:
            EpisodeError: The agent has not been in play in this episode.
        """

    def sample_actions(self, infos: Mapping[Any, Info] | None = None) -> dict[Any, Any]:
        """A random action for each agent in `acting`, from a stream of its own.

        Args:
            infos: Those of the last step or reset: what the action masks in them forbid is not sampled.
        """
        rng, masks = self.streams.action, infos or {}
        return {agent: self._sample(agent, masks.get(agent, {}).get(MASK), rng) for agent in self.acting}

    def _sample(self, agent: Any, mask: Any, rng: Any) -> Any:
        spec = self.action_spec[agent]
        if mask is None or not isinstance(spec, Discrete):
            return sample(spec, rng)
        legal = [index for index, allowed in enumerate(mask) if allowed]
        return spec.dtype.type(spec.start + legal[int(rng.integers(len(legal)))]) if legal else sample(spec, rng)

    def _spec_under(self, rewarder: Rewarder) -> SpecTree:
        spec = rewarder.spec
        return (
            cast("dict[Any, SpecTree]", spec) if isinstance(spec, dict) else dict.fromkeys(self.possible_agents, spec)
        )
