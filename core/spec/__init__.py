"""Specs: what values an observation, an action, a reward may have.

A spec is a frozen, hashable description of a set of values. Composites are plain dicts, lists, tuples and
named tuples of specs, in order. The vocabulary is the union of what the frameworks can say, so that each of
theirs has one exact counterpart here:

| spec | its values |
|---|---|
| `Array` | arrays of one shape and dtype, within optional bounds ("no bound" is not "bounded by inf") |
| `Discrete` | the integers start … start+n-1 |
| `MultiDiscrete`, `MultiBinary` | arrays of such integers; of 0 and 1 |
| `Text` | strings over a charset, of bounded length |
| `Sequence` | tuples of any length of one spec's values (`stack`: one stacked array) |
| `Graph` | `GraphValue(nodes, edges, edge_links)` |
| `OneOf` | `(index, value)` of one of several specs |
| `Foreign` | whatever an object of a framework, of a kind of its own, says |
"""

from typing import TYPE_CHECKING

from .arrays import Array, Discrete, MultiBinary, MultiDiscrete
from .base import Spec, SpecTree
from .foreign import Foreign
from .nested import check_spec, contains, sample, spec_difference, spec_equal, validate, zeros

if TYPE_CHECKING:
    from .structured import Graph, GraphValue, OneOf, Sequence, Text

__all__ = [
    "Array",
    "Discrete",
    "Foreign",
    "Graph",
    "GraphValue",
    "MultiBinary",
    "MultiDiscrete",
    "OneOf",
    "Sequence",
    "Spec",
    "SpecTree",
    "Text",
    "check_spec",
    "contains",
    "sample",
    "spec_difference",
    "spec_equal",
    "validate",
    "zeros",
]

if not TYPE_CHECKING:
    # Few environments need these, so they are imported when the first one is asked for.

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import structured

        globals()[name] = found = getattr(structured, name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
