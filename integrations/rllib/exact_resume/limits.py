"""Which algorithms can continue bit for bit; readable without Ray."""

from __future__ import annotations

import envoi

HASH_SEED = "PYTHONHASHSEED"
"""The variable of the environment that fixes the order of sets of strings, in which RLlib goes through agents."""

ASYNCHRONOUS = frozenset({"IMPALA", "APPO"})
"""Algorithms whose weights depend on which env runner answers first, so that no two runs of them are equal."""


def check_exact(*names: str) -> None:
    """Checks that the checkpoints of an algorithm can be exact.

    Args:
        *names: The names of the algorithm's class and its bases, the class first.

    Raises:
        envoi.EnvoiError: The algorithm does not wait for its env runners.
    """
    if ASYNCHRONOUS & {*names}:
        raise envoi.EnvoiError(
            f"exact: expected an algorithm that waits for its env runners, such as PPO, DQN or SAC, got {names[0]}, "
            "whose weights depend on which runner answers first; leave exact=False"
        )
