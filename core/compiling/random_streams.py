"""Random numbers inside kernels: the bits of a `numpy.random.Generator`, turned into numbers as numpy does.

A generator reaches a kernel as a `Stream` of addresses. The kernel advances that very state, so the stream continues in
Python where the kernel left it. The algorithms are those of numpy/random/src/distributions/distributions.c.
"""

from __future__ import annotations

from typing import NamedTuple

METHODS = ("random", "uniform", "integers", "standard_normal", "normal")
"""The methods of a generator that kernels have."""


class Stream(NamedTuple):
    """The addresses of a generator's state, and of the functions that return its next numbers."""

    state: int
    next_double: int
    next_uint32: int
    next_uint64: int
