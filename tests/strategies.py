"""Hypothesis strategies for specs: every kind, nested to any depth, with the corners that converters get wrong."""

import string
from typing import Any, NamedTuple

import numpy as np
from hypothesis import strategies as st

from envoi import Array, Discrete, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Text

FLOATS = ("float16", "float32", "float64")
INTEGERS = ("uint8", "int8", "int16", "uint32", "int32", "uint64", "int64")


class Pair(NamedTuple):
    """A named tuple of specs or values."""

    left: Any
    right: Any


def names():
    return st.none() | st.sampled_from(["position", "a b", "ü"])


def shapes(max_dims: int = 2, min_side: int = 0):
    """Shapes with few elements: scalars and zero sizes too."""
    return st.lists(st.integers(min_side, 3), max_size=max_dims).map(tuple)


def generators():
    return st.integers(0, 2**32 - 1).map(np.random.default_rng)


def _numbers(dtype: np.dtype) -> st.SearchStrategy:
    if dtype.kind == "f":
        biggest = float(np.finfo(dtype).max)
        ordinary = st.floats(-1000, 1000, width=16) | st.sampled_from([-biggest, biggest, 0.1, -0.1])
        return ordinary.map(lambda x: float(dtype.type(x)))
    info = np.iinfo(dtype)
    return st.integers(int(info.min), int(info.max)) | st.sampled_from([int(info.min), int(info.max)])


@st.composite
def bounds(draw, shape, dtype, finite=False):
    """A (low, high) pair: none, one for all elements, or one an element; infinite ones too unless `finite`."""
    dtype, size = np.dtype(dtype), int(np.prod(shape))
    if dtype.kind == "b":
        return draw(st.sampled_from([(None, None), (False, True), (True, True), (False, False), (None, True)]))
    # Two bounds that are equal are where rounding shows.
    pair = st.tuples(_numbers(dtype), _numbers(dtype)) | _numbers(dtype).map(lambda x: (x, x))
    pairs = [sorted(draw(pair)) for _ in range(max(size, 1))]
    lows, highs = ([pair[side] for pair in pairs] for side in (0, 1))
    if not finite:
        lows = [-np.inf if draw(st.integers(0, 3)) == 0 else low for low in lows]
        highs = [np.inf if draw(st.integers(0, 3)) == 0 else high for high in highs]
    if draw(st.booleans()):
        kind = dtype if dtype.kind == "f" else object  # numpy's integers know no infinity
        low, high = (np.array(side[:size], kind).reshape(shape) for side in (lows, highs))
    else:
        low, high = lows[0], highs[0]
    return (low if finite or draw(st.integers(0, 3)) else None), (high if finite or draw(st.integers(0, 3)) else None)


@st.composite
def arrays(draw, dtypes=("bool", *INTEGERS, *FLOATS), shape=None, finite=False):
    """`Array` specs; pass `dtypes` for what a framework can hold, `finite` for two finite bounds."""
    shape, dtype = draw(shapes()) if shape is None else shape, draw(st.sampled_from(dtypes))
    low, high = draw(bounds(shape, dtype, finite))
    return Array(shape, dtype, low, high, draw(names()))


@st.composite
def discretes(draw, dtypes=INTEGERS):
    dtype = draw(st.sampled_from(dtypes))
    info = np.iinfo(dtype)
    first, last = sorted(draw(st.tuples(*[st.integers(int(info.min), int(info.max)) | st.integers(0, 9)] * 2)))
    return Discrete(last - first + 1, first, dtype, draw(names()))


@st.composite
def multi_discretes(draw, dtypes=("int64", "int32", "uint8")):
    dtype, shape = draw(st.sampled_from(dtypes)), draw(shapes())
    size = int(np.prod(shape))
    nvec = draw(st.lists(st.integers(1, 9), min_size=size, max_size=size))
    start = draw(st.lists(st.integers(0 if dtype[0] == "u" else -9, 9), min_size=size, max_size=size))
    shaped = [np.array(values, "int64").reshape(shape) for values in (nvec, start)]
    return MultiDiscrete(shaped[0], shaped[1] if draw(st.booleans()) else 0, dtype, draw(names()))


def multi_binaries(min_side: int = 0):
    return st.builds(MultiBinary, shapes(min_side=min_side), names())


@st.composite
def texts(draw):
    longest = draw(st.integers(0, 6))
    charset = draw(st.text(string.ascii_letters + "äö ", min_size=1, max_size=9))
    return Text(longest, draw(st.integers(0, longest)), charset, draw(names()))


def graphs():
    node = arrays() | discretes()
    return st.builds(Graph, node, st.none() | node, names())


def array_leaves():
    """Specs whose values are arrays of numbers."""
    return arrays() | discretes() | multi_discretes() | multi_binaries()


def structured(flat, stackable):
    """Sequences and alternatives of flat specs, some of them in a tuple or a dict."""
    inner = flat | st.tuples(flat, flat) | st.dictionaries(st.sampled_from("abc"), flat, max_size=2)
    stacked = st.builds(Sequence, stackable | st.tuples(stackable), st.just(True), names())
    alternatives = st.builds(OneOf, st.lists(inner, min_size=1, max_size=3), names())
    return st.builds(Sequence, inner, st.just(False), names()) | stacked | alternatives


def leaves():
    """Every kind of spec that is not a dict, list or tuple; `Sequence` and `OneOf` may hold such."""
    flat = array_leaves() | texts() | graphs()
    return flat | structured(flat, array_leaves())


def nested(leaf, max_leaves: int = 6):
    """Trees of dicts (whose keys are not in alphabetical order), lists, tuples and named tuples over `leaf`."""
    keys = st.sampled_from(["z", "a", "m n", 0, 7, ("t", 1)])

    def branches(inner):
        return (
            st.dictionaries(keys, inner, max_size=3)
            | st.lists(inner, max_size=3)
            | st.lists(inner, max_size=3).map(tuple)
            | st.builds(Pair, inner, inner)
        )

    return st.recursive(leaf, branches, max_leaves=max_leaves)


def specs():
    """Every spec there is, nested."""
    return nested(leaves())
