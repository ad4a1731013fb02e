"""Loops over an environment, as cases: each plays whole episodes and returns CPU time, nanoseconds a step.

Resets are included. In a game a step is one action of each agent; in a batch it is one step of all lanes, unless a loop
says otherwise.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np

from .null_envs import EPISODE
from .rows import Case, Play

Make = Callable[[], Any]
"""Makes an environment."""


def timed(play: Callable[[], Any], steps: float, repeats: int, clock: Callable[[], int] = time.thread_time_ns) -> Play:
    """Returns a case's function, which calls `play` so often: nanoseconds of a clock a step."""

    def cost() -> float:
        start = clock()
        for _ in range(repeats):
            play()
        return (clock() - start) / repeats / steps

    return cost


def episodes(make: Make, action: Any = 1, count: int = 10, once: bool = False) -> Case:
    """Episodes of one agent, of one lane or of several, that last as long as those of the null environments.

    They are reset only `once` where the lanes begin further episodes by themselves.
    """

    def case() -> Play:
        env = make()
        if once:
            env.reset()

        def play() -> None:
            if not once:
                env.reset()
            step = env.step
            for _ in range(EPISODE):
                step(action)

        return timed(play, EPISODE, count)

    return case


def games(make: Make, agents: list[str], count: int = 5) -> Case:
    """Episodes of a game whose agents act at the same time."""
    return episodes(make, dict.fromkeys(agents, 1), count)


def playing(make: Make, play: Callable[[Any], Any], count: int) -> Case:
    """Episodes that `play` takes, of what `make` returns; so many a round."""

    def case() -> Play:
        env = make()
        return timed(lambda: play(env), EPISODE, count)

    return case


def turns(make: Make, count: int = 5) -> Case:
    """Episodes of a game in turns, by PettingZoo's loop."""

    def play(env: Any) -> None:
        env.reset()
        for _ in env.agent_iter():
            _, _, terminated, truncated, _ = env.last()
            env.step(None if terminated or truncated else 1)

    return playing(make, play, count)


def rllib_turns(make: Make, count: int = 5) -> Case:
    """Episodes of a game by RLlib's interface, in which those agents act that have an observation."""

    def play(env: Any) -> None:
        observations, _ = env.reset()
        over = False
        while not over:
            observations, _, terminateds, truncateds, _ = env.step(dict.fromkeys(observations, 1))
            over = terminateds["__all__"] or truncateds["__all__"]

    return playing(make, play, count)


def one_by_one(make: Make, count: int = 2) -> Case:
    """Episodes of several environments that `make` returns, in a loop that stacks nothing."""

    def play(envs: Any) -> None:
        for env in envs:
            env.reset()
        for _ in range(EPISODE):
            for env in envs:
                env.step(1)

    return playing(make, play, count)


def lanes(make: Make, n: int, count: int = 2, once: bool = False) -> Case:
    """Episodes of n lanes that have the same length."""
    return episodes(make, np.ones(n, int), count, once)


def sampled(make: Make, n: int, steps: int, clock: Callable[[], int] = time.thread_time_ns) -> Case:
    """Steps of n lanes under random actions, 0 or 1; the lanes are in mid-episode, and begin again as they end."""

    def case() -> Play:
        env = make()
        actions = list(np.random.default_rng(0).integers(0, 2, (32, n)))
        env.reset(seed=0)

        def play() -> None:
            for index in range(steps):
                env.step(actions[index % 32])

        return timed(play, steps * n, 1, clock)

    return case
