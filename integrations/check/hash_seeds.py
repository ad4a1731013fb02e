"""Compares the order of agents in two processes whose hash seeds, and so hashes of strings, differ."""

from __future__ import annotations

import json
import os
import pickle
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from envoi import EnvoiError

CALLS = 12
"""Number of calls that are compared."""
SECONDS = 120.0
"""Most seconds of a process."""
SEEDS = range(1, 40)
"""The hash seeds to choose from."""


class CannotCompare(EnvoiError):
    """The processes cannot be compared."""


def agent_order_difference(origin: Any, seed: int, agents: Sequence[Any]) -> str | None:
    """Describes how the order of agents differs between two processes of different hash seeds; None where it is equal.

    Args:
        origin: The name of the environment, or an importable function that makes it.
        seed: Seed of its reset.
        agents: Its agents.

    Raises:
        CannotCompare: Another process cannot make the environment, or the hash seed cannot make a difference.
    """
    if origin is None:
        raise CannotCompare("this needs a name, or an importable function that makes the environment")
    if len(agents) < 2 or not all(isinstance(agent, str) for agent in agents):
        raise CannotCompare("its agents are not two or more strings, whose hashes differ between processes")
    try:
        message = json.dumps(sys.path).encode() + b"\n" + pickle.dumps((origin, seed))
    except Exception as error:
        raise CannotCompare("this needs a name, or an importable function that makes the environment") from error
    if getattr(origin, "__module__", "") == "__main__":
        raise CannotCompare("this needs an importable function, not one of __main__")
    processes = [_start_process(message, hash_seed) for hash_seed in _distinguishing_seeds(agents)]
    one, other = map(_read_order, processes)
    if one is None or other is None:
        raise CannotCompare("it could not be played in another process")
    for a, b in zip(one, other, strict=False):
        if a != b:
            return f"{a[0]}: {a[1]} in one process, {b[1]} in another, where Python's hashes of strings differ"
    return None


def _distinguishing_seeds(agents: Sequence[str]) -> tuple[int, int]:
    """Returns two hash seeds under which a set of these agents has different orders."""
    code = f"print(list(set({list(agents)!r})))"
    first: str | None = None
    for seed in SEEDS:
        run = subprocess.run(  # noqa: S603 (this Python, with the code above)
            [sys.executable, "-S", "-c", code],
            capture_output=True,
            text=True,
            env={**os.environ, "PYTHONHASHSEED": str(seed)},
            check=False,
        )
        if run.returncode != 0:
            break
        if first is None:
            first = run.stdout
        elif run.stdout != first:
            return SEEDS[0], seed
    raise CannotCompare("no two hash seeds make a difference to a set of these agents")


def _start_process(message: bytes, hash_seed: int) -> subprocess.Popen[bytes]:
    code = "from envoi.integrations.check.hash_seeds import print_agent_order; print_agent_order()"
    process = subprocess.Popen(  # noqa: S603 (this Python, with the code above)
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
    )
    assert process.stdin is not None
    process.stdin.write(message)
    process.stdin.close()
    process.stdin = None
    return process


def _read_order(process: subprocess.Popen[bytes]) -> list[Any] | None:
    try:
        out, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None
    if process.returncode != 0:
        return None
    return json.loads(out.decode().splitlines()[-1])


def print_agent_order() -> None:
    """Prints the order of the agents in each call, in the other process."""
    # The path first, as unpickling the rest needs it.
    sys.path[:] = json.loads(sys.stdin.buffer.readline())
    origin, seed = pickle.load(sys.stdin.buffer)  # noqa: S301 (from the process that started this one)
    from .collector import Collector
    from .env_factory import new_driver

    driver = new_driver(origin)
    orders: list[Any] = [("possible_agents", [str(agent) for agent in driver.possible_agents])]
    collector = Collector(driver, seed)
    for _ in range(CALLS):
        transition = collector.advance(CALLS)
        orders.extend(
            (f"{name} ({transition.where})", [str(agent) for agent in getattr(transition.reply, name)])
            for name in ("agents", "acting", "observations", "rewards")
        )
    sys.stdout.write("\n" + json.dumps(orders) + "\n")
