"""Train a policy: the checks that come before Ray is imported, the job, and what it leaves."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from platform import python_version
from typing import Any

import envoi

from .algorithms import check_actions, find
from .folder import RunFolder, TrialState, best_trial
from .noise import redirected
from .settings import Settings, Trial


@dataclass(frozen=True)
class Report:
    """What an iteration of a trial gave.

    Args:
        trial: The trial.
        state: How far it is.
        steps_per_second: Env steps a second of training in this iteration.
    """

    trial: Trial
    state: TrialState
    steps_per_second: float


@dataclass(frozen=True)
class Outcome:
    """How a job ended.

    Args:
        folder: Where everything lies.
        settings: What was asked for.
        states: How far each trial is, as of its last checkpoint, by index.
        best: Index of the best trial; None if there is no checkpoint.
        interrupted: Whether the user stopped it.
        notes: What else there is to say: trials that failed, pictures that were not drawn.
    """

    folder: RunFolder
    settings: Settings
    states: dict[int, TrialState]
    best: int | None
    interrupted: bool
    notes: tuple[str, ...] = ()


Observer = Callable[[Report], None]


def train(
    settings: Settings, out: str | Path, *, observe: Observer | None = None, quiet: bool = False
) -> Outcome:
    """Train in a new folder, as a Ray Tune job.

    If Ray runs in this process already it is used and left running; otherwise one is started on this machine
    (or `settings.address` joined) and left at the end. Ctrl-C lets the iteration end, saves, and returns.

    Args:
        settings: What to do.
        out: The output folder, new or empty; see `envoi.integrations.rllib.folder`.
        observe: Called after each iteration of each trial.
        quiet: Whether stdout and stderr of this process go to `train.log` meanwhile.

    Returns:
        How it ended.

    Raises:
        envoi.EnvoiError: The folder is taken, the env or the algorithm unfit, or the env failed while
            training; then the last checkpoint stays.
    """
    folder = RunFolder(out)
    folder.refuse_if_taken()
    _check(settings)
    folder.start(settings, _versions())
    return _run(settings, folder, folder.read_state(settings), observe, quiet)


def resume(
    out: str | Path, *, observe: Observer | None = None, quiet: bool = False, **changes: Any
) -> Outcome:
    """Go on with a job that was interrupted, killed, or reached its goal.

    Args:
        out: Its output folder.
        observe: As in `train`.
        quiet: As in `train`.
        **changes: Settings that shall change: when to stop (replaces all earlier stops) and where to run.

    Returns:
        How it ended.

    Raises:
        envoi.EnvoiError: The folder holds no run, a setting cannot change, or nothing is left to do; also as
            in `train`.
    """
    folder = RunFolder(out)
    earlier = folder.read_settings()
    settings = earlier.resumed(changes)
    states = folder.read_state(settings)
    if settings.goal != earlier.goal:
        for state in states.values():
            state.reached = None
    if all(state.reached is not None for state in states.values()):
        raise envoi.EnvoiError(
            f"{folder.path} has reached {settings.goal}; ask for more by --stop-return or --stop-steps"
        )
    _check(settings)
    folder.write_settings(settings, _versions())
    folder.rewind_progress(states)
    return _run(settings, folder, states, observe, quiet)


def _check(settings: Settings) -> None:
    """Find what would fail anyway, before Ray is imported."""
    from .environment import preflight

    _, actions = preflight(settings.env, seed=settings.seed)
    check_actions(find(settings.algo), actions)


def _run(
    settings: Settings,
    folder: RunFolder,
    states: dict[int, TrialState],
    observe: Observer | None,
    quiet: bool,
) -> Outcome:
    # Small networks are about nine times slower with a thread for each core. Before torch is imported.
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    folder.failure.unlink(missing_ok=True)
    with redirected(folder.log) if quiet else nullcontext():
        from .tuning import run

        saved, interrupted, failures = run(settings, folder, states, observe, log_to_driver=quiet)
        notes = [*failures, *_draw(folder, settings)]
    return Outcome(folder, settings, saved, best_trial(saved), interrupted, tuple(notes))


def _draw(folder: RunFolder, settings: Settings) -> list[str]:
    try:
        from envoi.integrations.curve import draw_curve
    except ImportError:
        return [f"{folder.curve.name} was not drawn: pip install 'envoi[plots]'"]
    draw_curve(
        folder.read_progress(), folder.curve, f"{settings.algo} on {settings.env}", settings.stop_return
    )
    return []


def _versions() -> dict[str, str]:
    versions = {"python": python_version()}
    for package in ("envoi", "gymnasium", "ray", "torch"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return versions
