"""Hypothesis strategies for specs, nested to any depth, that gymnasium can say."""

from hypothesis import strategies as st
from strategies import FLOATS, INTEGERS, arrays, multi_binaries, multi_discretes, names, nested, structured, texts

from envoi import Array, Discrete, Graph

DTYPES = ("bool", *INTEGERS, *FLOATS)


@st.composite
def discretes(draw):
    """Those whose ends lie in every dtype."""
    dtype = draw(st.sampled_from(INTEGERS))
    return Discrete(
        draw(st.integers(1, 50)), draw(st.integers(0 if dtype[0] == "u" else -20, 20)), dtype, draw(names())
    )


numeric = arrays() | discretes() | multi_discretes(INTEGERS) | multi_binaries(1)
plain = numeric | texts()
graph_parts = arrays(("float32", "int64"), (2,)) | st.builds(Discrete, st.integers(1, 5))
flat = plain | st.builds(Graph, graph_parts, st.none() | graph_parts, names())
# gymnasium does not find a stack of scalars of the others in its own space.
stackable = numeric.filter(lambda spec: spec.shape or isinstance(spec, (Array, Discrete)))
specs = nested(flat | structured(flat, stackable))
numeric_specs = nested(numeric)
