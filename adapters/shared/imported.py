"""The base of the importers of all frameworks: a template with hooks for the differences.

| hook | purpose |
|---|---|
| `_describe` | sets specs, `metadata` and `render_mode` |
| `_plan` | sets the attributes that steps need, see `Planned` |
| `_seed_source` | seeds the source before its reset, if the reset itself takes no seed |
| `_begin` | resets the source |
| `_parts` | the layers of the source, whose attributes snapshots contain |
| `_source_state`, `_source_rng`, `_replace_rng` | the source's own state and generator |

A source may be a form of envoi, possibly inside wrappers of its framework. State, generator, options and lanes are then
those of its core, because the framework may not support them.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np

from envoi import BatchEnv, Env, EpisodeError, Lanes, Reset, Snapshot, Streams
from envoi.protocol.env import NOT_RESET
from envoi.protocol.process import Process
from envoi.seeding import check_seed

from .arrival import Copy
from .core_holder import CoreHolder
from .introspection import Content
from .planned import Planned, declared_names
from .reset_options import ResetOptions


class FromSource(Process):
    """A core environment that represents one of a framework.

    Attributes:
        source: The framework's environment, wrappers and all.
    """

    source: Any

    _framework: ClassVar[str]
    """The framework's name in the registry."""

    _closed: bool = False

    def close(self) -> None:
        if not self._closed:
            self._closed = True
            self.source.close()

    @property
    def unwrapped(self) -> Any:
        return self.source.unwrapped

    def __repr__(self) -> str:
        return f"from_{self._framework}({self.source})"


class Imported(Planned, ResetOptions, FromSource):
    """Base of importers of one agent, of several, and of many lanes.

    A class lists in `_memory` the names of the attributes that change during an episode, apart from those of its
    bases; snapshots contain them.

    Args:
        source: The framework's environment, possibly wrapped.
        copy: The rule for copying observations, see `envoi.adapters.shared.arrival.Copy`.
    """

    _memory: ClassVar[tuple[str, ...]] = ("_over", "_streams")

    def __init__(self, source: Any, copy: Copy = "auto") -> None:
        self.source = source
        self._copy: Copy = copy
        # Attributes of the instance, because steps read these faster than attributes of the class.
        self._observation: Any = None
        self._rewarder = None
        self._closed = False
        self._find_form()
        self._describe()
        self._plan()

    @abstractmethod
    def _describe(self) -> None:
        """Sets the specs, `metadata` and `render_mode`, as the source has them."""

    def _find_form(self) -> None:
        """Finds the form of envoi inside the source; called again if the source is replaced."""
        native = self.unwrapped
        self._form_inside = native if isinstance(native, CoreHolder) else None

    @property
    def form_inside(self) -> CoreHolder | None:
        return self._form_inside

    @property
    def core_inside(self) -> Any:
        """The core environment of `form_inside`, or None."""
        form = self._form_inside
        return None if form is None else form.core

    @abstractmethod
    def _check_begun(self, what: str) -> None:
        """Raises an EpisodeError before the first reset.

        Args:
            what: The attribute or method that needs an episode.
        """

    @property
    def state(self) -> Any:
        """The state of the source if it has one, else the observation; see the importer's module."""
        self._check_begun("state")
        form = self._form_inside
        return self._source_state() if form is None else form.core.state

    def _source_state(self) -> Any:
        return self._observation

    @property
    def rng(self) -> np.random.Generator:
        """The source's generator if it has one, else the import's own; settable."""
        core = self.core_inside
        return (self._source_rng() or self.streams.dynamics) if core is None else core.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self._streams = Streams.from_generator(generator)
        core = self.core_inside
        if core is None:
            self._replace_rng(generator)
        else:
            core.rng = generator

    def _source_rng(self) -> np.random.Generator | None:
        return None

    def _replace_rng(self, generator: np.random.Generator) -> None:
        """Replaces the source's generator, if it has one."""

    def snapshot(self) -> Snapshot:
        held = [getattr(self, name) for name in declared_names(type(self), "_memory")]
        return Snapshot(self._kind, (self._hold_source(), deepcopy(held)))

    def restore(self, snapshot: Snapshot) -> None:
        content, held = self._content(snapshot)
        self._put_back_source(content)
        for name, value in zip(declared_names(type(self), "_memory"), deepcopy(held), strict=True):
            setattr(self, name, value)

    def _hold_source(self) -> Any:
        """Returns a copy of all attributes of the source.

        Raises:
            SnapshotUnsupported: An attribute cannot be copied.
        """
        return Content(self._parts())

    def _put_back_source(self, content: Any) -> None:
        """Restores what `_hold_source` returned."""
        content.put_back(self._parts())

    def _parts(self) -> list[Any]:
        """Returns the layers of the source and their spaces, the objects that a restore does not replace."""
        return [self.source]

    def render(self) -> Any:
        return self.source.render()


