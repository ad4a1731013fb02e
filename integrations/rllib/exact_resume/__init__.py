"""Checkpoints from which training continues bit for bit as if it had not stopped.

RLlib's own checkpoints hold weights, optimizers and connectors. A resumed run therefore starts new episodes with new
random numbers, and some coefficients that RLlib adapts, such as PPO's KL coefficient, start again from their settings.
With `save_exactly` each checkpoint holds the rest too: a snapshot of every env, the episodes under way, the state of
each env runner's connectors, replay buffers, adapted coefficients and all random streams.
"""

from __future__ import annotations

from .checkpoint import ASYNCHRONOUS, FILE, ExactCheckpoints, save_exactly

__all__ = ["ASYNCHRONOUS", "FILE", "ExactCheckpoints", "save_exactly"]
