"""The base of the importers of all frameworks: a template with hooks for the differences.

| hook | purpose |
|---|---|
| `_describe` | sets specs, `metadata` and `render_mode` |
| `_plan` | sets the attributes that steps need, see `Planned` |
| `_parts` | the layers of the source, whose attributes snapshots contain |
| `_source_state`, `_source_rng`, `_replace_rng` | the source's own state and generator |

`imported_env` adds to it for one agent, `imported_multi` for several, and `imported_batch` for many lanes.

A source may be a form of envoi, possibly inside wrappers of its framework. State, generator, options and lanes are then
those of its core, because the framework may not support them.
"""

from __future__ import annotations

from abc import abstractmethod
from copy import deepcopy
from typing import Any, ClassVar

import numpy as np

from envoi import Snapshot, Streams
from envoi.protocol.process import Process

from .arrival import Copy
from .core_holder import CoreHolder
from .introspection import Content
from .planned import Planned, declared_names
from .reset_options import ResetOptions


class FromSource(Process):
    """A core environment that represents one of a framework.

    Attributes:
        source: The framework's environment, possibly wrapped.
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

    _memory: ClassVar[tuple[str, ...]] = ("_streams",)

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
        core = self.core_inside
        return self._source_state() if core is None else core.state

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
