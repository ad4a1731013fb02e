"""Multi-agent models: pure functions over an explicit state, like `Model` for a single agent."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Callable, Collection, Mapping
from typing import Any, cast

import numpy as np

from ..errors import EpisodeError, SpecError
from ..protocol.env import refuse_masks
from ..protocol.multi_env import COMMON, MASK, SYNTHETIC, MultiEnv, MultiReset, MultiStep, as_multi_step
from ..protocol.process import Info, Snapshot
from ..protocol.reset_options import of_the_episode
from ..protocol.roster import HasRoster, Roster
from ..seeding import Streams
from ..steps.flat import flat_step
from ..steps.program import Program, Stage
from ..steps.record import NOT_BEGUN
from ..tree import AnyMapping
from .model import AnyModel

_NONE: frozenset[Any] = frozenset()


class _Turn:
    """The property `turn` of a model whose author defines a method `turn(self, state)`.

    On an instance it is the agents that act next, as in every `MultiEnv`. In a subclass, `super().turn` is the author's
    method.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function

    def __get__(self, env: MultiModel | None, owner: type[MultiModel]) -> Any:
        if env is None:
            return self
        is_its_own = cast("Any", type(env)).turn is self  # and not that of a base class
        return HasRoster.turn.__get__(env) if is_its_own else self._function.__get__(env)


