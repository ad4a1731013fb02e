"""How a context is shown: beside observations, and in infos."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...context.observation_layout import Layout, appended, beside, by_name
from ...context.set_columns import SetColumns, objects
from ...context.visibility import Visible
from ...errors import ContextError, SpecError
from ...protocol.infos import SomeLanes
from ...protocol.reset_options import CONTEXT, CONTEXT_ID
from ...spec import Array, SpecTree
from .carl_options import Placing
from .schedule import Chosen, Schedule


class View:
    """The agent's view of contexts: which features, where, and within which bounds.

    Args:
        schedule: Whose contexts.
        features: The features that it sees, in order; see `Contextual`.
        mask: Features that it does not see.
        scale: The divisor of each seen value: `"no"`, `"by_mean"` or `"by_default"`.
        hidden: If True, it sees none.
        placing: Where observations show them.
        clip: If True, noise keeps values within their bounds.
        context_bounds: Bounds by feature, for those that the environment does not describe.

    Attributes:
        visible: The features that the agent sees, and their bounds.
        env_bounds: Bounds of the environment's own observation, or None.
    """

    def __init__(
        self,
        schedule: Schedule,
        features: Sequence[str] | str | None,
        mask: Sequence[str] | None,
        scale: str,
        hidden: bool,
        placing: Placing,
        clip: bool,
        context_bounds: Mapping[str, Sequence[Any]] | None,
    ) -> None:
        self._schedule, self._seen_as = schedule, (features, mask, scale)
        self._hidden, self._placing, self._clip = hidden, placing, clip
        self.env_bounds: tuple[Any, Any] = (None, None)
        self._context_bounds = dict(context_bounds or {})
        self._layouts: dict[Any, Layout] = {}
        self._look()

    def _look(self) -> None:
        schedule, bounds = self._schedule, self._context_bounds
        free = frozenset(() if self._clip else schedule.noise.names)
        self.visible = Visible(
            schedule.ends(), schedule.default_context, schedule.space, *self._seen_as, bounds, free, self._hidden
        )
        self._forget_vectors()
        schedule.noise.bounds = partial(self.visible.bounds_of, given=bounds) if self._clip else None

    def set_bounds(self, low: Any, high: Any, context_bounds: Mapping[str, Sequence[Any]] | None) -> None:
        """Sets the bounds of observations.

        Args:
            low: Of the environment's own observation, or None.
            high: Likewise.
            context_bounds: By feature, or None for those of before.

        Raises:
            ContextError: An unknown feature, or a context outside of the bounds.
        """
        self.env_bounds = (low, high)
        if context_bounds is not None:
            self._context_bounds = dict(context_bounds)
        self._look()

    def bounds(self) -> Any:
        """Returns all that `set_bounds` changes, for `restore_bounds`."""
        return self.env_bounds, self._context_bounds, self.visible, self._schedule.noise.bounds

    def restore_bounds(self, bounds: Any) -> None:
        """Restores the result of `bounds`."""
        self.env_bounds, self._context_bounds, self.visible, self._schedule.noise.bounds = bounds
        self._forget_vectors()

    def _forget_vectors(self) -> None:
        self._vector_of: dict[Hashable, NDArray[np.float64]] = {}
        self._vectors: NDArray[np.float64] | None = None

    # Observations.

    def forget(self) -> None:
        """Forgets the layouts of all agents, before new ones are made."""
        self._layouts = {}

    @property
    def is_shown(self) -> bool:
        """True if observations show the context."""
        return bool(self._layouts)

    def shown_in(self, inner: SpecTree, agent: Any, lanes: bool) -> tuple[SpecTree | None, Callable[..., Any] | None]:
        """Returns the spec of observations that show a context, and the function that makes them.

        Args:
            inner: The spec of observations without a context.
            agent: Which agent observes; None where there is one.
            lanes: True if observations have a leading lane axis.

        Returns:
            The spec, and a function `(observation)`, which also takes a memory; both None where contexts are hidden.

        Raises:
            SpecError: The layout does not allow the observation.
        """
        if self._hidden:
            return None, None
        if not self._placing.in_dict:
            layout = appended(inner, self.visible, lanes)
        else:
            layout = (by_name if self._placing.by_name else beside)(inner, self.visible, self._placing.keys)
        self._layouts[agent] = layout
        return layout.spec, layout.join

    def hold(self, vectors: NDArray[np.float64]) -> None:
        """Holds the contexts that coming observations show.

        Args:
            vectors: The visible part of the contexts in force, shape (numbers,), in a batch (n, numbers).
        """
        for layout in self._layouts.values():
            layout.hold(vectors)

    def vector(self, chosen: Chosen) -> NDArray[np.float64]:
        """Returns the visible part of a context, shape (numbers,)."""
        key, context = chosen
        if key not in self._schedule.contexts or context is not self._schedule.contexts[key]:
            return self.visible.vector(context)
        if key not in self._vector_of:
            self._vector_of[key] = self.visible.vector(context)
        return self._vector_of[key]

    def vectors(self, columns: SetColumns) -> NDArray[np.float64]:
        """Returns the visible parts of the m contexts of the set, shape (m, numbers).

        Args:
            columns: The set.
        """
        if self._vectors is None:
            self._vectors = np.array([self.visible.vector(context) for context in columns.contexts])
        return self._vectors

    def check(self, context: Mapping[str, Any], what: str) -> None:
        """Checks that the spec holds under a context that is not in the set.

        Args:
            context: A full context.
            what: The name of the argument, for messages.

        Raises:
            ContextError: Its visible part lies outside of the bounds.
        """
        vector = self.visible.vector(context)
        if (vector < self.visible.low).any() or (vector > self.visible.high).any():
            raise ContextError(f"{what}: {context} lies outside of the bounds of the context")

    def widened(self, under: SpecTree) -> SpecTree:
        """Returns the environment's own observation spec with the bounds that were set.

        Args:
            under: The spec, which the bounds may not narrow.

        Raises:
            SpecError: It is no array, or its values reach beyond the bounds.
        """
        low, high = self.env_bounds
        if low is None and high is None:
            return under
        if not isinstance(under, Array):
            raise SpecError("env_lower_bounds, env_upper_bounds: expected an observation that is one array")
        low, high = (under.low_or_inf if low is None else low), (under.high_or_inf if high is None else high)
        wide = Array(under.shape, under.dtype, low, high, under.name)
        sides = (("low", np.less_equal, under.bounded_below), ("high", np.greater_equal, under.bounded_above))
        for name, wider, bounded in sides:
            own, new = getattr(under, name), getattr(wide, name)
            if own is not None and new is not None and not (wider(new, own) | ~bounded).all():
                raise SpecError(f"build_observation_space: observations reach {own}, beyond the {name} of {new}")
        return wide

    def __getstate__(self) -> dict[str, Any]:
        # Layouts are functions, which cannot be pickled; the wrapper makes them when it plans its steps.
        return {**vars(self), "_layouts": {}}


def entries(
    ids: NDArray[Any], in_force: Callable[[], Sequence[Mapping[str, Any]]], unnamed: frozenset[int], lanes: bool
) -> Mapping[str, Any]:
    """Returns the entries of infos: the ids of the contexts in force, and the values of those without an id.

    Args:
        ids: Shape (n,), read-only, with n = 1 for an environment without lanes.
        in_force: Returns the context of each lane; called if one has no id.
        unnamed: The lanes whose context was given by its values.
        lanes: True if the environment has lanes.
    """
    if not unnamed:
        return {CONTEXT_ID: ids if lanes else ids[0]}
    if not lanes:
        return _Copied({CONTEXT_ID: ids[0], CONTEXT: in_force()[0]})
    values = objects([context if lane in unnamed else None for lane, context in enumerate(in_force())])
    mask = np.zeros(len(ids), bool)
    mask[list(unnamed)] = True
    for array in (values, mask):
        array.flags.writeable = False  # infos hold it
    return SomeLanes({CONTEXT_ID: ids, CONTEXT: values}, {CONTEXT: mask})


class _Copied(Mapping[str, Any]):
    """Entries of infos that last for an episode: each info gets copies, which its reader may change."""

    def __init__(self, entries: Mapping[str, Any]) -> None:
        self._entries = entries

    def __getitem__(self, name: str) -> Any:
        return copy.copy(self._entries[name])

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)
