"""The protocol of environments with several agents.

    reset(seed)      → observations, infos
    step(actions)    → observations, rewards, terminated, truncated, discounts, infos      mappings agent → value
    step(actions)    → …                  until no agent is left

`agents` are the agents in play, and `acting` those that act next: the agents whose `turn` it is, or all of them if
`turn` is None. Each agent ends when it is terminated or truncated, and does not appear in later steps. The episode is
over when no agent is left. Agents may also join during an episode.

The mappings of a step have an entry for each agent that was in play before it or has just joined; the observations
have one for each agent that acts next or has just ended. `observation(agent)` returns the observation of a waiting
agent on request.

Most steps are quiet: no agent ends or joins, and all discounts are 1. Written steps (`envoi.steps.program`) save the
cost of mappings without information.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias, cast

from ..rewards.rewarder import Rewarder
from ..spec import Discrete, SpecTree, sample
from ..steps.flat import Finish
from ..steps.program import VALUES, Program
from ..tree import AnyDict
from .env import DISCOUNT, REWARD
from .process import Info, Process

Agent: TypeAlias = Hashable

COMMON = "__common__"
"""Key in infos for entries that belong to no specific agent."""

MASK = "action_mask"
"""Key in an agent's info for its action mask: for `Discrete`, int8 of shape (n,), 1 where an action is legal."""

SYNTHETIC = "synthetic_observation"
"""Key in an agent's info that marks a final observation as a repetition of the previous one."""


class MultiReset(NamedTuple):
    """The result of `reset`: the observations of agents that act first, and the infos of all agents in play."""

    observations: dict[Any, Any]
    infos: dict[Any, Info]


class MultiStep(NamedTuple):
    """The result of `step`: mappings from agents, in the order of `possible_agents`.

    Attributes:
        observations: The observations of the agents that act next, and the final ones of agents that have just ended.
        rewards: A value of `reward_spec[agent]` for each agent that was in play or has just joined.
        terminated: True for an agent that reached a terminal state.
        truncated: True for an agent that was truncated. Both flags may be True.
        discounts: The factor on the agent's later rewards. The default is 0 after termination and 1 otherwise.
        infos: An info dict for each agent in `rewards`. Entries that belong to no specific agent are under
            `"__common__"`.
    """

    observations: dict[Any, Any]
    rewards: dict[Any, Any]
    terminated: dict[Any, bool]
    truncated: dict[Any, bool]
    discounts: dict[Any, Any]
    infos: dict[Any, Info]


MultiStepValues: TypeAlias = tuple[dict[Any, Any], dict[Any, Any], Any, Any, Any, dict[Any, Info]]
"""The values of a `MultiStep`; for a quiet step, both flags and the discounts are None."""

make_multi_step: Callable[[MultiStepValues], MultiStep] = partial(cast("Any", tuple).__new__, MultiStep)
"""`MultiStep(*values)` for hot paths, like `make_step`."""


def full_multi_step(values: MultiStepValues) -> MultiStep:
    """Makes a `MultiStep` of six values; fills in flags and discounts if they are None, as in a quiet step."""
    observations, rewards, terminated, _, _, infos = values
    if terminated is not None:
        return make_multi_step(values)
    alive, cut, ones = dict.fromkeys(rewards, False), dict.fromkeys(rewards, False), dict.fromkeys(rewards, 1.0)
    return make_multi_step((observations, rewards, alive, cut, ones, infos))


def as_multi_step(program: Program) -> Finish:
    """Returns the last lines of a written step, which make a `MultiStep`."""
    values = f"return full_multi_step(({', '.join(VALUES)}))"
    return Finish("a MultiStep", values, names={"full_multi_step": full_multi_step})


class _ForEach:
    """The default of an attribute: the same spec for each possible agent."""

    def __init__(self, spec: SpecTree) -> None:
        self._spec = spec

    def __get__(self, env: MultiEnv | None, owner: type) -> Any:
        return self if env is None else dict.fromkeys(env.possible_agents, self._spec)


class MultiEnv(Process):
    """A multi-agent environment. Its specs are mappings with an entry for each possible agent.

    Attributes:
        possible_agents: All agents that may ever be in play, in the order of all mappings.
        observation_spec: The spec of each agent's observations.
        action_spec: The spec of each agent's actions.
        reward_spec: The spec of each agent's rewards; follows `rewarder`, which returns a mapping too.
        discount_spec: The spec of each agent's discounts.
        state_spec: The spec of `state`, or None if not declared.
    """

    possible_agents: tuple[Any, ...]
    observation_spec: Mapping[Any, SpecTree]
    action_spec: Mapping[Any, SpecTree]
    reward_spec: Any = _ForEach(REWARD)
    discount_spec: Any = _ForEach(DISCOUNT)

    @property
    @abstractmethod
    def agents(self) -> tuple[Any, ...]:
        """The agents in play, in the order of `possible_agents`. Empty before the first reset and after an episode."""

    @property
    def turn(self) -> tuple[Any, ...] | None:
        """The agents that act next while the others wait, or None if all agents in play act."""
        return None

    @property
    def acting(self) -> tuple[Any, ...]:
        """The agents that must act in the next step."""
        turn = self.turn
        return self.agents if turn is None else turn

    @abstractmethod
    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        """Begins an episode.

        Args:
            seed: Seeds all random streams; None continues them.
            options: Settings of this episode, which the environment interprets. The mapping is not modified.

        Returns:
            The first observations of the agents that act first, and infos of all agents in play.
        """

    @abstractmethod
    def step(self, actions: Mapping[Any, Any]) -> MultiStep:
        """Takes one action of each acting agent.

        Args:
            actions: A value of `action_spec[agent]` for each agent in `acting`, and for no other.

        Raises:
            EpisodeError: The environment has not been reset, the episode has ended, or the agents are not those in
                `acting`.
        """

    @abstractmethod
    def observation(self, agent: Any) -> Any:
        """Returns the current observation of an agent in play, or the final observation of an agent that has ended.

        The observation is the same until the next step. The call does not affect later random numbers.

        Args:
            agent: The agent.

        Raises:
            EpisodeError: The agent has not been in play in this episode.
        """

    def sample_actions(self, infos: Mapping[Any, Info] | None = None) -> dict[Any, Any]:
        """Samples a random action for each agent in `acting` from the action stream.

        Args:
            infos: The infos of the last step or reset, to respect their action masks. None ignores masks.
        """
        rng, masks, specs = self.streams.action, infos or {}, self.action_spec
        return {a: sample_legal(specs[a], masks.get(a, {}).get(MASK), rng) for a in self.acting}

    def _spec_under(self, rewarder: Rewarder) -> SpecTree:
        spec = rewarder.spec
        return spec if isinstance(spec, AnyDict) else dict.fromkeys(self.possible_agents, spec)


def sample_legal(spec: SpecTree, mask: Any, rng: Any) -> Any:
    """Samples an action; of a `Discrete`, among those that the mask allows. None, or a mask of zeros, allows all."""
    if mask is None or not isinstance(spec, Discrete):
        return sample(spec, rng)
    legal = [index for index, allowed in enumerate(mask) if allowed]
    return spec.dtype.type(spec.start + legal[int(rng.integers(len(legal)))]) if legal else sample(spec, rng)
