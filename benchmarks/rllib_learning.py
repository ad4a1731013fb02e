"""Compares what PPO learns with RLlib's own env runner and with the batched one: CartPole, over several seeds.

The score of a run is its mean return over all episodes that end in the last fifth of its steps. Per runner the table
has the interquartile mean of the scores with a 95 % interval of stratified bootstraps (Agarwal et al., 2021), and the
steps until the mean return of an iteration first reaches 150. The runners learn equally if the interval of the
difference of their interquartile means holds 0. With `truncate_episodes` they sample the same episodes, so that all
scores are the same to the last digit; with `complete_episodes` the batched one continues episodes that have not ended.

    python benchmarks/rllib_learning.py [--seeds 10] [--steps 30000] [--lanes 16] [--mode complete_episodes]
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")  # two threads make tiny networks several times slower

import argparse
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import ray
from numpy.typing import NDArray
from ray.rllib.algorithms.ppo import PPOConfig

from envoi.integrations.rllib import configure

REACHED = 150
"""The mean return of an iteration that counts as learned."""


def learn(runner: str, seed: int, steps: int, lanes: int, mode: str) -> dict[str, Any]:
    """Trains once, and returns the score and the steps until `REACHED`."""
    made: Any = configure("envoi:cartpole", algo="PPO", num_envs=lanes, seed=seed, runner=runner)  # pyright: ignore[reportArgumentType]
    config: PPOConfig = made.env_runners(batch_mode=mode)
    algorithm = config.build_algo()
    taken, reached, late = 0, float("nan"), list[float]()
    while taken < steps:
        found = algorithm.train()["env_runners"]
        taken += int(found["num_env_steps_sampled"])
        mean = float(found.get("episode_return_mean", float("nan")))
        if mean >= REACHED and np.isnan(reached):
            reached = taken
        if taken > 0.8 * steps:
            ended = found.get("episode_returns")
            late += ended if isinstance(ended, list) else []  # a NaN if none ended
    algorithm.stop()
    return {"runner": runner, "seed": seed, "score": float(np.mean(late)), "reached": reached}


def iqm(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the mean of the middle half of scores, of shape (…, runs): shape (…)."""
    cut = scores.shape[-1] // 4
    return np.sort(scores, -1)[..., cut : scores.shape[-1] - cut].mean(-1)


def bootstraps(scores: NDArray[np.float64], seed: int, count: int = 20_000) -> NDArray[np.float64]:
    """Returns the interquartile means of resampled runs."""
    rng = np.random.default_rng(seed)
    return iqm(scores[rng.integers(len(scores), size=(count, len(scores)))])


def main() -> None:
    """Trains all runs and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--lanes", type=int, default=16)
    parser.add_argument("--mode", default="complete_episodes", choices=["truncate_episodes", "complete_episodes"])
    parser.add_argument("--json", type=Path)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    ray.init(num_cpus=1, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    runs = [
        learn(runner, seed, asked.steps, asked.lanes, asked.mode)
        for seed in range(asked.seeds)
        for runner in ("sync", "batched")
    ]
    resampled: dict[str, NDArray[np.float64]] = {}
    for index, runner in enumerate(("sync", "batched")):
        own = [run for run in runs if run["runner"] == runner]
        scores = np.array([run["score"] for run in own])
        resampled[runner] = bootstraps(scores, index)
        low, high = np.quantile(resampled[runner], [0.025, 0.975])
        steps = np.nanmedian([run["reached"] for run in own])
        print(
            f"{runner:8s} IQM {iqm(scores):6.1f} [{low:6.1f}, {high:6.1f}] of {len(scores)} seeds; "
            f"{REACHED} after {steps:,.0f} steps (median)"
        )
    low, high = np.quantile(resampled["batched"] - resampled["sync"], [0.025, 0.975])
    print(f"batched less sync: [{low:.1f}, {high:.1f}]: {'equal' if low <= 0 <= high else 'not equal'}")
    if asked.json:
        asked.json.write_text(json.dumps(runs, indent=1))


if __name__ == "__main__":
    main()
