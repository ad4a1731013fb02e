"""Imports environments of both APIs of PettingZoo."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from operator import itemgetter
from sys import getrefcount
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy import array, ndarray
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.wrappers import BaseWrapper

from envoi import EpisodeError, LossyConversion, MultiReset, Snapshot, SpecError
from envoi.protocol.multi_env import MASK, MultiStepValues
from envoi.protocol.roster import Roster
from envoi.spec import Array, Discrete, MultiBinary, MultiDiscrete

from ..gymnasium.agents import ImportedAgents
from ..gymnasium.specs import from_space
from ..shared.arrival import HOLDERS, LOCAL, Copy, incoming, is_held, owned
from ..shared.introspection import layers
from .form import ACTIVE, ACTIVES, AEC, NAME, acts_at_once


class FromZoo(ImportedAgents):
    """Base of the importers of both APIs.

    Attributes:
        source: The PettingZoo environment.
        at_once: True if all agents in play act simultaneously in every step, as far as is known.
        turns_in_infos: True if the infos of a step may name the agents that act next.
    """

    turns_in_infos = False
    _framework = NAME

    _planned = ("_take_state", "_dtypes", "_prepared_for", "_each", "_false", "_silent", "_by_turn")
    _memory = ("_news", "_next_seed", "_listed")

    def __init__(self, source: Any, copy: Copy, at_once: bool) -> None:
        self.at_once = at_once
        self._news: Any = None  # the observations of the last step, where `_saw` has them not yet
        self._next_seed: int | None = None
        self._listed: list[Any] | None = None  # the source's agents, the same list until an agent ends or joins
        super().__init__(source, copy)

    def _agents(self) -> tuple[Any, ...]:
        possible = getattr(self.source, "possible_agents", None)
        if possible is None:
            hint = "give the environment a list `possible_agents` of all that may appear"
            raise LossyConversion("possible_agents", "absence", str(self.source), "the core", hint)
        return tuple(possible)  # for some sources remove the dead from their list

    def _space(self, what: str, agent: Any) -> spaces.Space[Any]:
        return getattr(self.source, f"{what}_space")(agent)

    def _describe(self) -> None:
        super()._describe()
        space = getattr(self.source, "state_space", None)
        self.state_spec = from_space(space, "state_space") if isinstance(space, spaces.Space) else None
        core = self.core_inside
        if core is not None and core.possible_agents == self.possible_agents:  # maybe inside wrappers
            self.discount_spec = core.discount_spec
            if self.source is self.form_inside:
                self.reward_spec = core.reward_spec

    def _plan(self) -> None:
        super()._plan()
        # Of arrays that need a look only: numpy's own object, to which the dtypes of most arrays are identical.
        self._dtypes = {
            agent: np.dtype(spec.dtype.type) if isinstance(spec, Array) and self._copy == "auto" else None
            for agent, spec in self.observation_spec.items()
        }
        self._take_state = deepcopy if self.state_spec is None else incoming(self.state_spec, self._copy)
        self._prepare()

    def _prepare(self) -> None:
        """Prepares what each step needs while the same agents are in play."""
        self._by_turn: dict[Any, Roster] = {}
        self._prepared_for = agents = self._roster.playing
        self._each = tuple((agent, self._dtypes[agent]) for agent in agents)
        # Flags and infos of a quiet step.
        self._false = dict.fromkeys(agents, False)
        # If masks come from observations, infos are never empty.
        self._silent = None if self._masked else {agent: {} for agent in agents}

    @property
    def _seen(self) -> dict[Any, Any]:
        """The latest observation of each agent, updated on access after quiet steps."""
        if (news := self._news) is not None:
            agents, self._news = self._roster.playing, None
            if isinstance(news, tuple):  # of lanes
                memory, kind, shape = news
                rows = np.frombuffer(memory, kind).reshape(shape)
                news = {agent: self._takes[agent](row, True) for agent, row in zip(agents, rows, strict=True)}
            self._saw |= {agent: news[agent] for agent in agents}
        return self._saw

    @abstractmethod
    def _turn_in(self, playing: tuple[Any, ...], infos: Mapping[Any, Any]) -> tuple[Any, ...] | None:
        """Returns the agents in play that act next; None for all."""

    def _enter(self, roster: Roster, listed: Collection[Any] = ()) -> None:
        """Sets the current roster and prepares its steps; `listed` are the agents that the source lists."""
        playing = roster.playing
        is_plain = len(listed) == len(playing) and not (roster.turn is not None and self.turns_in_infos)
        # A copy, because the source may change its list in place; None if no step can be quiet.
        self._listed = list(listed) if is_plain else None
        if playing != self._roster.playing:
            self._saw = self._seen  # before the change, because `_news` is in the order of the previous agents
        self._roster = roster
        self._by_turn = {}  # the rosters of games in turns, by agent: to make one takes a quarter of a step
        if playing and playing != self._prepared_for:
            self._prepare()

    def _abandon(self) -> None:
        """Ends the episode of all agents, because the source cannot continue it."""
        self._enter(self._roster.abandoned())

    def _next_roster(self, playing: Collection[Any], ended: Collection[Any], turn: tuple[Any, ...] | None) -> Roster:
        """Returns the roster after a step. If the source's agents are invalid, ends the episode and raises an error."""
        try:
            return self._roster.after(playing, ended, turn, self.source)
        except (EpisodeError, SpecError):
            self._abandon()
            raise

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> Any:
        result = super()._begin(seed, options)
        self._news = None
        return result

    def _source_seed(self, seed: int | None) -> int | None:
        following, self._next_seed = self._next_seed, None
        return following if seed is None else seed

    def _in_play(self, listed: Collection[Any]) -> tuple[Any, ...]:
        """Returns the source's agents in the core's order; raises SpecError if one is not possible."""
        self._roster.check_possible(listed, self.source)
        return self._roster.order(listed)

    def _quiet(self, arrived: dict[Any, Any], rewards: dict[Any, Any], infos: Mapping[Any, Any]) -> MultiStepValues:
        """Returns a step in which no agent ends or joins, and the infos have entries, which may include discounts."""
        agents, discounts = self._roster.playing, {}
        own_infos = self._own_infos(infos, agents, discounts)
        if not discounts:
            return arrived, rewards, None, None, None, own_infos
        return arrived, rewards, {**self._false}, {**self._false}, dict.fromkeys(agents, 1.0) | discounts, own_infos

    def _source_state(self) -> Any:
        """Returns the source's `state()` if it has one, else the latest observation of each agent."""
        try:
            return self._take_state(self.source.state())
        except NotImplementedError:
            return super()._source_state()

    def _source_rng(self) -> np.random.Generator | None:
        generator = getattr(self.unwrapped, "np_random", None)
        return generator if isinstance(generator, np.random.Generator) else None

    def _replace_rng(self, generator: np.random.Generator) -> None:
        self._next_seed = None
        if self._source_rng() is not None:
            self.unwrapped.np_random = generator
        else:  # PettingZoo has no other way
            self._next_seed = int(deepcopy(generator).integers(2**31))

    def restore(self, snapshot: Snapshot) -> None:
        super().restore(snapshot)
        self._prepare()

    def _layers(self) -> list[Any]:
        return layers(self.source, (AECEnv, ParallelEnv))


