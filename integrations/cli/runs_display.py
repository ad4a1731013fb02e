"""Prints the runs in a folder, for `envoi runs`."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

from ..rllib.run_list import ListedRun, list_runs
from .console import output_console, print_json

_STYLES = {"running": "cyan", "done": "green", "interrupted": "yellow", "failed": "red"}


def print_runs(folder: Path, *, as_json: bool) -> None:
    """Prints the runs in a folder as a table, or as JSON.

    Args:
        folder: The folder.
        as_json: Print a JSON list instead of a table.

    Raises:
        envoi.EnvoiError: As `list_runs`.
    """
    runs = list_runs(folder)
    if as_json:
        values = [vars(run) | {"path": str(run.path), "age_seconds": round(run.age_seconds, 1)} for run in runs]
        print_json(values)
        return
    console = output_console()
    console.print(_table(runs, console.width))
    for run in runs:
        if run.message:
            console.print(Text(f"{run.path!s}: {run.message}", style="dim"), soft_wrap=True)


def _table(runs: list[ListedRun], width: int) -> Table:
    """Returns the table; in a narrow terminal without the columns that matter least."""
    narrow = width < 96
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("run", overflow="fold")
    table.add_column("state", no_wrap=True)
    for name in ["best return" if width >= 60 else "best", "steps", "age"]:
        table.add_column(name, justify="right", no_wrap=True)
    if not narrow:
        table.add_column("trials", justify="right")
        table.add_column("algo")
        table.add_column("env", overflow="fold")
    for run in runs:
        cells = [
            Text(str(run.path)),
            Text(run.state, style=_STYLES[run.state]),
            "-" if run.best_return is None else f"{run.best_return:.4g}",
            _count(run.env_steps),
            age(run.age_seconds),
        ]
        table.add_row(*cells, *([] if narrow else [str(run.trials), run.algo, Text(run.env)]))
    return table


def _count(steps: int) -> str:
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if steps >= size:
            return f"{steps / size:.3g}{unit}"
    return str(steps)


def age(seconds: float) -> str:
    """Returns a duration as one number and its unit."""
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
