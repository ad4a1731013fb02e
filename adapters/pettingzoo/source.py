"""Imports environments of PettingZoo's Parallel API. See `envoi.adapters.pettingzoo`."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from sys import getrefcount
from typing import Any

import numpy as np
from numpy import array, ndarray
from pettingzoo import ParallelEnv

from envoi import Array, MultiReset, SpecError
from envoi.lane_values import stack
from envoi.protocol.multi_env import SYNTHETIC, MultiStepValues
from envoi.protocol.roster import Roster

from ..shared.arrival import IN_DICT, IN_LOCAL, IN_TUPLE, Copy
from ..shared.copying import HOLDERS, owned
from .form_base import ACTIVE, ACTIVES, acts_at_once
from .source_base import FromZoo


class FromPettingZoo(FromZoo):
    """A PettingZoo Parallel environment as a core one.

    Args:
        source: The PettingZoo environment, possibly wrapped.
        copy: Which observations to copy, see `from_pettingzoo`.

    Attributes:
        source: The PettingZoo environment.
    """

    turns_in_infos = True
    source: ParallelEnv[Any, Any, Any]

    _memory = ("_listed",)
    _planned = ("_pick", "_places", "_row_spec", "_row_dtype")

    def __init__(self, source: ParallelEnv[Any, Any, Any], copy: Copy = "auto") -> None:
        super().__init__(source, copy, True)
        self._listed: list[Any] | None = None  # the source's agents while all of them act
        if self.core_inside is not None:
            self.at_once = acts_at_once(self.core_inside)

    def _plan(self) -> None:
        super()._plan()
        agents = self.possible_agents
        # Reads the values of all agents at once; `itemgetter` of a single key would not return a tuple.
        self._pick: Any = itemgetter(*agents) if len(agents) > 1 else lambda values: [values[one] for one in agents]
        self._places = tuple(enumerate(agents))
        self._row_spec = spec = self.observation_spec[agents[0]] if agents else None
        self._row_dtype = np.dtype(spec.dtype.type) if isinstance(spec, Array) else None

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        observations, infos = self._begin(seed, options)
        held = getrefcount(observations) > IN_LOCAL
        listed = self.source.agents
        agents = self._in_play(listed)
        arrived = self._taken(observations, agents, held)
        self._saw = {**arrived}
        self._enter_listed(self._first_roster(agents, self._turn_in(infos, agents)), listed)
        own_infos = self._own_infos(infos, agents)
        return MultiReset(arrived if self._roster.turn is None else self._for_turn(arrived, own_infos, ()), own_infos)

    def step_values(self, actions: Mapping[Any, Any]) -> MultiStepValues:
        # A new mapping in the core's order, because the source may keep it, or change it in place.
        sent = {**self._slots, **actions}
        if len(sent) != self._awaited or len(actions) != self._awaited:
            sent = self._sorted(actions)
        if encoders := self._encoders:
            sent = {agent: encoders[agent](one) if agent in encoders else one for agent, one in sent.items()}
        before = None if self._rewarder is None else self.state
        observations, rewards, terminations, truncations, infos = step = self.source.step(sent)
        held, false = getrefcount(observations) > IN_TUPLE, self._false
        if terminations != false or truncations != false or self.source.agents != self._listed or before is not None:
            return self._any_step(step, held, before, actions)
        news, most = (None, 0) if held else (observations, IN_DICT)
        arrived: dict[Any, Any] = {}
        own_rewards: dict[Any, Any] = {}
        own_infos: dict[Any, Any] = {}
        try:
            for agent, dtype in self._each:
                # The common case of `take`: an array that nothing but this frame holds.
                one = observations[agent]
                if (
                    type(one) is not ndarray
                    or one.dtype is not dtype
                    or getrefcount(one) > most
                    or not one.flags.owndata
                ):
                    one = news = None
                    one = self._takes[agent](observations[agent], held)
                paid = rewards[agent]
                arrived[agent] = one
                own_rewards[agent] = paid if type(paid) not in HOLDERS else owned(paid)
                own_infos[agent] = {}
        except KeyError:  # an agent is left out
            return self._any_step(step, held, before, actions)
        if infos != self._silent:
            entry = infos.get(self._roster.playing[0])
            if entry and (ACTIVE in entry or ACTIVES in entry):
                return self._any_step(step, held, before, actions)
            self._seen.update(arrived)
            return self._quiet(arrived, own_rewards, infos)
        if news is None:
            self._seen.update(arrived)
        else:
            self._news = news
        return arrived, own_rewards, None, None, None, own_infos

    def step_rows(self, actions: Sequence[Any]) -> tuple[Any, ...]:
        """See `envoi.protocol.fast_steps.rows_step`; for agents that see arrays, all of one shape."""
        if self._rewarder is not None or self._encoders or self._awaited != len(self._places):
            return self.step_values(dict(zip(self.possible_agents, actions, strict=True)))
        sent: dict[Any, Any] = {}
        for place, agent in self._places:
            sent[agent] = actions[place]
        observations, rewards, terminations, truncations, infos = step = self.source.step(sent)
        held, false = getrefcount(observations) > IN_TUPLE, self._false
        if terminations != false or truncations != false or self.source.agents != self._listed:
            return self._any_step(step, held, None, sent)
        try:
            # One array of all observations is a copy, even if the source holds the single ones.
            rows, paid = array(self._pick(observations)), self._pick(rewards)
        except (KeyError, ValueError):  # an agent is left out, or the shapes differ
            return self._any_step(step, held, None, sent)
        own_infos, discounts = None, {}
        if infos != self._silent:
            entry = infos.get(self._roster.playing[0])
            if entry and (ACTIVE in entry or ACTIVES in entry):
                return self._any_step(step, held, None, sent)
            own_infos = self._own_infos(infos, self._roster.playing, discounts)
            if discounts:
                return self._any_step(step, held, None, sent)
        if rows.dtype is not self._row_dtype:
            rows = stack(
                self._row_spec, [self._takes[agent](observations[agent], True) for agent in self._roster.playing]
            )
        self._news = rows.tobytes()  # the caller may write into the array
        return rows, paid, own_infos

    def _any_step(self, step: tuple[Any, ...], held: bool, before: Any, actions: Mapping[Any, Any]) -> MultiStepValues:
        """Returns the core's step for any step of the source, quiet or not.

        Args:
            step: The five mappings of the source.
            held: True if the source holds the mapping of observations.
            before: The state before the step; None unless a rewarder is set.
            actions: The actions, by agent.
        """
        observations, rewards, terminations, truncations, infos = step
        before_step, listed = self._roster, self.source.agents
        flagged = {agent for flags in (terminations, truncations) for agent, flag in flags.items() if flag}
        # An agent that has a flag has ended, even if the source still lists it.
        now = tuple(agent for agent in self._in_play(listed) if agent not in flagged)
        known, gone = before_step.playing, before_step.ended
        ended = [a for a in flagged if a in known or (a not in gone and a in observations)]
        roster = self._next_roster(now, ended, self._turn_in(infos, now))
        affected = roster.affected(before_step)
        blind = [agent for agent in ended if observations.get(agent) is None]
        arrived = self._taken(observations, [agent for agent in affected if agent not in blind], held)
        if blind:
            arrived = {agent: self._last_look(agent) if agent in blind else arrived[agent] for agent in affected}
        self._news = None  # `arrived` is newer
        terminated = {agent: bool(terminations.get(agent, False)) for agent in affected}
        truncated = {agent: bool(truncations.get(agent, False)) for agent in affected}
        discounts = {agent: 0.0 if dead else 1.0 for agent, dead in terminated.items()}
        own_rewards = {agent: owned(rewards.get(agent, 0.0)) for agent in affected}
        self._seen.update(arrived)
        self._enter_listed(roster, listed)
        if before is not None:
            own_rewards = self._rewarded(own_rewards, before, actions)
        own_infos = self._own_infos(infos, affected, discounts)
        for agent in blind:
            own_infos[agent][SYNTHETIC] = True
        if roster.turn is not None:
            arrived = self._for_turn(arrived, own_infos, ended)
        return arrived, own_rewards, terminated, truncated, discounts, own_infos

    def _taken(self, observations: Mapping[Any, Any], agents: Collection[Any], held: bool) -> dict[Any, Any]:
        self._refuse_missing(observations, agents)
        return {agent: self._takes[agent](observations[agent], held) for agent in agents}

    def _refuse_missing(self, observations: Mapping[Any, Any], agents: Collection[Any]) -> None:
        if missing := [agent for agent in agents if agent not in observations]:
            raise SpecError(
                f"observation: expected one of each agent in play from {self.source}, got none of {missing}"
            )

    def _turn_in(self, infos: Mapping[Any, Any], playing: tuple[Any, ...]) -> tuple[Any, ...] | None:
        """Returns the agents in play that act next, if the infos name them; None for all."""
        if not playing:
            return None if self._roster.turn is None else ()
        entry = infos.get(playing[0]) or {}
        if ACTIVES in entry:
            return tuple(entry[ACTIVES])
        return (entry[ACTIVE],) if entry.get(ACTIVE) in playing else None

    def _enter_listed(self, roster: Roster, listed: Collection[Any]) -> None:
        """Calls `_enter`, and keeps the source's list of agents, which is the same until an agent ends or joins."""
        # A copy, because the source may change its list in place; None if it lists more agents than are in play.
        self._listed = list(listed) if roster.turn is None and len(listed) == len(roster.playing) else None
        self._enter(roster)

    def _for_turn(self, arrived: dict[Any, Any], own_infos: dict[Any, Any], ended: Collection[Any]) -> dict[Any, Any]:
        """Returns the observations of the agents that act next or have ended; takes the turn out of the infos."""
        acting = self._roster.acting
        for info in own_infos.values():
            info.pop(ACTIVE, None)
            info.pop(ACTIVES, None)
        return {agent: one for agent, one in arrived.items() if agent in acting or agent in ended}
