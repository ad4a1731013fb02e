"""The time that TF-Agents environments add to a step, ours and TF-Agents' own, in the environment of `make test-tf`.

    .venv-tf/bin/python benchmarks/conversion_tf.py [--rounds 31] [--json conversion_tf.json]

What each adds is nanoseconds of CPU time a step over stepping the environment below, resets included.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import numpy as np
from measuring.loops import episodes
from measuring.null_envs import NullDict, NullDmEnv, NullGymnasium, NullModel, old_gym_env
from measuring.rows import layer
from measuring.script import run

import envoi
from envoi.adapters import to_tf_agents

ACTION = np.asarray(1)


def steps(make):
    return episodes(make, ACTION, 2)


def groups(_):
    from tf_agents.environments import wrappers
    from tf_agents.environments.dm_control_wrapper import DmControlWrapper
    from tf_agents.environments.gym_wrapper import GymWrapper
    from tf_agents.environments.suite_gym import wrap_env

    return [
        layer(
            "gymnasium → TF-Agents",
            steps(NullGymnasium),
            steps(lambda: to_tf_agents(NullGymnasium())),
            {
                "GymWrapper": steps(lambda: GymWrapper(old_gym_env())),
                "suite_gym.wrap_env": steps(lambda: wrap_env(old_gym_env())),
            },
            peer_base=steps(old_gym_env),
            least=8,
        ),
        layer(
            "dm_env → TF-Agents",
            steps(NullDmEnv),
            steps(lambda: to_tf_agents(NullDmEnv())),
            {"DmControlWrapper": steps(lambda: DmControlWrapper(NullDmEnv()))},
            least=8,
        ),
        layer("core → TF-Agents", steps(NullModel), steps(lambda: to_tf_agents(NullModel()))),
        layer(
            "flat observations, TF-Agents",
            steps(lambda: to_tf_agents(NullDict())),
            steps(lambda: to_tf_agents(envoi.FlattenObservation(NullDict(), order="sorted"))),
            {
                "TF-Agents' FlattenObservationsWrapper": steps(
                    lambda: wrappers.FlattenObservationsWrapper(to_tf_agents(NullDict()))
                )
            },
            least=5,
        ),
    ]


if __name__ == "__main__":
    run(__doc__, groups, rounds=31, quick=9)
