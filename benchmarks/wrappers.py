"""The time that a wrapper adds to a step, compared with other libraries, in one process.

    python benchmarks/wrappers.py [--rounds 31] [--only flat] [--json wrappers.json]

Every wrapper goes around an environment that does nothing for 200 steps. What it adds is nanoseconds of CPU time a step
over stepping that environment without the wrapper, in the same form, resets included.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import numpy as np
from measuring.loops import episodes
from measuring.null_envs import NullByHand, NullDict, NullModel
from measuring.rows import layer
from measuring.script import run

import envoi
from envoi.adapters import to_gymnasium

GRIDVERSE_STEP = 435_000
"""Nanoseconds of a step of gym-gridverse's, of which representing may cost a hundredth."""


class NullNested(NullDict):
    """Takes a nested action."""

    action_spec = {"arm": envoi.Array((3,), "float32", -1, 1), "grip": envoi.Array((), "float32", 0, 1)}


class NullObjects(NullDict):
    """Its observations are objects."""

    observation_spec = envoi.Foreign(list)

    def observe(self, state, rng):
        return []


def represented():
    """Objects as arrays, by a function that costs nothing itself."""
    array = np.zeros((7, 7, 3), np.float32)
    shown = envoi.Representation(lambda value: array, envoi.Array((7, 7, 3)))
    return envoi.Represented(NullObjects(), state=shown, observation=shown)


class LookedAt:
    """Asks for the state in every step."""

    def __init__(self, env):
        self.env, self.reset = env, env.reset

    def step(self, action):
        self.env.step(action)
        return self.env.state


def groups(_):
    nested = {"arm": np.zeros(3, np.float32), "grip": np.zeros((), np.float32)}
    objects = episodes(NullObjects)
    return [
        layer(
            "flat observations",
            episodes(lambda: to_gymnasium(NullDict())),
            episodes(lambda: to_gymnasium(envoi.FlattenObservation(NullDict()))),
            {
                "gymnasium's FlattenObservation": episodes(
                    lambda: gymnasium.wrappers.FlattenObservation(to_gymnasium(NullDict()))
                )
            },
            least=5,
        ),
        layer(
            "flat actions",
            episodes(NullNested, nested),
            episodes(lambda: envoi.FlattenAction(NullNested()), np.zeros(4, np.float32)),
        ),
        layer(
            "a time limit",
            episodes(lambda: to_gymnasium(NullModel())),
            episodes(lambda: to_gymnasium(envoi.TimeLimit(NullModel(), 300))),
            {"gymnasium's TimeLimit": episodes(lambda: gymnasium.wrappers.TimeLimit(NullByHand(), 300))},
            peer_base=episodes(NullByHand),
        ),
        layer("represented observations", objects, episodes(represented), most=GRIDVERSE_STEP / 100),
        layer(
            "… and states, every step", objects, episodes(lambda: LookedAt(represented())), most=GRIDVERSE_STEP / 100
        ),
    ]


if __name__ == "__main__":
    run(__doc__, groups, rounds=31, quick=9)
