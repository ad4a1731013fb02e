"""Whether the order of agents follows Python's hash seed, which is another one in each process."""

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
SECONDS = 120.0
SEEDS = range(1, 40)


class NotHere(EnvoiError):
    """It cannot be told here."""


def order_under_another_hash(origin: Any, seed: int, agents: Sequence[Any]) -> str | None:
    """How the agents' order differs between two processes of different hash seeds, or None.

    Args:
        origin: The name of the environment, or an importable function that makes it.
        seed: For its reset.
        agents: Its agents.

    Raises:
        NotHere: The environment cannot be made in another process, or no hash seed could make a difference.
    """
    if origin is None:
        raise NotHere("for that, give a name, or an importable function that makes it")
    if len(agents) < 2 or not all(isinstance(agent, str) for agent in agents):
        raise NotHere("its agents are not several strings, whose hashes would differ from process to process")
    try:
        made = json.dumps(sys.path).encode() + b"\n" + pickle.dumps((origin, seed))
    except Exception as error:
        raise NotHere("for that, give a name, or an importable function that makes it") from error
    if getattr(origin, "__module__", "") == "__main__":
        raise NotHere("for that, its function must be importable, and not be in __main__")
    one, two = [_started(made, hash_seed) for hash_seed in _telling_seeds(agents)]
    told = [_heard(process) for process in (one, two)]
    if told[0] is None or told[1] is None:
        raise NotHere("it could not be played in another process")
    for a, b in zip(*told, strict=False):
        if a != b:
            return f"{a[0]}: {a[1]} in one process, {b[1]} in another, for Python's hashes of strings differ there"
    return None


def _telling_seeds(agents: Sequence[str]) -> tuple[int, int]:
    """Two hash seeds under which a set of these agents has different orders."""
    code = f"print(list(set({list(agents)!r})))"
    first: str | None = None
    for seed in SEEDS:
        run = subprocess.run(  # noqa: S603 (this Python, with code of ours)
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
    raise NotHere("no two hash seeds make a difference to a set of these agents")


def _started(made: bytes, hash_seed: int) -> subprocess.Popen[bytes]:
    code = "from envoi.integrations.check.hash_seeds import tell; tell()"
    process = subprocess.Popen(  # noqa: S603 (this Python, with code of ours)
        [sys.executable, "-c", code],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, "PYTHONHASHSEED": str(hash_seed)},
    )
    assert process.stdin is not None
    process.stdin.write(made)
    process.stdin.close()
    process.stdin = None
    return process


def _heard(process: subprocess.Popen[bytes]) -> list[Any] | None:
    try:
        out, _ = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return None
    if process.returncode != 0:
        return None
    return json.loads(out.decode().splitlines()[-1])


def tell() -> None:
    """In the other process: say the order of the agents, call by call."""
    # The path first: it is needed to unpickle the rest.
    sys.path[:] = json.loads(sys.stdin.buffer.readline())
    origin, seed = pickle.load(sys.stdin.buffer)  # noqa: S301 (from the process that started this one)
    from .env_factory import made_anew
    from .rollout import Player

    hand = made_anew(origin)
    told: list[Any] = [("possible_agents", [str(agent) for agent in hand.possible])]
    player = Player(hand, seed)
    for _ in range(CALLS):
        moment = player.advance(CALLS)
        told.extend(
            (f"{what} ({moment.where})", [str(agent) for agent in getattr(moment.beat, what)])
            for what in ("agents", "acting", "observations", "rewards")
        )
    sys.stdout.write("\n" + json.dumps(told) + "\n")
