"""Trains agents on some contexts, evaluates them on others, and reports: `make generalisation`.

python benchmarks/generalisation/experiments.py [NAME…] [--out DIR] [--seeds N] [--processes N]

Each training has a folder of its own, DIR/NAME/VARIANT-SEED. Its last file is written when its evaluation is complete,
and those that are complete are not repeated. The reports are in DIR/NAME/report.
"""

import argparse
import json
import multiprocessing
import os
import time
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict
from pathlib import Path

import mazes
import numpy as np
from ppo import Settings, train

import envoi
from envoi.adapters import load
from envoi.atomic_write import write_atomically
from envoi.context import Random, regions
from envoi.curricula import LearningProgress, PrioritizedLevelReplay
from envoi.integrations.evaluation import evaluate, report
from envoi.integrations.evaluation.tables import csv_text, write_tables

FEATURES = {
    # Those of CARL's own protocol, 9 to 11 and 0.4 to 0.8, are solved from one end to the other.
    "cartpole": {"gravity": (5, 10, 20, 40), "length": (0.1, 0.3, 0.6, 3)},
    "pendulum": {"g": (8, 9, 10, 12), "l": (0.5, 0.75, 1, 1.5)},
}
SETTINGS = {
    "cartpole": Settings(60_000, scale=0.05, hidden=32),
    "pendulum": Settings(160_000, rate=3e-3, discount=0.95, scale=0.1, epochs=6, hidden=32),
    "maze": Settings(1_000_000, rollout=64, entropy=0.005),
}
VARIANTS = {"visible": {}, "hidden": {"hide_context": True}, "history": {"hide_context": True}}
CURRICULA = ("random", "learning-progress", "plr")
NAMES = ("cartpole-A", "cartpole-B", "pendulum-A", "pendulum-B", "maze")
LEVELS, TRAINED, JUDGED = 200, 100, 16
"""Contexts of a region that are trained on, and those of each region that agents are judged on."""


class Sampling:
    """A policy that samples its actions, by the same numbers in each episode, so that its episodes can be repeated."""

    initial_state = 0

    def __init__(self, policy, limit=250):
        self.policy, self.numbers = policy, np.random.default_rng(0).gumbel(size=(limit, 3)).astype(np.float32)

    def __call__(self, observation, steps):
        rows = self.policy.normalised(self.policy.rows(observation))
        return (self.policy.actor(rows).detach().numpy() + self.numbers[steps]).argmax(1), steps + 1


def experiment(name, variant, seed):
    """Returns a function that makes the training env, the contexts to be judged on, and the curriculum or None."""
    kind, _, protocol = name.partition("-")
    curriculum = None
    if kind == "maze":
        levels = mazes.sampled(LEVELS, seed=0)
        if variant == "plr":
            curriculum = PrioritizedLevelReplay("learnability", transform="proportional", temperature=1.0, seed=seed)
        elif variant == "learning-progress":
            curriculum = LearningProgress(seed=seed)
        some = dict(list(levels.items())[:JUDGED])
        judged = {"train": some, "sampled": mazes.sampled(JUDGED, seed=1, solvable=True), "handmade": mazes.handmade()}
        more = {"hide_context": True, "success": lambda episode: episode["return"] > 0}
    else:
        split = regions(FEATURES[kind], protocol, n=TRAINED)
        levels, more = split["train"], VARIANTS[variant] or {"state_context_features": [*FEATURES[kind]]}
        judged = {region: dict(list(found.items())[:JUDGED]) for region, found in split.items()}

    def make():
        chooser = Random if curriculum is None else curriculum
        env = envoi.Contextual(load(f"envoi:{kind}"), levels, context_selector=chooser, **more)
        return envoi.History(env, 4) if variant == "history" else env

    return make, judged, curriculum


def run(name, variant, seed, folder):
    """Trains and evaluates an agent, unless its folder has that already; returns the seconds that it took."""
    if (folder / "evaluation.parquet").exists():
        return 0.0
    begun = time.thread_time()
    make, judged, curriculum = experiment(name, variant, seed)
    settings = SETTINGS[name.partition("-")[0]]
    log = Log(settings.steps // 20, curriculum)
    policy = train(make(), settings, seed, log)
    folder.mkdir(parents=True, exist_ok=True)
    log.write(folder)
    rows = evaluate(
        Sampling(policy) if name == "maze" else policy,
        make,
        contexts=judged,
        episodes=4,
        lanes=64,
        batched=True,
        variant=variant,
        train_seed=seed,
    )
    seconds = time.thread_time() - begun
    write_atomically(folder / "run.json", json.dumps({**asdict(settings), "seconds": seconds}))
    write_tables(folder, {"evaluation": rows})  # the last, for it says that all is there
    return seconds


class Log:
    """The curve of a training, and the shares of contexts that its curriculum chose, as reports read them."""

    def __init__(self, every, curriculum):
        self.every, self.curriculum = every, curriculum
        self.curve, self.shares, self.returns, self.episodes = [], [], [], 0.0

    def __call__(self, steps, returns):
        self.returns += returns
        if not self.returns or (self.curve and steps // self.every == self.curve[-1]["env_steps"] // self.every):
            return
        self.curve.append({"env_steps": steps, "return_mean": float(np.mean(self.returns))})
        self.returns = []
        if self.curriculum is not None:
            before, self.episodes = self.episodes, self.curriculum.statistics["episodes"]
            shares = (self.episodes - before) / (self.episodes - before).sum()
            self.shares += [
                {"iteration": len(self.curve), "context_id": key, "share": share}
                for key, share in zip(self.curriculum.contexts_keys, shares.tolist(), strict=True)
            ]

    def write(self, folder):
        write_atomically(folder / "progress.csv", csv_text(self.curve, list(self.curve[0])))
        if self.shares:
            write_tables(folder, {"contexts": self.shares})


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("names", nargs="*", default=NAMES, metavar="NAME", help=f"of {', '.join(NAMES)}")
    parser.add_argument("--out", type=Path, default=Path("build/generalisation"))
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--processes", type=int, default=2)
    given = parser.parse_args()
    jobs = [
        (name, variant, seed, given.out / name / f"{variant}-{seed}")
        for seed in range(given.seeds)
        for name in given.names
        for variant in (CURRICULA if name == "maze" else VARIANTS)
    ]
    os.environ["OMP_NUM_THREADS"] = "1"  # of the processes; with more threads they wait for each other
    with ProcessPoolExecutor(given.processes, multiprocessing.get_context("spawn")) as pool:
        running = {pool.submit(run, *job): job for job in jobs}
        for done, future in enumerate(as_completed(running), 1):
            name, variant, seed, _ = running[future]
            print(f"{done:4} of {len(jobs)}   {name:12}{variant:18}{seed:3}{future.result():8.1f} s", flush=True)
    for name in given.names:
        folders = [folder for of, _, _, folder in jobs if of == name]
        report(folders, given.out / name / "report", bounds=(0, 1) if name == "maze" else None)
        print(f"{given.out / name}/report/report.html")


if __name__ == "__main__":
    main()