class ImportedEnv(Imported, Env):
    """Base of importers of one agent.

    Args:
        source: The framework's environment, possibly wrapped.
        copy: The rule for copying observations, see `envoi.adapters.shared.arrival.Copy`.

    Attributes:
        source: The framework's environment.
    """

    _memory = ("_observation",)

    def __init__(self, source: Any, copy: Copy = "auto") -> None:
        self._over: str | None = NOT_RESET
        super().__init__(source, copy)

    def _check_begun(self, what: str) -> None:
        if self._over == NOT_RESET:
            raise EpisodeError(f"{what}: {NOT_RESET}")

    def reset(self, *, seed: int | None = None, options: Mapping[str, Any] | None = None) -> Reset:
        if options and not self.has_place:
            self._give_options(options)
        if seed is not None:
            seed = check_seed(seed)  # a Python integer, because sources may accept no other
            self._seed_source(seed)
            self._streams = Streams(seed)
        observation, info = self._begin(seed, options)
        self._observation, self._over = observation, None
        return Reset(observation, info)

    def _seed_source(self, seed: Any) -> None:
        """Seeds the source before its reset, in addition to the seed that its reset takes."""

    @abstractmethod
    def _begin(self, seed: int | None, options: Mapping[str, Any] | None) -> tuple[Any, dict[Any, Any]]:
        """Resets the source; returns the observation, converted for the core, and a new dict of the info."""

    @property
    def observation(self) -> Any:
        if self._over == NOT_RESET:
            self._check_begun("observation")
        return self._observation


class ImportedBatch(Imported, BatchEnv):
    """Base of importers of many lanes, which the source steps together.

    Args:
        source: The framework's environment, possibly wrapped.
        n: The number of lanes.
        copy: The rule for copying observations, see `envoi.adapters.shared.arrival.Copy`.

    Attributes:
        source: The framework's environment.
    """

    _memory = ("_observation", "_begun")

    def __init__(self, source: Any, n: int, copy: Copy = "auto") -> None:
        BatchEnv.__init__(self, n)
        self._begun = False
        self._over: Any = np.zeros(n, bool)  # the lanes that have ended
        super().__init__(source, copy)

    def _check_begun(self, what: str) -> None:
        if not self._begun:
            raise EpisodeError(f"{what}: {NOT_RESET}")

    @property
    def observation(self) -> Any:
        self._check_begun("observation")
        return self._observation


class ImportedLanes(FromSource, Lanes):
    """Base of importers of many lanes that can be reached and stepped one by one.

    Args:
        source: The framework's environment.
        lanes: The lanes, as core environments.
    """

    def __init__(self, source: Any, lanes: list[Any]) -> None:
        Lanes.__init__(self, lanes)
        self.source = source
        self._closed = False

    @property
    def is_unchanged(self) -> bool:
        """True as long as the source behaves like this batch, because no lane was changed."""
        return all(lane.is_unchanged for lane in self.envs)
