"""The mark of a form: an environment of a framework that holds a core environment."""

from __future__ import annotations

from typing import Any


class CoreHolder:
    """An environment of a framework that holds a core environment; every form is one.

    Attributes:
        core: The core environment.
    """

    core: Any
