"""The class by which forms are recognised."""

from __future__ import annotations

from typing import Any

from envoi import MultiEnv
from envoi.wrapping.delegate import set_once


class CoreHolder:
    """An environment of a framework with a core environment inside; the base of all forms.

    Attributes:
        core: The core environment.
    """

    core: Any = set_once("core", "make a new form of it")
    _core_inside: Any


class MultiCoreHolder(CoreHolder):
    """The same for frameworks of several agents.

    Attributes:
        core: The core environment, of one agent or of several.
        multi: The same, as one of several agents.
    """

    multi: MultiEnv
