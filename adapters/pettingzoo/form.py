"""Exports core environments to both APIs of PettingZoo. Each API's package has its table of conversions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from envoi import Discrete, Env, EpisodeError, LossyConversion, MultiEnv, validate
from envoi.protocol.env import ENDED, NOT_RESET
from envoi.protocol.multi_env import COMMON, MASK
from envoi.spec import SpecTree

from ..conversion import acts_at_once, losses_for, losses_in
from ..gymnasium.agents import AgentsForm, agent_space
from ..shared.arrival import with_discounts
from ..shared.exported import several_agents
from ..shared.loss import Loss

NAME, AEC = "pettingzoo", "pettingzoo_aec"

ACTIVE, ACTIVES = "active_agent", "active_agents"
"""The info keys of the agents that act next while others wait: one agent (PettingZoo's own key), or several."""


def losses(env: Env | MultiEnv) -> list[Loss]:
    """Lists the parts of a core environment that PettingZoo cannot express."""
    return losses_for(env, losses_of_agents, several_agents)


def losses_of_agents(multi: MultiEnv) -> list[Loss]:
    """Lists the parts of a multi-agent environment that PettingZoo cannot express."""
    specs: dict[str, SpecTree] = {} if multi.state_spec is None else {"state": multi.state_spec}
    for agent in multi.possible_agents:
        specs[f"observation[{agent!r}]"] = multi.observation_spec[agent]
        specs[f"action[{agent!r}]"] = multi.action_spec[agent]
    return losses_in(specs, lambda spec, path: agent_space(spec, path, NAME))


class Form(AgentsForm):
    """The base class of both forms; `state_space` exists only if the core has a `state_spec`."""

    _framework = NAME
    _planned = ("_at_once",)
    _memory = ("metadata",)

    def _describe(self) -> None:
        multi = self.multi
        self.metadata = {"name": type(multi.unwrapped).__name__, **self.metadata, "is_parallelizable": True}
        self.observation_spaces, self.action_spaces = map(self._space_by_agent, ("observation", "action"))
        if multi.state_spec is not None:
            self.state_space = agent_space(multi.state_spec, "state", NAME)

    def _plan(self) -> None:
        super()._plan()
        # If true, no agent ever waits, so that `turn` need not be read.
        self._at_once = bool(acts_at_once(self.multi)) and not getattr(self.multi, "turns_in_infos", False)

    def observation_space(self, agent: Any) -> spaces.Space[Any]:
        return self.observation_spaces[agent]

    def action_space(self, agent: Any) -> spaces.Space[Any]:
        return self.action_spaces[agent]

    @property
    def np_random(self) -> np.random.Generator:
        """The core's `rng`, under the name that PettingZoo's environments use; settable."""
        return self.multi.rng

    @np_random.setter
    def np_random(self, generator: np.random.Generator) -> None:
        self.multi.rng = generator

    def state(self) -> Any:
        """Returns the state, a value of `state_space`.

        Raises:
            NotImplementedError: The core has no `state_spec`.
        """
        if self.multi.state_spec is None:
            raise NotImplementedError(f"state() needs a core environment with a state_spec; {self.core!r} has none")
        return super().state()


def agents_infos(infos: dict[Any, Any]) -> dict[Any, Any]:
    """Returns infos with only agents as keys; each info gets a copy of the entry `"__common__"`."""
    if COMMON not in infos:
        return infos
    common = infos[COMMON]
    return {agent: {**info, COMMON: {**common}} for agent, info in infos.items() if agent != COMMON}


class ToPettingZoo(Form, ParallelEnv[Any, Any, Any]):
    """A core environment as a PettingZoo Parallel environment; `step` ignores the actions of waiting agents.

    Args:
        core: The core environment, single-agent or multi-agent.
        validate: If True, every value is checked against its spec.

    Attributes:
        core: The core environment.
        multi: The core environment as a `MultiEnv`.
    """

    @property
    def agents(self) -> list[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The agents in play; a new list each time."""
        return [*self.multi.agents]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        observations, infos = self._env.reset(seed=seed, options=options)
        agents, turn = self.multi.agents, self.multi.turn
        infos = agents_infos(infos)
        return self._all(observations, agents), infos if turn is None else self._with_turn(infos, turn)

    def step(self, actions: Mapping[Any, Any]) -> tuple[dict[Any, Any], ...]:
        own = self.__dict__  # because each attribute of a form is looked up slowly, see `OpenForm`
        turns = None if own["_at_once"] else own["multi"]
        if turns is not None and (turn := turns.turn) is not None:
            waiting = set(turns.agents).difference(turn)
            actions = {agent: action for agent, action in actions.items() if agent not in waiting}
        if decoders := own["_decoders"]:
            actions = {agent: decoders[agent](one) if agent in decoders else one for agent, one in actions.items()}
        observations, rewards, terminated, truncated, discounts, infos = own["_step"](actions)
        if own["_encoders"] or len(observations) != len(rewards):
            observations = self._all(observations, rewards)
        if terminated is None:
            terminated, truncated = dict.fromkeys(rewards, False), dict.fromkeys(rewards, False)
        else:
            infos = with_discounts(infos, discounts, terminated)
        if COMMON in infos:
            infos = agents_infos(infos)
        if turns is not None and (turn := turns.turn) is not None:
            infos = self._with_turn(infos, turn)
        return observations, rewards, terminated, truncated, infos

    def _all(self, observations: Mapping[Any, Any], agents: Any) -> dict[Any, Any]:
        """Returns the observations of `agents`; waiting agents are included."""
        look, encoders = self.multi.observation, self._encoders
        seen = {agent: observations[agent] if agent in observations else look(agent) for agent in agents}
        return {agent: encoders[agent](one) if agent in encoders else one for agent, one in seen.items()}

    def _with_turn(self, infos: Mapping[Any, Any], turn: tuple[Any, ...]) -> dict[Any, Any]:
        entry = {ACTIVE: turn[0]} if len(turn) == 1 else {ACTIVES: turn}
        playing = self.multi.agents
        return {agent: {**info, **entry} if agent in playing else info for agent, info in infos.items()}


# The AEC API.


def refused_rewards(multi: MultiEnv) -> list[LossyConversion]:
    """Returns an error for each agent whose reward is not a single array, because the AEC API sums rewards."""
    hint = "AEC rewards are summed; make it one array"
    return [
        LossyConversion(f"reward[{agent!r}]", "type", repr(spec), NAME, hint)
        for agent, spec in multi.reward_spec.items()
        if isinstance(spec, (dict, list, tuple))
    ]


class ToPettingZooAEC(Form, AECEnv[Any, Any, Any]):
    """A core environment as a PettingZoo AEC environment.

    Args:
        core: The core environment, single-agent or multi-agent.
        validate: If True, every value is checked against its spec.

    Attributes:
        core: The core environment.
        multi: The core environment as a `MultiEnv`.
        agents: The agents in play, and those that have ended but not had their last turn. This and the following
            attributes exist from the first reset on. PettingZoo's own code changes this list.
        agent_selection: The agent whose turn it is.
        rewards: The rewards of the last step, by agent.
        terminations: The termination flags, by agent.
        truncations: The truncation flags, by agent.
        infos: The infos, by agent.
    """

    _framework = AEC
    _memory = (
        *("agents", "agent_selection", "rewards", "terminations", "truncations", "infos", "_cumulative_rewards"),
        *("_skip_agent_selection", "_observations", "_acting", "_actions", "_has_masks"),
    )

    def _describe(self) -> None:
        for error in refused_rewards(self.multi):
            raise error
        super()._describe()
        self.metadata["is_parallelizable"] = bool(acts_at_once(self.multi))  # as far as that is known

    def reset(self, seed: int | None = None, options: Mapping[str, Any] | None = None) -> None:
        self._observations, infos = self._env.reset(seed=seed, options=options)
        multi = self.multi
        self.agents = agents = list(multi.agents)
        self.rewards = dict.fromkeys(agents, 0)
        self._cumulative_rewards = dict.fromkeys(agents, 0)
        self.terminations, self.truncations = dict.fromkeys(agents, False), dict.fromkeys(agents, False)
        self._acting, self._actions = multi.acting, {}
        self.infos = self._with_masks(agents_infos(infos), multi.acting)
        self.agent_selection = self._acting[0]
        self._skip_agent_selection = None
        self.metadata["is_parallelizable"] = multi.turn is None

    def step(self, action: Any) -> None:
        own = self.__dict__  # because each attribute of a form is looked up slowly, see `OpenForm`
        if not own.get("agents"):
            raise EpisodeError(f"step: {ENDED if 'agents' in own else NOT_RESET}")
        agent = own["agent_selection"]
        if own["terminations"][agent] or own["truncations"][agent]:
            self._was_dead_step(action)
            return
        if agent in own["_decoders"]:
            action = own["_decoders"][agent](action)
        if own["_env"] is not own["multi"]:  # values are checked: at once, and not when the last agent has acted
            validate(self.multi.action_spec[agent], action, f"action[{agent!r}]")
        actions, acting = own["_actions"], own["_acting"]
        actions[agent] = action
        if len(actions) < len(acting):
            own["_cumulative_rewards"][agent] = 0
            own["agent_selection"], own["rewards"] = acting[len(actions)], dict.fromkeys(own["rewards"], 0)
            return
        try:
            observations, rewards, terminated, truncated, discounts, infos = own["_step"](actions)
        except BaseException:
            own["_actions"] = {**actions}  # a copy; if the core refused an action, it can be replaced
            raise
        if terminated is not None:
            infos = with_discounts(infos, discounts, terminated)
        if COMMON in infos:
            infos = agents_infos(infos)
        collected, cumulative = own["_cumulative_rewards"], {**rewards}
        if len(actions) < len(collected):
            for waiting, before in collected.items():
                if waiting not in actions:
                    cumulative[waiting] = before + rewards[waiting]
        if terminated is not None or len(acting) < len(rewards) or own["multi"].turn is not None:
            own["_acting"] = acting = own["multi"].acting
            if len(acting) < len(infos):
                infos = self._with_masks(infos, acting)
        if acting:
            own["agent_selection"] = acting[0]
        own["_actions"], own["_observations"], own["_cumulative_rewards"] = {}, observations, cumulative
        own["rewards"], own["infos"] = rewards, infos
        if terminated is not None:  # in a quiet step, the agents and their flags stay the same
            # Copies, because PettingZoo's code removes ended agents from them.
            own["agents"], own["terminations"], own["truncations"] = [*rewards], {**terminated}, {**truncated}
            own["rewards"], own["infos"] = {**rewards}, {**infos}
            self._deads_step_first()

    def _with_masks(self, infos: Mapping[Any, Any], acting: tuple[Any, ...]) -> dict[Any, Any]:
        """Adds a mask to the info of every agent if any agent has one, as PettingZoo's wrappers expect.

        The mask of an agent that does not act is all zeros.
        """
        if acting:
            self._has_masks = MASK in infos[acting[0]]
        specs = self.multi.action_spec if self._has_masks else {}
        nothing = {
            agent: {MASK: np.zeros(spec.n, np.int8)}
            for agent, spec in specs.items()
            if isinstance(spec, Discrete) and agent in infos and agent not in acting
        }
        return {agent: {**nothing.get(agent, {}), **info} for agent, info in infos.items()}

    def observe(self, agent: Any) -> Any:
        own = self.__dict__
        seen, encoders = own["_observations"], own["_encoders"]
        seen = seen[agent] if agent in seen else own["multi"].observation(agent)
        return encoders[agent](seen) if agent in encoders else seen
