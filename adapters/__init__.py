"""Conversions of environments between frameworks, by way of the core.

    from envoi.adapters import load, to_gymnasium

    env = to_gymnasium(load("envoi:catch"))

Importing this package imports no framework; a framework is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from .loading import SCHEMES, load, load_multi, names_of
from .registry import FRAMEWORKS, TARGETS, Framework, convert, from_env, losses
from .shared.loss import Loss

if TYPE_CHECKING:
    from .dm_env import from_dm_env, to_dm_env
    from .envpool import from_envpool
    from .gridverse import from_gridverse
    from .gymnasium import from_gymnasium, to_gymnasium
    from .gymnasium_vector import from_gymnasium_vector, to_gymnasium_vector
    from .pettingzoo import from_pettingzoo, to_pettingzoo
    from .pettingzoo_aec import from_pettingzoo_aec, to_pettingzoo_aec
    from .rllib import from_rllib, to_rllib
    from .sb3 import from_sb3, to_sb3
    from .tf_agents import from_tf_agents, to_tf_agents

    # As `__getattr__` has it at run time, for type checkers.
    __all__ = ["Framework", "Loss", "convert", "from_env", "load", "load_multi", "losses", "names_of"]
    __all__ += ["FRAMEWORKS", "SCHEMES", "TARGETS"]
    __all__ += ["from_dm_env", "from_envpool", "from_gridverse", "from_gymnasium", "from_gymnasium_vector"]
    __all__ += ["from_pettingzoo", "from_pettingzoo_aec", "from_rllib", "from_sb3", "from_tf_agents"]
    __all__ += ["to_dm_env", "to_gymnasium", "to_gymnasium_vector", "to_pettingzoo", "to_pettingzoo_aec"]
    __all__ += ["to_rllib", "to_sb3", "to_tf_agents"]

_HERE = ["Framework", "Loss", "convert", "from_env", "load", "load_multi", "losses", "names_of"]
_HERE += ["FRAMEWORKS", "SCHEMES", "TARGETS"]


def _conversions(rows: Iterable[Framework]) -> list[str]:
    return [f"{way}_{row.name}" for row in rows for way in (("to", "from") if row.is_target else ("from",))]


def __dir__() -> list[str]:
    return sorted({*globals(), *_conversions(FRAMEWORKS.values())})


def __getattr__(name: str) -> Any:
    """Returns `to_<framework>` or `from_<framework>`, from the package of that framework."""
    if name == "__all__":  # what `import *` finds: conversions of the frameworks that are installed
        return sorted([*_HERE, *_conversions(row for row in FRAMEWORKS.values() if row.is_installed)])
    way, _, framework = name.partition("_")
    if way in ("to", "from") and framework in FRAMEWORKS:
        adapter = FRAMEWORKS[framework].load()
        if hasattr(adapter, name):
            return getattr(adapter, name)
    raise AttributeError(f"module 'envoi.adapters' has no attribute {name!r}")
