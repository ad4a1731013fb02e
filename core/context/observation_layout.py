"""Layouts: the place of a context in an observation."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..errors import SpecError
from ..spec import Array, SpecTree
from .visibility import Visible


class Layout(NamedTuple):
    """A way to combine observations with a context.

    Attributes:
        spec: The spec of the combined observation.
        hold: Takes the visible numbers of a context, float64 of shape (…, numbers), for coming calls of `join`; called
            once an episode.
        join: `(observation, memory=None) -> observation`; returns a new observation, which shares no array that can be
            changed with others. A memory is ignored.
    """

    spec: SpecTree
    hold: Callable[[NDArray[np.float64]], None]
    join: Callable[..., Any]


def appended(inner: SpecTree, seen: Visible, lanes: bool) -> Layout:
    """Returns the layout `[state…, context…]`, a single array.

    Args:
        inner: The spec of observations without a context.
        seen: The visible features of contexts.
        lanes: If True, observations have a leading lane axis.

    Raises:
        SpecError: The observation is not a one-dimensional float array.
    """
    if not (isinstance(inner, Array) and len(inner.shape) == 1 and inner.dtype.kind == "f"):
        raise SpecError(
            f"observation: expected a one-dimensional float array to append a context to, got {inner}; "
            "use dict_observation_space=True, or hide_context=True"
        )
    size, dtype, context = inner.shape[0], inner.dtype, _between(seen.low, seen.high, inner.dtype)
    numbers = context.shape[0]
    ends: list[Any] = []
    for name, none in (("low", -np.inf), ("high", np.inf)):
        bounds = [np.full(s.shape, none) if getattr(s, name) is None else getattr(s, name) for s in (inner, context)]
        ends.append(None if all(getattr(s, name) is None for s in (inner, context)) else np.concatenate(bounds))
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

    low, high = ends
    return Layout(Array((size + numbers,), dtype, low, high, inner.name), hold, join)


def beside(inner: SpecTree, seen: Visible, keys: tuple[str, str]) -> Layout:
    """Returns the layout of a dict with two entries: the observation, and the context as a vector.

    Args:
        inner: The spec of observations without a context.
        seen: The visible features of contexts.
        keys: The keys of the observation and of the context.
    """
    state, context = keys
    spec = {state: inner, context: _between(seen.low, seen.high, np.dtype(np.float64))}

    held: Any = None

    def hold(vector: NDArray[np.float64]) -> None:
        nonlocal held
        held = vector.copy()

    def join(observation: Any, memory: Any = None) -> dict[str, Any]:
        return {state: observation, context: held.copy()}

    return Layout(spec, hold, join)


def by_name(inner: SpecTree, seen: Visible, keys: tuple[str, str]) -> Layout:
    """Returns the layout of a dict with two entries: the observation, and the context as a dict of features.

    Args:
        inner: The spec of observations without a context.
        seen: The visible features of contexts.
        keys: The keys of the observation and of the context.
    """
    state, context = keys
    ends = np.cumsum([0, *seen.sizes.values()]).tolist()
    places: dict[str, Any] = {
        name: (Ellipsis, slice(start, end)) if seen.sizes[name] != 1 else (Ellipsis, start)
        for name, start, end in zip(seen.names, ends, ends[1:], strict=False)
    }
    features: dict[str, SpecTree] = {
        name: _between(np.asarray(seen.low[place]), np.asarray(seen.high[place]), np.dtype(np.float64))
        for name, place in places.items()
    }

    held: dict[str, Any] = {}
    arrays: list[str] = []
    scalars = seen.names if all(size == 1 for size in seen.sizes.values()) else []

    def hold(vector: NDArray[np.float64]) -> None:
        nonlocal held, arrays
        if scalars and vector.ndim == 1:
            held = dict(zip(scalars, vector, strict=True))
            return
        own = vector.copy()
        held = {name: own[place][()] for name, place in places.items()}  # numbers are scalars, which never change
        arrays = [name for name, value in held.items() if value.ndim]

    def join(observation: Any, memory: Any = None) -> dict[str, Any]:
        shown = {**held}
        for name in arrays:
            shown[name] = shown[name].copy()
        return {state: observation, context: shown}

    return Layout({state: inner, context: features}, hold, join)


def _between(low: NDArray[Any], high: NDArray[Any], dtype: np.dtype[Any]) -> Array:
    below, above = (None if np.isinf(bound).all() else bound.astype(dtype) for bound in (low, high))
    return Array(low.shape, dtype, below, above)
