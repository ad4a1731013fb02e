"""The base of importers of one agent: `imported`, with `reset` and the errors before it.

| hook | purpose |
|---|---|
| `seed_source` | seeds the source before its reset, if the reset itself takes no seed |
| `_begin` | resets the source |
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, NoReturn

from envoi import Env, EpisodeError, Reset, Streams
from envoi.protocol.episode import NOT_BEGUN, RUNNING, EpisodeState
from envoi.seeding import check_seed

from .arrival import Copy
from .imported import Imported


class ImportedEnv(Imported, Env):
    """Base of importers of one agent.

    Args:
        source: The framework's environment, possibly wrapped.
        copy: The rule for copying observations, see `envoi.adapters.shared.arrival.Copy`.

    Attributes:
        source: The framework's environment.
    """

    _memory = ("_observation", "_episode_state")

    def __init__(self, source: Any, copy: Copy = "auto") -> None:
        self._episode_state: EpisodeState = NOT_BEGUN
        super().__init__(source, copy)

    def _check_begun(self, what: str) -> None:
        if self._episode_state is NOT_BEGUN:
            raise EpisodeError(f"{what}: {NOT_BEGUN}")

    def _refuse(self) -> NoReturn:
        """Raises the error of a step while no episode is running."""
        raise EpisodeError(f"step: {self._episode_state}")

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        if options and not self.has_place:
            self._give_options(options)
        if seed is not None:
            seed = check_seed(seed)  # a Python integer, because sources may accept no other
            self.seed_source(seed)
            self._streams = Streams(seed)
        observation, info = self._begin(seed, options)
        self._observation, self._episode_state = observation, RUNNING
        return Reset(observation, info)

    def seed_source(self, seed: Any) -> None:
        """Seeds the source before its reset, in addition to the seed that its reset takes."""

    @abstractmethod
    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, dict[Any, Any]]:
        """Resets the source; returns the observation, converted for the core, and a new dict of the info."""

    @property
    def observation(self) -> Any:
        if self._episode_state is NOT_BEGUN:
            self._check_begun("observation")
        return self._observation
