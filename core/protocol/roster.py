"""The agents of a multi-agent environment: which are in play, which have ended, and whose turn it is.

A `Roster` is immutable. A reset makes a new one, and so does a step in which agents join, end or pass the turn, so that
an error meanwhile changes nothing:

    roster = Roster(("a", "b", "c")).begin(["a", "b"])     # c joins late
    roster = roster.after(["b", "c"], ended=["a"])         # a ends, c joins
    roster = roster.after(ended=["b", "c"])                # the episode is over
    roster.after(["a"])                                    # EpisodeError: a has ended

All other steps keep the same roster object.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from ..errors import EpisodeError, SpecError, nearest
from ..spec.base import shown
from ..steps.record import NOT_BEGUN, OVER, RUNNING, EpisodeState
from ..tree import AnyMapping

NOT_IN_PLAY = "has not been in play in this episode"


class LeftWithoutEnd(EpisodeError, SpecError):
    """An agent left the game without being terminated or truncated."""


@dataclass(frozen=True, slots=True)
class Roster:
    """The agents of an episode at one point in time."""

    possible: tuple[Any, ...]
    playing: tuple[Any, ...] = ()
    ended: frozenset[Any] = frozenset()
    turn: tuple[Any, ...] | None = None
    phase: EpisodeState = NOT_BEGUN

    @property
    def acting(self) -> tuple[Any, ...]:
        """The agents that act next."""
        return self.playing if self.turn is None else self.turn

    def begin(self, playing: Iterable[Any], turn: Sequence[Any] | None = None) -> Roster:
        """Returns the roster at the beginning of an episode. If no agent is in play, the episode is over at once."""
        now = self.order(playing)
        return Roster(self.possible, now, frozenset(), _checked_turn(turn, now), RUNNING if now else OVER)

    def after(
        self,
        playing: Collection[Any] | None = None,
        ended: Collection[Any] = (),
        turn: Sequence[Any] | None = None,
        where: object = "agents",
    ) -> Roster:
        """Returns the roster after a step; the same object if nothing has changed."""
        if playing is None and not ended and self.playing:
            return self.with_turn(turn)
        listed = set(self.playing if playing is None else playing)
        now = self.order(listed.difference(ended))
        self.check_not_ended(now, where)
        all_ended = self.ended.union(self.order(ended))
        if lost := [agent for agent in self.playing if agent not in all_ended and agent not in listed]:
            raise LeftWithoutEnd(
                f"{where}: {lost} left without an end, without being terminated or truncated; "
                "one of the two must be true of an agent that leaves"
            )
        phase = RUNNING if now else OVER
        if now == self.playing and len(all_ended) == len(self.ended) and phase is self.phase:
            return self.with_turn(turn)
        return Roster(self.possible, now, all_ended, _checked_turn(turn, now), phase)

    def with_turn(self, turn: Sequence[Any] | None) -> Roster:
        """Returns the roster with the given turn; the same object if the turn has not changed."""
        turn = None if turn is None else tuple(turn)
        if turn == self.turn:
            return self
        return Roster(self.possible, self.playing, self.ended, _checked_turn(turn, self.playing), self.phase)

    def abandoned(self) -> Roster:
        """Returns the roster of an episode that cannot continue: all agents in play have ended."""
        turn = None if self.turn is None else ()
        return Roster(self.possible, (), self.ended.union(self.playing), turn, OVER)

    def affected(self, before: Roster) -> tuple[Any, ...]:
        """Returns the agents that a step reports: in play before or after it, or ended by it."""
        if len(self.playing) + len(self.ended) == len(before.playing) + len(before.ended):
            return before.playing  # no agent has joined
        return self.order({*before.playing, *self.playing, *self.ended.difference(before.ended)})

    def order(self, agents: Iterable[Any]) -> tuple[Any, ...]:
        """Returns agents in the order of `possible`, each once."""
        named = set(agents)
        return tuple([agent for agent in self.possible if agent in named])  # faster than of a generator

    def check_possible(self, agents: Iterable[Any], where: object = "agents") -> None:
        """Checks that agents are among the possible ones."""
        if strange := set(agents).difference(self.possible):
            named = sorted(strange, key=str)
            near = nearest(str(named[0]), map(str, self.possible))
            raise SpecError(f"{where}: expected some of {list(self.possible)}, got {named}; {near}")

    def check_not_ended(self, agents: Iterable[Any], where: object = "agents") -> None:
        """Checks that no agent comes back after its end."""
        ended = self.ended
        if ended and (back := [agent for agent in agents if agent in ended]):
            raise EpisodeError(
                f"{where}: {back} ended before in this episode, and cannot come back; "
                "give a returning agent a name of its own"
            )

    def check_actions(self, actions: Mapping[Any, Any]) -> None:
        """Checks that exactly the agents whose turn it is act."""
        acting = self.playing if self.turn is None else self.turn
        if self.phase is RUNNING and actions.__class__ is dict and len(actions) == len(acting):
            for agent in acting:  # a loop, because `all` costs a tenth of a step of an imported game
                if agent not in actions:
                    break
            else:
                return
        check_actions(actions, acting, self.phase)

    def unseen(self, agent: Any) -> EpisodeError:
        """Returns the error for an observation of an agent that has not been in play in this episode."""
        return EpisodeError(f"observation: {agent!r} {NOT_IN_PLAY if self.phase is RUNNING else self.phase}")

    def __deepcopy__(self, memo: dict[int, Any]) -> Roster:
        return self


class HasRoster:
    """Base class of multi-agent environments that read `agents`, `turn` and `acting` from a roster."""

    _roster: Roster

    @property
    def agents(self) -> tuple[Any, ...]:
        """See `envoi.MultiEnv.agents`."""
        return self._roster.playing

    @property
    def turn(self) -> tuple[Any, ...] | None:
        """See `envoi.MultiEnv.turn`."""
        return self._roster.turn

    @property
    def acting(self) -> tuple[Any, ...]:
        """See `envoi.MultiEnv.acting`."""
        return self._roster.acting


def check_actions(actions: Mapping[Any, Any], acting: Sequence[Any], phase: EpisodeState = RUNNING) -> None:
    """Checks that there is an action for each acting agent, and for no other."""
    if phase is not RUNNING:
        raise EpisodeError(f"step: {phase}")
    if not isinstance(cast("Any", actions), AnyMapping):
        raise SpecError(f"step: expected an action for each of {list(acting)}, by name, got {shown(actions)}")
    if len(actions) == len(acting) and all(map(actions.__contains__, acting)):
        return
    missing = [agent for agent in acting if agent not in actions]
    extra = [agent for agent in actions if agent not in acting]
    raise EpisodeError(
        f"step: expected an action for each of {list(acting)}; "
        f"missing {missing}, not to act now {extra}"
        + (f" ({nearest(str(extra[0]), map(str, acting))})" if extra else "")
    )


def _checked_turn(turn: Sequence[Any] | None, playing: tuple[Any, ...]) -> tuple[Any, ...] | None:
    if turn is None:
        return None
    if strange := [agent for agent in turn if agent not in playing]:
        raise SpecError(f"turn: expected some of {list(playing)}, who are in play, got {strange}")
    return tuple(turn)
