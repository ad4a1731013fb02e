"""Prints the runs in a folder, for `envoi runs`."""

from __future__ import annotations

from pathlib import Path

from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..rllib.run_folder import ListedRun, list_runs
from .console import output_console, print_json

NARROW = 60
"""Columns of a terminal below which a run takes two lines."""
_STYLES = {"running": "cyan", "done": "green", "interrupted": "yellow", "failed": "red"}


def print_runs(folder: Path, *, as_json: bool) -> None:
    """Prints the runs in a folder as a table, or as JSON."""
    runs = list_runs(folder)
    if as_json:
        values = [vars(run) | {"path": str(run.path), "age_seconds": round(run.age_seconds, 1)} for run in runs]
        print_json(values)
        return
    console = output_console()
    if console.width < NARROW:
        for run in runs:
            console.print(Text(str(run.path)))
            console.print(Padding(_line(run), (0, 0, 0, 2)))
    else:
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
    for name in ("best return", "steps", "age"):
        table.add_column(name, justify="right", no_wrap=True)
    if not narrow:
        table.add_column("trials", justify="right")
        table.add_column("algo")
        table.add_column("env", overflow="fold")
    for run in runs:
        state, best, steps, since = _values(run)
        cells = [Text(str(run.path)), state, best, steps, since]
        table.add_row(*cells, *([] if narrow else [str(run.trials), run.algo, Text(run.env)]))
    return table


def _values(run: ListedRun) -> tuple[Text, str, str, str]:
    """Returns a run's state, best return, env steps and age."""
    best = "-" if run.best_return is None else f"{run.best_return:.4g}"
    return Text(run.state, style=_STYLES[run.state]), best, _count(run.env_steps), age(run.age_seconds)


def _line(run: ListedRun) -> Text:
    """Returns the same as one line of words."""
    state, best, steps, since = _values(run)
    return state.append(f", best return {best}, {steps} steps, {since} old", style="default")


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
