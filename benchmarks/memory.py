"""The growth of memory while an environment takes a million steps, in each form and each import.

    python benchmarks/memory.py [--steps 1000000] [--only gymnasium] [--json memory.json]

Each case has a process of its own. It warms up by a tenth of the steps, at most 50,000, and then takes the steps,
episodes and resets included; the figure is how many megabytes more are resident at the end, in this process and those
that it started. A case that grows more than its goal is repeated under tracemalloc, which names the lines that
allocated. Steps are those of lanes in a batch, and of all agents in a game. TF-Agents' cases run in the environment of
`make test-tf`.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import argparse
import gc
import multiprocessing
import time
import tracemalloc
import warnings
from collections.abc import Callable
from contextlib import suppress
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import measuring.null_envs as null
import numpy as np
from measuring.loops import episodes, games, lanes, rllib_turns, turns
from measuring.numpy_cartpole import CartPoles
from measuring.rows import Case
from measuring.script import write_report
from measuring.table import lines as shown

import envoi
from envoi import adapters
from envoi.models import CartPole

GOAL = 2.0
"""Megabytes that a million steps may add."""

N = 8
"""Lanes of batches."""

SLOW = ("numba", "pettingzoo", "stable_baselines3", "ray.rllib.env.multi_agent_env", "tf_agents.environments")
"""Modules that take long to import: all processes get them from the first."""


def over_and_over(make: Callable[[], Any]) -> Case:
    """Resets alone, in place of steps."""

    def case():
        reset = make().reset
        return lambda: [reset() for _ in range(null.EPISODE)]

    return case


def cartpoles(compiled: bool) -> envoi.BatchEnv:
    """Returns lanes of CartPole, by a kernel or in numpy, which end every few steps where all actions are the same."""
    return envoi.batch(envoi.TimeLimit(CartPole() if compiled else CartPoles(), 500), N, compiled=compiled)


def playing(make: Callable[[], Any], play: Callable[[Any], Any]) -> Case:
    """Calls `play` with an environment that `make` returns."""

    def case():
        env = make()
        return lambda: play(env)

    return case


def snapshots(env):
    """Steps, every twentieth after a snapshot that is restored then."""
    env.reset()
    for number in range(null.EPISODE):
        if number % 20:
            env.step(1)
        else:
            before = env.snapshot()
            env.step(1)
            env.restore(before)


def core_game(env):
    """A game by the core's own interface, all agents at once or in turns."""
    env.reset()
    while env.agents:
        env.step(dict.fromkeys(env.acting, 1))


def core_lanes(batch):
    """A batch by the core's own interface: lanes begin again in the step after their end."""
    batch.reset(seed=0)
    actions, over = np.ones(N, int), None
    for _ in range(null.EPISODE):
        step = batch.step(actions, over)
        over = step.terminated | step.truncated


def contextual():
    env = null.NullGymnasium()
    env.gravity = 9.8
    return envoi.Contextual(adapters.from_env(env), {"a": {"gravity": 1.0}, "b": {"gravity": 2.0}})


def vector_source():
    import gymnasium

    return gymnasium.make_vec("CartPole-v1", N, vectorization_mode="sync")


def vec_env_source():
    from stable_baselines3.common.vec_env import DummyVecEnv

    return DummyVecEnv([null.NullGymnasium] * N)


def parallel(convert) -> Callable[[], Any]:
    def make():
        from measuring.null_games import NullParallel

        return convert(NullParallel())

    return make


def in_turns():
    from measuring.null_games import NullAEC

    return adapters.from_env(NullAEC())


