"""Selects the driver of an environment; a framework is considered only if it is imported already."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any, cast

from envoi import Env, MultiEnv
from envoi.adapters import from_env
from envoi.adapters.registry import is_of

from .base import Driver
from .core import core_driver
from .dm_env import DmEnvDriver
from .gymnasium import AECDriver, GymnasiumDriver, ParallelDriver

if TYPE_CHECKING:
    from envoi.adapters.dm_env import FromDmEnv


def framework_driver(env: Any) -> Driver | None:
    """Returns a driver that plays an environment of a framework by its own API; None where there is none."""
    multi_agent = sys.modules.get("ray.rllib.env.multi_agent_env")
    if is_of(env, "envpool"):
        return None  # a pool inherits from gymnasium.Env, though all of its values have a lane axis
    if multi_agent is not None and isinstance(getattr(env, "unwrapped", env), multi_agent.MultiAgentEnv):
        return None  # though it is a gymnasium.Env too
    if (gymnasium := sys.modules.get("gymnasium")) and isinstance(env, gymnasium.Env):
        return GymnasiumDriver(env)
    if (dm_env := sys.modules.get("dm_env")) and isinstance(env, dm_env.Environment):
        return DmEnvDriver(env)
    if pettingzoo := sys.modules.get("pettingzoo"):
        if isinstance(env, pettingzoo.ParallelEnv):
            return ParallelDriver(env)
        if isinstance(env, pettingzoo.AECEnv):
            return AECDriver(env)
    return None


def driver_for(env: Any) -> Driver:
    """Returns a driver for any environment: by its own API, or by envoi's where its own API has no driver."""
    if not isinstance(env, (Env, MultiEnv)):
        return framework_driver(env) or core_driver(from_env(env))
    source = getattr(env, "source", None)
    if source is not None and env.is_unchanged:
        from_dm_env = sys.modules.get("envoi.adapters.dm_env")
        if from_dm_env is not None and isinstance(env, from_dm_env.FromDmEnv):
            return DmEnvDriver(source, cast("FromDmEnv", env))
        return framework_driver(source) or core_driver(env)
    return core_driver(env)
