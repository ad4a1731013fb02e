"""Batches of CartPole through gymnasium's vector form, beside those of others, in one process.

    python benchmarks/batches.py [--rounds 31] [--lanes 1,8,64,1024,16384] [--json batches.json]

Nanoseconds of this thread's CPU time for one step of one lane, under random actions, lanes reset in the step after
their end. envpool takes part if it is installed; its threads are counted too.
"""

from __future__ import annotations

import os
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv
from measuring.loops import sampled
from measuring.numpy_cartpole import CartPoles
from measuring.rows import Case, Group, Pair
from measuring.script import lanes_option, run

import envoi
from envoi.adapters import to_gymnasium_vector
from envoi.models import CartPole

LIMIT = 500


def ours(n, compiled, contexts=False, limit=True):
    """Our batch as a vector environment, with the time limit of CartPole-v1 as the peers have it, or without one."""
    model = CartPole() if compiled else CartPoles()
    batch = envoi.batch(envoi.TimeLimit(model, LIMIT) if limit else model, n, compiled=compiled)
    if contexts:
        batch.context = {"gravity": np.linspace(9, 11, n), "length": np.linspace(0.4, 0.6, n)}
    return to_gymnasium_vector(batch)


class PlainNumpy:
    """The arithmetic of CartPole in numpy, without any interface."""

    def __init__(self, n):
        self.rng, self.n = np.random.default_rng(0), n

    def reset(self, seed=None):
        self.state = self.rng.uniform(-0.05, 0.05, (4, self.n))
        self.over = np.zeros(self.n, bool)

    def step(self, action):
        _, speed, angle, spin = self.state
        cos, sin = np.cos(angle), np.sin(angle)
        push = (np.where(action == 1, 10.0, -10.0) + 0.05 * spin * spin * sin) / 1.1
        spin_up = (9.8 * sin - cos * push) / (0.5 * (4 / 3 - 0.1 * cos * cos / 1.1))
        speed_up = push - 0.05 * spin_up * cos / 1.1
        state = self.state + 0.02 * np.array((speed, speed_up, spin, spin_up))
        if self.over.any():
            state[:, self.over] = self.rng.uniform(-0.05, 0.05, (4, np.count_nonzero(self.over)))
        over = (np.abs(state[0]) > 2.4) | (np.abs(state[2]) > 0.2095)
        self.state, self.over = state, over
        return state.T.astype(np.float32), np.ones(self.n), over, np.zeros(self.n, bool), {}


def envpool(n):
    import envpool as pool

    return pool.make_gymnasium("CartPole-v1", num_envs=n, num_threads=1)


COMPILED, NUMPY = "envoi, compiled", "envoi, numpy"
CONTEXTS, UNLIMITED = "envoi, compiled, a context per lane", "envoi, compiled, no time limit"
SYNC, VECTOR = "gymnasium SyncVectorEnv", "gymnasium CartPoleVectorEnv"
PLAIN, POOL = "plain numpy, no interface", "envpool, 1 thread"
MAKERS = {
    COMPILED: lambda n: ours(n, True),
    CONTEXTS: lambda n: ours(n, True, True),
    UNLIMITED: lambda n: ours(n, True, limit=False),
    NUMPY: lambda n: ours(n, False),
    SYNC: lambda n: gymnasium.make_vec("CartPole-v1", n, vectorization_mode="sync"),
    VECTOR: lambda n: CartPoleVectorEnv(n, max_episode_steps=LIMIT),
    PLAIN: PlainNumpy,
    POOL: envpool,
}
COMPARED = [  # ours, the peer, the least ratio by the number of lanes
    (COMPILED, VECTOR, {8: 10, 64: 10, 1024: 2.4}),
    (COMPILED, SYNC, {1: 3}),
    (COMPILED, POOL, {64: 20}),
    (COMPILED, PLAIN, {}),
    (UNLIMITED, VECTOR, {}),
    (CONTEXTS, COMPILED, {8: 1 / 1.2, 64: 1 / 1.2, 1024: 1 / 1.2}),
    (NUMPY, VECTOR, {8: 1.5, 64: 1.2, 1024: 1.1}),
    (NUMPY, SYNC, {}),
    (NUMPY, PLAIN, {1024: 0.85}),
]
ROUND = 10_000_000
"""Nanoseconds that a case has in each round, about."""

SLOW = 1024
"""The most lanes of which SyncVectorEnv takes part."""


def case(name: str, n: int) -> Case:
    """Steps of n lanes, at random, for about `ROUND`."""

    def made():
        env = MAKERS[name](n)
        clock = time.process_time_ns if name == POOL else time.thread_time_ns

        def steps(count):
            return sampled(lambda: env, n, count, clock)()

        steps(3)()  # compiles
        return steps(max(3, round(ROUND / steps(10)() / n)))

    return made


def groups(options):
    for n in options.lanes or ([8, 64, 1024] if options.quick else [1, 8, 64, 1024, 16384]):
        cases = {name: case(name, n) for name in MAKERS if name != SYNC or n <= SLOW}
        pairs = [
            Pair(f"CartPole, {one.removeprefix('envoi, ')}", one, other, least=goals.get(n))
            for one, other, goals in COMPARED
            if other in cases
        ]
        yield Group(cases, pairs, "ns a step of a lane", n)


CLOCK = "CPU time of the thread; of the process for envpool"

if __name__ == "__main__":
    run(__doc__, groups, rounds=31, quick=9, clock=CLOCK, options=lanes_option)
