"""A batch whose lanes are the agents of one environment."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy import array

from .. import tree
from ..errors import ContextError, EpisodeError, SpecError
from ..lane_values import lane, stack
from ..protocol.batch_env import BatchEnv, Mask, Seeds, as_mask, check_count, make_batch_reset, make_batch_step
from ..protocol.env import ENDED_LANES, NOT_RESET, Reset, Step
from ..protocol.fast_steps import fast_step, rows_step
from ..protocol.infos import Infos
from ..protocol.multi_env import COMMON, MultiEnv, MultiStep, full_multi_step
from ..protocol.process import Info
from ..seeding import lane_seeds
from ..spec import Array, Spec, SpecTree, spec_equal, zeros
from ..wrapping.delegate import Around

WAITING = "waiting"
"""Key in a lane's info that marks a step in which the lane's agent is not in play."""


class AgentLanes(Around[MultiEnv], BatchEnv):
    """Makes a batch from the agents of a `MultiEnv`, one per lane, so that a single policy plays all of them.

    The lanes share one episode. A lane waits if its agent has not joined yet, or has ended before the others: after a
    restart it repeats its last observation with reward 0 and `info["waiting"]`, and it is truncated in the step in
    which the last agent ends. All lanes begin the next episode together. Resetting only some lanes raises an
    `EpisodeError` if one of their agents is in play; apply a time limit to the `MultiEnv` instead.

    Args:
        env: The environment. All its agents must act simultaneously and have equal specs.

    Raises:
        SpecError: The specs of the agents differ.
    """

    memory = ("_last", "_over", "_begun", "_together")
    _passing = ("_written_step", "_step")  # which step this environment

    def __init__(self, env: MultiEnv) -> None:
        super().__init__(env)
        BatchEnv.__init__(self, len(env.possible_agents))
        agents, first = env.possible_agents, env.possible_agents[0]
        for what in ("observation_spec", "action_spec", "reward_spec", "discount_spec"):
            specs = getattr(env, what)
            for agent in agents:
                if not spec_equal(specs[agent], specs[first]):
                    raise SpecError(
                        f"{what}[{agent!r}]: expected that of {first!r}, because lanes are alike: {specs[first]!r}; "
                        f"got {specs[agent]!r}"
                    )
        self.observation_spec, self.action_spec = env.observation_spec[first], env.action_spec[first]
        self.discount_spec = env.discount_spec[first]
        # The latest observation of each lane; None if it must be requested from the environment.
        self._last: list[Any] | None = [zeros(self.observation_spec)] * len(agents)
        self._over: Mask = np.ones(len(agents), bool)  # lanes that have ended, and were not restarted since
        self._begun = False
        self._together = False  # True while all agents are in play: no lane waits or has ended
        self._step = fast_step(env)
        self._is_flat = isinstance(self.action_spec, Spec)
        # Read only by the fast step below, where the rewards are the environment's own.
        own = env.declared_reward_spec[first]
        self._reward_dtype = own.dtype if type(own) is Array else None
        self._step_rows = None if self._reward_dtype is None else rows_step(env)
        self._silent: dict[Any, Info] = {agent: {} for agent in agents}  # infos without entries
        self._no_infos = Infos(columns={}, n=len(agents))

    @property
    def reward_spec(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The reward spec of a lane."""
        return self.env.reward_spec[self.env.possible_agents[0]]

    @property
    def declared_reward_spec(self) -> SpecTree:
        return self.env.declared_reward_spec[self.env.possible_agents[0]]

    def spec_under(self, contexts: Iterable[Mapping[str, Any]]) -> SpecTree:
        raise ContextError(
            "contexts: lanes that are the agents of one environment share its context; apply Contextual to the "
            "MultiEnv, inside AgentLanes"
        )

    def assign_lane(self, number: int) -> None:
        self.env.assign_lane(number // self.batch_size)  # the lanes are one environment

    def reset(self, *, seed: Seeds = None, options: Mapping[str, Any] | None = None, mask: Mask | None = None) -> Reset:
        """Begins an episode in all lanes, or makes selected lanes that have ended wait for the others.

        Args:
            seed: One seed, because the lanes share their episode. A sequence of equal seeds counts as one.
            options: As for a single environment.
            mask: The lanes to reset, bool of shape (n,), or None for all. If only some lanes are selected, they must
                have ended.

        Returns:
            The current observations of all n lanes, and infos.

        Raises:
            EpisodeError: `mask` selects only some of the lanes, and the agent of one of them is in play.
            SpecError: The seeds differ; only some lanes get a seed or options; or the environment is turn-based.
        """
        mask = as_mask(mask, self.batch_size, "mask")
        some = None if mask is None or mask.all() else mask
        if some is not None and not self._begun:
            raise EpisodeError(f"reset: {NOT_RESET} in all lanes first, without a mask")
        if some is not None and self.env.agents:
            if seed is not None or options:
                raise SpecError("seed, options: expected none for some of the lanes, because all share their episode")
            self._wait(some)
            infos = Infos([{WAITING: True} if waits else {} for waits in some])
            return make_batch_reset((stack(self.observation_spec, self._shown()), infos))
        if isinstance(seed, (Sequence, np.ndarray)):
            given = set(lane_seeds(seed, self.batch_size))
            if len(given) != 1:
                raise SpecError(f"seed: expected one, because the lanes share their episode, got {list(seed)}")
            seed = given.pop()
        observations, infos = self.env.reset(seed=seed, options=options)
        self._check_turn()
        self._over, self._begun = np.zeros(self.batch_size, bool), True
        self._together = len(self.env.agents) == self.batch_size
        return make_batch_reset((self._seen(observations), self._infos(infos)))

    def _check_turn(self) -> None:
        if self.env.turn is not None:
            raise SpecError(f"env: expected agents that act simultaneously, got the turn of {self.env.turn}")

    def advance(self, action: Any, restart: Mask | None, hold: Mask | None, idle: Mask | None) -> tuple[Any, ...]:
        if restart is not None or not self._together:
            return self._uneven_step(action, restart)
        lanes = action if self._is_flat else [lane(self.action_spec, action, i) for i in range(self.batch_size)]
        check_count("action", lanes, self.batch_size)
        if self._step_rows is None:
            step = self._step(dict(zip(self._silent, lanes)))  # noqa: B905 (they are counted, and it takes its time)
        else:
            step = self._step_rows(lanes)
            if len(step) == 3:
                observation, rewards, infos = step
                self._last = None
                lane_infos = self._no_infos if infos is None else self._infos(infos)
                return observation, array(rewards, self._reward_dtype), None, None, None, lane_infos
        observations, rewards, terminated, _, _, infos = step
        if terminated is not None or len(observations) < self.batch_size:
            return self._lanes_of(full_multi_step(step), self.env.possible_agents)
        self._last = [*observations.values()]
        return (
            stack(self.observation_spec, self._last),
            stack(self.reward_spec, [*rewards.values()]),
            None,
            None,
            None,
            self._infos(infos),
        )

    def _uneven_step(self, action: Any, restart: Mask | None) -> tuple[Any, Any, Any, Any, Any, Any]:
        """Runs a step in which some lanes may wait, restart, or have ended."""
        over = self._over if restart is None else self._over & ~restart
        if not self._begun:
            raise EpisodeError(f"step: {NOT_RESET}")
        if over.any():
            raise EpisodeError(f"step: in lanes {np.flatnonzero(over).tolist()}, {ENDED_LANES}")
        if not self.env.agents or (restart is not None and restart.all()):
            observation, infos = self.reset()
            return observation, self._all(0, self.reward_spec, self.batch_size), None, None, None, infos
        if restart is not None:
            self._wait(restart)
        playing, lanes = self.env.agents, enumerate(self.env.possible_agents)
        actions = {agent: lane(self.action_spec, action, place) for place, agent in lanes if agent in playing}
        return self._lanes_of(full_multi_step(self._step(actions)), playing)

    def _all(self, number: int, spec: SpecTree, *lanes: int) -> Any:
        return tree.map_leaves(lambda leaf: np.full((*lanes, *leaf.shape), number, leaf.dtype), spec)

    def _lanes_of(self, step: MultiStep, playing: Collection[Any]) -> Step:
        """Converts a step in which the agents in `playing` acted to a step of all lanes."""
        self._check_turn()
        agents = self.env.possible_agents
        observations, rewards, ended, cut, discounts, infos = step
        terminated = np.array([ended.get(agent, False) for agent in agents])
        truncated = np.array([cut.get(agent, False) for agent in agents])
        if not self.env.agents and len(playing) < self.batch_size:
            # The end of the episode truncates the lanes that waited.
            truncated |= np.array([agent not in playing for agent in agents])
        self._over, self._together = terminated | truncated, len(self.env.agents) == self.batch_size
        values = (
            self._seen(observations),
            stack(self.reward_spec, self._each(rewards, 0, self.reward_spec)),
            terminated,
            truncated,
            stack(self.discount_spec, self._each(discounts, 1, self.discount_spec)),
            self._infos(infos),
        )
        return make_batch_step(values)

    def _each(self, values: Mapping[Any, Any], number: int, spec: SpecTree) -> list[Any]:
        """Returns a list with each agent's value, where `number` fills in for agents without an entry."""
        agents = self.env.possible_agents
        if len(values) == self.batch_size:
            return [values[agent] for agent in agents]
        absent = self._all(number, spec)
        return [values.get(agent, absent) for agent in agents]

    def _wait(self, lanes: Mask) -> None:
        """Makes lanes that have ended wait, while the others continue."""
        playing = np.array([agent in self.env.agents for agent in self.env.possible_agents])
        if (lanes & playing).any():
            raise EpisodeError(
                f"reset: lanes {np.flatnonzero(lanes & playing).tolist()} are in play, in an episode that all lanes "
                "share; reset all lanes, or apply the time limit to the MultiEnv"
            )
        self._over = self._over & ~lanes

    def _seen(self, observations: Mapping[Any, Any]) -> Any:
        if len(observations) == self.batch_size:
            self._last = [*observations.values()]
        else:
            each = zip(self.env.possible_agents, self._shown(), strict=True)
            self._last = [observations.get(agent, last) for agent, last in each]
        return stack(self.observation_spec, self._last)

    def _shown(self) -> list[Any]:
        """Returns the latest observation of each lane."""
        if self._last is None:
            self._last = [self.env.observation(agent) for agent in self.env.possible_agents]
        return self._last

    def _infos(self, infos: Mapping[Any, Info]) -> Infos:
        if infos == self._silent:
            return self._no_infos
        common = {COMMON: infos[COMMON]} if COMMON in infos else {}
        return Infos([{**infos.get(agent, {WAITING: True}), **common} for agent in self.env.possible_agents])

    @property
    def observation(self) -> Any:
        if not self._begun:
            raise EpisodeError(f"observation: {NOT_RESET}")
        return stack(self.observation_spec, self._shown())

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._step = fast_step(self.env)

    def __repr__(self) -> str:
        return f"AgentLanes({self.env!r})"
