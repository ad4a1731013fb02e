"""The bases of multi-agent forms and importers with gymnasium's spaces, for PettingZoo and RLlib."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np
from gymnasium import spaces

from envoi import Discrete, EpisodeError, LossyConversion, MultiEnv, MultiStep, SpecError, Streams, zeros
from envoi.protocol.env import refuse_masks
from envoi.protocol.fast_steps import fast_step
from envoi.protocol.multi_env import COMMON, MASK, SYNTHETIC, MultiStepValues, full_multi_step
from envoi.protocol.roster import HasRoster, Roster
from envoi.rewards.rewarder import reward_step
from envoi.seeding import check_seed
from envoi.spec import SpecTree
from envoi.steps.program import VALUES, Program, Stage, library_name
from envoi.steps.record import NOT_BEGUN

from ..shared.arrival import Copy, incoming, is_number, owned
from ..shared.exported import OpenForm, several_agents
from ..shared.imported import Imported, MultiCoreHolder, takes_options
from .specs import decoder, encoder, from_space, like_source, to_space


def agent_space(spec: SpecTree, path: str, target: str) -> spaces.Space[Any]:
    """Returns gymnasium's space of an agent's spec; errors name the framework that takes it."""
    try:
        return to_space(spec, path)
    except LossyConversion as error:
        raise LossyConversion(error.path, error.field, error.source, target, error.hint) from error


class AgentsForm(OpenForm, MultiCoreHolder):
    """Base of multi-agent forms."""

    _planned = ("_encoders", "_decoders", "_encode_state", "_step")

    def _inner(self) -> MultiEnv:
        self.multi = several_agents(self.core)
        return self.multi

    def _plan(self) -> None:
        multi, exact = self.multi, self._env is not self.multi
        # Only the agents whose values need a conversion.
        self._encoders = {agent: f for agent, spec in multi.observation_spec.items() if (f := encoder(spec))}
        self._decoders = {
            agent: f for agent, spec in multi.action_spec.items() if (f := decoder(spec, f"action[{agent!r}]", exact))
        }
        self._encode_state = None if multi.state_spec is None else encoder(multi.state_spec)
        self._step = fast_step(self._env)

    def _space_by_agent(self, what: str) -> dict[Any, spaces.Space[Any]]:
        """Returns the spaces of all agents' observations or actions."""
        made = {agent: self._space(what, agent) for agent in self.multi.possible_agents}
        return {agent: like_source(space, self.multi, what, agent) for agent, space in made.items()}

    def _space(self, what: str, agent: Any) -> spaces.Space[Any]:
        return agent_space(getattr(self.multi, f"{what}_spec")[agent], f"{what}[{agent!r}]", self._framework)

    @property
    def possible_agents(self) -> list[Any]:
        """All possible agents; a new list each time."""
        return list(self.multi.possible_agents)

    def state(self) -> Any:
        """Returns the core's state, a value of `state_space` if there is one."""
        state = self.multi.state
        return state if self._encode_state is None else self._encode_state(state)


