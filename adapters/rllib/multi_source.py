"""Imports multi-agent environments that were written for RLlib.

| RLlib | core |
|---|---|
| the keys of the observations | the agents that act next |
| an agent's own flag, or without one the flag of `"__all__"` | how it ended |
| all agents ended, `"__all__"` or not | the end of the episode |
| `agents`, and every agent with an observation or reward | the agents in play, until they end |
| no reward, or None | 0 |
| `infos["__common__"]` | the same |
| no final observation | the last one again, or zeros without one, marked by `info["synthetic_observation"]` |

An agent that disappears from `agents` without an end waits until the episode ends, as it does for RLlib.

What is refused: spaces that `envoi.adapters.gymnasium` refuses, agents that are not among the possible ones, and data
for an agent after its end.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import gymnasium
import numpy as np

from envoi import EpisodeError, MultiReset, MultiStep, SpecError
from envoi.protocol.multi_env import MultiStepValues

from ..gymnasium.agents import ImportedAgents
from ..gymnasium.source import layers_and_spaces, replay_seeds
from ..shared.arrival import is_held
from .form import NAME
from .masks import shows_mask
from .multi_form import ALL


class FromRLlibMulti(ImportedAgents):
    """A `MultiAgentEnv` as a multi-agent core environment.

    If the source is a form of envoi, possibly inside gymnasium's wrappers, its `last` has what RLlib's steps lack: each
    agent's own flags, discounts, and infos of waiting agents.
    """

    _framework = NAME
    _gathers = False

    def _agents(self) -> tuple[Any, ...]:
        native = self.unwrapped
        nested = getattr(native, "observation_space", None)
        declared = getattr(native, "observation_spaces", None) or getattr(nested, "spaces", None)
        ids = getattr(native, "_agent_ids", None) or set()
        agents = getattr(native, "possible_agents", None) or getattr(native, "agents", None) or ()
        if isinstance(ids, set) and set(agents) <= ids and ids:
            # RLlib made the list from a set, whose order differs between processes.
            agents = sorted(ids, key=str)
        if not agents and isinstance(declared, Mapping):
            agents = tuple(declared)
        if not agents:
            raise SpecError(f"{native}: expected possible_agents, or observation_spaces of each agent; it has neither")
        return tuple(agents)

    def _space(self, what: str, agent: Any) -> gymnasium.Space[Any]:
        native = self.unwrapped
        try:
            space = getattr(native, f"get_{what}_space")(agent)
        except KeyError:
            space = None
        if space is None:
            raise SpecError(f"{native}: expected a space in {what}_spaces for the possible agent {agent!r}, got none")
        return space

    def _describe(self) -> None:
        super()._describe()
        core = self.core_inside
        if core is not None:
            self.reward_spec, self.discount_spec = dict(core.reward_spec), dict(core.discount_spec)
            self.state_spec = core.state_spec

    def _shows_mask(self, agent: Any) -> bool:
        return shows_mask(self.observation_spec[agent], self.action_spec[agent])

    def _source_seed(self, seed: int | None) -> int | None:
        if seed is not None:
            replay_seeds(self.unwrapped)
        return seed

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        observations, infos = self._begin(seed, options or None)
        held = is_held(observations)
        form, unbegun = self._form_inside, self._roster
        if form is not None:
            begun = form.last
            self._roster = unbegun.begin(form.multi.agents, form.multi.turn)
            observed, infos = self._taken(form.encode_observations(*begun), True), begun.infos
        else:
            unbegun.check_possible(observations, "reset")
            observed = self._taken(observations, held)
            playing = unbegun.order({*self._listed(), *observed})
            self._roster = unbegun.begin(playing, _turn_of(playing, observed))
        self._saw = dict(observed)
        return MultiReset(observed, self._own_infos(infos, self._roster.playing))

    def source_step(self, actions: Mapping[Any, Any]) -> MultiStepValues:
        self._roster.check_actions(actions)
        encode = self._encoders
        before = None if self._rewarder is None else self.state
        sent = {agent: encode[agent](action) if agent in encode else action for agent, action in actions.items()}
        step = self.source.step(sent)
        observations = step[0]
        held = is_held(observations, 2)
        if self._form_inside is None:
            return self._step_of_foreign(step, held, before, actions)
        return self._step_of_form(before, actions)

    def _step_of_form(self, before: Any, actions: Mapping[Any, Any]) -> MultiStepValues:
        form = self._form_inside
        step: MultiStep = form.last
        ended = [agent for agent in step.terminated if step.terminated[agent] or step.truncated[agent]]
        core, roster = form.multi, self._roster
        playing = core.agents
        self._roster = roster.after(None if playing == roster.playing else playing, ended, core.turn)
        infos = {key: dict(info) for key, info in step.infos.items()}
        observed = self._taken(form.encode_observations(step.observations, step.infos), True)
        self._saw.update(observed)
        rewards = self._rewarded(step.rewards, before, actions)
        return observed, rewards, step.terminated, step.truncated, step.discounts, infos

    def _step_of_foreign(
        self, step: tuple[Mapping[Any, Any], ...], held: bool, before: Any, actions: Mapping[Any, Any]
    ) -> MultiStepValues:
        observations, rewards, terminateds, truncateds, infos = step
        roster = self._roster
        affected = roster.playing
        if new := {*observations, *rewards, *self._listed()}.difference(affected):
            reported = [agent for agent in (*observations, *rewards) if agent in new]
            roster.check_possible(reported, "step")
            roster.check_not_ended(reported, "step")
            affected = roster.order(new.union(affected))
        observed = self._taken(observations, held)
        of_all = bool(terminateds.get(ALL, False)), bool(truncateds.get(ALL, False))
        terminated: dict[Any, bool] = {}
        truncated: dict[Any, bool] = {}
        for agent in affected:
            own = bool(terminateds.get(agent, False)), bool(truncateds.get(agent, False))
            terminated[agent], truncated[agent] = own if True in own else of_all
        ended = [agent for agent in affected if terminated[agent] or truncated[agent]]
        blind = [agent for agent in ended if agent not in observed]  # RLlib repeats the last one too
        playing = tuple(agent for agent in affected if agent not in ended) if ended else affected
        self._roster = roster.after(None if playing is roster.playing else playing, ended, _turn_of(playing, observed))
        return self._whole_step(affected, observed, blind, rewards, terminated, truncated, infos, before, actions)

    def _listed(self) -> set[Any]:
        """Returns the agents that the source lists and that have not ended; some sources always list all."""
        listed = getattr(self.unwrapped, "agents", None) or ()
        return set(listed).intersection(self.possible_agents).difference(self._roster.ended)

    def _taken(self, observations: Mapping[Any, Any], held: bool) -> dict[Any, Any]:
        take = self._takes
        agents = tuple(observations)
        if agents != self._roster.playing:
            agents = self._roster.order(agents)
        return {agent: take[agent](observations[agent], held) for agent in agents}

    def observation(self, agent: Any) -> Any:
        is_playing = agent in self._roster.playing
        if self._form_inside is not None and is_playing and agent not in self.acting:
            return self._form_inside.observation(agent)
        if is_playing and agent not in self._saw:
            raise EpisodeError(f"observation: {agent!r} waits for its first one; RLlib's environments give it in time")
        return super().observation(agent)

    def _source_state(self) -> Any:
        """Returns the source's `state` (an attribute or a method), or the last observations if it has none."""
        state = getattr(self.unwrapped, "state", None)
        if callable(state):
            state = state()
        return super()._source_state() if state is None else deepcopy(state)

    def _source_rng(self) -> np.random.Generator:
        return self.unwrapped.np_random

    def _replace_rng(self, generator: np.random.Generator) -> None:
        self.unwrapped.np_random = generator

    def _layers(self) -> list[Any]:
        return layers_and_spaces(self.source)

    def _parts(self) -> list[Any]:
        return super()._parts() if self._form_inside is None else self._layers()


def _turn_of(playing: tuple[Any, ...], observed: Mapping[Any, Any]) -> tuple[Any, ...] | None:
    """Returns the agents that act next: those with an observation. Returns None if all agents in play have one."""
    acting = tuple(agent for agent in playing if agent in observed)
    return None if acting == playing else acting
