"""Imports environments of PettingZoo's AEC API. The table of conversions is in `envoi.adapters.pettingzoo_aec`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray
from pettingzoo import AECEnv
from pettingzoo.utils.wrappers import BaseWrapper

from envoi import EpisodeError, MultiReset
from envoi.protocol.multi_env import MASK, SYNTHETIC, MultiStepValues
from envoi.protocol.roster import Roster

from ..pettingzoo.source import FromZoo
from ..shared.arrival import HOLDERS, Copy, is_held, owned
from .form import NAME


class FromPettingZooAEC(FromZoo):
    """A PettingZoo AEC environment as a core one.

    Args:
        source: The PettingZoo environment, possibly wrapped.
        copy: Which observations to copy, see `from_pettingzoo_aec`.
        simultaneous: If True, a step is a whole cycle, in which each agent in play acts once.

    Attributes:
        source: The PettingZoo environment.
    """

    source: AECEnv[Any, Any, Any]

    _framework = NAME
    _memory = ("_current",)
    _planned = ("_selected",)

    def __init__(self, source: AECEnv[Any, Any, Any], copy: Copy = "auto", simultaneous: bool = False) -> None:
        super().__init__(source, copy, simultaneous)
        self._roster = Roster(self.possible_agents, turn=None if simultaneous else ())
        self._current: tuple[Any, ...] = ()  # the agents whose stored observation is up to date

    def _plan(self) -> None:
        super()._plan()
        self._native: Any = self._holder()

    def _prepare_turn(self) -> None:
        super()._prepare_turn()
        self._selected: Any = next(iter(self._roster.acting), None)

    def _holder(self) -> Any:
        """Returns the innermost layer with `rewards` and the like, because reading through wrappers is slower."""
        layer: Any = self.source
        names = ("agents", "agent_selection", "rewards", "terminations", "truncations", "infos")
        while isinstance(layer, BaseWrapper):
            if any(name in vars(layer) or hasattr(type(layer), name) for name in names):
                return self.source
            layer = layer.env
        return layer

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        self._begin(seed, options)
        self._native = native = self._holder()
        now = self._in_play(native.agents)
        self._enter(self._first_roster(now, self._turn_in(now, {})), native.agents)
        arrived = {agent: self._observed(agent) for agent in self._roster.acting}
        self._saw, self._current = dict(arrived), tuple(arrived)
        return MultiReset(arrived, self._own_infos(native.infos, now))

    def step_values(self, actions: Mapping[Any, Any]) -> MultiStepValues:
        if self.at_once:
            return self._cycle_step(actions)
        native, source, agent = self._native, self.source, self._selected
        if len(actions) != self._awaited or agent not in actions:
            self._sorted(actions)
        before = None if self._rewarder is None else self.state
        source.step(actions[agent] if agent not in self._encoders else self._encoders[agent](actions[agent]))
        rewards = native.rewards
        if before is not None or self._has_changed(native, rewards):
            return self._any_step(rewards, before, actions)
        agent = native.agent_selection
        # The common case of `take`, as in `FromPettingZoo`.
        one = source.observe(agent)
        if type(one) is not ndarray or one.dtype is not self._dtypes[agent] or is_held(one):
            one = self._takes[agent](one)
        self._selected, self._saw[agent], self._current = agent, one, (agent,)
        self._roster = roster = self._roster.with_turn((agent,))
        own_rewards, own_infos = {}, {}
        for each in roster.playing:
            paid = rewards[each]
            own_rewards[each] = paid if type(paid) not in HOLDERS else owned(paid)
            own_infos[each] = {}
        if native.infos != self._silent:
            return self._quiet({agent: one}, own_rewards, native.infos)
        return {agent: one}, own_rewards, None, None, None, own_infos

    def _cycle_step(self, actions: Mapping[Any, Any]) -> MultiStepValues:
        """Returns the result of `step_values` if all agents act at once."""
        native, look = self._native, self.source.observe
        if len({**self._slots, **actions}) != self._awaited or len(actions) != self._awaited:
            self._sorted(actions)
        before = None if self._rewarder is None else self.state
        rewards, values = self._cycle(actions), None
        if before is None and not self._has_changed(native, rewards):
            seen = {agent: look(agent) for agent in self._roster.playing}
            values, self._current = self._unchanged(seen, rewards, native.infos, False), self._roster.playing
        return self._any_step(rewards, before, actions) if values is None else values

    def _has_changed(self, native: Any, rewards: Mapping[Any, Any]) -> bool:
        """Returns True if an agent may have ended or joined."""
        false = self._false
        if native.terminations != false or native.truncations != false:
            return True
        return native.agents != self._listed or len(rewards) != len(false)

    def _any_step(self, rewards: Mapping[Any, Any], before: Any, actions: Mapping[Any, Any]) -> MultiStepValues:
        """Returns the core's step for any step of the source, quiet or not."""
        before_step, native = self._roster, self._native
        collected = {agent: owned(reward) for agent, reward in rewards.items()}  # the source may clear its own
        ended = self._buried(collected)
        listed = native.agents
        now = self._in_play(listed)
        roster = self._next_roster(now, ended, self._turn_in(now, {}))
        affected, acting = roster.affected(before_step), roster.acting
        self._enter(roster, listed)
        infos = {**native.infos, **{agent: info for agent, (_, _, _, info) in ended.items()}}
        terminated, truncated = dict.fromkeys(affected, False), dict.fromkeys(affected, False)
        discounts = dict.fromkeys(affected, 1.0)
        arrived: dict[Any, Any] = {}
        for agent in affected:
            if agent in ended:
                final, dead, cut, _ = ended[agent]
                arrived[agent] = self._last_look(agent) if final is None else final
                terminated[agent], truncated[agent], discounts[agent] = dead, cut, 0.0 if dead else 1.0
            elif agent in acting:
                arrived[agent] = self._observed(agent)
        self._seen.update(arrived)
        self._current = tuple(arrived)
        own_rewards = {agent: collected.get(agent, 0.0) for agent in affected}
        if before is not None:
            own_rewards = self._rewarded(own_rewards, before, actions)
        own_infos = self._own_infos(infos, affected, discounts)
        for agent, (final, *_) in ended.items():
            if final is None:
                own_infos[agent][SYNTHETIC] = True
        return arrived, own_rewards, terminated, truncated, discounts, own_infos

    def _observed(self, agent: Any) -> Any:
        arrived = self.source.observe(agent)  # a local variable, because the converter counts references
        return self._takes[agent](arrived)

    def _own_infos(
        self, infos: Mapping[Any, Any], affected: Sequence[Any], discounts: dict[Any, Any] | None = None
    ) -> dict[Any, Any]:
        own_infos = super()._own_infos(infos, affected, discounts)
        if self._form_inside is not None:
            acting = self._roster.acting
            for agent in affected:
                if agent not in acting and MASK in own_infos[agent] and not np.any(own_infos[agent][MASK]):
                    del own_infos[agent][MASK]  # added by the form
        return own_infos

    def _cycle(self, actions: Mapping[Any, Any]) -> Mapping[Any, Any]:
        """Makes each agent's turn with its action; returns the sums of the rewards."""
        native, encoders, step = self._native, self._encoders, self.source.step
        waiting = {**actions}
        earlier: dict[Any, Any] = {}
        begun = False
        try:
            while True:
                agent = native.agent_selection
                if agent not in waiting or native.terminations[agent] or native.truncations[agent]:
                    expected = [one for one in self._roster.playing if one in waiting]
                    begun = True
                    raise EpisodeError(
                        f"step: expected the turn of one of {expected} in this cycle of {self.source}, got that of "
                        f"{agent!r}; import it without `simultaneous`"
                    )
                action = waiting.pop(agent)
                step(encoders[agent](action) if agent in encoders else action)
                begun = True
                if not waiting:
                    return _sum(earlier, native.rewards) if earlier else native.rewards
                try:
                    brought = any(native.rewards.values())
                except ValueError:  # arrays
                    brought = True
                if earlier or brought:
                    earlier = _sum(earlier, native.rewards)
        except BaseException:
            if begun:  # the source is in the middle of a cycle, or in none, so a new one cannot start
                self._abandon()
            raise

    def _buried(self, collected: dict[Any, Any]) -> dict[Any, Any]:
        """Makes the last turns of agents that have ended."""
        native, ended = self._native, {}
        while native.agents:
            agent = native.agent_selection
            dead, cut = native.terminations[agent], native.truncations[agent]
            if not (dead or cut):
                break
            if agent in self._roster.ended:
                break  # it has returned after its end, which is refused later
            if agent in ended:
                self._abandon()
                raise EpisodeError(f"agents: {agent!r} is still in play in {self.source} after its last turn")
            final = self.source.observe(agent)
            if final is not None:
                final = self._takes[agent](final, True)
            ended[agent] = final, bool(dead), bool(cut), native.infos.get(agent)
            self.source.step(None)
            if any(np.any(reward) for reward in native.rewards.values()):
                own = {agent: reward for agent, reward in native.rewards.items() if agent not in ended}
                collected.update(_sum(collected, own))
        return ended

    def _turn_in(self, playing: tuple[Any, ...], infos: Mapping[Any, Any]) -> tuple[Any, ...] | None:
        if self.at_once:
            return None
        return (self._native.agent_selection,) if playing else ()

    def observation(self, agent: Any) -> Any:
        # The stored observation of a waiting agent may be outdated.
        if agent in self._roster.playing and agent not in self._current:
            self._seen[agent] = self._observed(agent)
            self._current = (*self._current, agent)
        return super().observation(agent)


def _sum(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    """Returns the sums of rewards by agent. Adding to the integer 0, of a turn without a reward, keeps the type."""
    total = {**one}
    for agent, reward in other.items():
        before = total.get(agent, 0)
        total[agent] = owned(reward) if type(before) is int and before == 0 else before + reward
    return total
