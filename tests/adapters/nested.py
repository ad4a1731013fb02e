"""Hypothesis strategies for specs, nested to any depth, that gymnasium can say."""

from typing import NamedTuple

import numpy as np
from hypothesis import strategies as st

from envoi import Array, Discrete, Graph, MultiBinary, MultiDiscrete, OneOf, Sequence, Text


class Pair(NamedTuple):
    """A named tuple of two."""

    left: object
    right: object


class Single(NamedTuple):
    """A named tuple of one."""

    only: object


DTYPES = ("bool", "int8", "uint8", "int16", "int32", "uint32", "int64", "uint64", "float16", "float32", "float64")
names = st.sampled_from([None, None, "name", "a b", ""])
shapes = st.sampled_from([(), (1,), (2,), (3,), (0,), (2, 3), (2, 0), (1, 1, 2)])
FLOATS = (-np.inf, -1000.5, -1.0, -0.25, 0.0, 1e-9, 0.5, 1.0, 77.25, np.inf)


@st.composite
def bounds(draw, dtype, shape):
    """A (low, high) pair, either of which may be None, a number, or an array with its own value per element."""
    size = int(np.prod(shape))
    if np.dtype(dtype).kind == "f":
        values = [float(np.dtype(dtype).type(x)) for x in FLOATS]
    elif dtype == "bool":
        values = [0, 1]
    else:
        info = np.iinfo(dtype)
        values = sorted({info.min, info.min + 1, max(-3, info.min), 0, 1, 100, info.max - 1, info.max})
    count = draw(st.sampled_from([1, max(size, 1)]))
    pairs = [sorted(draw(st.tuples(st.sampled_from(values), st.sampled_from(values)))) for _ in range(count)]
    kind = np.dtype(dtype)
    if kind.kind != "f":
        # Elements without a bound are others than those bounded by the end of their dtype.
        kind = np.dtype(object)
        open_ends = st.tuples(st.booleans(), st.booleans())
        pairs = [
            (-np.inf if below else low, np.inf if above else high)
            for (low, high), (below, above) in zip(pairs, [draw(open_ends) for _ in pairs], strict=True)
        ]
    if count == 1:
        low, high = (np.array(side, kind) for side in pairs[0])
    else:
        low, high = (np.array([pair[i] for pair in pairs], kind).reshape(shape) for i in (0, 1))
    return (low if draw(st.booleans()) else None), (high if draw(st.booleans()) else None)


@st.composite
def arrays(draw, dtypes=DTYPES, shape=shapes):
    dtype, size = draw(st.sampled_from(dtypes)), draw(shape)
    low, high = draw(bounds(dtype, size))
    return Array(size, dtype, low, high, draw(names))


integers = st.sampled_from(["int8", "uint8", "int16", "int32", "uint32", "int64", "uint64"])


@st.composite
def discretes(draw):
    dtype = draw(integers)
    start = draw(st.integers(0 if dtype.startswith("u") else -20, 20))
    return Discrete(draw(st.integers(1, 50)), start, dtype, draw(names))


@st.composite
def multi_discretes(draw):
    dtype = draw(integers)
    shape = draw(st.sampled_from([(), (1,), (3,), (2, 2), (0,)]))
    size = int(np.prod(shape))
    nvec = np.array(draw(st.lists(st.integers(1, 20), min_size=size, max_size=size)), int).reshape(shape)
    least = 0 if dtype.startswith("u") else -20
    start = np.array(draw(st.lists(st.integers(least, 20), min_size=size, max_size=size)), int).reshape(shape)
    return MultiDiscrete(nvec, start, dtype, draw(names))


multi_binaries = st.builds(MultiBinary, st.sampled_from([(), (1,), (3,), (2, 2)]), names)
texts = st.builds(
    lambda least, more, charset, name: Text(least + more, least, charset, name),
    st.integers(0, 3),
    st.integers(1, 5),
    st.sampled_from(["ab", "xyz ", "\u00e9\n1", "0123456789"]),
    names,
)
numeric = st.one_of(arrays(), discretes(), multi_discretes(), multi_binaries)
plain = st.one_of(numeric, texts)


@st.composite
def trees(draw, leaf, depth=3, least=0, structured=False):
    """Dicts in any order of keys, lists, tuples and named tuples of leaves; `structured`: gymnasium's own too."""
    kinds = ["leaf", "leaf", "leaf"]
    if depth:
        kinds += ["dict", "tuple", "list", "pair", "single", *(["sequence", "one of"] if structured else [])]
    kind = draw(st.sampled_from(kinds))
    if kind == "leaf":
        return draw(leaf)
    size = {"pair": 2, "single": 1, "sequence": 1}.get(kind) or draw(st.integers(max(least, kind == "one of"), 3))
    inner = [draw(trees(leaf, depth - 1, least, structured)) for _ in range(size)]
    if kind == "dict":
        return dict(zip(draw(st.permutations(["b", "a", "z", "a b", "", 3, 0])), inner, strict=False))
    if kind == "sequence":
        return Sequence(inner[0], name=draw(names))
    if kind == "one of":
        return OneOf(inner, draw(names))
    if kind == "pair":
        return Pair(*inner)
    if kind == "single":
        return Single(*inner)
    return tuple(inner) if kind == "tuple" else inner


graph_parts = st.one_of(
    arrays(("float32", "int64"), st.sampled_from([(1,), (2,), (2, 2)])), st.builds(Discrete, st.integers(1, 5))
)
graphs = st.builds(Graph, graph_parts, st.one_of(st.none(), graph_parts), names)
# gymnasium does not find a stack of scalars of these two in its own space.
stackable = numeric.filter(lambda spec: spec.shape or isinstance(spec, (Array, Discrete)))
stacked = st.builds(Sequence, trees(stackable, 2, 1), st.just(True), names)
specs = trees(st.one_of(plain, plain, plain, graphs, stacked), structured=True)
numeric_specs = trees(numeric)
