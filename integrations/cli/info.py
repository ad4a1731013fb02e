"""Prints the specs, seeds and losses of an env, for `envoi info`."""

from __future__ import annotations

import hashlib
import pickle
from collections.abc import Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

import envoi
from envoi.adapters import TARGETS, load, losses
from envoi.batching.kernel_steps import KernelSteps
from envoi.compiling.availability import numba_version
from envoi.spec.base import frozen
from envoi.wrapping.wrapper import Wrapper

from ..errors import one_line

STEPS = 20


def print_info(name: str) -> None:
    """Prints an env's specs, a test of its seeds, and the losses in each framework.

    Args:
        name: Name of the env, as in `envoi.adapters.load`.

    Raises:
        envoi.EnvoiError: There is no such env, it breaks its spec, or it raises an error of its own.
    """
    console = Console(highlight=False)
    with one_line():
        env = load(name)
        try:
            console.print(Text(name, style="bold"))
            console.print(_specs(env))
            console.print(_losses(env))
            console.print(Text(f"lanes        {_lanes(env)}"))
            console.print(f"seeds        {_seeds(env)}")
        finally:
            env.close()


def _specs(env: envoi.Env | envoi.MultiEnv) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False)
    if isinstance(env, envoi.MultiEnv):
        table.add_row("agents", Text(", ".join(map(str, env.possible_agents))))
    for name in ("observation", "action", "reward", "discount"):
        spec = getattr(env, f"{name}_spec")
        shares = _shares(spec) if isinstance(env, envoi.MultiEnv) else [("", spec)]
        for index, (agents, share) in enumerate(shares):
            table.add_row("" if index else name, Text(f"{agents}{share}"))
    table.add_row("state", Text(str("not described" if env.state_spec is None else env.state_spec)))
    space = getattr(env, "context_space", None)
    for index, (name, feature) in enumerate({} if space is None else space.features.items()):
        text = f"{name}: {feature}, {feature.default_value!r} by default"
        table.add_row("" if index else "context", Text(text))
    table.add_row("rendering", Text(", ".join(env.metadata.get("render_modes", ())) or "none"))
    return table


def _lanes(env: envoi.Env | envoi.MultiEnv) -> str:
    """Returns how a batch of the env steps its lanes, and why."""
    if isinstance(env, envoi.MultiEnv):
        return "interpreted: several agents"
    try:
        batch: Any = envoi.batch(env, 2)
    except envoi.EnvoiError as error:
        return f"one at a time: {error}"
    while isinstance(batch, Wrapper):
        batch = batch.env
    if isinstance(batch, KernelSteps):
        reason = batch.obstacle()
        return "compiled, once that is worth the time" if not reason else f"interpreted: {reason}"
    if isinstance(batch, envoi.ModelBatch) or numba_version() is None:
        return "interpreted: numba is not installed; pip install 'envoi[numba]'"
    return "a loop: only models are compiled"


def _shares(specs: Mapping[Any, Any]) -> list[tuple[str, Any]]:
    """Returns each spec once, with the names of the agents that share it; without names where all share one."""
    shares: dict[Any, tuple[list[str], Any]] = {}
    for agent, spec in specs.items():
        shares.setdefault(frozen(spec), ([], spec))[0].append(str(agent))
    if len(shares) == 1:
        return [("", spec) for _, spec in shares.values()]
    return [(f"{', '.join(agents)}: ", spec) for agents, spec in shares.values()]


def _trace(env: envoi.Env, seed: int) -> str:
    """Returns a hash of an episode's first steps under actions that follow from the seed."""
    digest = hashlib.sha256(pickle.dumps(env.reset(seed=seed).observation))
    for _ in range(STEPS):
        step = env.step(env.sample_action())
        digest.update(pickle.dumps((step.observation, step.reward)))
        if step.terminated or step.truncated:
            break
    return digest.hexdigest()


def _multi_trace(env: envoi.MultiEnv, seed: int) -> str:
    """Returns a hash of the first steps of an env of several agents."""
    observations, infos = env.reset(seed=seed)
    digest = hashlib.sha256(pickle.dumps(observations))
    for _ in range(STEPS):
        if not env.agents:
            break
        step = env.step(env.sample_actions(infos))
        infos = step.infos
        digest.update(pickle.dumps((step.observations, step.rewards)))
    return digest.hexdigest()


def _seeds(env: envoi.Env | envoi.MultiEnv) -> str:
    if isinstance(env, envoi.MultiEnv):
        multi = envoi.ValidatedMulti(env)
        first, again, other = (_multi_trace(multi, seed) for seed in (0, 0, 1))
    else:
        checked = envoi.Validated(env)
        first, again, other = (_trace(checked, seed) for seed in (0, 0, 1))
    if first != again:
        return "[red]the same seed gave two different episodes[/red]"
    if first == other:
        return "the same seed gives the same episode; seeds 0 and 1 give the same one too"
    return "the same seed gives the same episode, another seed another one"


def _losses(env: envoi.Env | envoi.MultiEnv) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("framework")
    table.add_column("losses")
    for target in TARGETS:
        try:
            lost = [str(loss) for loss in losses(env, target)]
        except envoi.MissingBackend as error:
            table.add_row(target, Text(str(error), style="dim"))
            continue
        table.add_row(target, Text("\n".join(lost) if lost else "nothing", style="" if lost else "green"))
    return table
