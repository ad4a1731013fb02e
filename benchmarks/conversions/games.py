"""Layers around games of PettingZoo."""

from __future__ import annotations

from measuring.loops import games, lanes, rllib_turns, turns
from measuring.null_envs import AGENTS
from measuring.rows import Group, layer

from envoi.adapters import from_env, to_gymnasium_vector, to_pettingzoo, to_pettingzoo_aec, to_rllib

RLLIB_STEP = 100_000
"""Nanoseconds that RLlib's runner spends on a step of a game, at least; a conversion may cost a fiftieth of that."""


def groups() -> list[Group]:
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
            least=1,
        ),
        layer(
            "PettingZoo parallel → RLlib",
            parallel,
            rllib_turns(lambda: to_rllib(NullParallel(), canonical=False)({})),
            {"RLlib": rllib_turns(lambda: ParallelPettingZooEnv(NullParallel()))},
            least=1 / 2.5,
            most=RLLIB_STEP / 50,
        ),
        layer(
            "PettingZoo AEC → RLlib",
            aec,
            rllib_turns(lambda: to_rllib(NullAEC(), canonical=False)({})),
            {"RLlib": rllib_turns(lambda: PettingZooEnv(NullAEC()))},
            least=1 / 2.5,
            most=RLLIB_STEP / 50,
        ),
        layer(
            "PettingZoo parallel → vector env",
            parallel,
            lanes(lambda: to_gymnasium_vector(from_env(NullParallel())), len(AGENTS), 5, once=True),
            {"SuperSuit": lanes(supersuit, len(AGENTS), 5, once=True)},
            least=5,
        ),
    ]
