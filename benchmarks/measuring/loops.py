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


def timed(play: Callable[[], Any], steps: float, repeats: int) -> Play:
    """Returns a case's function: nanoseconds of the thread's CPU time a step.

    Args:
        play: Takes some steps.
        steps: How many.
        repeats: How many times a round calls it.
    """

    def cost() -> float:
        start = time.thread_time_ns()
        for _ in range(repeats):
            play()
        return (time.thread_time_ns() - start) / repeats / steps

    return cost


def episodes(make: Make, action: Any = 1, count: int = 10, once: bool = False) -> Case:
    """Episodes of one agent, of one lane or of several, that last as long as those of the null environments.

    Args:
        make: Makes the environment.
        action: The action of all steps.
        count: The episodes of a round.
        once: True to reset once only, because the lanes begin further episodes by themselves.
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
    """Episodes of a game whose agents act at the same time.

    Args:
        make: Makes the game.
        agents: Its agents.
        count: The episodes of a round.
    """
    return episodes(make, dict.fromkeys(agents, 1), count)


def turns(make: Make, count: int = 5) -> Case:
    """Episodes of a game in turns, by PettingZoo's loop.

    Args:
        make: Makes the game.
        count: The episodes of a round.
    """

    def case() -> Play:
        env = make()

        def play() -> None:
            env.reset()
            for _ in env.agent_iter():
                _, _, terminated, truncated, _ = env.last()
                env.step(None if terminated or truncated else 1)

        return timed(play, EPISODE, count)

    return case


def rllib_turns(make: Make, count: int = 5) -> Case:
    """Episodes of a game by RLlib's interface, in which those agents act that have an observation.

    Args:
        make: Makes the game.
        count: The episodes of a round.
    """

    def case() -> Play:
        env = make()

        def play() -> None:
            observations, _ = env.reset()
            over = False
            while not over:
                observations, _, terminateds, truncateds, _ = env.step(dict.fromkeys(observations, 1))
                over = terminateds["__all__"] or truncateds["__all__"]

        return timed(play, EPISODE, count)

    return case


def one_by_one(make: Make, count: int = 2) -> Case:
    """Episodes of several environments, in a loop that stacks nothing.

    Args:
        make: Makes a list of environments.
        count: The episodes of a round.
    """

    def case() -> Play:
        envs = make()

        def play() -> None:
            for env in envs:
                env.reset()
            for _ in range(EPISODE):
                for env in envs:
                    env.step(1)

        return timed(play, EPISODE, count)

    return case


def lanes(make: Make, n: int, count: int = 2, once: bool = False) -> Case:
    """Episodes of n lanes that have the same length.

    Args:
        make: Makes the batch, in any form.
        n: The number of lanes.
        count: The episodes of a round.
        once: As for `episodes`.
    """
    return episodes(make, np.ones(n, int), count, once)
