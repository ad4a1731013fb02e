"""The record of an episode: why the next step must not simply run, shared by a model and the wrappers around it."""

from __future__ import annotations

from typing import Any, NoReturn
from weakref import WeakSet

from ..errors import EpisodeError
from ..protocol.episode import NOT_BEGUN as NOT_BEGUN
from ..protocol.episode import OVER as OVER
from ..protocol.episode import RUNNING, EpisodeState


class Record:
    """Where the episode of one lane is, for all layers that step as one function.

    Attributes:
        halt: The reason why no step can be taken; None while the episode is running.
    """

    __slots__ = ("__weakref__", "_gates", "halt")

    def __init__(self, halt: EpisodeState | None = NOT_BEGUN) -> None:
        self.halt = halt
        self._gates: WeakSet[Any] = WeakSet()

    @property
    def phase(self) -> EpisodeState:
        """Where the episode is."""
        return self.halt or RUNNING

    @phase.setter
    def phase(self, phase: EpisodeState) -> None:
        self.halt = None if phase is RUNNING else phase

    def refuse(self, *_: Any) -> NoReturn:
        """Raises the reason why no step can be taken."""
        raise EpisodeError(f"step: {self.phase}")

    def add(self, gate: Any) -> None:
        """Adds the gate of a written step, which `stale` outdates."""
        self._gates.add(gate)

    def stale(self) -> None:
        """Makes all steps that were written around this record be written again when they are called next."""
        for gate in self._gates:
            gate.is_stale = True
        self._gates.clear()

    def __reduce__(self) -> tuple[Any, ...]:
        return Record, (self.halt,)  # no written step holds a copy
