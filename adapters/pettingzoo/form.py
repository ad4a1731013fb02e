"""Exports core environments to PettingZoo's Parallel API. See `envoi.adapters.pettingzoo`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pettingzoo import ParallelEnv

from envoi.protocol.multi_env import COMMON

from ..shared.discounts import with_discounts
from .form_base import ACTIVE, ACTIVES, Form, agents_infos


class ToPettingZoo(Form, ParallelEnv[Any, Any, Any]):
    """A core environment as a PettingZoo Parallel one.

    Args:
        core: The core environment, of one agent or of several.
        validate: If True, every value is checked against its spec.

    Attributes:
        core: The core environment.
        multi: The core environment as one of several agents.
    """

    @property
    def agents(self) -> list[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The agents in play; a new list each time."""
        return [*self.multi.agents]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Starts a new episode; see `pettingzoo.ParallelEnv.reset`.

        Args:
            seed: The seed of all random streams, an integer of at least 0; None to continue them.
            options: The options for the core.

        Returns:
            The observations and the infos, by agent.
        """
        observations, infos = self._env.reset(seed=seed, options=options)
        agents, turn = self.multi.agents, self.multi.turn
        infos = agents_infos(infos)
        return self._all(observations, agents), infos if turn is None else self._with_turn(infos, turn)

    def step(self, actions: Mapping[Any, Any]) -> tuple[dict[Any, Any], ...]:
        """Acts once; see `pettingzoo.ParallelEnv.step`.

        Args:
            actions: The actions, by agent. Those of waiting agents are ignored, and may be left out.

        Raises:
            EpisodeError: The step is before the first reset or after the end, or an agent is missing or not in play.
        """
        turn = None if self._at_once else self.multi.turn
        sent = actions if turn is None else self._without_waiting(actions, turn)
        if decoders := self._decoders:
            sent = {agent: decoders[agent](one) if agent in decoders else one for agent, one in sent.items()}
        observations, rewards, terminated, truncated, discounts, infos = self._step(sent)
        if self._encoders or len(observations) != len(rewards):
            observations = self._all(observations, rewards)
        if terminated is None:
            terminated, truncated = dict.fromkeys(rewards, False), dict.fromkeys(rewards, False)
        else:
            infos = with_discounts(infos, discounts, terminated)
        if COMMON in infos:
            infos = agents_infos(infos)
        if not self._at_once and (turn := self.multi.turn) is not None:
            infos = self._with_turn(infos, turn)
        return observations, rewards, terminated, truncated, infos

    def _without_waiting(self, actions: Mapping[Any, Any], turn: tuple[Any, ...]) -> dict[Any, Any]:
        waiting = set(self.multi.agents).difference(turn)
        return {agent: action for agent, action in actions.items() if agent not in waiting}

    def _all(self, observations: Mapping[Any, Any], agents: Any) -> dict[Any, Any]:
        """Returns the observations of agents, also of waiting ones."""
        look, encoders = self.multi.observation, self._encoders
        seen = {agent: observations[agent] if agent in observations else look(agent) for agent in agents}
        return {agent: encoders[agent](one) if agent in encoders else one for agent, one in seen.items()}

    def _with_turn(self, infos: Mapping[Any, Any], turn: tuple[Any, ...]) -> dict[Any, Any]:
        entry = {ACTIVE: turn[0]} if len(turn) == 1 else {ACTIVES: turn}
        playing = self.multi.agents
        return {agent: {**info, **entry} if agent in playing else info for agent, info in infos.items()}
