"""The base of the importers of PettingZoo's two APIs: specs, the roster, infos, the state, seeds and snapshots."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from envoi import (
    Array,
    Discrete,
    EpisodeError,
    LossyConversion,
    MultiEnv,
    MultiStep,
    Snapshot,
    SpecError,
    Streams,
    zeros,
)
from envoi.protocol.episode import NOT_BEGUN, RUNNING
from envoi.protocol.multi_env import COMMON, MASK, RawMultiStep, full_multi_step
from envoi.protocol.roster import HasRoster, Roster
from envoi.rewards.rewarder import reward_step
from envoi.seeding import check_seed

from ..gymnasium.specs import encoder, from_space
from ..shared.arrival import Copy, incoming
from ..shared.copying import fresh, owned
from ..shared.discounts import is_number
from ..shared.introspection import Content
from ..shared.reset_options import ResetOptions
from .form_base import Form

_OF_AGENTS = ("_prepared_for", "_each", "_false", "_silent", "_slots", "_awaited")


class FromZoo(HasRoster, ResetOptions, MultiEnv):
    """Base of the importers of both APIs.

    Args:
        source: The PettingZoo environment, wrappers and all.
        copy: Whether to copy observations: where the source still holds them (`"auto"`), always, or never.
        at_once: Whether all agents in play act in every step, as far as that is known.

    Attributes:
        source: The PettingZoo environment.
        at_once: The same.
        turns_in_infos: Whether the infos of a step may name the agents that act next.

    Raises:
        LossyConversion: The source does not say which agents may appear, or a space is of an unknown kind.
    """

    turns_in_infos = False

    _planned = ("_takes", "_encoders", "_take_state", "_form", "_masked", "_native", "_dtypes", *_OF_AGENTS)

    _memory: tuple[str, ...] = ("_roster", "_saw", "_news", "_next_seed", "_streams")
    """The attributes of the importer that snapshots hold."""

    def __init__(self, source: Any, copy: Copy, at_once: bool) -> None:
        self.source, self.at_once = source, at_once
        self._copy: Copy = copy
        possible = getattr(source, "possible_agents", None)
        if possible is None:
            hint = "give the environment a list `possible_agents` of all that may appear"
            raise LossyConversion("possible_agents", "absence", str(source), "the core", hint)
        # A tuple, for some sources remove the dead from their list.
        self.possible_agents = agents = tuple(possible)
        self.observation_spec = {
            a: from_space(source.observation_space(a), f"observation_space({a!r})") for a in agents
        }
        self.action_spec = {a: from_space(source.action_space(a), f"action_space({a!r})") for a in agents}
        space = getattr(source, "state_space", None)
        self.state_spec = from_space(space, "state_space") if isinstance(space, spaces.Space) else None
        self.metadata = deepcopy(dict(getattr(source, "metadata", None) or {}))
        self.render_mode = getattr(source, "render_mode", None)
        self._roster = Roster(agents)
        self._saw: dict[Any, Any] = {}
        self._news: Any = None  # the observations of the last step where `_saw` has them not yet
        self._next_seed: int | None = None
        self._closed = False
        self._rewarder = None
        # Made here once; the class would make new ones at each look.
        self.reward_spec, self.discount_spec = self.reward_spec, self.discount_spec
        self._plan()
        if self._form is not None and self._form.multi.possible_agents == agents:  # maybe inside wrappers
            self.discount_spec = self._form.multi.discount_spec
            if self._form is source:
                self.reward_spec = self._form.multi.reward_spec

    def native_space(self, what: str, agent: Any = None) -> Any:
        """The source's `"observation"` or `"action"` space of an agent; None of an agent that it does not know."""
        return getattr(self.source, f"{what}_space")(agent) if agent in self.possible_agents else None

    def _plan(self) -> None:
        native = self.source.unwrapped
        self._form = native if isinstance(native, Form) else None
        self._takes = {agent: incoming(spec, self._copy) for agent, spec in self.observation_spec.items()}
        # Of arrays that need a look only: numpy's own object, to which the dtypes of most arrays are identical.
        self._dtypes = {
            agent: np.dtype(spec.dtype.type) if isinstance(spec, Array) and self._copy == "auto" else None
            for agent, spec in self.observation_spec.items()
        }
        # The source may keep an action, or change it.
        encoders = {agent: encoder(spec, fresh=True) for agent, spec in self.action_spec.items()}
        self._encoders = {agent: encode for agent, encode in encoders.items() if encode is not None}
        self._take_state = deepcopy if self.state_spec is None else incoming(self.state_spec, self._copy)
        # The agents whose mask is in their observation; forms of envoi have it in the info already.
        specs = self.observation_spec.items() if self._form is None else ()
        self._masked = tuple(agent for agent, spec in specs if isinstance(spec, dict) and MASK in spec)
        self._prepare()

    def _prepare(self) -> None:
        """Prepares what each step needs while the same agents are in play."""
        self._prepared_for = agents = self._roster.playing
        self._each = tuple((agent, self._dtypes[agent]) for agent in agents)
        # Flags and infos of a quiet step.
        self._false = dict.fromkeys(agents, False)
        # Where masks come from observations there is always something to say.
        self._silent = None if self._masked else {agent: {} for agent in agents}
        self._prepare_turn()

    def _prepare_turn(self) -> None:
        """Prepares what each step needs while the same agents act."""
        roster = self._roster
        self._slots = dict.fromkeys(roster.acting)  # in which the actions get their order
        self._awaited = len(roster.acting) if roster.phase is RUNNING else -1  # how many actions are right

    def step(self, actions: Mapping[Any, Any]) -> MultiStep:
        return full_multi_step(self.raw_step(actions))

    @property
    def _seen(self) -> dict[Any, Any]:
        """The latest observation of each agent, put together when it is asked for after quiet steps."""
        if (news := self._news) is not None:
            news = self._unpacked(news) if isinstance(news, bytes) else news
            self._saw.update({agent: news[agent] for agent in self._roster.playing})
            self._news = None
        return self._saw

    def _unpacked(self, news: bytes) -> dict[Any, Any]:
        """Returns the observations of the agents in play.

        Args:
            news: The memory of an array of them, in the order of the roster.
        """
        agents = self._roster.playing
        spec: Array = self.observation_spec[agents[0]]
        rows = np.frombuffer(news, spec.dtype).reshape(len(agents), -1).copy()
        # A source may give other shapes than it declares.
        shape = spec.shape if rows.shape[1] == np.prod(spec.shape) else rows.shape[1:]
        return {agent: row.reshape(shape) for agent, row in zip(agents, rows, strict=True)}

    def _enter(self, roster: Roster) -> None:
        """Makes a roster the present one, and prepares what its steps need."""
        playing = roster.playing
        if playing != self._roster.playing:
            self._saw = self._seen  # while the agents are known that `_news` is of
        self._roster = roster
        if playing and playing != self._prepared_for:
            self._prepare()
        else:
            self._prepare_turn()

    def _abandon(self) -> None:
        """Ends the episode for all, where the source cannot continue it."""
        self._enter(self._roster.abandoned())

    def _next_roster(self, playing: Collection[Any], ended: Collection[Any], turn: tuple[Any, ...] | None) -> Roster:
        """Returns the roster after a step; where a roster cannot follow, the episode is over and the error says why."""
        try:
            return self._roster.after(playing, ended, turn, self.source)
        except (EpisodeError, SpecError):
            self._abandon()
            raise

    def _sorted(self, actions: Mapping[Any, Any]) -> dict[Any, Any]:
        """Returns the actions in the order of the agents that act; EpisodeError where the wrong ones do."""
        self._roster.check_actions(actions)
        return {agent: actions[agent] for agent in self._roster.acting}

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> Any:
        """Resets the source, and returns its result."""
        seed = check_seed(seed)
        if seed is not None:
            self._streams, self._next_seed = Streams(seed), None
        else:
            seed, self._next_seed = self._next_seed, None
        result = self.source.reset(seed=seed, options=None if options is None else fresh(options))
        self._saw, self._news = {}, None
        self._roster, self._awaited = Roster(self.possible_agents), -1
        return result

    def _first_roster(self, playing: Collection[Any], turn: tuple[Any, ...] | None) -> Roster:
        """Returns the roster at the beginning of an episode; one without agents is over at once."""
        first = self._roster.begin(playing, turn)
        return first if playing else first.abandoned()

    def _in_play(self, listed: Collection[Any]) -> tuple[Any, ...]:
        """Returns the source's agents in the core's order; SpecError if one is not possible."""
        self._roster.check_possible(listed, self.source)
        return self._roster.order(listed)

    def _quiet(self, seen: dict[Any, Any], rewards: dict[Any, Any], infos: Mapping[Any, Any]) -> RawMultiStep:
        """Returns a step in which no agent has ended or joined, but infos, and maybe discounts, are not empty."""
        agents, discounts = self._roster.playing, {}
        heard = self._heard(infos, agents, discounts)
        if not discounts:
            return seen, rewards, None, None, None, heard
        return seen, rewards, {**self._false}, {**self._false}, {**dict.fromkeys(agents, 1.0), **discounts}, heard

    def _heard(
        self, infos: Mapping[Any, Any], spoken: Sequence[Any], discounts: dict[Any, Any] | None = None
    ) -> dict[Any, Any]:
        """Returns the source's infos as the core has them.

        Args:
            infos: The source's.
            spoken: The agents that the step is about.
            discounts: Takes the discounts that are in the infos; None leaves them there.
        """
        heard: dict[Any, Any] = {}
        common: dict[Any, Any] = {}
        known = 0
        for agent in spoken:
            said = infos.get(agent)
            known += agent in infos
            own = heard[agent] = {**said} if said else {}
            if own:
                if MASK in own:  # recorded beside the observation, and so as lasting
                    own[MASK] = owned(own[MASK])
                if discounts is not None and "discount" in own and is_number(own["discount"]):
                    discounts[agent] = own.pop("discount")
                if isinstance(own.get(COMMON), dict):
                    common = own.pop(COMMON)
        for agent in self._masked:
            if agent in self._roster.acting and MASK not in heard[agent]:
                heard[agent][MASK] = self._mask(agent)
        if len(infos) > known:  # keys of other agents, or of none
            for key, said in infos.items():
                if key == COMMON:
                    common = {**common, **said}
                elif key not in self.observation_spec:
                    common = {**common, key: said}
        if common:
            heard[COMMON] = {**common}
        return heard

    def _mask(self, agent: Any) -> Any:
        return np.array(self._seen[agent][MASK], np.int8 if isinstance(self.action_spec[agent], Discrete) else None)

    def _last_look(self, agent: Any) -> Any:
        """Returns the final observation of an agent whose source gives none."""
        return self._seen[agent] if agent in self._seen else zeros(self.observation_spec[agent])

    def _rewarded(self, rewards: dict[Any, Any], before: Any, actions: Mapping[Any, Any]) -> dict[Any, Any]:
        """Returns the rewards by the rewarder that is set."""
        given = reward_step(cast("Any", self._rewarder), rewards, before, actions, self.state)
        if not isinstance(given, Mapping):
            raise SpecError(f"rewarder: expected a mapping from agents, got {given!r}")
        return {agent: given.get(agent, 0.0) for agent in rewards}

    def observation(self, agent: Any) -> Any:
        if agent not in self._seen:
            raise self._roster.unseen(agent)
        return self._seen[agent]

    @property
    def state(self) -> Any:
        """The source's `state()` where it has one, else what each agent saw last."""
        if self._roster.phase is NOT_BEGUN:
            raise EpisodeError(f"state: {NOT_BEGUN}")
        if self._form is not None:
            return self._form.multi.state
        try:
            return self._take_state(self.source.state())
        except NotImplementedError:
            return dict(self._seen)

    @property
    def rng(self) -> np.random.Generator:
        """The source's `np_random` where it has one; settable.

        A source without one is seeded from it at its next reset, for PettingZoo knows no other way.
        """
        if self._form is not None:
            return self._form.multi.rng
        generator = getattr(self.source.unwrapped, "np_random", None)
        return generator if isinstance(generator, np.random.Generator) else self.streams.dynamics

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams, self._next_seed = Streams.from_generator(generator), None
        native = self.source.unwrapped
        if self._form is not None:
            self._form.multi.rng = generator
        elif isinstance(getattr(native, "np_random", None), np.random.Generator):
            native.np_random = generator
        else:
            self._next_seed = int(deepcopy(generator).integers(2**31))

    def snapshot(self) -> Snapshot:
        held = {name: value for name, value in vars(self).items() if name in self._memory}
        return Snapshot(type(self), (Content(self._parts()), deepcopy(held)))

    def restore(self, snapshot: Snapshot) -> None:
        content, held = self._content(snapshot)
        content.put_back(self._parts())
        vars(self).update(deepcopy(held))
        self._prepare()

    def _parts(self) -> list[Any]:
        """Returns the source's layers, outermost first, and its spaces: the objects that `restore` keeps."""
        found = [self.source]
        while not isinstance(found[-1], Form):
            held = (vars(found[-1]).get(name) for name in ("env", "aec_env"))
            inner = next((layer for layer in held if isinstance(layer, (AECEnv, ParallelEnv))), None)
            if inner is None:
                break
            found.append(inner)
        source, agents = self.source, self.possible_agents
        each = [space(agent) for agent in agents for space in (source.observation_space, source.action_space)]
        return [*found, *{id(space): space for space in each}.values()]

    def render(self) -> Any:
        return self.source.render()

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.source.close()

    @property
    def unwrapped(self) -> Any:
        return self.source.unwrapped

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in self._planned}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._plan()
