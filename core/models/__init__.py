"""Small models that come with envoi; `envoi.adapters.load("envoi:catch")` makes one by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..env import Env
from ..errors import UnknownName, nearest
from ..wrappers import TimeLimit
from .cartpole import CartPole
from .catch import Catch
from .gridworld import GridWorld
from .pendulum import Pendulum

__all__ = ["MODELS", "CartPole", "Catch", "GridWorld", "Pendulum", "make"]

MODELS: dict[str, tuple[Callable[..., Env], int | None]] = {
    "catch": (Catch, None),
    "cartpole": (CartPole, 500),
    "pendulum": (Pendulum, 200),
    "gridworld": (GridWorld, 100),
}
"""The models by name, each with its usual time limit in steps."""


def make(name: str, max_episode_steps: int | None = None, **arguments: Any) -> Env:
    """A bundled model, under its usual time limit.

    Args:
        name: A key of `MODELS`.
        max_episode_steps: Another limit than the usual one.
        **arguments: For the model's constructor.

    Raises:
        UnknownName: There is no such model; the message lists near names.
    """
    if name not in MODELS:
        raise UnknownName(
            f"envoi:{name}: no such model; {nearest(f'envoi:{name}', (f'envoi:{known}' for known in MODELS))}"
        )
    model, limit = MODELS[name]
    limit = limit if max_episode_steps is None else max_episode_steps
    env = model(**arguments)
    return env if limit is None else TimeLimit(env, limit)