class FromPettingZoo(FromZoo):
    """A PettingZoo Parallel environment as a core environment.

    Args:
        source: The PettingZoo environment, possibly wrapped.
        copy: Which observations to copy, see `from_pettingzoo`.

    Attributes:
        source: The PettingZoo environment.
    """

    turns_in_infos = True
    source: ParallelEnv[Any, Any, Any]

    _planned = ("_pick", "_row_dtype")

    def __init__(self, source: ParallelEnv[Any, Any, Any], copy: Copy = "auto") -> None:
        super().__init__(source, copy, True)
        if self.core_inside is not None:
            self.at_once = acts_at_once(self.core_inside)

    def _plan(self) -> None:
        super()._plan()
        agents = self.possible_agents
        # Reads the values of all agents at once; `itemgetter` of a single key would not return a tuple.
        self._pick: Any = itemgetter(*agents) if len(agents) > 1 else lambda values: [values[one] for one in agents]
        spec = self.observation_spec[agents[0]] if agents else None
        is_array = isinstance(spec, (Array, Discrete, MultiBinary, MultiDiscrete))
        self._row_dtype = np.dtype(spec.dtype.type) if is_array else None

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        observations, infos = self._begin(seed, options)
        held = is_held(observations)
        listed = self.source.agents
        agents = self._in_play(listed)
        arrived = self._taken(observations, agents, held)
        self._saw = {**arrived}
        self._enter(self._roster.begin(agents, self._turn_in(agents, infos)), listed)
        own_infos = self._own_infos(infos, agents)
        return MultiReset(arrived if self._roster.turn is None else self._for_turn(arrived, own_infos, ()), own_infos)

    def source_step(self, actions: Mapping[Any, Any]) -> MultiStepValues:
        # A new mapping in the core's order, because the source may keep it, or change it in place.
        sent = {**self._false, **actions} if actions.__class__ is dict else {}
        roster = self._roster
        if roster.turn is not None or not 0 < len(sent) == len(actions) == len(roster.playing):
            roster.check_actions(actions)
            sent = {agent: actions[agent] for agent in self._roster.acting}
        if encoders := self._encoders:
            sent = {agent: encoders[agent](one) if agent in encoders else one for agent, one in sent.items()}
        before = None if self._rewarder is None else self.state
        observations, rewards, terminations, truncations, infos = step = self.source.step(sent)
        held, false = getrefcount(observations) > LOCAL + 1, self._false
        if terminations != false or truncations != false or self.source.agents != self._listed or before is not None:
            return self._any_step(step, held, before, actions)
        arrived, own_rewards, own_infos = {}, {}, {}
        most, news = (0, None) if held else (LOCAL + 1, observations)
        try:
            for agent, dtype in self._each:
                # The common case of `take`: an array that nothing but this frame holds.
                one = observations[agent]
                is_plain = type(one) is ndarray and one.dtype is dtype
                if not is_plain or getrefcount(one) > most or not one.flags.owndata:
                    one = news = None
                    one = self._takes[agent](observations[agent], held)
                arrived[agent] = one
                paid = rewards[agent]
                own_rewards[agent] = paid if type(paid) not in HOLDERS else owned(paid)
                own_infos[agent] = {}
        except KeyError:  # an agent is left out
            return self._any_step(step, held, before, actions)
        is_silent = infos == self._silent
        if not is_silent and self._turn_in(roster.playing, infos) is not None:
            return self._any_step(step, held, before, actions)
        if news is None:
            self._saw.update(arrived)
        self._news = news
        if is_silent:
            return arrived, own_rewards, None, None, None, own_infos
        return self._quiet(arrived, own_rewards, infos)

    def step_rows(self, actions: Sequence[Any]) -> tuple[Any, ...]:
        """See `envoi.protocol.fast_steps.rows_step`."""
        agents, roster, sent = self.possible_agents, self._roster, {}
        for place, agent in enumerate(agents):  # faster than `zip`, which iterates over an array
            sent[agent] = actions[place]
        if self._rewarder is not None or self._row_dtype is None or roster.turn is not None or roster.playing != agents:
            return self.source_step(sent)
        if encoders := self._encoders:
            sent = {agent: encoders[agent](one) if agent in encoders else one for agent, one in sent.items()}
        observations, rewards, terminations, truncations, infos = step = self.source.step(sent)
        pick, dtype, rows, paid, own_infos, discounts = self._pick, self._row_dtype, None, None, None, {}
        try:
            # Not by `==`, which takes many times as long for numpy's flags.
            if not any(terminations.values()) and not any(truncations.values()) and self.source.agents == self._listed:
                is_silent = infos == self._silent
                own_infos = None if is_silent else self._own_infos(infos, agents, discounts)
                if is_silent or (not discounts and self._turn_in(agents, infos) is None):
                    seen, paid = pick(observations), pick(rewards)
                    rows = array(seen)
                    rows = rows if rows.dtype is dtype else array(seen, dtype)
        except (KeyError, ValueError):  # an agent is left out, or the shapes differ
            rows = None
        if rows is None:
            return self._any_step(step, True, None, sent)
        self._news = rows.tobytes(), rows.dtype, rows.shape  # the caller may write into the array
        return rows, paid, own_infos

    def _any_step(self, step: tuple[Any, ...], held: bool, before: Any, actions: Mapping[Any, Any]) -> MultiStepValues:
        """Returns the core's step for any step of the source, quiet or not."""
        observations, rewards, terminations, truncations, infos = step
        before_step, listed = self._roster, self.source.agents
        flagged = {agent for flags in (terminations, truncations) for agent, flag in flags.items() if flag}
        # An agent that has a flag has ended, even if the source still lists it.
        now = tuple(agent for agent in self._in_play(listed) if agent not in flagged)
        known, gone = before_step.playing, before_step.ended
        ended = [a for a in flagged if a in known or (a not in gone and a in observations)]
        roster = self._next_roster(now, ended, self._turn_in(now, infos))
        affected = roster.affected(before_step)
        blind = [agent for agent in ended if observations.get(agent) is None]
        arrived = self._taken(observations, [agent for agent in affected if agent not in blind], held)
        self._enter(roster, listed)
        values = self._whole_step(affected, arrived, blind, rewards, terminations, truncations, infos, before, actions)
        if roster.turn is None:
            return values
        return (self._for_turn(values[0], values[-1], ended), *values[1:])

    def _taken(self, observations: Mapping[Any, Any], agents: Collection[Any], held: bool) -> dict[Any, Any]:
        if missing := [agent for agent in agents if agent not in observations]:
            raise SpecError(
                f"observation: expected one of each agent in play from {self.source}, got none of {missing}"
            )
        return {agent: self._takes[agent](observations[agent], held) for agent in agents}

    def _turn_in(self, playing: tuple[Any, ...], infos: Mapping[Any, Any]) -> tuple[Any, ...] | None:
        if not playing:
            return None if self._roster.turn is None else ()
        entry = infos.get(playing[0]) or {}
        if ACTIVES in entry:
            return tuple(entry[ACTIVES])
        return (entry[ACTIVE],) if entry.get(ACTIVE) in playing else None

    def _for_turn(self, arrived: dict[Any, Any], own_infos: dict[Any, Any], ended: Collection[Any]) -> dict[Any, Any]:
        """Returns the observations of the agents that act next or have ended; takes the turn out of the infos."""
        acting = self._roster.acting
        for info in own_infos.values():
            info.pop(ACTIVE, None)
            info.pop(ACTIVES, None)
        return {agent: one for agent, one in arrived.items() if agent in acting or agent in ended}


