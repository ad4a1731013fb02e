"""Layers around environments of gymnasium and of dm_env."""

from __future__ import annotations

import importlib.util
import sys
import types

from measuring.loops import episodes
from measuring.null_envs import BOX, CHOICE, NullDmEnv, NullGymnasium, old_gym_env
from measuring.rows import Group, layer

from envoi.adapters import from_dm_env, from_gymnasium, to_dm_env, to_gymnasium


def bsuite_gym():
    from bsuite.utils.gym_wrapper import GymFromDMEnv

    return GymFromDMEnv(NullDmEnv())


def bsuite_dm_env():
    from bsuite.utils.gym_wrapper import DMEnvFromGym

    return DMEnvFromGym(old_gym_env())


def acme_dm_env():
    for package in ("acme", "acme.wrappers"):  # without what they import, which does not install on this Python
        if package not in sys.modules:
            spec = importlib.util.find_spec(package)
            if spec is None:
                raise ImportError(f"No module named {package!r}")
            sys.modules[package] = types.ModuleType(package)
            sys.modules[package].__path__ = spec.submodule_search_locations
    from acme.wrappers.gym_wrapper import GymWrapper

    return GymWrapper(old_gym_env())


def shimmy_gymnasium():
    from shimmy.dm_control_compatibility import DmControlCompatibilityV0

    class Shimmied(DmControlCompatibilityV0):
        """Its constructor takes dm_control's environments only; its step is what is measured."""

        def __init__(self):
            self._env = NullDmEnv()
            self.observation_space, self.action_space = BOX, CHOICE
            self.render_mode = None

        def reset(self, *, seed=None, options=None):
            return self._env.reset().observation, {}

    return Shimmied()


def groups() -> list[Group]:
    return [
        layer("gymnasium → core", episodes(NullGymnasium), episodes(lambda: from_gymnasium(NullGymnasium()))),
        layer(
            "dm_env → gymnasium",
            episodes(NullDmEnv),
            episodes(lambda: to_gymnasium(from_dm_env(NullDmEnv()))),
            {"bsuite": episodes(bsuite_gym), "Shimmy": episodes(shimmy_gymnasium)},
            least=1 / 0.9,
        ),
        layer(
            "gymnasium → dm_env",
            episodes(NullGymnasium),
            episodes(lambda: to_dm_env(from_gymnasium(NullGymnasium()))),
            {"bsuite": episodes(bsuite_dm_env), "Acme": episodes(acme_dm_env)},
            least=1 / 0.75,
        ),
    ]
