"""Compares what PPO learns with RLlib's own env runner and with envoi's, over several seeds.

The score of a run is the mean return (of an agent, in a game) in the last fifth of its steps. Per runner the table has
the interquartile mean of the scores with a 95 % interval of stratified bootstraps (Agarwal et al., 2021), and the steps
until the mean return of an iteration first reaches `--reach`. The runners learn equally if the interval of the
difference of their interquartile means holds 0. With `truncate_episodes`, and in games, they sample the same episodes,
so scores and weights are the same to the last bit; with `complete_episodes` envoi's continues episodes that have not
ended.

    python benchmarks/rllib_learning.py [--seeds 10] [--steps 30000] [--lanes 16] [--mode complete_episodes]
    python benchmarks/rllib_learning.py --env envoi:pursuit --agent hunter_0 --seeds 5 --reach 5
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

from envoi.integrations.evaluation.estimates import interquartile_mean
from envoi.integrations.rllib import configure

RUNNERS = ("sync", "batched")


def learn(asked: argparse.Namespace, runner: str, seed: int) -> dict[str, Any]:
    """Trains once, and returns the score, the steps until `--reach`, and a hash of the weights."""
    config: Any = configure(asked.env, algo="PPO", num_envs=asked.lanes, seed=seed, runner=runner)
    if asked.agent is None:
        config.env_runners(batch_mode=asked.mode)
    else:
        config.training(train_batch_size_per_learner=1024, minibatch_size=256, num_epochs=4, lr=1e-3)
    algorithm = config.build_algo()
    taken, reached, late = 0, float("nan"), list[float]()
    while taken < asked.steps:
        found = algorithm.train()["env_runners"]
        taken += int(found["num_env_steps_sampled"])
        means = {None: found.get("episode_return_mean", np.nan), **found.get("agent_episode_returns_mean", {})}
        mean = float(means.get(asked.agent, np.nan))
        if mean >= asked.reach and np.isnan(reached):
            reached = taken
        if taken > 0.8 * asked.steps:
            ended = found.get("episode_returns") if asked.agent is None else [mean]
            late += ended if isinstance(ended, list) else []  # a NaN if none ended
    weights = hashlib.sha256()
    for leaf in tree.flatten(algorithm.env_runner.module.get_state()):
        weights.update(np.ascontiguousarray(leaf).tobytes())
    algorithm.stop()
    return {"score": float(np.nanmean(late)), "reached": reached, "weights": weights.hexdigest()[:16]}


def main() -> None:
    """Trains all runs and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--env", default="envoi:cartpole")
    parser.add_argument("--agent", help="the agent of a game whose returns are compared")
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--reach", type=float, default=150, help="a mean return that counts as learned")
    parser.add_argument("--mode", default="complete_episodes", choices=["truncate_episodes", "complete_episodes"])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    runs = {runner: [learn(asked, runner, seed) for seed in range(asked.seeds)] for runner in RUNNERS}
    resampled: dict[str, Any] = {}
    for index, runner in enumerate(RUNNERS):
        scores = np.array([[run["score"]] for run in runs[runner]])  # of one task
        rows = np.random.default_rng(index).integers(len(scores), size=(20_000, len(scores)))
        resampled[runner] = interquartile_mean(scores[rows])
        low, high = np.quantile(resampled[runner], [0.025, 0.975])
        steps = np.nanmedian([run["reached"] for run in runs[runner]])
        print(
            f"{runner:8s} IQM {interquartile_mean(scores):6.1f} [{low:6.1f}, {high:6.1f}] of {len(scores)} seeds; "
            f"{asked.reach:g} after {steps:,.0f} steps (median)"
        )
    low, high = np.quantile(resampled["batched"] - resampled["sync"], [0.025, 0.975])
    print(f"batched less sync: [{low:.1f}, {high:.1f}]: {'equal' if low <= 0 <= high else 'not equal'}")
    same = sum(one["weights"] == other["weights"] for one, other in zip(*runs.values(), strict=True))
    print(f"the same weights, bit for bit, in {same} of {asked.seeds} seeds")
    if asked.json:
        asked.json.write_text(json.dumps(runs, indent=1))


if __name__ == "__main__":
    main()
