"""Sets environment variables of this process for the length of a job."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager


@contextmanager
def variables_set(fixed: Mapping[str, str], defaults: Mapping[str, str]) -> Iterator[None]:
    """Sets environment variables while it is entered, and puts back what was there before.

    Args:
        fixed: The variables to set.
        defaults: The variables to set unless the user has set them.
    """
    values = {**{name: value for name, value in defaults.items() if name not in os.environ}, **fixed}
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value
