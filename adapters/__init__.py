"""Environments of any framework, in the form of any other.

    from envoi.adapters import load, to_gymnasium

    env = to_gymnasium(load("envoi:catch"))

Importing this imports no framework; a framework is imported when its form is first asked for, and looked at
only if it is installed.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .losses import Loss
from .registry import FRAMEWORKS, SCHEMES, TARGETS, Framework, convert, from_env, load, losses

if TYPE_CHECKING:
    from .gymnasium import from_gymnasium, to_gymnasium
    from .rllib import from_rllib, to_rllib

__all__ = [
    "FRAMEWORKS",
    "SCHEMES",
    "TARGETS",
    "Framework",
    "Loss",
    "convert",
    "from_env",
    "from_gymnasium",
    "from_rllib",
    "load",
    "losses",
    "to_gymnasium",
    "to_rllib",
]


def __getattr__(name: str) -> Any:
    """`to_<framework>` and `from_<framework>`, from the spoke of that framework."""
    way, _, framework = name.partition("_")
    if way in ("to", "from") and framework in FRAMEWORKS:
        spoke = FRAMEWORKS[framework].load()
        if hasattr(spoke, name):
            return getattr(spoke, name)
    raise AttributeError(f"module 'envoi.adapters' has no attribute {name!r}")
