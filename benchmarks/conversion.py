"""The time that a conversion adds to a step, compared with other libraries, in one process.

    python benchmarks/conversion.py [--rounds 31] [--only dm_env] [--json conversion.json]

Every layer goes around an environment that does nothing for 200 steps. What it adds is nanoseconds of CPU time a step
over stepping that environment itself, in the loop of its own form, resets included.

The peers gym (for bsuite's wrappers), Acme and SuperSuit are optional: `make bench` puts them where they are found.
"""

from __future__ import annotations

import importlib.util
import os
import sys
import types

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
from measuring.loops import Case, episodes, games, lanes, one_by_one, rllib_turns, turns
from measuring.null_envs import (
    AGENTS,
    BOX,
    CHOICE,
    NullBatchModel,
    NullByHand,
    NullDmEnv,
    NullGymnasium,
    NullModel,
    old_gym_env,
)
from measuring.rows import Group, layer
from measuring.script import run

import envoi
from envoi.adapters import (
    from_dm_env,
    from_env,
    from_gymnasium,
    to_dm_env,
    to_gymnasium,
    to_gymnasium_vector,
    to_pettingzoo,
    to_pettingzoo_aec,
    to_rllib,
    to_sb3,
)


class Halved(envoi.Lifted):
    """Changes one value."""

    def change(self, specs):
        return envoi.Change(reward=lambda reward: reward * 0.5)


class HalvedByHand(gymnasium.RewardWrapper):
    """`Halved`, as a wrapper of gymnasium."""

    def reward(self, reward):
        return reward * 0.5


def wrapped(env, wrapper, layers: int):
    for _ in range(layers):
        env = wrapper(env)
    return env


def wrappers(layers: int) -> Group:
    """Returns the row of wrappers that change one value each, in the gymnasium form, over none."""
    return layer(
        f"{layers} wrapper{'' if layers == 1 else 's'}, over none",
        episodes(lambda: to_gymnasium(NullModel())),
        episodes(lambda: to_gymnasium(wrapped(NullModel(), Halved, layers))),
        {"gymnasium's": episodes(lambda: wrapped(NullByHand(), HalvedByHand, layers))} if layers else {},
        peer_base=episodes(NullByHand),
        least=3,
    )


def made(name: str, **options) -> Case:
    return episodes(lambda: gymnasium.make(name, **options))


def dummy_lanes(n: int):
    from stable_baselines3.common.vec_env import DummyVecEnv

    return DummyVecEnv([NullGymnasium] * n)


def to_stable_baselines3(n: int) -> list[Group]:
    """Returns the rows of n lanes, each beside Stable-Baselines3's own loop over the same null environment."""
    peers = {"DummyVecEnv": lanes(lambda: dummy_lanes(n), n)}
    below = one_by_one(lambda: [NullGymnasium() for _ in range(n)])
    models = one_by_one(lambda: [NullModel() for _ in range(n)])
    batch = lanes(lambda: envoi.batch(NullBatchModel(), n), n)
    unit = "ns added a step of all lanes"
    return [
        layer(
            f"{n} lanes of {kind} → SB3",
            base,
            lanes(lambda model=model: to_sb3(envoi.batch(model(), n)), n),
            peers,
            peer_base=below,
            unit=unit,
            lanes=n,
        )
        for kind, model, base in (("a Model", NullModel, models), ("a BatchModel", NullBatchModel, batch))
    ]


