"""The cost of envoi compared with other libraries, for single steps and batches, in one process.

    python benchmarks/core.py [--rounds 15] [--json core.json]

Rounds are interleaved, so that a slow moment of a shared machine hits all alike; what counts is the ratio of
two rows of one run. "Added" is over the row named as the base.
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
from envoi.adapters import from_env, to_gymnasium
from envoi.models import CartPole

EPISODE = 200


class NullModel(envoi.Model):
    """Nothing happens for 200 steps."""

    observation_spec = envoi.Array((4,))
    action_spec = envoi.Discrete(2)

    def initial(self, rng, context):
        return 0

    def transition(self, state, action, rng):
        return state + 1

    def observe(self, state, rng):
        return np.zeros(4, np.float32)

    def reward(self, state, action, next_state):
        return 1.0

    def terminal(self, state):
        return state >= EPISODE


class NullEnv(gymnasium.Env):
    """The same, written by hand for gymnasium."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.time = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.time += 1
        return np.zeros(4, np.float32), 1.0, self.time >= EPISODE, False, {}


gymnasium.register("Null-v0", NullEnv)


def per_step(env, episodes=20):
    """Nanoseconds a step, resets included."""
    start = time.perf_counter()
    for _ in range(episodes):
        env.reset()
        step = env.step
        for _ in range(EPISODE):
            step(1)
    return (time.perf_counter() - start) / episodes / EPISODE * 1e9


class Batch:
    """Our batch in gymnasium's NEXT_STEP mode."""

    def __init__(self, n):
        self.env = envoi.batch(envoi.TimeLimit(CartPole(), 500), n)
        self.env.reset(seed=0)
        self.over = np.zeros(n, bool)

    def step(self, actions):
        result = self.env.step(actions, self.over if self.over.any() else None)
        self.over = result.terminated | result.truncated


def made(mode):
    def make(n):
        env = gymnasium.make_vec("CartPole-v1", n, vectorization_mode=mode)
        env.reset(seed=0)
        return env

    return make


def steps_per_second(env, actions):
    start = time.perf_counter()
    for row in actions:
        env.step(row)
    return actions.size / (time.perf_counter() - start)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds (default 15)")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()

    singles = {  # name: (env, the row that it adds to)
        "gymnasium env, by hand": (NullEnv(), None),
        "gymnasium.make": (gymnasium.make("Null-v0"), "gymnasium env, by hand"),
        "gymnasium.make, no checker": (gymnasium.make("Null-v0", disable_env_checker=True), "gymnasium env, by hand"),
        "from_gymnasium": (from_env(NullEnv()), "gymnasium env, by hand"),
        "envoi.Model": (NullModel(), "gymnasium env, by hand"),
        "to_gymnasium(Model)": (to_gymnasium(NullModel()), "envoi.Model"),
        "TimeLimit(Model)": (envoi.TimeLimit(NullModel(), 300), "envoi.Model"),
    }
    rounds = {name: [] for name in singles}
    for _ in range(arguments.rounds):
        for name, (env, _) in singles.items():
            rounds[name].append(per_step(env))
    best = {name: min(times) for name, times in rounds.items()}
    print(f"{'ns a step':<30}{'best':>9}{'median':>9}{'added':>9}")
    for name, (_, base) in singles.items():
        added = "" if base is None else f"{best[name] - best[base]:9.0f}"
        print(f"{name:<30}{best[name]:9.0f}{statistics.median(rounds[name]):9.0f}{added}")

    kinds = {"envoi.batch": Batch, "CartPoleVectorEnv": made("vector_entry_point"), "SyncVectorEnv": made("sync")}
    batches = {}
    print(f"\n{'CartPole, env-steps/s':<24}" + "".join(f"{name:>20}" for name in kinds) + f"{'ours / numpy peer':>20}")
    for n in (1, 8, 64, 1024):
        actions = np.random.default_rng(0).integers(0, 2, (max(10, 5000 // n), n))
        envs = {name: make(n) for name, make in kinds.items()}
        found = {name: [] for name in kinds}
        for _ in range(max(3, arguments.rounds // 3)):
            for name, env in envs.items():
                found[name].append(steps_per_second(env, actions))
        batches[n] = {name: max(rates) for name, rates in found.items()}
        ratio = batches[n]["envoi.batch"] / batches[n]["CartPoleVectorEnv"]
        print(f"{n:<24}" + "".join(f"{rate:>20,.0f}" for rate in batches[n].values()) + f"{ratio:>20.2f}")

    if arguments.json:
        figures = {"ns_per_step": {name: rounds[name] for name in singles}, "env_steps_per_second": batches}
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
