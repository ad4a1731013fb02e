"""Checkpoints from which training continues bit for bit as if it had not stopped.

RLlib's own checkpoints hold weights, optimizers and connectors. A resumed run therefore starts new episodes with new
random numbers, and coefficients that RLlib adapts, such as PPO's KL coefficient, start again from their settings. An
exact checkpoint holds the rest too: a snapshot of every env, the episodes under way, the connectors of each env runner,
the replay buffer, adapted coefficients, and all random streams.
"""

from __future__ import annotations

import envoi

HASH_SEED = "PYTHONHASHSEED"
"""The variable of the environment that fixes the order of sets of strings, in which RLlib goes through agents."""

ASYNCHRONOUS = frozenset({"IMPALA", "APPO"})
"""Algorithms whose weights depend on which env runner answers first, so that no two runs of them are equal."""


def check_exact(*names: str) -> None:
    """Checks that the checkpoints of an algorithm can be exact."""
    if ASYNCHRONOUS & {*names}:
        raise envoi.EnvoiError(
            f"exact: expected an algorithm that waits for its env runners, such as PPO, DQN or SAC, got {names[0]}, "
            "whose weights depend on which runner answers first; leave exact=False"
        )
