"""Batches of CartPole through gymnasium's vector form, beside those of others, in one process.

    python benchmarks/batches.py [--rounds 15] [--lanes 1,8,64,1024,16384] [--json batches.json]

Steps of all lanes per second of this thread's processor time, lanes reset in the step after their end, under random
actions: medians of interleaved rounds, so that a slow moment of a shared machine hits all alike. A ratio is the median
of the ratios of single rounds, with its quartiles; a goal is the least ratio. envpool takes part if it is installed;
its threads are counted too.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import time
import warnings
from collections.abc import Callable
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
warnings.filterwarnings("ignore")  # what frameworks say of themselves

import gymnasium
import numpy as np
from gymnasium.envs.classic_control.cartpole import CartPoleVectorEnv

import envoi
from envoi.adapters import to_gymnasium_vector
from envoi.models import CartPole

LIMIT = 500


def ours(n, compiled, contexts=False, limit=True):
    """Our batch as a vector environment, with the time limit of CartPole-v1 as the peers have it, or without one."""
    env = envoi.TimeLimit(CartPole(), LIMIT) if limit else CartPole()
    batch = envoi.batch(env, n, compiled=compiled)
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
    import envpool as pool  # raises ImportError where it is not installed

    return pool.make_gymnasium("CartPole-v1", num_envs=n, num_threads=1)


CASES: dict[str, Callable] = {
    "envoi, compiled": lambda n: ours(n, True),
    "envoi, compiled, a context per lane": lambda n: ours(n, True, True),
    "envoi, compiled, no time limit": lambda n: ours(n, True, limit=False),
    "envoi, numpy": lambda n: ours(n, False),
    "gymnasium SyncVectorEnv": lambda n: gymnasium.make_vec("CartPole-v1", n, vectorization_mode="sync"),
    "gymnasium CartPoleVectorEnv": lambda n: CartPoleVectorEnv(n, max_episode_steps=LIMIT),
    "plain numpy, no interface": PlainNumpy,
    "envpool, 1 thread": envpool,
}
GOALS = [  # ours, the peer, the goal by the number of lanes
    ("envoi, compiled", "gymnasium CartPoleVectorEnv", {8: 10, 64: 10, 1024: 3}),
    ("envoi, compiled, no time limit", "gymnasium CartPoleVectorEnv", {8: 10, 64: 10, 1024: 3}),
    ("envoi, compiled", "gymnasium SyncVectorEnv", {1: 3}),
    ("envoi, compiled", "envpool, 1 thread", {64: 20}),
    ("envoi, compiled, a context per lane", "envoi, compiled", {64: 1 / 1.1, 1024: 1 / 1.1}),
    ("envoi, numpy", "gymnasium CartPoleVectorEnv", {8: 1.5, 64: 1.2, 1024: 1.2}),
    ("envoi, numpy", "gymnasium SyncVectorEnv", {1: 1}),
    ("envoi, numpy", "plain numpy, no interface", {1024: 0.87}),
]
SLOW = "gymnasium SyncVectorEnv"


def measure(n, rounds):
    """Nanoseconds of each round for one step of all lanes, by case."""
    actions = [np.random.default_rng(i).integers(2, size=n) for i in range(32)]
    envs = {}
    for name, make in CASES.items():
        if name == SLOW and n > 1024:
            continue
        try:
            envs[name] = make(n)
        except ImportError:
            continue
        envs[name].reset(seed=0)
    found = {name: [] for name in envs}
    for number in range(rounds + 1):
        for name, env in envs.items():
            count = max(3, (300 if name == SLOW else 6000) // max(n, 8))
            clock = time.process_time_ns if "envpool" in name else time.thread_time_ns
            start = clock()
            for i in range(count):
                env.step(actions[i % 32])
            if number:  # the first round warms up
                found[name].append((clock() - start) / count)
    return found


def ratio(found, one, other):
    each = sorted(b / a for a, b in zip(found[one], found[other], strict=True))
    low, _, high = statistics.quantiles(each, n=4)
    return statistics.median(each), low, high


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--lanes", default="1,8,64,1024,16384")
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    lanes = [int(n) for n in options.lanes.split(",")]
    results = {n: measure(n, options.rounds) for n in lanes}
    print("million steps per second of processor time; lanes:", *lanes, sep="\t")
    for name in CASES:
        cells = [f"{n * 1e3 / statistics.median(results[n][name]):.3f}" if name in results[n] else "-" for n in lanes]
        if any(cell != "-" for cell in cells):
            print(f"{name:<38}", *cells, sep="\t")
    print()
    rows = []
    for one, other, goals in GOALS:
        for n, goal in goals.items():
            if n not in results or other not in results[n]:
                continue
            value, low, high = ratio(results[n], one, other)
            met = "met" if value >= goal else "missed"
            rows.append(
                {"lanes": n, "ours": one, "peer": other, "ratio": value, "quartiles": [low, high], "goal": goal}
            )
            print(f"{n:>6} lanes  {one} / {other}: {value:.2f} ({low:.2f}-{high:.2f}), goal {goal:.2f}: {met}")
    if options.json:
        versions = {"python": platform.python_version(), "numpy": np.__version__, "gymnasium": gymnasium.__version__}
        try:
            import numba

            versions["numba"] = numba.__version__
        except ImportError:
            pass
        report = {
            "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "machine": f"{platform.machine()} {platform.system()}, {os.cpu_count()} cores",
            "versions": versions,
            "nanoseconds": {
                n: {name: statistics.median(t) for name, t in found.items()} for n, found in results.items()
            },
            "ratios": rows,
        }
        options.json.write_text(json.dumps(report, indent=2) + "\n")


if __name__ == "__main__":
    main()