class MultiModel(HasRoster, AnyModel, MultiEnv):
    """A multi-agent environment defined by pure functions. Subclass it, set the specs, and write the functions.

        class Matching(envoi.MultiModel):
            possible_agents = ("even", "odd")
            observation_spec = dict.fromkeys(possible_agents, envoi.Discrete(2))
            action_spec = dict.fromkeys(possible_agents, envoi.Discrete(2))

    Define `initial`, `transition`, `observe`, `reward` and `terminal`. `truncated`, `turn`, `live`, `mask`, `discount`,
    `info`, `draw` and `context_space` are optional.

    As in a `Model`, a state is never modified, and all randomness comes from the given `rng`. A turn-based game defines
    a method `turn(self, state)`, which returns the agents that act in `state`. On an instance, `turn` is a property, as
    in every `MultiEnv`: the agents that act next.
    """

    _state: Any = None
    _roster: Roster = Roster(())
    _of_episode = ("_state", "_roster", "_seen", "_streams")
    _seen: dict[Any, Any] = {}  # noqa: RUF012 (replaced at each step, never written)

    @abstractmethod
    def initial(self, rng: np.random.Generator, context: Mapping[str, Any]) -> Any:
        """Returns the initial state of an episode.

        Args:
            rng: The dynamics stream.
            context: The values of this episode; see `Model.initial`.
        """
        raise NotImplementedError

    @abstractmethod
    def transition(self, state: Any, actions: Mapping[Any, Any], rng: np.random.Generator) -> Any:
        """Returns the next state.

        Args:
            state: The current state.
            actions: The actions of the acting agents.
            rng: The dynamics stream.
        """
        raise NotImplementedError

    @abstractmethod
    def observe(self, state: Any, agent: Any, rng: np.random.Generator) -> Any:
        """Returns the observation of an agent.

        Args:
            state: The state.
            agent: The agent.
            rng: The observation stream, which is separate from the dynamics stream.

        Returns:
            A value of `observation_spec[agent]`, or None if an agent that has just ended has no final observation. Its
            previous observation is then repeated, and its info marks this.
        """
        raise NotImplementedError

    @abstractmethod
    def reward(self, state: Any, actions: Mapping[Any, Any], next_state: Any) -> Mapping[Any, Any]:
        """Returns the rewards of a transition as a dict by agent. Agents without an entry get 0.

        Args:
            state: The state before the actions.
            actions: The actions of the acting agents.
            next_state: The state after them.
        """
        raise NotImplementedError

    @abstractmethod
    def terminal(self, state: Any) -> Collection[Any] | Mapping[Any, bool] | bool:
        """Returns the agents for which `state` is terminal, a dict of flags by agent, or True for all agents."""
        raise NotImplementedError

    def truncated(self, state: Any) -> Collection[Any] | Mapping[Any, bool] | bool:
        """Returns the agents that are truncated at `state`, a dict of flags by agent, or True for all agents."""
        return False

    def live(self, state: Any) -> Collection[Any] | None:
        """Returns the agents in play at `state`, or None for all agents that have not ended.

        Leave out agents that have not joined yet.
        """
        return None

    def mask(self, state: Any, agent: Any) -> Any:
        """Returns the mask of an agent's legal actions.

        Args:
            state: The state.
            agent: The agent.

        Returns:
            For `Discrete`, an int8 array of shape (n,) with 1 for legal actions. None if all actions are legal.
        """
        return None

    def discount(self, state: Any) -> Mapping[Any, Any] | None:
        """Returns discounts by agent, for agents that do not use the default (0 after termination, otherwise 1)."""
        return None

    def info(self, state: Any) -> Mapping[Any, Info]:
        """Returns new info dicts by agent. Put entries that belong to no agent under `"__common__"`."""
        return {}

    @property
    def at_once(self) -> bool:
        """True if agents act simultaneously, because the class does not define `turn`."""
        return type(self)._turn_in is MultiModel._turn_in

    def _turn_in(self, state: Any) -> Collection[Any] | None:
        return None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        turn: Any = cls.turn
        if callable(turn):
            setattr(cls, "_turn_in", turn)  # noqa: B010 (type checkers accept only methods and properties here)
            setattr(cls, "turn", _Turn(turn))  # noqa: B010

    # The rest runs the episode; authors do not override it.

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> MultiReset:
        context = of_the_episode(self.context_space, self.context, options) if options else self.context
        streams = self.streams if seed is None else Streams(seed)
        state = self.initial(streams.dynamics, context)
        roster, terminated, truncated = _read_roster(self, state, Roster(self.possible_agents).begin(()))
        if terminated or truncated or not roster.playing:
            raise SpecError(f"initial: expected a state in which agents are in play and none has ended, got {state!r}")
        acting = roster.acting
        seen = {agent: self.observe(state, agent, streams.observation) for agent in acting}
        infos = _read_infos(self, state, roster.playing, acting)
        # Only now, as in `step`.
        self._state, self._roster, self._seen, self._streams = state, roster, seen, streams
        return MultiReset(dict(seen), infos)

    def step(self, actions: Mapping[Any, Any], *masks: Any, **named: Any) -> MultiStep:
        refuse_masks(*masks, **named)
        if self._written_step is None:
            self._written_step = flat_step(MultiModel.step_program, as_multi_step, self)
        return self._written_step(self, actions)

    def step_program(self) -> Program:
        """Returns the stages of a step: calls to the functions that the author wrote."""
        lines = """\
earlier.check_actions(action)
streams = model._streams or model.streams
given = {**action}
state = model.transition(before, given, streams.dynamics)
roster, ended, cut = read_roster(model, state, earlier)
affected = earlier.playing if roster.playing is earlier.playing else roster.affected(earlier)
info = read_infos(model, state, affected, roster.acting)
observation = read_observations(model, state, affected, (earlier, roster), ended | cut, info)
reward = read_rewards((model._rewarder or model.reward)(before, given, state), affected)
terminated, truncated, discount = read_ends(model, state, affected, earlier, ended, cut)
_last = {_agent: _one for _agent, _one in model._seen.items() if _agent in roster.ended} if roster.ended else {}
model._state, model._roster, model._seen = state, roster, {**_last, **observation}"""
        title, held = "MultiModel: the functions that its author wrote", "model._state, model._roster, model._seen"
        save, undo = f"_held0 = {held}", f"{held} = _held0"
        stage = Stage(title, lines, {"model": self, **_READERS}, guarded=True, save=save, undo=undo)
        kept = {"before": "model._state", "earlier": "model._roster"}
        return Program((stage,), self.step_record, kept)

    def observation(self, agent: Any) -> Any:
        if agent in self._seen:
            return self._seen[agent]
        if agent not in self._roster.playing:
            raise self._roster.unseen(agent)
        # A waiting agent observes with a copy of the generator, so that the call does not affect later random numbers.
        seen = self.observe(self._state, agent, copy.deepcopy(self.streams.observation))
        self._seen = {**self._seen, agent: seen}
        return seen

    @property
    def state(self) -> Any:
        """The state of the model.

        Raises:
            EpisodeError: The environment has not been reset yet.
        """
        if self._roster.phase is NOT_BEGUN:
            raise EpisodeError(f"state: {NOT_BEGUN}")
        return self._state

    def snapshot(self) -> Snapshot:
        return Snapshot(type(self), (self._state, self._roster, self._seen, self._context, self.streams.copy()))

    def restore(self, snapshot: Snapshot) -> None:
        self._state, self._roster, self._seen, self._context, streams = self._content(snapshot)
        self._streams = streams.copy()


