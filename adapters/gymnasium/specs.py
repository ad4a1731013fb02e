"""Conversions of gymnasium's spaces and their values; the table is in `envoi.adapters.gymnasium`."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from copy import deepcopy
from typing import Any, cast

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from envoi import Lanes, LossyConversion, MultiEnv, SpecError, Text, spec_equal
from envoi.spec import Array, Discrete, Foreign, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Spec, SpecTree
from envoi.spec.arrays import integer_range
from envoi.tree import children
from envoi.wrapping.delegate import Around

from ..shared.array_specs import Convert, branch_decoder, branch_encoder

NAME = "gymnasium"

_ORIGIN = "_envoi_spec"
"""The attribute of a space for the spec that it was made from."""


def to_space(spec: SpecTree, path: str = "spec") -> spaces.Space[Any]:
    """Converts a core spec, possibly nested, to a space with exactly the same values.

    Args:
        spec: The core spec.
        path: The spec's path, for errors.

    Raises:
        LossyConversion: gymnasium has no such space; the message names the leaf.
    """
    space = _make_space(spec, path)
    setattr(space, _ORIGIN, spec)
    return space


def _make_space(spec: SpecTree, path: str) -> spaces.Space[Any]:
    if isinstance(spec, dict):
        # gymnasium would sort the keys of a plain dict.
        items = ((key, to_space(sub, path + part)) for part, key, sub in children(spec))
        return spaces.Dict(OrderedDict(items))
    if isinstance(spec, (list, tuple)):
        return spaces.Tuple([to_space(sub, path + part) for part, _, sub in children(spec)])
    if isinstance(spec, Array):
        return _make_box(spec, path)
    if isinstance(spec, Discrete):
        # gymnasium computes `start + n` in the dtype.
        _check_width(spec, max(spec.n, spec.start + spec.n), path)
        return spaces.Discrete(spec.n, start=spec.start, dtype=cast("Any", spec.dtype))
    if isinstance(spec, MultiDiscrete):
        _check_width(spec, int(spec.nvec.max(initial=1)), path)
        return spaces.MultiDiscrete(
            np.array(spec.nvec), dtype=cast("Any", spec.dtype), start=cast("Any", np.array(spec.start))
        )
    if isinstance(spec, MultiBinary):
        if 0 in spec.shape:
            raise LossyConversion(path, "shape", f"{spec.shape}", NAME, "use an empty Array instead")
        return spaces.MultiBinary(spec.shape[0] if len(spec.shape) == 1 else spec.shape)
    if isinstance(spec, Text):
        # gymnasium would sample from a set in the order of hashes, which differ between processes; a string is ordered.
        return spaces.Text(spec.max_length, min_length=spec.min_length, charset=spec.letters)
    if isinstance(spec, Sequence):
        return spaces.Sequence(to_space(spec.spec, f"{path}[…]"), stack=spec.stack)
    if isinstance(spec, Graph):
        node, edge = to_space(spec.node, f"{path}.nodes"), spec.edge and to_space(spec.edge, f"{path}.edges")
        return spaces.Graph(cast("Any", node), cast("Any", edge))
    if isinstance(spec, OneOf):
        return spaces.OneOf([to_space(sub, f"{path}[{i}]") for i, sub in enumerate(spec.specs)])
    if isinstance(spec, Foreign) and isinstance(spec.origin, spaces.Space):
        return deepcopy(spec.origin)  # a copy, because users may seed it
    raise LossyConversion(path, "type", repr(spec), NAME)


def _check_width(spec: Discrete | MultiDiscrete, most: int, path: str) -> None:
    if most > np.iinfo(spec.dtype).max:
        raise LossyConversion(path, "dtype", repr(spec), NAME, f"use one that holds {most} too")


def _make_box(spec: Array, path: str) -> spaces.Box:
    kind = spec.dtype.kind
    if kind == "c":
        raise LossyConversion(path, "dtype", str(spec.dtype), NAME, "split it into real and imaginary parts")
    if kind in "bu":
        least, most = (0, 1) if kind == "b" else (0, int(np.iinfo(spec.dtype).max))
    else:
        least, most = -np.inf, np.inf  # for a signed integer, gymnasium takes the whole range of the dtype
    low = least if spec.low is None else np.array(spec.low)
    high = most if spec.high is None else np.array(spec.high)
    box = spaces.Box(cast("Any", low), cast("Any", high), spec.shape, cast("Any", spec.dtype))
    if kind == "i":  # set here, because gymnasium derives it from rounded numbers if single elements are infinite
        box.bounded_below, box.bounded_above = np.array(spec.bounded_below), np.array(spec.bounded_above)
    return box


def _innermost(core: Any, agent: Any = None) -> tuple[Any, Any]:
    """Finds what is inside all wrappers of a core environment."""
    while isinstance(core, Around):
        inner = core.env
        if isinstance(inner, MultiEnv) and not isinstance(core, MultiEnv):
            agent = getattr(core, "agent", inner.possible_agents[0])
        elif isinstance(core, MultiEnv) and not isinstance(inner, MultiEnv):
            agent = None
        core = inner
    return core, agent


def like_source(
    space: spaces.Space[Any], core: Any, what: str, agent: Any = None, lanes: bool = False
) -> spaces.Space[Any]:
    """Returns a copy of the source's space for a form, if both have the same values.

    The copy's generator samples the same values as the source's will; the source's own is neither shared nor advanced.
    """
    inner, agent = _innermost(core, agent)
    if not lanes:
        while isinstance(inner, Lanes) and not hasattr(inner, "native_space"):
            inner, agent = _innermost(inner.members[0])
    find = getattr(inner, "native_lanes_space" if lanes else "native_space", None)
    native = None if find is None else find(what) if lanes else find(what, agent)
    if native is None or not spec_equal(_plain(space, what), _plain(native, what)):
        return space
    copied = deepcopy(native)
    if hasattr(space, _ORIGIN):
        setattr(copied, _ORIGIN, getattr(space, _ORIGIN))
    return copied


def from_space(space: spaces.Space[Any], path: str = "space") -> SpecTree:
    """Converts a space to a core spec with exactly the same values.

    Args:
        space: The space.
        path: The space's path, for errors.

    Returns:
        The core spec; the original one if the space came from `to_space`. A space of a custom class becomes a `Foreign`
        spec.

    Raises:
        LossyConversion: A `Sequence` stacks elements that are not arrays.
    """
    origin = getattr(space, _ORIGIN, None)
    # The space may have been changed since. gymnasium's `==` ignores small differences, and the order of keys.
    if origin is not None and spec_equal(_plain(_make_space(origin, path), path), _plain(space, path)):
        return origin
    return _read_space(space, path, from_space)


def _plain(space: spaces.Space[Any], path: str) -> SpecTree:
    """Reads a space from its fields, and not from the core spec that it may remember."""
    return _read_space(space, path, _plain)


def _read_space(space: spaces.Space[Any], path: str, inner: Callable[[spaces.Space[Any], str], SpecTree]) -> SpecTree:
    if isinstance(space, spaces.Dict):
        return {key: inner(sub, f"{path}[{key!r}]") for key, sub in space.spaces.items()}
    if isinstance(space, spaces.Tuple):
        return tuple(inner(sub, f"{path}[{i}]") for i, sub in enumerate(space.spaces))
    if isinstance(space, spaces.Box):
        low = _bound(space.low, space.bounded_below, -np.inf)
        return Array(space.shape, space.dtype, low, _bound(space.high, space.bounded_above, np.inf))
    if isinstance(space, spaces.Discrete):
        return Discrete(int(space.n), int(space.start), space.dtype)
    if isinstance(space, spaces.MultiDiscrete):
        return MultiDiscrete(space.nvec, space.start, space.dtype)
    if isinstance(space, spaces.MultiBinary):
        return MultiBinary(space.shape)
    if isinstance(space, spaces.Text):
        return Text(space.max_length, space.min_length, "".join(space.character_list))
    if isinstance(space, spaces.Sequence):
        element = inner(space.feature_space, f"{path}[…]")
        try:
            return Sequence(element, bool(space.stack))
        except SpecError as error:
            raise LossyConversion(path, "stack", str(space), "the core", "only arrays can be stacked") from error
    if isinstance(space, spaces.Graph):
        edge = None if space.edge_space is None else inner(space.edge_space, f"{path}.edges")
        return Graph(inner(space.node_space, f"{path}.nodes"), edge)
    if isinstance(space, spaces.OneOf):
        return OneOf([inner(sub, f"{path}[{i}]") for i, sub in enumerate(space.spaces)])
    return Foreign(space)


def _bound(bound: NDArray[Any], bounded: NDArray[np.bool_], infinity: float) -> NDArray[Any] | None:
    """Returns a bound of a `Box` in the form that `Array` takes."""
    if bound.dtype.kind == "f":
        return None if (bound == infinity).all() else bound
    end = integer_range(bound.dtype)[infinity > 0]
    free = ~bounded & (bound == end)  # the bound may have been changed since
    if free.all():
        return None
    return np.where(free, infinity, bound.astype(object)) if free.any() else bound


# Values: conversions of types and containers.


def encoder(spec: SpecTree, fresh: bool = False, path: str = "observation") -> Convert | None:
    """Returns a function that converts core values for gymnasium, or None if no conversion is needed."""
    if isinstance(spec, Discrete):
        # A space does not contain integers of a wider dtype than its own.
        return None if spec.dtype == np.int64 else spec.dtype.type
    if isinstance(spec, (Array, MultiDiscrete, MultiBinary)):
        return np.asarray if spec.shape == () else None
    if isinstance(spec, Graph):
        return lambda value: spaces.GraphInstance(value.nodes, value.edges, value.edge_links)
    if isinstance(spec, Sequence):
        element = encoder(spec.spec, fresh, f"{path}[…]")
        return element if spec.stack else element and (lambda value: tuple(element(one) for one in value))
    if isinstance(spec, OneOf):
        return _convert_one_of([encoder(sub, fresh, f"{path}[1]") for sub in spec.specs])
    if isinstance(spec, Spec):
        return None
    return native_encoder(spec, [(key, encoder(sub, fresh, path + p)) for p, key, sub in children(spec)], fresh, path)


def native_encoder(spec: Any, parts: list[tuple[Any, Convert | None]], fresh: bool, path: str) -> Convert | None:
    """Returns a function that converts a core dict, list or tuple to a dict or tuple, or None if it is one already."""
    native = dict(spec) if isinstance(spec, dict) else tuple(spec)  # gymnasium has no lists and no named tuples
    return branch_encoder(native, parts, fresh or type(native) is not type(spec), path)


def decoder(spec: SpecTree, path: str = "action", exact: bool = False) -> Convert | None:
    """Returns a function that converts gymnasium's values for the core, or None if no conversion is needed.

    Containers are made in each call. A value with a missing part raises `SpecError`, which names the path.
    """
    if isinstance(spec, Sequence):
        element = decoder(spec.spec, f"{path}[…]", exact)
        return element if spec.stack else element and (lambda value: tuple(element(one) for one in value))
    if isinstance(spec, OneOf):
        return _convert_one_of([decoder(sub, f"{path}[1]", exact) for sub in spec.specs])
    if isinstance(spec, Spec):
        return None
    return branch_decoder(spec, [(key, decoder(sub, path + p, exact)) for p, key, sub in children(spec)], path, exact)


def _convert_one_of(parts: list[Convert | None]) -> Convert:
    def convert(value: Any) -> Any:
        index = int(value[0])
        part = parts[index]
        return (np.int64(index), part(value[1]) if part else value[1])

    return convert
