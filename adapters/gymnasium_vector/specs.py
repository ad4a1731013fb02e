"""gymnasium's batched spaces, and conversions of batched values."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from envoi import Array, Discrete, MultiBinary, MultiDiscrete, Spec, SpecError
from envoi.spec import SpecTree
from envoi.spec.base import shown
from envoi.tree import children, map_leaves, rebuild

from ..gymnasium.specs import decoder, encoder, native_encoder
from ..shared.array_specs import Convert, branch_decoder

NAME = "gymnasium_vector"

_ARRAYS = (Array, Discrete, MultiDiscrete, MultiBinary)


def batched_space(space: spaces.Space[Any], n: int) -> spaces.Space[Any]:
    """Returns the space of n lanes, with leaves of shape (n, …).

    Like `gymnasium.vector.utils.batch_space`, but keeps the order of a `Dict`, and which integers have bounds.
    """
    if isinstance(space, spaces.Dict):
        items = ((key, batched_space(sub, n)) for key, sub in space.spaces.items())
        return spaces.Dict(OrderedDict(items))  # gymnasium would sort a plain dict
    if isinstance(space, spaces.Tuple):
        return spaces.Tuple([batched_space(sub, n) for sub in space.spaces])
    batched = batch_space(space, n)
    if isinstance(space, spaces.Box) and isinstance(batched, spaces.Box):
        # gymnasium takes the ends of the dtype for bounds, and cannot sample int64 between these.
        for side in ("bounded_below", "bounded_above"):
            setattr(batched, side, np.repeat(getattr(space, side)[None], n, 0))
    return batched


def batched_encoder(spec: SpecTree) -> Convert | None:
    """Returns a function that converts batched core values for gymnasium, or None if no conversion is needed."""
    if isinstance(spec, Discrete):
        dtype = spec.dtype
        # A space does not contain integers of a wider dtype than its own.
        return lambda values: np.asarray(values, dtype)
    if isinstance(spec, _ARRAYS):
        return None
    if isinstance(spec, Spec):
        one = encoder(spec)
        return one and (lambda values: tuple(one(value) for value in values))
    return native_encoder(spec, [(key, batched_encoder(sub)) for _, key, sub in children(spec)])


def batched_decoder(spec: SpecTree, n: int, path: str = "actions") -> Convert:
    """Returns a function that converts batched values of gymnasium for the core, with new containers."""
    if isinstance(spec, _ARRAYS):
        return _array_decoder((n, *spec.shape), path)
    if isinstance(spec, Spec):
        return _tuple_decoder(decoder(spec, path), n, path)
    parts: list[Any] = [(key, batched_decoder(sub, n, path + part)) for part, key, sub in children(spec)]
    return branch_decoder(spec, parts, path, exact=False)


def _array_decoder(shape: tuple[int, ...], path: str) -> Convert:
    def decode(values: Any) -> Any:
        array = np.asarray(values)
        if array.shape != shape:
            each = f"with one entry for each of {shape[0]} lanes"
            raise SpecError(f"{path}: expected shape {shape}, {each}, got {array.shape}")
        return array

    return decode


def _tuple_decoder(one: Convert | None, n: int, path: str) -> Convert:
    def decode(values: Any) -> Any:
        if not isinstance(values, (tuple, list)) or len(values) != n:
            raise SpecError(f"{path}: expected a tuple with one entry for each of {n} lanes, got {shown(values)}")
        return tuple(values) if one is None else tuple(one(value) for value in values)

    return decode


def batched_spec(spec: SpecTree, n: int) -> SpecTree:
    """Returns the spec of the values of n lanes: unbounded arrays of shape (n, …), and tuples for other leaves."""
    return map_leaves(
        lambda leaf: Array((n, *leaf.shape), leaf.dtype) if isinstance(leaf, _ARRAYS) else (leaf,) * n, spec
    )


def with_lanes(spec: SpecTree, values: Any, index: NDArray[np.intp], some: Sequence[Any]) -> Any:
    """Returns a copy of a batched value, with other values in some lanes."""
    if isinstance(spec, _ARRAYS):
        array = np.array(values)
        array[index] = np.array(some, spec.dtype)
        return array
    if isinstance(spec, Spec):
        new = dict(zip(index.tolist(), some, strict=True))
        return tuple(new.get(lane, value) for lane, value in enumerate(values))
    parts = children(spec)
    return rebuild(spec, [with_lanes(sub, values[key], index, [one[key] for one in some]) for _, key, sub in parts])


class VectorSpaces:
    """The spaces of an importer's source: a vector env of gymnasium, or one that has the spaces of one lane only."""

    source: Any

    def native_space(self, what: str, agent: Any = None) -> Any:
        """Returns the source's `"observation"` or `"action"` space of one lane."""
        single = f"single_{what}_space"
        return getattr(self.source, single if hasattr(self.source, single) else f"{what}_space")

    def native_lanes_space(self, what: str) -> Any:
        """Returns the source's batched `"observation"` or `"action"` space, or None if it has none."""
        return getattr(self.source, f"{what}_space") if hasattr(self.source, f"single_{what}_space") else None
