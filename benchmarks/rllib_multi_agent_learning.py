"""Compares what several agents learn with RLlib's own env runner and with envoi's: PPO on a game, over several seeds.

Both step the very same environments, so that they sample the same episodes: after training their weights are the same,
bit for bit. The score of a run is the mean return of an agent in the last fifth of its iterations.

    python benchmarks/rllib_multi_agent_learning.py [--env envoi:pursuit] [--agent hunter_0] [--seeds 5]
        [--iterations 25] [--lanes 16] [--json FILE]
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two threads make tiny networks several times slower

import argparse
import hashlib
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import ray
import tree

from envoi.integrations.rllib import configure

RUNNERS = {"RLlib": "sync", "one by one": "batched"}
"""The runners, by the option of `configure`."""


def learn(env: str, agent: str, runner: str, seed: int, iterations: int, lanes: int) -> dict[str, Any]:
    """Trains once, and returns the score and a hash of the weights."""
    config: Any = configure(env, algo="PPO", policies="by-prefix", num_envs=lanes, seed=seed, runner=runner)
    config.training(train_batch_size_per_learner=1024, minibatch_size=256, num_epochs=4, lr=1e-3)
    algorithm = config.build_algo()
    returns: list[float] = []
    for _ in range(iterations):
        found = algorithm.train()["env_runners"].get("agent_episode_returns_mean", {})
        returns.append(float(found.get(agent, np.nan)))
    weights = hashlib.sha256()
    for leaf in tree.flatten(algorithm.env_runner.module.get_state()):
        weights.update(np.ascontiguousarray(leaf).tobytes())
    algorithm.stop()
    late = returns[-max(iterations // 5, 1) :]
    return {"seed": seed, "score": float(np.nanmean(late)), "weights": weights.hexdigest()[:16]}


def main() -> None:
    """Trains all runs and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="envoi:pursuit")
    parser.add_argument("--agent", default="hunter_0")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--iterations", type=int, default=25)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    runs: list[dict[str, Any]] = []
    for seed in range(asked.seeds):
        for name, runner in RUNNERS.items():
            run = learn(asked.env, asked.agent, runner, seed, asked.iterations, asked.lanes)
            runs.append({"runner": name, **run})
            print(f"seed {seed}  {name:12s} {run['score']:8.3f}  weights {run['weights']}", flush=True)
    by_runner = {name: [run for run in runs if run["runner"] == name] for name in RUNNERS}
    pairs = zip(by_runner["RLlib"], by_runner["one by one"], strict=True)
    same = sum(one["weights"] == other["weights"] for one, other in pairs)
    print(f"one by one: the weights of RLlib's runner, bit for bit, in {same} of {asked.seeds} seeds")
    if asked.json:
        asked.json.write_text(json.dumps(runs, indent=1))


if __name__ == "__main__":
    main()
