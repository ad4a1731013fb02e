"""The class by which forms are recognised."""

from __future__ import annotations

from typing import Any


class CoreHolder:
    """An environment of a framework with a core environment inside; the base of all forms.

    Attributes:
        core: The core environment.
    """

    core: Any
