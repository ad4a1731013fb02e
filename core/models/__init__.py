"""Small example models; `envoi.adapters.load("envoi:catch")` makes one by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..errors import SpecError, UnknownName, nearest
from ..protocol.env import Env
from ..protocol.multi_env import MultiEnv
from ..wrappers import TimeLimit
from .cartpole import CartPole
from .catch import Catch
from .gridworld import GridWorld
from .maze import Maze
from .nim import Nim
from .pendulum import Pendulum
from .pursuit import Pursuit
from .rps import RockPaperScissors

__all__ = [
    "GAMES",
    "MODELS",
    "NAMES",
    "CartPole",
    "Catch",
    "GridWorld",
    "Maze",
    "Nim",
    "Pendulum",
    "Pursuit",
    "RockPaperScissors",
    "make",
]

MODELS: dict[str, tuple[Callable[..., Env], int | None]] = {
    "catch": (Catch, None),
    "cartpole": (CartPole, 500),
    "pendulum": (Pendulum, 200),
    "gridworld": (GridWorld, 100),
    "maze": (Maze, None),  # which has a limit of its own
}
"""The single-agent models by name, each with its usual time limit in steps."""

GAMES: dict[str, Callable[..., MultiEnv]] = {"pursuit": Pursuit, "rps": RockPaperScissors, "nim": Nim}
"""The multi-agent models by name."""

NAMES = (*MODELS, *GAMES)


def make(name: str, max_episode_steps: int | None = None, compiled: bool = False, **arguments: Any) -> Env | MultiEnv:
    """Makes one of the example models; a single-agent model gets its usual time limit.

    Args:
        name: One of `NAMES`.
        max_episode_steps: A time limit that replaces the usual one.
        compiled: If True, a single-agent model steps in a compiled kernel; see `envoi.compiled`.
        **arguments: Arguments of the model's constructor.

    Raises:
        UnknownName: There is no such model; the message suggests similar names.
        SpecError: A time limit or `compiled` was given for a multi-agent game.
        NotCompilable: `compiled` is True, and numba is not installed.
    """
    if name not in NAMES:
        raise UnknownName(
            f"envoi:{name}: no such model; {nearest(f'envoi:{name}', (f'envoi:{known}' for known in NAMES))}"
        )
    if name in GAMES:
        if max_episode_steps is not None:
            raise SpecError(f"envoi:{name}: max_episode_steps is for one agent; this game ends by its context")
        if compiled:
            raise SpecError(f"envoi:{name}: compiled is for one agent; games of several agents are interpreted")
        return GAMES[name](**arguments)
    model, limit = MODELS[name]
    limit = limit if max_episode_steps is None else max_episode_steps
    env = model(**arguments)
    if compiled:
        from ..batching.model_lanes import compiled as compiled_model  # imported here, because few ask for it

        env = compiled_model(env)
    return env if limit is None else TimeLimit(env, limit)
