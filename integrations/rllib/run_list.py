"""The runs in a folder, with their state."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import envoi

from .run_folder import RunFolder

STATES = ("running", "done", "interrupted", "failed")
DEPTH = 4
"""How many folders below the given one may hold runs."""


@dataclass(frozen=True)
class ListedRun:
    """A run of `envoi train`.

    Args:
        path: Its folder.
        state: One of `STATES`; a run that was killed is interrupted.
        env: Name of the env; empty if its config cannot be read.
        algo: Name of the algorithm.
        trials: Number of its trials.
        best_return: The highest mean return of 100 episodes of any trial; None before 20 episodes have ended.
        env_steps: Env steps of all trials.
        age_seconds: Seconds since it last wrote.
        message: The error of a run that failed.
    """

    path: Path
    state: str
    env: str
    algo: str
    trials: int
    best_return: float | None
    env_steps: int
    age_seconds: float
    message: str = ""


def list_runs(folder: str | Path) -> list[ListedRun]:
    """Returns the runs in a folder and the folders below it, the last active first.

    Args:
        folder: The folder; itself a run, or one that holds runs.

    Raises:
        envoi.EnvoiError: There is no such folder, or it holds no run.
    """
    root = Path(folder).expanduser()
    if not root.exists():
        raise envoi.EnvoiError(f"{root} does not exist; `envoi train` makes runs in runs/, or where --out says")
    if not root.is_dir():
        raise envoi.EnvoiError(f"{root} is a file; expected a folder that holds runs")
    runs = [_listed(RunFolder(path)) for path in _run_folders(root)]
    if not runs:
        empty = "is empty" if not any(root.iterdir()) else "holds no run of envoi"
        raise envoi.EnvoiError(f"{root} {empty}; start one with `envoi train ENV --out {root / 'NAME'}`")
    return sorted(runs, key=lambda run: run.age_seconds)


def _run_folders(root: Path) -> Iterator[Path]:
    for found, folders, files in os.walk(root):
        here = Path(found)
        # `state.json` or the lock too, as other programs write a config.yaml as well.
        if "config.yaml" in files and {"state.json", ".lock", "train.log"} & {*files}:
            folders.clear()
            yield here
        elif len(here.relative_to(root).parts) >= DEPTH:
            folders.clear()
        else:
            folders[:] = sorted(name for name in folders if not name.startswith("."))


def _listed(run: RunFolder) -> ListedRun:
    touched = max(path.stat().st_mtime for path in (run.config, run.progress, run.state) if path.exists())
    age = max(0.0, time.time() - touched)
    try:
        settings = run.read_settings()
        states = run.read_state(settings)
        rows = run.read_progress()
        ending = run.read_ending()
    except envoi.EnvoiError as error:
        return ListedRun(run.path, "failed", "", "", 0, None, 0, age, str(error))
    message = ""
    if run.is_claimed:
        state = "running"
    elif ending is not None:
        state, message = ending
    elif run.failure.exists():  # of an earlier version, which wrote no ending
        state = "failed"
    else:
        state = "done" if all(one.reached is not None for one in states.values()) else "interrupted"
    means = [float(row["return_mean"]) for row in rows if row["return_mean"] and int(row["episodes"]) >= 20]
    steps = {row["trial"]: int(row["env_steps"]) for row in rows}
    return ListedRun(
        run.path,
        state,
        settings.env,
        settings.algo,
        len(settings.trials),
        max(means, default=None),
        sum(steps.values()),
        age,
        message,
    )
