"""Batches with workers beside the loop, gymnasium's `AsyncVectorEnv` and `SyncVectorEnv`, in the same run.

    python benchmarks/workers.py [--lanes 8] [--workers 2] [--ms 1.0] [--rounds 9] [--json workers.json]

The environment computes for a given time a step, so that processes on idle cores help. Time is wall-clock, because
it is spent in several processes: on a busy machine the figures say little.
"""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from functools import partial

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv
from measuring.rows import Group, Pair
from measuring.script import run

import envoi
from envoi.adapters import from_gymnasium, to_gymnasium_vector


class Busy(gymnasium.Env):
    """Computes for some CPU time a step."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (16,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self, ms):
        self.seconds = ms / 1000

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(16, np.float32), {}

    def step(self, action):
        end = time.thread_time() + self.seconds
        while time.thread_time() < end:
            pass
        self.time += 1
        return np.full(16, self.time, np.float32), 1.0, self.time >= 200, False, {}


def core(ms):
    return from_gymnasium(Busy(ms))


GOALS = {"the loop": 1.6, "gymnasium AsyncVectorEnv": 1.15, "gymnasium SyncVectorEnv": None}


def groups(options):
    n, ms = options.lanes, options.ms
    make = partial(core, ms)
    makers = {
        "envoi": lambda: to_gymnasium_vector(envoi.batch(make, n, workers=options.workers)),
        "the loop": lambda: to_gymnasium_vector(envoi.batch(make, n)),
        "gymnasium AsyncVectorEnv": lambda: AsyncVectorEnv([partial(Busy, ms)] * n),
        "gymnasium SyncVectorEnv": lambda: SyncVectorEnv([partial(Busy, ms)] * n),
    }
    actions = np.zeros(n, int)
    with ExitStack() as opened:

        def case(name):
            env = makers[name]()
            opened.callback(env.close)
            env.reset(seed=0)

            def play():
                start = time.perf_counter()
                for _ in range(options.steps):
                    env.step(actions)
                return (time.perf_counter() - start) / options.steps / n * 1e6

            return play

        title = f"{options.workers} workers, {ms:g} ms a step"
        pairs = [Pair(title, "envoi", peer, least=goal) for peer, goal in GOALS.items()]
        yield Group({name: partial(case, name) for name in makers}, pairs, "µs a step of a lane", n)


def options(parser):
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ms", type=float, default=1.0, help="CPU time of a step of one lane (default 1)")
    parser.add_argument("--steps", type=int, default=25, help="steps of all lanes in a round")


if __name__ == "__main__":
    run(__doc__, groups, rounds=9, quick=5, clock="wall-clock", options=options)
