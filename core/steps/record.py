"""The record of an episode, shared by a model and its wrappers: the reason why the next step must not simply run."""

from __future__ import annotations

from enum import Enum, auto
from typing import Any, NoReturn
from weakref import WeakSet

from ..errors import EpisodeError

NOT_RESET = "the episode has not begun; call reset() first"
ENDED = "the episode has ended; call reset() before the next step"
ENDED_LANES = "the episode has ended; reset them by reset(mask=…), or in the next step by step(actions, restart=…)"


class EpisodeState(Enum):
    """The phase of an episode. Its text is the reason why no step can be taken."""

    NOT_BEGUN = auto()
    RUNNING = auto()
    OVER = auto()

    def __str__(self) -> str:
        return _REASONS.get(self, "the episode is running")


NOT_BEGUN, RUNNING, OVER = EpisodeState.NOT_BEGUN, EpisodeState.RUNNING, EpisodeState.OVER
"""The states by names of a module, which steps look up faster than the attributes of an enum."""

_REASONS = {NOT_BEGUN: NOT_RESET, OVER: ENDED}


class Record:
    """The phase of one lane's episode, shared by all layers that step as one function.

    Attributes:
        halt: The reason why no step can be taken; None while the episode is running.
    """

    __slots__ = ("__weakref__", "_gates", "halt")

    def __init__(self, halt: EpisodeState | None = NOT_BEGUN) -> None:
        self.halt = halt
        self._gates: WeakSet[Any] = WeakSet()

    @property
    def phase(self) -> EpisodeState:
        """The phase of the episode."""
        return self.halt or RUNNING

    @phase.setter
    def phase(self, phase: EpisodeState) -> None:
        self.halt = None if phase is RUNNING else phase

    def refuse(self, *_: Any) -> NoReturn:
        """Raises the reason why no step can be taken."""
        raise EpisodeError(f"step: {self.phase}")

    def add(self, gate: Any) -> None:
        """Adds the gate of a written step, so that `stale` can mark it."""
        self._gates.add(gate)

    def stale(self) -> None:
        """Marks all steps written for this record as stale, so that their next call writes them again."""
        for gate in self._gates:
            gate.is_stale = True
        self._gates.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (self.halt,)  # no written step holds a copy
