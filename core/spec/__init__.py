"""Specs: the values that an observation, an action or a reward may have.

A spec is a frozen, hashable description of a set of values. A composite is a plain dict, list, tuple or named tuple of
specs, and keeps its order. The specs are the union of what the frameworks can express, so that each spec or space of
theirs has one exact counterpart here:

| spec | values |
|---|---|
| `Array` | arrays of one shape and dtype, within optional bounds ("no bound" is not "bounded by inf") |
| `Discrete` | the integers start, …, start + n - 1 |
| `MultiDiscrete`, `MultiBinary` | arrays of such integers; arrays of 0 and 1 |
| `Text` | strings over a charset, of bounded length |
| `Sequence` | tuples, of any length, of values of one spec (with `stack`: one stacked array) |
| `Graph` | `GraphValue(nodes, edges, edge_links)` |
| `OneOf` | `(index, value)`, a value of one of several specs |
| `Foreign` | the values that a framework-specific space object contains, or the instances of a class |
"""

from typing import TYPE_CHECKING

from .arrays import Array, Discrete, MultiBinary, MultiDiscrete
from .base import Foreign, Spec, SpecTree
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
    # Few environments need these specs, so their module is imported on first access.

    def __getattr__(name: str) -> object:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from . import structured

        globals()[name] = found = getattr(structured, name)
        return found

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
