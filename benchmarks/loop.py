"""A loop over gymnasium's environments beside its `SyncVectorEnv`, in the same run.

    python benchmarks/loop.py [--lanes 64] [--rounds 15] [--json loop.json]

Both step the same kind of environment through the same interface, by the thread's CPU time, in interleaved rounds. The
column "bare" is a loop that stacks nothing: no vector environment in one process can be much faster than that.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import numpy as np

import envoi
from envoi.adapters import load, to_gymnasium_vector


class Null(gymnasium.Env):
    """Nothing happens for 200 steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(4, np.float32), 1.0, self.time >= 200, False, {}


gymnasium.register("NullForLoops-v0", Null)


class Bare:
    """The environments alone."""

    def __init__(self, name, n):
        self.envs = [gymnasium.make(name, disable_env_checker=True) for _ in range(n)]

    def reset(self, seed):
        for env in self.envs:
            env.reset(seed=seed)

    def step(self, actions):
        for env, action in zip(self.envs, actions, strict=True):
            _, _, terminated, truncated, _ = env.step(action)
            if terminated or truncated:
                env.reset()


def measure(name, n, rounds):
    envs = {
        "ours": to_gymnasium_vector(envoi.batch(load(f"gymnasium:{name}"), n)),
        "SyncVectorEnv": gymnasium.make_vec(name, n, vectorization_mode="sync"),
        "bare": Bare(name, n),
    }
    actions = np.random.default_rng(0).integers(0, 2, (max(10, 4000 // n), n))
    found = {one: [] for one in envs}
    for number in range(rounds + 2):  # the first two warm up
        for one, env in envs.items():
            env.reset(seed=0)
            start = time.thread_time()
            for row in actions:
                env.step(row)
            if number > 1:
                found[one].append((time.thread_time() - start) / actions.size * 1e9)
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lanes", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    rows = []
    print(f"{'ns a lane-step':<20}{'ours':>8}{'bare':>8}{'Sync':>8}{'Sync / ours, quartiles':>28}")
    for name in ("CartPole-v1", "NullForLoops-v0"):
        found = measure(name, arguments.lanes, arguments.rounds)
        each = [theirs / own for theirs, own in zip(found["SyncVectorEnv"], found["ours"], strict=True)]
        ratio = statistics.quantiles(each, n=4)
        medians = [statistics.median(found[one]) for one in ("ours", "bare", "SyncVectorEnv")]
        shown = "  ".join(f"{value:.2f}" for value in ratio)
        print(f"{name:<20}" + "".join(f"{one:>8.0f}" for one in medians) + f"{shown:>28}")
        rows.append(
            {
                "row": f"{name}, {arguments.lanes} lanes in a loop",
                "peer": "SyncVectorEnv",
                "ours": found["ours"],
                "theirs": found["SyncVectorEnv"],
                "ratio": ratio,
            }
        )
    if arguments.json:
        arguments.json.write_text(json.dumps({"rows": rows}, indent=2))


if __name__ == "__main__":
    main()