class ImportedAgents(HasRoster, Imported, MultiEnv):
    """Base of multi-agent importers."""

    _memory = ("_roster", "_saw")
    _planned = ("_takes", "_encoders", "_masked")
    _form_kind = MultiCoreHolder

    _gathers: ClassVar[bool] = True
    """True if infos of no agent belong to all."""

    def __init__(self, source: Any, copy: Copy = "auto") -> None:
        self._roster = Roster(())
        self._saw: dict[Any, Any] = {}
        super().__init__(source, copy)

    @property
    def core_inside(self) -> MultiEnv | None:
        return None if self._form_inside is None else self._form_inside.multi

    @abstractmethod
    def _agents(self) -> tuple[Any, ...]:
        """Returns the possible agents of the source."""

    @abstractmethod
    def _space(self, what: str, agent: Any) -> spaces.Space[Any]:
        """Returns the source's `"observation"` or `"action"` space of a possible agent."""

    @abstractmethod
    def _layers(self) -> list[Any]:
        """Returns the layers of the source, outermost first."""

    def native_space(self, what: str, agent: Any = None) -> Any:
        """Returns the source's `"observation"` or `"action"` space of an agent, or None for an unknown agent."""
        return self._space(what, agent) if agent in self.possible_agents else None

    def _describe(self) -> None:
        source = self.source
        agents = self.possible_agents = self._agents()
        self._roster = Roster(agents)
        self.observation_spec, self.action_spec = (
            {agent: from_space(self._space(what, agent), f"{what}_space({agent!r})") for agent in agents}
            for what in ("observation", "action")
        )
        # Made here once; the class would make new ones at each look.
        self.reward_spec, self.discount_spec = self.reward_spec, self.discount_spec
        self.has_place = takes_options(source.reset)
        self.metadata = deepcopy(dict(getattr(source, "metadata", None) or {}))
        self.render_mode = getattr(source, "render_mode", None)

    def _plan(self) -> None:
        self._takes = {agent: incoming(spec, self._copy) for agent, spec in self.observation_spec.items()}
        # A copy, because the source may keep an action, or change it in place.
        encoders = {agent: encoder(spec, True, f"action[{agent!r}]") for agent, spec in self.action_spec.items()}
        self._encoders = {agent: encode for agent, encode in encoders.items() if encode is not None}
        # The agents whose mask is in their observation; forms of envoi have it in the info already.
        agents = self.possible_agents if self._form_inside is None else ()
        self._masked = tuple(agent for agent in agents if self._shows_mask(agent))

    def _shows_mask(self, agent: Any) -> bool:
        spec = self.observation_spec[agent]
        return isinstance(spec, dict) and MASK in spec

    def _parts(self) -> list[Any]:
        each = [self._space(what, agent) for agent in self.possible_agents for what in ("observation", "action")]
        return [*self._layers(), *{id(space): space for space in each}.values()]

    def _check_begun(self, what: str) -> None:
        if self._roster.phase is NOT_BEGUN:
            raise EpisodeError(f"{what}: {NOT_BEGUN}")

    def _leave_episode(self) -> None:
        self._roster = Roster(self.possible_agents)

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> Any:
        """Resets the source and returns its result. The caller then sets the agents that play in the new episode."""
        seed = check_seed(seed)
        if seed is not None:
            self._streams = Streams(seed)
        seed = self._source_seed(seed)
        result = self._reset_source(seed, options)
        self._roster, self._saw = Roster(self.possible_agents), {}
        return result

    def _source_seed(self, seed: int | None) -> int | None:
        """Converts the seed of the core's reset to the seed for the source's reset."""
        return seed

    def step(self, actions: Mapping[Any, Any], restart: Any = None, hold: Any = None) -> MultiStep:
        if restart is not None or hold is not None:
            refuse_masks(restart, hold)
        return full_multi_step(self.source_step(actions))

    def step_program(self) -> Program:
        """Returns the program that steps the source, for the engine to run."""
        title = f"{library_name(type(self), 'an importer')}: a step of the source"
        call = f"{', '.join(VALUES)} = env.source_step(action)"
        return Program((Stage(title, call, {"env": self}, guarded=True),), self.step_record)

    @abstractmethod
    def source_step(self, actions: Mapping[Any, Any]) -> MultiStepValues:
        """Steps the source. Returns None for the flags and the discounts if no agent ends or joins."""

    @property
    def _seen(self) -> dict[Any, Any]:
        """The latest observation of each agent that has been in play."""
        return self._saw

    def observation(self, agent: Any) -> Any:
        seen = self._seen
        if agent not in seen:
            raise self._roster.unseen(agent)
        return seen[agent]

    def _source_state(self) -> Any:
        return dict(self._seen)

    def _whole_step(
        self,
        affected: Sequence[Any],
        observations: dict[Any, Any],
        blind: Collection[Any],
        rewards: Mapping[Any, Any],
        terminated: Mapping[Any, Any],
        truncated: Mapping[Any, Any],
        infos: Mapping[Any, Any],
        before: Any,
        actions: Mapping[Any, Any],
    ) -> MultiStepValues:
        """Returns the values of a step in which agents may end or join.

        Of the agents that it affects, `blind` have ended without a final observation, and get the previous one again.
        The other arguments are the source's, which may have entries of more agents, or of fewer.
        """
        seen = self._seen
        for agent in blind:
            observations[agent] = seen[agent] if agent in seen else zeros(self.observation_spec[agent])
        if blind:
            observations = {agent: observations[agent] for agent in affected if agent in observations}
        seen.update(observations)
        dead = {agent: bool(terminated.get(agent, False)) for agent in affected}
        cut = {agent: bool(truncated.get(agent, False)) for agent in affected}
        discounts: dict[Any, Any] = {agent: 0.0 if one else 1.0 for agent, one in dead.items()}
        paid = {agent: rewards.get(agent) for agent in affected}
        own_rewards = {agent: 0.0 if one is None else owned(one) for agent, one in paid.items()}
        own_rewards = self._rewarded(own_rewards, before, actions)
        own_infos = self._own_infos(infos, affected, discounts)
        for agent in blind:
            own_infos[agent][SYNTHETIC] = True
        return observations, own_rewards, dead, cut, discounts, own_infos

    def _rewarded(self, rewards: dict[Any, Any], before: Any, actions: Mapping[Any, Any]) -> dict[Any, Any]:
        """Returns the rewarder's rewards (0 for an agent that it leaves out), or the source's without a rewarder."""
        if self._rewarder is None:
            return rewards
        given = reward_step(self._rewarder, rewards, before, actions, self.state)
        if not isinstance(given, Mapping):
            raise SpecError(f"rewarder: expected a mapping from agents, got {given!r}")
        return {agent: given.get(agent, 0.0) for agent in rewards}

    def _own_infos(
        self, infos: Mapping[Any, Any], affected: Sequence[Any], discounts: dict[Any, Any] | None = None
    ) -> dict[Any, Any]:
        """Converts the source's infos for the core."""
        own_infos: dict[Any, Any] = {}
        common: dict[Any, Any] = {}
        known = 0
        for agent in affected:
            entry = infos.get(agent)
            known += agent in infos
            own = own_infos[agent] = {**entry} if entry else {}
            if own:
                if MASK in own:  # recorded together with the observation, so it must not change
                    own[MASK] = owned(own[MASK])
                if discounts is not None and "discount" in own and is_number(own["discount"]):
                    discounts[agent] = own.pop("discount")
                if isinstance(own.get(COMMON), dict):
                    common = own.pop(COMMON)
        for agent in self._masked:
            if agent in self._roster.acting and MASK not in own_infos[agent]:
                kind = np.int8 if isinstance(self.action_spec[agent], Discrete) else None
                own_infos[agent][MASK] = np.array(self._seen[agent][MASK], kind)
        if len(infos) > known:  # keys of other agents, or of none
            for key, entry in infos.items():
                if key == COMMON:
                    common = {**common, **entry}
                elif key not in self.observation_spec and self._gathers:
                    common = {**common, key: entry}
        if common:
            own_infos[COMMON] = {**common}
        return own_infos
