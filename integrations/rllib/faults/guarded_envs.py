"""Envs in RLlib's forms whose calls an `EnvGuard` watches."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import gymnasium
from gymnasium.vector import VectorEnv, VectorWrapper

from .env_guard import EnvGuard


class _Guarded:
    """The calls of both kinds of wrapper."""

    env: Any

    def __init__(self, env: Any, guard: EnvGuard) -> None:
        super().__init__(env)  # pyright: ignore[reportCallIssue]
        self.guard = guard

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> Any:
        return self.guard.reset(self.env.reset, seed=seed, options=options)

    def step(self, action: Any) -> Any:
        return self.guard.step(self.env.step, action)


class GuardedEnv(_Guarded, gymnasium.Wrapper[Any, Any, Any, Any]):
    """An env of one lane, of one agent or of several.

    Args:
        env: The env.
        guard: Watches its calls.
    """


class GuardedVectorEnv(_Guarded, VectorWrapper):
    """A vector env.

    Args:
        env: The env.
        guard: Watches its calls.
    """


def guards_of(env: Any) -> Iterator[tuple[EnvGuard, int | None]]:
    """Yields the guards of an env runner's vector env, each with its lane.

    Args:
        env: The vector env, possibly inside wrappers; the lane is None for a guard of all lanes.
    """
    layer = env
    while layer is not None:
        if isinstance(layer, _Guarded):
            yield layer.guard, None
        layer = layer.env if isinstance(layer, VectorWrapper) else None
    native = env.unwrapped if isinstance(env, VectorEnv) else env
    for lane, inner in enumerate(getattr(native, "envs", ())):
        while isinstance(inner, gymnasium.Wrapper):
            if isinstance(inner, _Guarded):
                yield inner.guard, lane
            inner = inner.env