def cases() -> dict[str, tuple[str, Case, int]]:
    """Returns the cases by name: the package that each needs, what makes `EPISODE` calls, and the steps of one."""
    one = {
        "core": ("numpy", episodes(null.NullModel, count=1)),
        "core, snapshots": ("numpy", playing(null.NullModel, snapshots)),
        "core, resets": ("numpy", over_and_over(null.NullModel)),
        "gymnasium": ("gymnasium", episodes(lambda: adapters.to_gymnasium(null.NullModel()), count=1)),
        "gymnasium, resets": ("gymnasium", over_and_over(lambda: adapters.to_gymnasium(null.NullModel()))),
        "gymnasium, contexts": ("gymnasium", episodes(lambda: adapters.to_gymnasium(contextual()), count=1)),
        "gymnasium, resets to other contexts": (
            "gymnasium",
            over_and_over(lambda: adapters.to_gymnasium(contextual())),
        ),
        "dm_env": ("dm_env", episodes(lambda: adapters.to_dm_env(null.NullModel()), count=1)),
        "PettingZoo parallel": ("pettingzoo", games(parallel(lambda env: adapters.to_pettingzoo(env)), null.AGENTS, 1)),
        "PettingZoo AEC": ("pettingzoo", turns(parallel(lambda env: adapters.to_pettingzoo_aec(env)), 1)),
        "RLlib, one agent": ("ray", episodes(lambda: adapters.to_rllib(null.NullModel)({}), count=1)),
        "RLlib, several agents": ("ray", rllib_turns(parallel(lambda env: adapters.to_rllib(env)({})), 1)),
        "from gymnasium": ("gymnasium", episodes(lambda: adapters.from_env(null.NullGymnasium()), count=1)),
        "from dm_env": ("dm_env", episodes(lambda: adapters.from_env(null.NullDmEnv()), count=1)),
        "from PettingZoo parallel": ("pettingzoo", playing(parallel(lambda env: adapters.from_env(env)), core_game)),
        "from PettingZoo AEC": ("pettingzoo", playing(in_turns, core_game)),
        "from RLlib": ("ray", playing(parallel(lambda env: adapters.from_env(adapters.to_rllib(env)({}))), core_game)),
        "TF-Agents": ("tf_agents", episodes(lambda: adapters.to_tf_agents(null.NullModel()), np.asarray(1), 1)),
        "from TF-Agents": (
            "tf_agents",
            episodes(lambda: adapters.from_env(adapters.to_tf_agents(null.NullModel())), count=1),
        ),
    }
    many = {
        "a loop of lanes": ("numpy", lambda: envoi.batch(null.NullModel(), N, compiled=False)),
        "a BatchModel": ("numpy", lambda: envoi.batch(null.NullBatchModel(), N, compiled=False)),
        "workers": ("numpy", lambda: adapters.to_gymnasium_vector(envoi.batch(null.NullModel, N, workers=2))),
        "gymnasium vector, compiled": ("numba", lambda: adapters.to_gymnasium_vector(cartpoles(compiled=True))),
        "gymnasium vector, numpy": ("gymnasium", lambda: adapters.to_gymnasium_vector(cartpoles(compiled=False))),
        "SB3": ("stable_baselines3", lambda: adapters.to_sb3(cartpoles(compiled=False))),
        "SB3, compiled": ("numba", lambda: adapters.to_sb3(cartpoles(compiled=True))),
        "from gymnasium vector": (
            "gymnasium",
            lambda: adapters.to_gymnasium_vector(adapters.from_env(vector_source())),
        ),
        "from SB3": ("stable_baselines3", lambda: adapters.to_sb3(adapters.from_env(vec_env_source()))),
        "TF-Agents, a batch": ("tf_agents", lambda: adapters.to_tf_agents(cartpoles(compiled=False))),
    }
    found = {name: (package, case, 1) for name, (package, case) in one.items()}
    found["lanes, compiled"] = ("numba", playing(lambda: cartpoles(compiled=True), core_lanes), N)
    found["lanes, numpy"] = ("numpy", playing(lambda: cartpoles(compiled=False), core_lanes), N)
    return found | {name: (package, lanes(make, N, 1), N) for name, (package, make) in many.items()}


def resident() -> float:
    """Returns the resident memory of this process and of those that it started, in megabytes."""
    children = Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()
    found = (Path(f"/proc/{process}/smaps_rollup").read_text() for process in ("self", *children))  # statm is rounded
    return sum(int(text.partition("\nRss:")[2].split()[0]) for text in found) * 1024 / 1e6


def grown(name: str, steps: int, result: Any) -> None:
    """Sends how much memory a case adds, and which lines allocated what is left if that is too much."""
    warnings.simplefilter("ignore")
    _, case, each = cases()[name]
    play, size = case(), null.EPISODE * each
    for _ in range(max(2, min(steps // 10, 50_000) // size)):
        play()
    gc.collect()
    before = resident()
    for _ in range(max(1, steps // size)):
        play()
    gc.collect()
    added, left = resident() - before, list[str]()
    if added > GOAL:
        tracemalloc.start(8)
        play()
        start = tracemalloc.take_snapshot()
        for _ in range(max(1, steps // size // 20)):
            play()
        gc.collect()
        left = [str(line) for line in tracemalloc.take_snapshot().compare_to(start, "lineno")[:5]]
    del play, case  # ends workers, as the exit of a forked process would not
    gc.collect()
    result.put((added, left))


def measure(name: str, steps: int) -> tuple[float, list[str]]:
    """Returns the growth of a case in a process of its own, and the lines that allocated it if it is too much."""
    forks = multiprocessing.get_context("fork")
    result = forks.SimpleQueue()
    process = forks.Process(target=grown, args=(name, steps, result))
    process.start()
    process.join()
    if process.exitcode:
        raise SystemExit(f"{name}: its process ended with {process.exitcode}")
    return result.get()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=1_000_000, help="steps of each case (default 1,000,000)")
    parser.add_argument("--only", default="", help="only cases whose name holds this")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    asked = parser.parse_args()
    if not Path("/proc/self/smaps_rollup").exists():
        parser.error("resident memory is read from /proc, which Linux has")
    warnings.simplefilter("ignore")
    for module in SLOW:
        with suppress(ImportError):
            import_module(module)
    gc.freeze()  # the collections of the other processes leave alone what these imports made
    rows, missing, start = list[dict[str, Any]](), dict[str, str](), time.monotonic()
    for name, (package, *_) in cases().items():
        if asked.only not in name:
            continue
        if find_spec(package) is None:
            missing[name] = f"No module named {package!r}"
            continue
        added, left = measure(name, asked.steps)
        ours = {"name": "envoi", "median": added, "quartiles": [added, added]}
        goal = {"ratio": None, "ours": GOAL}
        row = {"row": name, "lanes": None, "unit": f"MB after {asked.steps:,} steps", "ours": ours, "peer": None}
        rows.append(row | {"ratio": None, "goal": goal, "met": added <= GOAL})
        print("\n    ".join([*shown(rows[-1:]), *left]), flush=True)
    write_report(asked.json, "resident memory", 1, rows, missing, start)


if __name__ == "__main__":
    main()
