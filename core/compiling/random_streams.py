"""Random numbers inside kernels: the bits of a `numpy.random.Generator`, turned into numbers as numpy does.

A generator reaches a kernel as five integers: the address of its bit generator's state, and those of the functions that
return its next numbers (`BitGenerator.ctypes`). The kernel advances that very state, so the stream continues in Python
where the kernel left it. The algorithms are those of numpy/random/src/distributions/distributions.c.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

METHODS = ("random", "uniform", "integers", "standard_normal", "normal")
"""The methods of a generator that kernels have."""


def addresses_of(generator: np.random.Generator) -> tuple[int, ...]:
    """Returns a generator as kernels take it: the addresses of its state, `next_double`, `next_uint32` and `_64`."""
    bits: Any = generator.bit_generator.ctypes
    calls = (bits.next_double, bits.next_uint32, bits.next_uint64)
    return (bits.state_address, *(ctypes.cast(call, ctypes.c_void_p).value or 0 for call in calls))
