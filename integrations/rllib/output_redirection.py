"""Redirects the output of Ray, RLlib and their native code from the terminal to a file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def redirected(path: Path) -> Iterator[None]:
    """Appends the process's stdout and stderr to a file while it is entered.

    It replaces the file descriptors, as Ray's native code writes to them and its child processes inherit them. To write
    to the terminal meanwhile, duplicate its descriptor beforehand.

    Args:
        path: The file.
    """
    sys.stdout.flush()
    sys.stderr.flush()
    kept = [(descriptor, os.dup(descriptor)) for descriptor in (1, 2)]
    try:
        with path.open("ab") as log:
            for descriptor, _ in kept:
                os.dup2(log.fileno(), descriptor)
        yield
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        for descriptor, copy in kept:
            os.dup2(copy, descriptor)
            os.close(copy)
