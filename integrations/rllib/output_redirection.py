"""Send what Ray, RLlib and their native code say to a file, not to the user's terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


@contextmanager
def redirected(path: Path) -> Iterator[None]:
    """Append the process's stdout and stderr to a file.

    It works on the file descriptors, as Ray's native code writes to them and its child processes inherit
    them. Whoever wants to write to the terminal meanwhile duplicates its descriptor beforehand.

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