def of_models() -> list[Group]:
    """Layers around the core's own models."""
    form = episodes(lambda: to_gymnasium(NullModel()))
    return [
        layer(
            "core → gymnasium",
            episodes(NullModel),
            form,
            {
                "gymnasium.make, with a time limit": made("NullLimited-v0"),
                "gymnasium.make": made("Null-v0"),
                "gymnasium.make, no checker": made("Null-v0", disable_env_checker=True),
            },
            peer_base=episodes(NullGymnasium),
            most=0,
        ),
        layer("Model, over a gymnasium env by hand", episodes(NullGymnasium), episodes(NullModel)),
        layer(
            "Model → gymnasium, over one by hand",
            episodes(NullByHand),
            form,
            {"gymnasium.make's wrappers": made("NullByHand-v0")},
            most=150,
        ),
        *(wrappers(layers) for layers in (0, 1, 3, 6)),
        *to_stable_baselines3(8),
        *to_stable_baselines3(64),
    ]


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


def of_singles() -> list[Group]:
    """Layers around environments of gymnasium and of dm_env."""
    return [
        layer("gymnasium → core", episodes(NullGymnasium), episodes(lambda: from_gymnasium(NullGymnasium()))),
        layer(
            "dm_env → gymnasium",
            episodes(NullDmEnv),
            episodes(lambda: to_gymnasium(from_dm_env(NullDmEnv()))),
            {"bsuite": episodes(bsuite_gym), "Shimmy": episodes(shimmy_gymnasium)},
            least=1 / 1.25,
        ),
        layer(
            "gymnasium → dm_env",
            episodes(NullGymnasium),
            episodes(lambda: to_dm_env(from_gymnasium(NullGymnasium()))),
            {"bsuite": episodes(bsuite_dm_env), "Acme": episodes(acme_dm_env)},
            least=1 / 1.25,
        ),
    ]


RLLIB_STEP = 100_000
"""Nanoseconds that RLlib's runner spends on a step of a game, at least; a conversion may cost 2.5 % of that."""


def of_games() -> list[Group]:
    """Layers around games of PettingZoo."""
    from measuring.null_games import NullAEC, NullParallel
    from pettingzoo.utils import conversions
    from ray.rllib.env.multi_agent_env import MultiAgentEnv  # noqa: F401 (its import is no part of what is measured)
    from ray.rllib.env.wrappers.pettingzoo_env import ParallelPettingZooEnv, PettingZooEnv

    def supersuit():
        from supersuit import pettingzoo_env_to_vec_env_v1

        return pettingzoo_env_to_vec_env_v1(NullParallel())

    parallel, aec = games(NullParallel, AGENTS), turns(NullAEC)
    return [
        layer(
            "PettingZoo parallel → AEC",
            parallel,
            turns(lambda: to_pettingzoo_aec(from_env(NullParallel()))),
            {"PettingZoo": turns(lambda: conversions.parallel_to_aec(NullParallel()))},
            least=4,
        ),
        layer(
            "PettingZoo AEC → parallel",
            aec,
            games(lambda: to_pettingzoo(NullAEC()), AGENTS),
            {"PettingZoo": games(lambda: conversions.aec_to_parallel(NullAEC()), AGENTS)},
            least=1 / 1.15,
        ),
        layer(
            "PettingZoo parallel → RLlib",
            parallel,
            rllib_turns(lambda: to_rllib(NullParallel(), canonical=False)({})),
            {"RLlib": rllib_turns(lambda: ParallelPettingZooEnv(NullParallel()))},
            most=RLLIB_STEP / 40,
        ),
        layer(
            "PettingZoo AEC → RLlib",
            aec,
            rllib_turns(lambda: to_rllib(NullAEC(), canonical=False)({})),
            {"RLlib": rllib_turns(lambda: PettingZooEnv(NullAEC()))},
            most=RLLIB_STEP / 40,
        ),
        layer(
            "PettingZoo parallel → vector env",
            parallel,
            lanes(lambda: to_gymnasium_vector(from_env(NullParallel())), len(AGENTS), 5, once=True),
            {"SuperSuit": lanes(supersuit, len(AGENTS), 5, once=True)},
            least=3,
        ),
    ]


def groups(_):
    yield from of_models()
    yield from of_singles()
    yield from of_games()


if __name__ == "__main__":
    run(__doc__, groups, rounds=31, quick=9)