# The AEC API.


class FromPettingZooAEC(FromZoo):
    """A PettingZoo AEC environment as a core environment.

    Args:
        source: The PettingZoo environment, possibly wrapped.
        copy: Which observations to copy, see `from_pettingzoo_aec`.
        simultaneous: If True, a step is a whole cycle, in which each agent in play acts once.

    Attributes:
        source: The PettingZoo environment.
    """

    source: AECEnv[Any, Any, Any]

    _framework = AEC
    _memory = ("_current",)
    _planned = ("_native",)

    def __init__(self, source: AECEnv[Any, Any, Any], copy: Copy = "auto", simultaneous: bool = False) -> None:
        super().__init__(source, copy, simultaneous)
        self._roster = Roster(self.possible_agents, turn=None if simultaneous else ())
        self._current: tuple[Any, ...] = ()  # the agents whose stored observation is up to date

    def _plan(self) -> None:
        super()._plan()
        self._native: Any = self._holder()

    def _holder(self) -> Any:
        """Returns the layer to read `rewards` and the like from: the innermost one if no wrapper has its own."""
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
        self._enter(self._roster.begin(now, self._turn_in(now, {})), native.agents)
        arrived = {agent: self._observed(agent) for agent in self._roster.acting}
        self._saw, self._current = dict(arrived), tuple(arrived)
        return MultiReset(arrived, self._own_infos(native.infos, now))

    def source_step(self, actions: Mapping[Any, Any]) -> MultiStepValues:
        native, source, false, turn = self._native, self.source, self._false, self._roster.turn
        if not turn or actions.__class__ is not dict or len(actions) != 1 or turn[0] not in actions:
            self._roster.check_actions(actions)
        before = None if self._rewarder is None else self.state
        if turn is None:
            rewards = self._cycle(actions)
        else:
            agent = turn[0]
            source.step(actions[agent] if agent not in self._encoders else self._encoders[agent](actions[agent]))
            rewards = native.rewards
        changed = native.terminations != false or native.truncations != false or native.agents != self._listed
        if changed or len(rewards) != len(false) or before is not None:
            return self._any_step(rewards, before, actions)
        own_rewards, own_infos = {}, {}
        try:
            for agent in false:
                paid = rewards[agent]
                own_rewards[agent] = paid if type(paid) not in HOLDERS else owned(paid)
                own_infos[agent] = {}
        except KeyError:  # an agent is left out
            return self._any_step(rewards, before, actions)
        # The common case of `take`, as in `FromPettingZoo`.
        if turn is None:
            arrived = {}
            for agent, dtype in self._each:
                one: Any = source.observe(agent)
                is_plain = type(one) is ndarray and one.dtype is dtype
                if not is_plain or getrefcount(one) > LOCAL or not one.flags.owndata:
                    one = self._takes[agent](one)
                arrived[agent] = one
            self._saw |= arrived
            self._current = self._roster.playing
        else:
            agent = native.agent_selection
            one = source.observe(agent)
            is_plain = type(one) is ndarray and one.dtype is self._dtypes[agent]
            if not is_plain or getrefcount(one) > LOCAL or not one.flags.owndata:
                one = self._takes[agent](one)
            arrived = {agent: one}
            self._saw[agent], self._current = one, (agent,)
            self._roster = self._by_turn.get(agent) or self._by_turn.setdefault(agent, self._roster.with_turn((agent,)))
        if native.infos != self._silent:
            return self._quiet(arrived, own_rewards, native.infos)
        return arrived, own_rewards, None, None, None, own_infos

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
        finals = {agent: final for agent, (final, *_) in ended.items() if final is not None}
        arrived = {a: finals[a] if a in finals else self._observed(a) for a in affected if a in finals or a in acting}
        values = self._whole_step(
            affected,
            arrived,
            [agent for agent in ended if agent not in finals],
            collected,
            {agent: dead for agent, (_, dead, _, _) in ended.items()},
            {agent: cut for agent, (_, _, cut, _) in ended.items()},
            {**native.infos, **{agent: info for agent, (*_, info) in ended.items()}},
            before,
            actions,
        )
        self._current = tuple(values[0])
        return values

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
        """Steps each agent with its action, in the order of their turns; returns the sums of the rewards."""
        native, encoders = self._native, self._encoders
        waiting, earlier = {**actions}, {}
        try:
            while waiting:
                agent = native.agent_selection
                if agent not in waiting or native.terminations[agent] or native.truncations[agent]:
                    expected = [one for one in self._roster.playing if one in waiting]
                    self._abandon()
                    raise EpisodeError(
                        f"step: expected the turn of one of {expected} in this cycle of {self.source}, got that of "
                        f"{agent!r}; import it without `simultaneous`"
                    )
                action = waiting[agent]
                self.source.step(encoders[agent](action) if agent in encoders else action)
                del waiting[agent]
                if waiting and (earlier or _are_any(native.rewards)):
                    earlier = _sum(earlier, native.rewards)
        except BaseException:
            if len(waiting) < len(actions):  # the source is in the middle of a cycle, so a new one cannot start
                self._abandon()
            raise
        return _sum(earlier, native.rewards) if earlier else native.rewards

    def _buried(self, collected: dict[Any, Any]) -> dict[Any, Any]:
        """Makes the last turns of agents that have ended; returns how each of them ended."""
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
            if _are_any(native.rewards):
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


def _are_any(rewards: Mapping[Any, Any]) -> bool:
    """Returns False if all rewards are zero, which need not be added."""
    try:
        return any(rewards.values())
    except ValueError:  # arrays
        return True


def _sum(one: Mapping[Any, Any], other: Mapping[Any, Any]) -> dict[Any, Any]:
    """Adds two dicts of rewards by agent. A reward that is added to the integer 0 keeps its type."""
    total = {**one}
    for agent, reward in other.items():
        before = total.get(agent, 0)
        total[agent] = owned(reward) if type(before) is int and before == 0 else before + reward
    return total
