"""The base of the importers of PettingZoo's two APIs: specs, the roster, infos, the state, seeds and snapshots."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Collection, Mapping, Sequence
from copy import deepcopy
from typing import Any

import numpy as np
from gymnasium import spaces
from pettingzoo import AECEnv, ParallelEnv

from envoi import Array, Discrete, EpisodeError, LossyConversion, MultiStep, Snapshot, SpecError, zeros
from envoi.protocol.episode import RUNNING
from envoi.protocol.multi_env import COMMON, MASK, MultiStepValues, full_multi_step
from envoi.protocol.roster import Roster
from envoi.spec import SpecTree

from ..gymnasium.specs import encoder, from_space
from ..shared.arrival import Copy, incoming
from ..shared.copying import owned
from ..shared.discounts import is_number
from ..shared.imported_multi import ImportedMulti
from .form_base import NAME, Form

_OF_AGENTS = ("_prepared_for", "_each", "_false", "_silent", "_slots", "_awaited")


class FromZoo(ImportedMulti):
    """Base of the importers of both APIs.

    Args:
        source: The PettingZoo environment, possibly wrapped.
        copy: Which observations to copy, see `from_pettingzoo`.
        at_once: True if all agents in play act in every step, as far as is known.

    Attributes:
        source: The PettingZoo environment.
        at_once: True if all agents in play act in every step, as far as is known.
        turns_in_infos: True if the infos of a step may name the agents that act next.

    Raises:
        LossyConversion: The source has no `possible_agents`, or a `Sequence` space stacks elements that are not arrays.
    """

    turns_in_infos = False

    _framework = NAME
    _planned = ("_encoders", "_take_state", "_masked", "_native", "_dtypes", *_OF_AGENTS)
    _memory = ("_news", "_next_seed")

    def __init__(self, source: Any, copy: Copy, at_once: bool) -> None:
        self.at_once = at_once
        self._news: Any = None  # the observations of the last step where `_saw` has them not yet
        self._next_seed: int | None = None
        super().__init__(source, copy)

    def _agents(self) -> tuple[Any, ...]:
        possible = getattr(self.source, "possible_agents", None)
        if possible is None:
            hint = "give the environment a list `possible_agents` of all that may appear"
            raise LossyConversion("possible_agents", "absence", str(self.source), "the core", hint)
        return tuple(possible)  # for some sources remove the dead from their list

    def _space(self, what: str, agent: Any) -> spaces.Space[Any]:
        return getattr(self.source, f"{what}_space")(agent)

    def _spec(self, what: str, agent: Any) -> SpecTree:
        return from_space(self._space(what, agent), f"{what}_space({agent!r})")

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
        # A copy, because the source may keep an action, or change it in place.
        encoders = {agent: encoder(spec, fresh=True) for agent, spec in self.action_spec.items()}
        self._encoders = {agent: encode for agent, encode in encoders.items() if encode is not None}
        self._take_state = deepcopy if self.state_spec is None else incoming(self.state_spec, self._copy)
        # The agents whose mask is in their observation; forms of envoi have it in the info already.
        specs = self.observation_spec.items() if self._form_inside is None else ()
        self._masked = tuple(agent for agent, spec in specs if isinstance(spec, dict) and MASK in spec)
        self._prepare()

    def _prepare(self) -> None:
        """Prepares what each step needs while the same agents are in play."""
        self._prepared_for = agents = self._roster.playing
        self._each = tuple((agent, self._dtypes[agent]) for agent in agents)
        # Flags and infos of a quiet step.
        self._false = dict.fromkeys(agents, False)
        # If masks come from observations, infos are never empty.
        self._silent = None if self._masked else {agent: {} for agent in agents}
        self._prepare_turn()

    def _prepare_turn(self) -> None:
        """Prepares what each step needs while the same agents act."""
        roster = self._roster
        self._slots = dict.fromkeys(roster.acting)  # in which the actions get their order
        self._awaited = len(roster.acting) if roster.phase is RUNNING else -1  # how many actions are right

    def step(self, actions: Mapping[Any, Any]) -> MultiStep:
        return full_multi_step(self.step_values(actions))

    @abstractmethod
    def step_values(self, actions: Mapping[Any, Any]) -> MultiStepValues:
        """Acts once; see `envoi.protocol.fast_steps.fast_multi_step`."""

    @property
    def _seen(self) -> dict[Any, Any]:
        """The latest observation of each agent, updated on access after quiet steps."""
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
        spec: Any = self.observation_spec[agents[0]]  # an `Array`
        rows = np.frombuffer(news, spec.dtype).reshape(len(agents), -1).copy()
        # A source may give other shapes than it declares.
        shape = spec.shape if rows.shape[1] == np.prod(spec.shape) else rows.shape[1:]
        return {agent: row.reshape(shape) for agent, row in zip(agents, rows, strict=True)}

    def _enter(self, roster: Roster) -> None:
        """Makes a roster the current one, and prepares its steps."""
        playing = roster.playing
        if playing != self._roster.playing:
            self._saw = self._seen  # before the change, because `_news` is in the order of the previous agents
        self._roster = roster
        if playing and playing != self._prepared_for:
            self._prepare()
        else:
            self._prepare_turn()

    def _abandon(self) -> None:
        """Ends the episode of all agents, because the source cannot continue it."""
        self._enter(self._roster.abandoned())

    def _next_roster(self, playing: Collection[Any], ended: Collection[Any], turn: tuple[Any, ...] | None) -> Roster:
        """Returns the roster after a step; if it is not a possible one, ends the episode and raises an error."""
        try:
            return self._roster.after(playing, ended, turn, self.source)
        except (EpisodeError, SpecError):
            self._abandon()
            raise

    def _sorted(self, actions: Mapping[Any, Any]) -> dict[Any, Any]:
        """Returns the actions in the order of the acting agents; raises EpisodeError if others act."""
        self._roster.check_actions(actions)
        return {agent: actions[agent] for agent in self._roster.acting}

    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> Any:
        result = super()._begin(seed, options)
        self._news, self._awaited = None, -1
        return result

    def _source_seed(self, seed: int | None) -> int | None:
        following, self._next_seed = self._next_seed, None
        return following if seed is None else seed

    def _first_roster(self, playing: Collection[Any], turn: tuple[Any, ...] | None) -> Roster:
        """Returns the roster at the beginning of an episode; one without agents is over at once."""
        first = self._roster.begin(playing, turn)
        return first if playing else first.abandoned()

    def _in_play(self, listed: Collection[Any]) -> tuple[Any, ...]:
        """Returns the source's agents in the core's order; raises SpecError if one is not possible."""
        self._roster.check_possible(listed, self.source)
        return self._roster.order(listed)

    def _quiet(self, arrived: dict[Any, Any], rewards: dict[Any, Any], infos: Mapping[Any, Any]) -> MultiStepValues:
        """Returns a step in which no agent has ended or joined, but infos, and maybe discounts, are not empty."""
        agents, discounts = self._roster.playing, {}
        own_infos = self._own_infos(infos, agents, discounts)
        if not discounts:
            return arrived, rewards, None, None, None, own_infos
        return (
            arrived,
            rewards,
            {**self._false},
            {**self._false},
            {**dict.fromkeys(agents, 1.0), **discounts},
            own_infos,
        )

    def _own_infos(
        self, infos: Mapping[Any, Any], affected: Sequence[Any], discounts: dict[Any, Any] | None = None
    ) -> dict[Any, Any]:
        """Converts the source's infos for the core.

        Args:
            infos: The source's infos.
            affected: The agents of the step.
            discounts: A dict to which the discounts in the infos are moved; None leaves them in the infos.
        """
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
                own_infos[agent][MASK] = self._mask(agent)
        if len(infos) > known:  # keys of other agents, or of none
            for key, entry in infos.items():
                if key == COMMON:
                    common = {**common, **entry}
                elif key not in self.observation_spec:
                    common = {**common, key: entry}
        if common:
            own_infos[COMMON] = {**common}
        return own_infos

    def _mask(self, agent: Any) -> Any:
        return np.array(self._seen[agent][MASK], np.int8 if isinstance(self.action_spec[agent], Discrete) else None)

    def _last_look(self, agent: Any) -> Any:
        """Returns the final observation of an agent whose source gives none."""
        return self._seen[agent] if agent in self._seen else zeros(self.observation_spec[agent])

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
        """Gives the source a generator, if it has an `np_random`.

        A source without `np_random` is seeded from a new one at its next reset, because PettingZoo has no other way.
        """
        self._next_seed = None
        if self._source_rng() is not None:
            self.unwrapped.np_random = generator
        else:
            self._next_seed = int(deepcopy(generator).integers(2**31))

    def restore(self, snapshot: Snapshot) -> None:
        super().restore(snapshot)
        self._prepare()

    def _layers(self) -> list[Any]:
        found = [self.source]
        while not isinstance(found[-1], Form):
            held = (vars(found[-1]).get(name) for name in ("env", "aec_env"))
            inner = next((layer for layer in held if isinstance(layer, (AECEnv, ParallelEnv))), None)
            if inner is None:
                break
            found.append(inner)
        return found
