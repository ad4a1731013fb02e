"""The time that a wrapper adds to a step, compared with other libraries, in one process.

    python benchmarks/wrappers.py [--rounds 15] [--only flat] [--json wrappers.json]

Every wrapper goes around an environment that does nothing for 200 steps. "Added" is nanoseconds of this thread's
processor time a step over stepping that environment without the wrapper, in the same form, resets included; best and
median of interleaved rounds, so that a slow moment of a shared machine hits all alike. A goal is the largest share of
the peer's added time that ours may have, or a number of nanoseconds.

Beside TF-Agents' wrappers where these are found: in the environment of `make test-tf`.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import os
import statistics
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")
warnings.filterwarnings("ignore")  # what frameworks say of themselves

import gymnasium
import numpy as np

import envoi
from envoi.adapters import to_gymnasium, to_tf_agents

EPISODE = 200
GRIDVERSE_STEP = 435_000
"""Nanoseconds of a step of gym-gridverse's, of which representing may cost a hundredth."""


class Null(envoi.Model):
    """Nothing happens for 200 steps; what is seen is a dict of two arrays."""

    observation_spec = {"position": envoi.Array((4,)), "target": envoi.Array((5,))}
    action_spec = envoi.Discrete(2)
    reward_spec = envoi.Array((), "float32")
    discount_spec = envoi.Array((), "float32", 0, 1)

    def initial(self, rng, context):
        return 0

    def transition(self, state, action, rng):
        return state + 1

    def observe(self, state, rng):
        return {"position": np.zeros(4, np.float32), "target": np.zeros(5, np.float32)}

    def reward(self, state, action, next_state):
        return 1.0

    def terminal(self, state):
        return state >= EPISODE


class NullNested(Null):
    """Takes a nested action."""

    action_spec = {"arm": envoi.Array((3,), "float32", -1, 1), "grip": envoi.Array((), "float32", 0, 1)}


class NullObjects(Null):
    """Its observations are objects."""

    observation_spec = envoi.Foreign(list)

    def observe(self, state, rng):
        return []


def represented():
    """Objects as arrays, by a function that costs nothing itself."""
    array = np.zeros((7, 7, 3), np.float32)
    shown = envoi.Representation(lambda value: array, envoi.Array((7, 7, 3)))
    return envoi.Represented(NullObjects(), state=shown, observation=shown)


def looked_at(env):
    """Steps that ask for the state too."""
    step = env.step

    def step_and_look(action):
        step(action)
        return env.state

    return step_and_look


@dataclass
class Row:
    """A row of measurements: the inner environment, our wrapper, the peer's wrapper and the goal.

    Attributes:
        layer: The title of the row.
        base: Makes the environment without the wrapper.
        ours: Applies our wrapper to it.
        peer: The name of the peer, and a function that makes it; None if there is no peer, or it is not installed.
        goal: The largest share of the peer's added time that ours may have; without a peer, nanoseconds.
        action: The action of both wrappers in every step.
        base_action: The action of the inner environment.
        step: Returns the function that is called in every step.
    """

    layer: str
    base: Callable
    ours: Callable
    peer: tuple[str, Callable] | None = None
    goal: float | None = None
    action: object = 1
    base_action: object = 1
    step: Callable = lambda env: env.step


def rows() -> list[Row]:
    return flat_rows() + tf_rows() + represented_rows()


def flat_rows() -> list[Row]:
    nested = {"arm": np.zeros(3, np.float32), "grip": np.zeros((), np.float32)}
    return [
        Row(
            "flat observations",
            lambda: to_gymnasium(Null()),
            lambda: to_gymnasium(envoi.FlattenObservation(Null())),
            ("gymnasium's FlattenObservation", lambda: gymnasium.wrappers.FlattenObservation(to_gymnasium(Null()))),
            1 / 8,
        ),
        Row(
            "flat actions",
            NullNested,
            lambda: envoi.FlattenAction(NullNested()),
            action=np.zeros(4, np.float32),
            base_action=nested,
        ),
    ]


def tf_rows() -> list[Row]:
    if importlib.util.find_spec("tf_agents") is None:
        return []
    from tf_agents.environments import wrappers

    action = np.asarray(1)
    return [
        Row(
            "flat observations, TF-Agents",
            lambda: to_tf_agents(Null()),
            lambda: to_tf_agents(envoi.FlattenObservation(Null(), order="sorted")),
            ("TF-Agents' Flatten", lambda: wrappers.FlattenObservationsWrapper(to_tf_agents(Null()))),
            1 / 8,
            action,
            action,
        ),
    ]


def represented_rows() -> list[Row]:
    return [
        Row("represented observations", NullObjects, represented, goal=GRIDVERSE_STEP / 100),
        Row("… and states, every step", NullObjects, represented, goal=GRIDVERSE_STEP / 100, step=looked_at),
    ]


def per_step(env, step, action, episodes=10):
    """Nanoseconds a step, resets included."""
    start = time.thread_time()
    for _ in range(episodes):
        env.reset()
        for _ in range(EPISODE):
            step(action)
    return (time.thread_time() - start) / episodes / EPISODE * 1e9


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds (default 15)")
    parser.add_argument("--only", default="", help="only layers whose name holds this")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()

    figures = []
    print(f"{'ns a step':<32}{'form':<34}{'best':>9}{'median':>9}{'added':>9}{'ours / it':>11}{'goal':>9}")
    for row in rows():
        if arguments.only not in row.layer:
            continue
        envs = {"(below)": row.base(), "envoi": row.ours()} | ({row.peer[0]: row.peer[1]()} if row.peer else {})
        steps = {name: env.step if name == "(below)" else row.step(env) for name, env in envs.items()}
        times = {name: [] for name in envs}
        for _ in range(arguments.rounds):
            for name, env in envs.items():
                times[name].append(per_step(env, steps[name], row.base_action if name == "(below)" else row.action))
        best = {name: min(found) for name, found in times.items()}
        added = {name: found - best["(below)"] for name, found in best.items()}
        for name in envs:
            is_peer = name not in ("(below)", "envoi")
            print(
                f"{row.layer if name == '(below)' else '':<32}{name:<34}{best[name]:9.0f}"
                f"{statistics.median(times[name]):9.0f}"
                + ("" if name == "(below)" else f"{added[name]:9.0f}")
                + (f"{added['envoi'] / added[name]:11.3f}{row.goal:9.3f}" if is_peer else "")
                + (f"{'':11}{row.goal:9.0f}" if name == "envoi" and row.peer is None and row.goal else "")
            )
        figures.append({"layer": row.layer, "ns_per_step": times, "goal": row.goal})
    if arguments.json:
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
