"""Random numbers inside kernels: the bits of a `numpy.random.Generator`, turned into numbers as numpy does.

A generator reaches a kernel as a `Stream` of addresses. The kernel advances that very state, so the stream continues in
Python where the kernel left it. The algorithms are those of numpy/random/src/distributions/distributions.c.
"""

from __future__ import annotations

import ctypes
from typing import Any, NamedTuple

import numpy as np

METHODS = ("random", "uniform", "integers", "standard_normal", "normal")
"""The methods of a generator that kernels have."""


class Stream(NamedTuple):
    """The addresses of a generator's state, and of the functions that return its next numbers."""

    state: int
    next_double: int
    next_uint32: int
    next_uint64: int


def addresses_of(generator: np.random.Generator) -> Stream:
    """Returns a generator as kernels take it; the addresses hold as long as it lives."""
    bits: Any = generator.bit_generator.ctypes
    calls = (bits.next_double, bits.next_uint32, bits.next_uint64)
    return Stream(bits.state_address, *(ctypes.cast(call, ctypes.c_void_p).value or 0 for call in calls))
