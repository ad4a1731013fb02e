"""Batches with workers beside the loop, gymnasium's `AsyncVectorEnv` and `SyncVectorEnv`, in the same run.

    python benchmarks/workers.py [--lanes 8] [--workers 2] [--ms 1.0] [--rounds 9] [--json workers.json]

The environment computes for a given time a step, so that processes on idle cores help. Time is wall-clock, because
it is spent in several processes; rounds are interleaved, and what counts is the ratio of two rows of one round.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
from functools import partial
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import gymnasium
import numpy as np
from gymnasium.vector import AsyncVectorEnv, SyncVectorEnv

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


def sync_step(env, actions):
    env.step(actions)


def one_by_one(batch, actions):
    """As many lane-steps as one step of all lanes, in two halves that overlap."""
    half = batch.batch_size // 2
    lanes, step = batch.recv(half)
    batch.send(actions[lanes], lanes, step.terminated | step.truncated)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lanes", type=int, default=8)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--ms", type=float, default=1.0, help="CPU time of a step of one lane (default 1)")
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--steps", type=int, default=25, help="steps of all lanes in a round")
    parser.add_argument("--json", type=Path)
    arguments = parser.parse_args()
    n, ms = arguments.lanes, arguments.ms
    make = partial(core, ms)
    pool = envoi.batch(make, n, workers=arguments.workers)
    envs = {
        "workers": to_gymnasium_vector(pool),
        "loop": to_gymnasium_vector(envoi.batch(make, n)),
        "AsyncVectorEnv": AsyncVectorEnv([partial(Busy, ms)] * n),
        "SyncVectorEnv": SyncVectorEnv([partial(Busy, ms)] * n),
    }
    actions = np.zeros(n, int)
    for env in envs.values():
        env.reset(seed=0)
        env.step(actions)
    seconds = {name: [] for name in envs}
    for _ in range(arguments.rounds):
        for name, env in envs.items():
            start = time.perf_counter()
            for _ in range(arguments.steps):
                env.step(actions)
            seconds[name].append((time.perf_counter() - start) / arguments.steps / n)
    print(f"{n} lanes of {ms:g} ms, {arguments.workers} workers, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}")
    print(f"{'':<18}{'µs a lane-step':>16}{'workers are faster by (quartiles)':>36}")
    ratios = {}
    for name in envs:
        each = [one / own for one, own in zip(seconds[name], seconds["workers"], strict=True)]
        ratios[name] = statistics.quantiles(each, n=4)
        shown = "  ".join(f"{value:.2f}" for value in ratios[name])
        print(f"{name:<18}{statistics.median(seconds[name]) * 1e6:>16.0f}{shown:>36}")
    if arguments.json:
        title = f"{n} lanes of {ms:g} ms, {arguments.workers} workers"
        rows = [
            {"row": title, "peer": name, "ours": seconds["workers"], "theirs": seconds[name], "ratio": ratios[name]}
            for name in envs
            if name != "workers"
        ]
        arguments.json.write_text(json.dumps({"rows": rows}, indent=2))
    for env in envs.values():
        env.close()


if __name__ == "__main__":
    main()
