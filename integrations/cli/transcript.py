"""Random episodes in words, for `envoi play` of an env that renders no picture."""

from __future__ import annotations

from typing import Any

import numpy as np
from rich.text import Text

import envoi
from envoi.tree import leaves

from ..errors import one_line
from .console import output_console

NUMBERS = 8
"""The most numbers of an array that are printed."""


def print_transcript(env: Any, *, episodes: int, steps: int, seed: int) -> None:
    """Prints a line for each step of random episodes: actions, rewards and observations.

    Args:
        env: The core env, of one agent or several.
        episodes: How many episodes.
        steps: Most steps of each.
        seed: Seed of the first; the next have the numbers after it.

    Raises:
        envoi.EnvoiError: The env raised an error of its own.
    """
    console = output_console()
    several = isinstance(env, envoi.MultiEnv)
    for episode in range(episodes):
        with one_line():
            observed, info = env.reset(seed=seed + episode)
        console.print(Text(f"episode {episode + 1}", style="bold"))
        console.print(Text(f"reset: {_shown(observed)}"))
        for step in range(1, steps + 1):
            with one_line():
                action = env.sample_actions(info) if several else env.sample_action()
                taken: Any = env.step(action)
            if several:
                observed, reward, info, over = taken.observations, taken.rewards, taken.infos, not env.agents
            else:
                observed, reward, over = taken.observation, taken.reward, taken.terminated or taken.truncated
            console.print(Text(f"{step:,}: action {_shown(action)}; reward {_shown(reward)}; {_shown(observed)}"))
            if over:
                break


def _shown(value: Any) -> str:
    """Returns nested values in one line; of a long array its first elements."""
    parts: list[str] = []
    for path, leaf in leaves(value):
        array = np.asarray(leaf)
        first = array.ravel()[:NUMBERS].tolist()
        numbers = ", ".join(f"{one:.4g}" if isinstance(one, float) else str(one) for one in first)
        text = f"[{numbers}{', …' if array.size > NUMBERS else ''}]" if array.ndim else numbers
        parts.append(f"{path} {text}".strip())
    return ", ".join(parts)
