"""What `envoi info` shows of an env."""

from __future__ import annotations

import hashlib
import pickle
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import envoi
from envoi.adapters import TARGETS, load, losses

from .errors import one_line

STEPS = 20


def describe(name: str) -> None:
    """Print an env's specs, whether its seeds hold, and what each framework would lose.

    Args:
        name: As in `envoi.adapters.load`.

    Raises:
        envoi.EnvoiError: There is no such env, or it breaks its spec, or raises an error of its own.
    """
    console = Console(highlight=False)
    with one_line():
        env = load(name)
        try:
            console.print(Text(name, style="bold"))
            console.print(_specs(env))
            console.print(_losses(env))
            console.print(f"seeds        {_seeds(envoi.Validated(env))}")
        finally:
            env.close()


def _specs(env: envoi.Env) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    specs: list[tuple[str, Any]] = [
        ("observation", env.observation_spec),
        ("action", env.action_spec),
        ("reward", env.reward_spec),
        ("discount", env.discount_spec),
        ("state", "not described" if env.state_spec is None else env.state_spec),
        ("rendering", ", ".join(env.metadata.get("render_modes", ())) or "none"),
    ]
    for label, spec in specs:
        table.add_row(label, Text(str(spec)))
    return table


def _trace(env: envoi.Env, seed: int) -> str:
    """A hash of an episode's first steps under actions that the seed fixes too."""
    digest = hashlib.sha256(pickle.dumps(env.reset(seed=seed).observation))
    for _ in range(STEPS):
        step = env.step(env.sample_action())
        digest.update(pickle.dumps((step.observation, step.reward)))
        if step.terminated or step.truncated:
            break
    return digest.hexdigest()


def _seeds(env: envoi.Env) -> str:
    first, again, other = _trace(env, 0), _trace(env, 0), _trace(env, 1)
    if first != again:
        return "[red]the same seed gave two different episodes[/red]"
    if first == other:
        return "the same seed gives the same episode; seeds 0 and 1 give the same one too"
    return "the same seed gives the same episode, another seed another one"


def _losses(env: envoi.Env) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("framework")
    table.add_column("what it would lose")
    for target in TARGETS:
        try:
            lost = [str(loss) for loss in losses(env, target)]
        except envoi.MissingBackend as error:
            table.add_row(target, Text(str(error), style="dim"))
            continue
        table.add_row(target, Text("\n".join(lost) if lost else "nothing", style="" if lost else "green"))
    return table
