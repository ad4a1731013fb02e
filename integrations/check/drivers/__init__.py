"""Selects the driver of an environment; a framework is considered only if it is imported already."""

from __future__ import annotations

from typing import Any

from envoi import Env, MultiEnv
from envoi.adapters import from_env
from envoi.adapters.registry import home

from .base import Driver
from .core import core_driver
from .foreign import AECDriver, DmEnvDriver, GymnasiumDriver, ParallelDriver

_DRIVERS: dict[str, type[Driver]] = {
    "gymnasium": GymnasiumDriver,
    "dm_env": DmEnvDriver,
    "pettingzoo": ParallelDriver,
    "pettingzoo_aec": AECDriver,
}


def framework_driver(env: Any, **options: Any) -> Driver | None:
    """Returns a driver that plays an environment of a framework by its own API; None where there is none."""
    row = home(env)
    if row is None:
        return None
    if row.name == "rllib" and isinstance(env, row.adapter.RLlibEnv):  # the form of one agent, also of gymnasium
        return GymnasiumDriver(env)
    driver = _DRIVERS.get(row.name)
    return None if driver is None else driver(env, **(options if driver is DmEnvDriver else {}))


def driver_for(env: Any) -> Driver:
    """Returns a driver for any environment: by its own API, or by envoi's where its own API has no driver."""
    if not isinstance(env, (Env, MultiEnv)):
        return framework_driver(env) or core_driver(from_env(env))
    source = getattr(env, "source", None)
    if source is not None and env.is_unchanged:
        return framework_driver(source, importer=env) or core_driver(env)
    return core_driver(env)