def _read_roster(model: MultiModel, state: Any, before: Roster) -> tuple[Roster, frozenset[Any], frozenset[Any]]:
    """Returns the roster at `state`, and the agents that the step from `before` terminated and truncated."""
    live, terminal, truncated = model.live(state), model.terminal(state), model.truncated(state)
    if live is None and before.playing and not terminal and not truncated:
        return before.with_turn(_read_turn(model, state, before.playing)), _NONE, _NONE
    if live is None:
        live = before.playing or before.possible
    here = {*before.playing, *live}
    ended, cut = _chosen(model, terminal, here, "terminal"), _chosen(model, truncated, here, "truncated")
    roster = before.after(live, ended | cut, where="live")
    return roster.with_turn(_read_turn(model, state, roster.playing)), ended, cut


def _chosen(
    model: MultiModel, agents: Collection[Any] | Mapping[Any, bool] | bool, here: set[Any], what: str
) -> frozenset[Any]:
    if isinstance(agents, (bool, np.bool_)):
        return frozenset(here) if agents else _NONE
    if isinstance(agents, AnyMapping):  # flags by agent, as in PettingZoo
        agents = [agent for agent, flag in agents.items() if flag]
    if isinstance(agents, str):  # would be read as a collection of letters
        raise SpecError(f"{what}: expected a collection of agents, or True for all, got {agents!r}")
    chosen = frozenset(agents)
    if strange := chosen.difference(model.possible_agents):
        raise SpecError(f"{what}: {sorted(map(str, strange))} are not among {list(model.possible_agents)}")
    return chosen & here


def _read_turn(model: MultiModel, state: Any, agents: tuple[Any, ...]) -> tuple[Any, ...] | None:
    turn = model._turn_in(state)  # pyright: ignore[reportPrivateUsage] (of the same class)
    if turn is None:
        return None
    acting = tuple(agent for agent in agents if agent in turn)
    if agents and not acting:
        raise SpecError(f"turn: expected some of {list(agents)}, who are in play, got {list(turn)}")
    return acting


def _read_infos(model: MultiModel, state: Any, agents: tuple[Any, ...], acting: tuple[Any, ...]) -> dict[Any, Info]:
    given = model.info(state)
    infos: dict[Any, Info] = {agent: dict(given.get(agent, ())) for agent in agents}
    for agent in acting:
        mask = model.mask(state, agent)
        if mask is not None:
            infos[agent][MASK] = mask
    if COMMON in given:
        infos[COMMON] = dict(given[COMMON])
    return infos


def _read_observations(
    model: MultiModel,
    state: Any,
    affected: tuple[Any, ...],
    rosters: tuple[Roster, Roster],
    gone: frozenset[Any],
    infos: dict[Any, Info],
) -> dict[Any, Any]:
    """Returns the observations of agents that act next, and the final observations of agents in `gone`."""
    earlier, roster = rosters
    acting = roster.acting
    for agent in gone.intersection(earlier.playing) if gone else ():
        model.observation(agent)  # it may be repeated, so before any new random number
    seen = {a: model.observe(state, a, model.streams.observation) for a in affected if a in gone or a in acting}
    for agent in gone.intersection(seen) if gone else ():
        if seen[agent] is None:
            infos[agent][SYNTHETIC] = True
            seen[agent] = model.observation(agent)
    return seen


def _read_rewards(rewards: Any, affected: tuple[Any, ...]) -> dict[Any, Any]:
    if not isinstance(rewards, AnyMapping):
        raise SpecError(f"reward: expected a mapping from agents, got {rewards!r}")
    return {agent: rewards.get(agent, 0.0) for agent in affected}


def _read_ends(
    model: MultiModel,
    state: Any,
    affected: tuple[Any, ...],
    earlier: Roster,
    ended: frozenset[Any],
    cut: frozenset[Any],
) -> tuple[Any, Any, Any]:
    """Returns flags and discounts by agent; None for a quiet step, with default flags and discounts."""
    special = model.discount(state)
    if not (ended or cut or special or len(affected) > len(earlier.playing)):
        return None, None, None
    terminated, truncated = ({agent: agent in left for agent in affected} for left in (ended, cut))
    discounts = {agent: 0.0 if agent in ended else 1.0 for agent in affected}
    discounts |= {agent: factor for agent, factor in (special or {}).items() if agent in discounts}
    return terminated, truncated, discounts


# Functions, because an author may give a method any name.
_READERS: dict[str, Any] = {
    "read_roster": _read_roster,
    "read_infos": _read_infos,
    "read_observations": _read_observations,
    "read_rewards": _read_rewards,
    "read_ends": _read_ends,
}
