"""Exports core environments to PettingZoo's AEC API. See `envoi.adapters.pettingzoo_aec`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from pettingzoo import AECEnv

from envoi import Discrete, EpisodeError, LossyConversion, MultiEnv, validate
from envoi.protocol.env import ENDED, NOT_RESET
from envoi.protocol.multi_env import COMMON, MASK

from ..pettingzoo.form import NAME as PETTINGZOO
from ..pettingzoo.form import Form, acts_at_once, agents_infos
from ..shared.discounts import with_discounts

NAME = "pettingzoo_aec"


def refused_rewards(multi: MultiEnv) -> list[LossyConversion]:
    """Returns an error for each agent whose rewards AEC cannot sum: those that are not one array."""
    hint = "AEC rewards are summed; make it one array"
    return [
        LossyConversion(f"reward[{agent!r}]", "type", repr(spec), PETTINGZOO, hint)
        for agent, spec in multi.reward_spec.items()
        if isinstance(spec, (dict, list, tuple))
    ]


class ToPettingZooAEC(Form, AECEnv[Any, Any, Any]):
    """A core environment as a PettingZoo AEC one.

    Args:
        core: The core environment, of one agent or of several.
        validate: If True, every value is checked against its spec.

    Attributes:
        core: The core environment.
        multi: The core environment as one of several agents.
        agents: The agents in play, and those that have ended but not had their last turn. This and the following
            attributes exist from the first reset on. PettingZoo's own code changes this list.
        agent_selection: The agent whose turn it is.
        rewards: The rewards of the last step, by agent.
        terminations: The flags, by agent.
        truncations: The flags, by agent.
        infos: The infos, by agent.
    """

    _framework = NAME
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
        """Starts a new episode; see `pettingzoo.AECEnv.reset`.

        Args:
            seed: The seed of all random streams, an integer of at least 0; None to continue them.
            options: The options for the core.
        """
        self._observations, infos = self._env.reset(seed=seed, options=options)
        multi = self.multi
        self.agents = agents = list(multi.agents)
        self.rewards = dict.fromkeys(agents, 0)
        self._cumulative_rewards = dict.fromkeys(agents, 0)
        self.terminations, self.truncations = dict.fromkeys(agents, False), dict.fromkeys(agents, False)
        self._acting, self._actions = multi.acting, {}
        self.infos = self._with_masks(agents_infos(infos))
        self.agent_selection = self._acting[0]
        self._skip_agent_selection = None
        self.metadata["is_parallelizable"] = multi.turn is None

    def step(self, action: Any) -> None:
        """Acts for `agent_selection`; see `pettingzoo.AECEnv.step`.

        Args:
            action: A value of the agent's action space; None if it has ended.

        Raises:
            EpisodeError: The step is before the first reset, or after the end.
            ValueError: An agent that has ended acts.
        """
        if not getattr(self, "agents", None):
            raise EpisodeError(f"step: {ENDED if hasattr(self, 'agents') else NOT_RESET}")
        agent = self.agent_selection
        if self.terminations[agent] or self.truncations[agent]:
            self._was_dead_step(action)
            return
        if agent in self._decoders:
            action = self._decoders[agent](action)
        if self._env is not self.multi:  # values are checked: at once, and not when the last agent has acted
            validate(self.multi.action_spec[agent], action, f"action[{agent!r}]")
        actions, acting = self._actions, self._acting
        actions[agent] = action
        if len(actions) == len(acting):
            self._step_core(actions)
            return
        self.agent_selection = acting[len(actions)]
        self._cumulative_rewards[agent] = 0
        self.rewards = dict.fromkeys(self.rewards, 0)

    def _step_core(self, actions: dict[Any, Any]) -> None:
        """Steps the core with the actions that have been collected."""
        try:
            observations, rewards, terminated, truncated, discounts, infos = self._step(actions)
        except BaseException:
            self._actions = {**actions}  # a copy; if the core refused an action, it can be replaced
            raise
        new: dict[str, Any] = {"_actions": {}, "_observations": observations}
        # In a quiet step the agents and their flags stay the same.
        if terminated is not None:
            new |= {"agents": [*rewards], "terminations": terminated, "truncations": truncated}
            infos = with_discounts(infos, discounts, terminated)
        if COMMON in infos:
            infos = agents_infos(infos)
        collected, cumulative = self._cumulative_rewards, {**rewards}
        if len(actions) < len(collected):
            for waiting, before in collected.items():
                if waiting not in actions:
                    cumulative[waiting] = before + rewards[waiting]
        self._acting = acting = self.multi.acting
        if acting:
            new["agent_selection"] = acting[0]
        if len(acting) < len(infos):
            infos = self._with_masks(infos)
        # At once, because a form sets one attribute slowly, see `OpenForm`.
        vars(self).update(new, _cumulative_rewards=cumulative, rewards=rewards, infos=infos)
        if terminated is not None and (True in terminated.values() or True in truncated.values()):
            # Copies, because PettingZoo's code removes ended agents from them.
            self.rewards, self.infos = {**rewards}, {**infos}
            self.terminations, self.truncations = {**terminated}, {**truncated}
            self._deads_step_first()

    def _with_masks(self, infos: Mapping[Any, Any]) -> dict[Any, Any]:
        """Returns infos in which every agent has a mask if any agent has, as PettingZoo's wrappers expect.

        The mask of an agent that does not act is all zeros.
        """
        if self._acting:
            self._has_masks = MASK in infos[self._acting[0]]
        specs = self.multi.action_spec if self._has_masks else {}
        nothing = {
            agent: {MASK: np.zeros(spec.n, np.int8)}
            for agent, spec in specs.items()
            if isinstance(spec, Discrete) and agent in infos and agent not in self._acting
        }
        return {agent: {**nothing.get(agent, {}), **info} for agent, info in infos.items()}

    def observe(self, agent: Any) -> Any:
        """Returns an agent's current observation, or its final one if it has ended."""
        seen = self._observations
        seen = seen[agent] if agent in seen else self.multi.observation(agent)
        return self._encoders[agent](seen) if agent in self._encoders else seen
