"""numba, which need not be installed, and what it costs."""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec

LOADING = 0.5
"""Seconds that importing numba and loading a kernel from disk take."""

EXPECTED = 3.0
"""Seconds that compiling takes on an ordinary machine, numba's import included."""


@cache
def numba_version() -> str | None:
    """Returns numba's version without importing it; None if it is not installed."""
    if find_spec("numba") is None:
        return None
    from importlib.metadata import version  # imported here, so that `import envoi` stays fast

    return version("numba")
