"""PettingZoo's Parallel API, both ways.

| core | PettingZoo |
|---|---|
| specs; values | the spaces and values of `envoi.adapters.gymnasium`, one space an agent |
| `possible_agents`, `agents` | the same, as lists; sorted by the core's order |
| `state`, `state_spec` | `state()`, `state_space` |
| the agents whose turn it is | `"active_agent"`, or `"active_agents"` of several, in the info of each in play |
| an action of each who acts | an action of each in play; who waits may give one, which is ignored |
| observations of those who act next or have ended | of all in play, waiting ones too, and of those who have ended |
| a discount that is not the default (0 if terminated, else 1) | `info["discount"]` |
| the info of nobody in particular | `info["__common__"]` of each agent |
| the action mask | `info["action_mask"]`; an observation's `"action_mask"` is copied there on the way here |
| an environment of one agent | one of `"agent_0"` |

On the way here: dicts in any order, an agent that infos leave out, extra keys of infos (they are said of nobody in
particular), an end without a final observation (the last one is repeated, and marked). An AEC environment that
says that it is parallelizable comes with all its agents acting at once, see `envoi.adapters.pettingzoo_aec`.

What is lost:

| what | field | how |
|---|---|---|
| complex `Array` leaves | dtype | refused |
| `MultiBinary` leaves with a size of 0 | shape | refused |
| `Discrete`, `MultiDiscrete` leaves in a dtype too narrow for gymnasium's own arithmetic | dtype | refused |
| leaves that only another framework knows | type | refused |

Refused on the way here: environments without `possible_agents`; agents that return after their end, or leave without a
flag.

Decided at construction: spaces, which values need another container or type, who needs an action mask. Left for a step:
the core's or the source's own step, one dict of each kind, and a look at flags, discounts and infos.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from operator import itemgetter
from sys import getrefcount
from typing import Any

import numpy as np
from numpy import array, ndarray
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils.conversions import parallel_to_aec_wrapper
from pettingzoo.utils.wrappers import OrderEnforcingWrapper

from envoi import Array, Env, MultiEnv, MultiReset, SpecError
from envoi.batching.values import stack
from envoi.protocol.multi_env import COMMON, SYNTHETIC, RawMultiStep

from .agents import several_agents
from .discounts import with_discounts
from .losses import Loss
from .registry import from_env, is_of, refuse_others
from .spaces import from_space, to_space
from .values import HOLDERS, Copy, owned
from .zoo_forms import NAME, Form, acts_at_once, agents_infos, losses
from .zoo_names import load
from .zoo_sources import FromZoo

__all__ = [
    "FromPettingZoo",
    "Loss",
    "ToPettingZoo",
    "from_pettingzoo",
    "from_space",
    "load",
    "losses",
    "recognises",
    "to_pettingzoo",
    "to_space",
]

ACTIVE, ACTIVES = "active_agent", "active_agents"
"""The keys, in each info, of who acts next where not all do: of one agent (PettingZoo's own key), of several."""


class ToPettingZoo(Form, ParallelEnv[Any, Any, Any]):
    """A core environment as a PettingZoo Parallel one.

    Args:
        core: The core environment, of one agent or of several.
        validate: Check every value against its spec.

    Attributes:
        core: The core environment.
        multi: The same, as one of several agents.
    """

    def __init__(self, core: Env | MultiEnv, validate: bool = False) -> None:
        super().__init__(core, validate, True)

    @property
    def agents(self) -> list[Any]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """The agents in play; a new list each time."""
        return [*self.multi.agents]

    def reset(
        self, seed: int | None = None, options: Mapping[str, Any] | None = None
    ) -> tuple[dict[Any, Any], dict[Any, Any]]:
        """Begins an episode; see `pettingzoo.ParallelEnv.reset`."""
        observations, infos = self._env.reset(seed=seed, options=options)
        agents, turn = self.multi.agents, self.multi.turn
        infos = agents_infos(infos)
        return self._all(observations, agents), infos if turn is None else self._with_turn(infos, turn)

    def step(self, actions: Mapping[Any, Any]) -> tuple[dict[Any, Any], ...]:
        """Acts once; see `pettingzoo.ParallelEnv.step`.

        Args:
            actions: By agent. Where not all act, those of who waits may be left out, and are ignored.

        Raises:
            EpisodeError: Before the first reset, after the end, or where somebody is missing or not in play.
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
        """The observations of agents, also of those who wait."""
        look, encoders = self.multi.observation, self._encoders
        seen = {agent: observations[agent] if agent in observations else look(agent) for agent in agents}
        return {agent: encoders[agent](one) if agent in encoders else one for agent, one in seen.items()}

    def _with_turn(self, infos: Mapping[Any, Any], turn: tuple[Any, ...]) -> dict[Any, Any]:
        said = {ACTIVE: turn[0]} if len(turn) == 1 else {ACTIVES: turn}
        playing = self.multi.agents
        return {agent: {**info, **said} if agent in playing else info for agent, info in infos.items()}

    def __repr__(self) -> str:
        return f"to_pettingzoo({self.core!r})"


def _baselines() -> tuple[int, int, int]:
    """The counts of what nobody holds but: a local variable, and a tuple, and for what is inside of it, a dict."""
    (alone,) = (array,) = ([],)
    del array
    (held, *_) = _ = ([],)
    inside = {"agent": []}
    one = inside["agent"]
    return getrefcount(alone), getrefcount(held), getrefcount(one)


_ALONE, _IN_TUPLE, _IN_DICT = _baselines()


class FromPettingZoo(FromZoo):
    """A PettingZoo Parallel environment as a core one.

    Args:
        source: The PettingZoo environment, wrappers and all.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Attributes:
        source: The PettingZoo environment.
    """

    turns_are_told = True
    source: ParallelEnv[Any, Any, Any]

    _memory = (*FromZoo._memory, "_turn", "_listed")
    _planned = (*FromZoo._planned, "_pick", "_places", "_row_spec", "_row_dtype")

    def __init__(self, source: ParallelEnv[Any, Any, Any], copy: Copy = "auto") -> None:
        super().__init__(source, copy, True)
        self._turn: tuple[Any, ...] | None = None
        self._listed: list[Any] | None = None  # the source's agents while all of them act
        if self._form is not None:
            self.at_once = acts_at_once(self._form.multi)

    def _plan(self) -> None:
        super()._plan()
        agents = self.possible_agents
        # The values of all agents in one look; of one agent it would not give a tuple.
        self._pick: Any = itemgetter(*agents) if len(agents) > 1 else lambda values: [values[one] for one in agents]
        self._places = tuple(enumerate(agents))
        self._row_spec = spec = self.observation_spec[agents[0]] if agents else None
        self._row_dtype = np.dtype(spec.dtype.type) if isinstance(spec, Array) else None

    @property
    def turn(self) -> tuple[Any, ...] | None:
        return self._turn

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        observations, infos = self._begin(seed, options)
        held = getrefcount(observations) > _ALONE
        listed = self.source.agents
        agents = self._in_play(listed)
        seen = self._taken(observations, agents, held)
        self._saw = {**seen}
        self._stand_listed(agents, listed, infos)
        heard = self._heard(infos, agents)
        return MultiReset(seen if self._turn is None else self._for_turn(seen, heard, ()), heard)

    def raw_step(self, actions: Mapping[Any, Any]) -> RawMultiStep:
        return self.five_step(actions, None)

    def five_step(self, actions: Mapping[Any, Any], flags: Mapping[Any, bool] | None) -> Any:
        """`raw_step`, or with flags what `envoi.protocol.multi_env.five_step` says."""
        # A mapping of its own for the source, which may keep it, or change it; in the core's order.
        sent = {**self._slots, **actions}
        if len(sent) != self._awaited or len(actions) != self._awaited:
            sent = self._sorted(actions)
        if encoders := self._encoders:
            sent = {agent: encoders[agent](one) if agent in encoders else one for agent, one in sent.items()}
        before = None if self._rewarder is None else self.state
        observations, rewards, terminations, truncations, infos = told = self.source.step(sent)
        held, false = getrefcount(observations) > _IN_TUPLE, self._false
        if terminations != false or truncations != false or self.source.agents != self._listed or before is not None:
            return self._any_step(told, held, before, actions)
        news, most = (None, 0) if held else (observations, _IN_DICT)
        seen: dict[Any, Any] = {}
        earned: dict[Any, Any] = {}
        heard: dict[Any, Any] = {}
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
                seen[agent] = one
                earned[agent] = paid if type(paid) not in HOLDERS else owned(paid)
                heard[agent] = {}
        except KeyError:  # somebody is left out
            return self._any_step(told, held, before, actions)
        if infos != self._silent:
            said = infos.get(self._agents[0])
            if said and (ACTIVE in said or ACTIVES in said):
                return self._any_step(told, held, before, actions)
            self._seen.update(seen)
            return self._quiet(seen, earned, infos)
        if news is None:
            self._seen.update(seen)
        else:
            self._news = news
        if flags is None:
            return seen, earned, None, None, None, heard
        return seen, earned, {**flags}, {**flags}, heard

    def lanes_step(self, actions: Sequence[Any]) -> tuple[Any, ...]:
        """See `envoi.protocol.multi_env.lanes_step`; for agents that see arrays, all of one shape."""
        if self._rewarder is not None or self._encoders or self._awaited != len(self._places):
            return self.raw_step(dict(zip(self.possible_agents, actions, strict=True)))
        sent: dict[Any, Any] = {}
        for place, agent in self._places:
            sent[agent] = actions[place]
        observations, rewards, terminations, truncations, infos = told = self.source.step(sent)
        held, false = getrefcount(observations) > _IN_TUPLE, self._false
        if terminations != false or truncations != false or self.source.agents != self._listed:
            return self._any_step(told, held, None, sent)
        try:
            # One array of all is a copy, whoever holds the single ones.
            rows, paid = array(self._pick(observations)), self._pick(rewards)
        except (KeyError, ValueError):  # somebody is left out, or looks like nobody else
            return self._any_step(told, held, None, sent)
        heard, discounts = None, {}
        if infos != self._silent:
            said = infos.get(self._agents[0])
            if said and (ACTIVE in said or ACTIVES in said):
                return self._any_step(told, held, None, sent)
            heard = self._heard(infos, self._agents, discounts)
            if discounts:
                return self._any_step(told, held, None, sent)
        if rows.dtype is not self._row_dtype:
            rows = stack(self._row_spec, [self._takes[agent](observations[agent], True) for agent in self._agents])
        self._news = rows.tobytes()  # who gets the array may write into it
        return rows, paid, heard

    def _any_step(self, told: tuple[Any, ...], held: bool, before: Any, actions: Mapping[Any, Any]) -> RawMultiStep:
        """The core's step for what the source told, whatever it was."""
        observations, rewards, terminations, truncations, infos = told
        playing, listed = self._agents, self.source.agents
        flagged = {agent for flags in (terminations, truncations) for agent, flag in flags.items() if flag}
        # An agent that the source goes on listing after its end has ended all the same.
        now = tuple(agent for agent in self._in_play(listed) if agent not in flagged)
        ended = [a for a in flagged if a in playing or (a not in self._ended and a in observations)]
        self._check_standing(playing, now, ended)
        spoken = self._spoken(playing, now, ended)
        blind = [agent for agent in ended if observations.get(agent) is None]
        seen = self._taken(observations, [agent for agent in spoken if agent not in blind], held)
        if blind:
            seen = {agent: self._last_look(agent) if agent in blind else seen[agent] for agent in spoken}
        self._news = None  # of whom it speaks, something newer has been seen
        terminated = {agent: bool(terminations.get(agent, False)) for agent in spoken}
        truncated = {agent: bool(truncations.get(agent, False)) for agent in spoken}
        discounts = {agent: 0.0 if dead else 1.0 for agent, dead in terminated.items()}
        earned = {agent: owned(rewards.get(agent, 0.0)) for agent in spoken}
        self._ended.update(ended)
        self._seen.update(seen)
        self._stand_listed(now, listed, infos)
        if before is not None:
            earned = self._rewarded(earned, before, actions)
        heard = self._heard(infos, spoken, discounts)
        for agent in blind:
            heard[agent][SYNTHETIC] = True
        if self._turn is not None:
            seen = self._for_turn(seen, heard, ended)
        return seen, earned, terminated, truncated, discounts, heard

    def _taken(self, observations: Mapping[Any, Any], agents: Collection[Any], held: bool) -> dict[Any, Any]:
        self._refuse_missing(observations, agents)
        return {agent: self._takes[agent](observations[agent], held) for agent in agents}

    def _refuse_missing(self, observations: Mapping[Any, Any], agents: Collection[Any]) -> None:
        if missing := [agent for agent in agents if agent not in observations]:
            raise SpecError(
                f"observation: expected one of each agent in play from {self.source}, got none of {missing}"
            )

    def _stand_listed(self, agents: tuple[Any, ...], listed: Collection[Any], infos: Mapping[Any, Any]) -> None:
        """Notes who is in play, and whose turn it is where the infos say so."""
        said = infos.get(agents[0]) if agents else None
        self._turn = None if agents or self._turn is None else ()
        if said and ACTIVES in said:
            self._turn = tuple(said[ACTIVES])
        elif said and said.get(ACTIVE) in agents:
            self._turn = (said[ACTIVE],)
        # The source may change its list in place. One that lists more than are in play is read anew each time.
        self._listed = list(listed) if self._turn is None and len(listed) == len(agents) else None
        self._stand(agents, agents if self._turn is None else self._turn)

    def _for_turn(self, seen: dict[Any, Any], heard: dict[Any, Any], ended: Collection[Any]) -> dict[Any, Any]:
        """The observations of those who act next or have ended; infos lose what `turn` says."""
        for info in heard.values():
            info.pop(ACTIVE, None)
            info.pop(ACTIVES, None)
        return {agent: one for agent, one in seen.items() if agent in self._acting or agent in ended}

    def __repr__(self) -> str:
        return f"from_pettingzoo({self.source})"


def recognises(env: object) -> bool:
    """Whether `env` is an environment of this API."""
    return isinstance(env, ParallelEnv)


def to_pettingzoo(env: Any, *, validate: bool = False) -> ParallelEnv[Any, Any, Any]:
    """Any environment as a PettingZoo Parallel one.

    Args:
        env: A core environment, or one of any framework that `envoi.adapters.from_env` recognises. An AEC environment
            comes as `from_pettingzoo` says.
        validate: Check every value against its spec, with an error that names agent, leaf, step and episode.

    Returns:
        A `ParallelEnv` with `.core`; the very same object for what came from this API.

    Raises:
        LossyConversion: PettingZoo cannot express a part of it.
    """
    if is_of(env, NAME) and not validate:
        return env
    core = from_pettingzoo(env) if isinstance(env, AECEnv) else from_env(env)
    multi = several_agents(core)
    if isinstance(multi, FromPettingZoo) and multi._rewarder is None and not validate:
        return multi.source
    return ToPettingZoo(core, validate)


def from_pettingzoo(env: Any, *, copy: Copy = "auto") -> Env | MultiEnv:
    """A PettingZoo environment as a core one, seen through the Parallel API.

    Args:
        env: A Parallel environment, wrappers and all. Or an AEC one: what PettingZoo's own `parallel_to_aec` made is
            taken out of it; else all its agents act at once if it says that it is parallelizable, or in turn.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.

    Returns:
        A core environment with `.source`; the very same object for what came from the core.

    Raises:
        SpecError: It is of another framework.
        LossyConversion: The source does not say which agents may appear, or a space is of a kind that nobody but its
            author knows.
    """
    if isinstance(env, ToPettingZoo):
        return env.core
    if not isinstance(env, AECEnv):
        refuse_others(env, NAME)
        return FromPettingZoo(env, copy)
    inner = env.env if isinstance(env, OrderEnforcingWrapper) else env
    if isinstance(inner, parallel_to_aec_wrapper):
        return from_pettingzoo(inner.env, copy=copy)
    from .pettingzoo_aec import from_pettingzoo_aec

    return from_pettingzoo_aec(env, copy=copy, simultaneous=bool(env.metadata.get("is_parallelizable")))
