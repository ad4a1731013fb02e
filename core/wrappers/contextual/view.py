"""The agent's view of contexts: scaled numbers within bounds, beside observations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, cast

import numpy as np
from numpy.typing import NDArray

from ...context.binding import check_names
from ...context.features import is_number
from ...errors import ContextError, SpecError, nearest
from ...flattening import Flattening
from ...spec import Array, Discrete, SpecTree
from .schedule import Context, InForce, Schedule, as_names

SCALES = ("no", "by_mean", "by_default")
CHANGING = "changing_context_features"

# Where an observation shows a context.


class Layout(NamedTuple):
    """A way to combine observations with a context."""

    spec: SpecTree  # of the combined observation
    hold: Callable[[NDArray[np.float64]], None]  # takes the visible numbers of an episode's context, (…, numbers)
    join: Callable[..., Any]  # `(observation, memory=None) -> observation`, which shares no array with others


def append(inner: SpecTree, view: View, lanes: bool) -> Layout:
    """Returns the layout `[state…, context…]`, a single array."""
    if not (isinstance(inner, Array) and len(inner.shape) == 1 and inner.dtype.kind == "f"):
        raise SpecError(
            f"observation: expected a one-dimensional float array to append a context to, got {inner}; "
            "use dict_observation_space=True, or hide_context=True"
        )
    size, dtype, numbers = inner.shape[0], inner.dtype, view.flat.spec.shape[0]
    whole = Flattening({"state": inner, "context": view.flat.spec}, dtype=dtype).spec
    place: Any = (slice(None), slice(size)) if lanes else slice(size)
    empty: Any = None

    def hold(vector: NDArray[np.float64]) -> None:
        nonlocal empty
        # An observation with zeros for its state: `join` copies it, which is faster than concatenating two arrays.
        empty = np.zeros((*vector.shape[:-1], size + numbers), dtype)
        empty[..., size:] = vector

    def join(observation: Any, memory: Any = None) -> NDArray[Any]:
        whole = empty.copy()
        whole[place] = observation
        return whole

    return Layout(Array(whole.shape, dtype, whole.low, whole.high, inner.name), hold, join)


def put_beside(inner: SpecTree, view: View, lanes: bool, keys: tuple[str, str], by_name: bool = False) -> Layout:
    """Returns the layout of a dict with two entries: the observation, and the context as a vector or by feature."""
    state, context = keys
    held: Any = None
    has_arrays = any(spec.shape for spec in view.spec.values())
    arrays = [name for name, spec in view.spec.items() if by_name and (lanes or spec.shape)]  # which need a copy

    def hold(vector: NDArray[np.float64]) -> None:
        nonlocal held
        held = vector
        if by_name and has_arrays:
            # Single numbers as such, which hash and go into JSON, not as arrays of no dimension.
            held = {name: value[()] for name, value in view.flat.unflatten(vector).items()}
        elif by_name:
            held = dict(zip(view.names, vector.T, strict=True))

    def join(observation: Any, memory: Any = None) -> dict[str, Any]:
        shown = held.copy()
        for name in arrays:
            shown[name] = shown[name].copy()
        return {state: observation, context: shown}

    return Layout({state: inner, context: view.spec if by_name else view.flat.spec}, hold, join)


class View:
    """The agent's view of contexts: which features, where, and within which bounds.

    Attributes:
        names: The visible features.
        factors: The divisor of each visible feature.
        spec: The spec of each visible feature, scaled.
        flat: The layout of all visible numbers as one vector.
    """

    env_bounds: tuple[Any, Any] = (None, None)  # of the environment's own observation

    def __init__(
        self,
        schedule: Schedule,
        features: Sequence[str] | str | None,
        mask: Sequence[str] | None,
        scale: str | Mapping[str, Any],
        hidden: bool,
        layout: Callable[[SpecTree, View, bool], Layout],
        clip: bool,
        context_bounds: Mapping[str, Sequence[Any]],
    ) -> None:
        self._schedule, self._hidden, self._make_layout, self._clip = schedule, hidden, layout, clip
        self._features = {} if schedule.space is None else schedule.space.features
        self._layouts: dict[Any, Layout] = {}
        self.appends = layout is append  # to observations, which fails if those have another shape than their spec
        contexts = schedule.ends()
        names = _select(contexts, features, mask)
        self.names: list[str] = [] if hidden else names
        if isinstance(scale, Mapping):
            check_names(scale, contexts[0], "feature")
        elif scale not in SCALES:
            raise ContextError(
                f"scale_context_features: expected one of {list(SCALES)}, got {scale!r}; {nearest(str(scale), SCALES)}"
            )
        if scale == "by_default" and schedule.default_context is None:
            raise ContextError("scale_context_features: 'by_default' needs default_context, which was not given")
        self.factors = {name: np.asarray(1.0) for name in self.names}
        for name in self.names:
            numbers = [self._number(name, context[name]) for context in contexts]
            if scale == "no" or isinstance(getattr(self._features.get(name), "spec", None), Discrete):
                continue  # the index of a choice is not scaled
            if scale == "by_default":
                numbers = [np.asarray(cast("Context", schedule.default_context)[name], np.float64)]
            elif scale != "by_mean":
                numbers = [np.asarray(scale.get(name, 1.0), np.float64)]
            factor = np.mean(numbers, axis=0)
            self.factors[name] = np.where(factor == 0, 1.0, factor)
        self._any_scale = any((factor != 1.0).any() for factor in self.factors.values())
        self._context_bounds = dict(context_bounds)
        self.bound()

    # Bounds.

    def with_bounds(self, low: Any, high: Any, context_bounds: Mapping[str, Sequence[Any]] | None) -> View:
        """Returns a copy with other bounds of observations."""
        view = copy.copy(self)
        view.env_bounds = (low, high)
        if context_bounds is not None:
            view._context_bounds = dict(context_bounds)
        view.bound()
        return view

    def bound(self) -> None:
        """Sets the bounds of the visible numbers and of noise."""
        contexts, noise = self._schedule.ends(), self._schedule.noise
        check_names(self._context_bounds, contexts[0], "feature")
        self.spec: dict[str, Array] = {}
        for name in self.names:
            low, high = self._bounds_of(name)
            if not self._clip and name in noise.names:
                low, high = -np.inf, np.inf
            for context in contexts:
                value = self._number(name, context[name])
                if (value < low).any() or (value > high).any():
                    raise ContextError(
                        f"context[{name!r}]: expected a number from {low} to {high}, got {context[name]!r}"
                    )
            factor = np.broadcast_to(self.factors[name], np.shape(contexts[0][name]))
            with np.errstate(invalid="ignore"):
                one, other = np.asarray(low) / factor, np.asarray(high) / factor
            least, most = (
                None if np.isinf(end).all() else end for end in (np.minimum(one, other), np.maximum(one, other))
            )
            self.spec[name] = Array(factor.shape, np.float64, least, most)
        self.flat = Flattening(self.spec, dtype=np.float64, what="context")
        noise.limit({name: self._bounds_of(name) for name in noise.names} if self._clip else {})

    def _bounds_of(self, name: str) -> tuple[Any, Any]:
        """Returns the bounds of a feature before scaling."""
        if name in self._context_bounds:
            own = self._context_bounds[name]
            pair = list(own[:2]) if isinstance(cast("Any", own), Sequence) and len(own) in (2, 3) else []
            are_numbers = all(is_number(bound) or bound in (-np.inf, np.inf) for bound in pair)
            if not (pair and are_numbers and pair[0] <= pair[1]):
                raise ContextError(
                    f"context_bounds[{name!r}]: expected (low, high) or (low, high, dtype), low ≤ high, got {own!r}"
                )
            return own[0], own[1]
        spec = getattr(self._features.get(name), "spec", None)
        if isinstance(spec, Discrete):
            return spec.start, spec.start + spec.n - 1
        low, high = getattr(spec, "low", None), getattr(spec, "high", None)
        return (-np.inf if low is None else low), (np.inf if high is None else high)

    def check(self, context: Context, what: str) -> None:
        """Checks that the spec is valid in a context that is not in the set."""
        if not self.flat.spec.contains(self._vector(context)):
            raise ContextError(f"{what}: {context} lies outside of the bounds of the context")

    def widened(self, under: SpecTree) -> SpecTree:
        """Returns the inner observation spec with the bounds that the user has set."""
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

    # Observations.

    def forget(self) -> None:
        """Forgets the layouts of all agents, before new ones are made."""
        self._layouts = {}

    @property
    def is_shown(self) -> bool:
        """True if observations show the context."""
        return bool(self._layouts)

    def show_in(self, inner: SpecTree, agent: Any, lanes: bool) -> tuple[SpecTree | None, Callable[..., Any] | None]:
        """Returns the spec of observations that show contexts, and the function that makes them; None if hidden."""
        if self._hidden:
            return None, None
        layout = self._layouts[agent] = self._make_layout(inner, self, lanes)
        return layout.spec, layout.join

    def hold(self, now: InForce, has_lanes: bool) -> None:
        """Sets the contexts that later observations show."""
        table = now.table
        seen = np.zeros((0, *self.flat.spec.shape)) if table.seen is None else table.seen
        while len(seen) < table.size:
            block = table.block_at(len(seen))
            if isinstance(block, int):
                new = np.array([self._vector(table.context(place)) for place in range(len(seen), block)])
            else:
                under, columns = block
                new = seen[under]
                for name, place in zip(self.names, self.flat.slices.values(), strict=True):
                    if name in columns:
                        new[:, place.start] = self._scaled(name, columns[name].astype(np.float64))
            table.seen = seen = np.concatenate((seen, new))
        vectors = seen[now.place if has_lanes else now.place[0]]
        for layout in self._layouts.values():
            layout.hold(vectors)

    def _vector(self, context: Context) -> NDArray[np.float64]:
        return self.flat.flatten({name: self._scaled(name, self._number(name, context[name])) for name in self.names})

    def _scaled(self, name: str, numbers: NDArray[np.float64]) -> NDArray[np.float64]:
        return numbers / self.factors[name] if self._any_scale else numbers

    def _number(self, name: str, value: Any) -> NDArray[np.float64]:
        if name in self._features:
            return np.asarray(self._features[name].encode(value), np.float64)
        array = np.asarray(value)
        if array.dtype.kind not in "biuf":
            raise ContextError(
                f"context[{name!r}]: expected a number to be seen, got {value!r}; declare it as a Categorical, or hide "
                "it (context_mask, hide_context)"
            )
        return array.astype(np.float64)

    def __getstate__(self) -> dict[str, Any]:
        # Layouts are functions, which cannot be pickled; the wrapper makes them when it plans its steps.
        return {**vars(self), "_layouts": {}}


def _select(contexts: Sequence[Context], chosen: Sequence[str] | str | None, mask: Sequence[str] | None) -> list[str]:
    """Returns the names of the visible features."""
    known = list(contexts[0])
    names = (
        known if chosen is None else [CHANGING] if chosen == CHANGING else as_names(chosen, "state_context_features")
    )
    hidden = as_names(mask or (), "context_mask")
    if CHANGING in names and CHANGING not in known:
        if len(names) > 1:  # CARL would silently leave the others out
            raise ContextError(f"state_context_features: expected {CHANGING!r} alone, got {names}")
        names = [n for n in known if any(not np.array_equal(c[n], contexts[0][n]) for c in contexts)]
    for what, given in (("state_context_features", names), ("context_mask", hidden)):
        for name in given:
            if name not in known:
                raise ContextError(f"{what}: no feature {name!r}; {nearest(str(name), known)}")
    if len(set(names)) < len(names):
        raise ContextError(f"state_context_features: expected each feature once, got {names}")
    return [name for name in names if name not in hidden]
