"""The cost of a context for each episode, compared with CARL (Benjamins et al., 2023), in one process.

    python benchmarks/contexts.py [--rounds 15] [--only reset] [--json contexts.json]

Nanoseconds of this thread's processor time for one step or one reset, best and median of interleaved rounds, so that a
slow moment of a shared machine hits all alike. "Added" is over the environment without contexts, in the same form: for
CARL and our gymnasium form the gymnasium environment itself, for our core that environment imported. A goal is the
largest share of CARL's added time that ours may have.

The last rows are batches whose lanes are reset as they end, each with a context of its own. There the goal is the
largest time of a step as a multiple of the time without contexts. CARL has no batches.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("PYGAME_HIDE_SUPPORT_PROMPT", "1")
os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
warnings.filterwarnings("ignore")  # what frameworks say of themselves

import gymnasium
import numpy as np

with warnings.catch_warnings(record=True):  # of the environments for which something is not installed
    from carl.envs import CARLPendulum
    from carl.envs.gymnasium.carl_gymnasium_env import CARLGymnasiumEnv

import envoi
from envoi import Contextual
from envoi.adapters import from_gymnasium, to_gymnasium, to_gymnasium_vector
from envoi.models import CartPole

EPISODE = 200
CONTEXTS = {index: {"m": 1.0 + index / 10, "g": 5.0 + index} for index in range(10)}


class Null(gymnasium.Env):
    """Nothing happens for 200 steps."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gymnasium.spaces.Discrete(2)

    def __init__(self):
        for name, value in CARLPendulum.get_default_context().items():
            setattr(self, name, value)

    def reset(self, *, seed=None, options=None):
        self.steps = 0
        return np.zeros(4, np.float32), {}

    def step(self, action):
        self.steps += 1
        return np.zeros(4, np.float32), 1.0, self.steps >= EPISODE, False, {}


class CARLNull(CARLGymnasiumEnv):
    """CARL around it."""

    get_context_features = staticmethod(CARLPendulum.get_context_features)


def full(contexts):
    """CARL needs full ones."""
    return {key: {**CARLPendulum.get_default_context(), **context} for key, context in contexts.items()}


def pendulum():
    return gymnasium.make("Pendulum-v1")


@dataclass
class Row:
    """A row of measurements.

    Attributes:
        what: The title of the row.
        envs: By name, the name of the environment inside (None for the innermost), and a function that makes it.
        measure: Returns the time of one environment.
        goal: The largest share of CARL's added time that ours may have; for batches, of the time without contexts. The
            null env has no goal, because CARL's own environments create their features at each reset, and the null env
            has none.
        action: The action of every step.
    """

    what: str
    envs: dict[str, tuple[str | None, Callable]]
    measure: Callable
    goal: float | None = None
    action: object = field(default=1)


def rows() -> list[Row]:
    torque = np.array([0.5], np.float32)
    return [
        Row("step of a null env", sides(Null, CARLNull), per_step, 1 / 5),
        Row("step of Pendulum", sides(pendulum, CARLPendulum), per_step, 1 / 5, torque),
        Row("reset of a null env", sides(Null, CARLNull), per_reset),
        Row("reset of Pendulum", sides(pendulum, CARLPendulum), per_reset, 1 / 30),
        *(Row(f"batch of {n} CartPoles", batches(n), per_batch_step, 1.15) for n in (64, 1024)),
    ]


def sides(make, carl) -> dict[str, tuple[str | None, Callable]]:
    def ours(**options):
        return Contextual(from_gymnasium(make()), full_or_own(make), **options)

    return {
        "gymnasium": (None, make),
        "CARL, a dict": ("gymnasium", lambda: carl(env=make(), contexts=full(CONTEXTS))),
        "CARL, a vector": ("gymnasium", lambda: carl(env=make(), contexts=full(CONTEXTS), obs_context_as_dict=False)),
        "envoi, hidden": ("gymnasium", lambda: to_gymnasium(ours(hide_context=True))),
        "envoi, a dict": ("gymnasium", lambda: to_gymnasium(ours(obs_context_as_dict=True))),
        "envoi, a vector": ("gymnasium", lambda: to_gymnasium(ours(obs_context_as_dict=False))),
        "core": (None, lambda: from_gymnasium(make())),
        "envoi's core, hidden": ("core", lambda: ours(hide_context=True)),
        "envoi's core, a vector": ("core", lambda: ours(obs_context_as_dict=False)),
        "envoi's core, appended": ("core", ours),
    }


def full_or_own(make):
    """All attributes for the null environment, which no catalogue has; what differs for Pendulum."""
    return full(CONTEXTS) if make is Null else CONTEXTS


def batches(n) -> dict[str, tuple[str | None, Callable]]:
    contexts = [{"length": 0.3 + 0.4 * lane / n} for lane in range(n)]
    return {
        "without contexts": (None, lambda: to_gymnasium_vector(envoi.batch(CartPole(), n))),
        "with contexts": (
            "without contexts",
            lambda: to_gymnasium_vector(envoi.batch(Contextual(CartPole(), contexts, hide_context=True), n)),
        ),
    }


def per_step(env, action, episodes=3):
    """Nanoseconds a step; resets are not counted."""
    spent = 0
    for _ in range(episodes):
        env.reset()
        step, start = env.step, time.thread_time_ns()
        for _ in range(EPISODE - 1):
            step(action)
        spent += time.thread_time_ns() - start
    return spent / episodes / (EPISODE - 1)


def per_reset(env, action, resets=50):
    """Nanoseconds a reset, each in another context."""
    reset, start = env.reset, time.thread_time_ns()
    for _ in range(resets):
        reset()
    return (time.thread_time_ns() - start) / resets


def per_batch_step(env, action, steps=300):
    """Returns nanoseconds per step of all lanes, which are in mid-episode, and are reset as they end."""
    n = env.num_envs
    actions = np.random.default_rng(0).integers(0, 2, (32, n))
    env.reset(seed=0)
    for index in range(50):
        env.step(actions[index % 32])
    start = time.thread_time_ns()
    for index in range(steps):
        env.step(actions[index % 32])
    return (time.thread_time_ns() - start) / steps


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds (default 15)")
    parser.add_argument("--only", default="", help="only rows whose name holds this")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()

    figures = []
    print(f"{'ns':<24}{'':<26}{'best':>10}{'median':>10}{'added':>10}{'x dict':>9}{'x vector':>9}{'goal':>8}")
    for row in rows():
        if arguments.only not in row.what:
            continue
        envs = {name: make() for name, (_, make) in row.envs.items()}
        times = {name: [] for name in envs}
        for _ in range(arguments.rounds):
            for name, env in envs.items():
                times[name].append(row.measure(env, row.action))
        best = {name: min(found) for name, found in times.items()}
        added = {name: best[name] - best[below] for name, (below, _) in row.envs.items() if below}
        for index, name in enumerate(envs):
            line = f"{'' if index else row.what:<24}{name:<26}{best[name]:10.0f}{statistics.median(times[name]):10.0f}"
            if name in added:
                line += f"{added[name]:10.0f}"
            if name.startswith("envoi"):
                line += "".join(f"{added[name] / added[f'CARL, a {layout}']:9.3f}" for layout in ("dict", "vector"))
                line += "" if row.goal is None else f"{row.goal:8.3f}"
            elif name == "with contexts":
                line += f"{best[name] / best['without contexts']:18.3f}{row.goal:8.2f}"
            print(line)
        figures.append({"row": row.what, "ns": times, "goal": row.goal})
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
