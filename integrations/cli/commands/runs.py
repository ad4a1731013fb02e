"""The command `envoi runs`: prints the runs in a folder."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.table import Table
from rich.text import Text

from ...rllib.run_folder import ListedRun, list_runs
from ..app import command
from ..console import output_console, print_json
from ..option_types import Debug, Json

_STYLES = {"running": "cyan", "done": "green", "interrupted": "yellow", "failed": "red"}


@command("runs")
def _runs(
    folder: Annotated[Path, typer.Argument(help="The folder that holds the runs.", metavar="FOLDER")] = Path("runs"),
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the runs in a folder: state, best return, env steps, and time since they last wrote.

    A run is running, done, interrupted (by Ctrl-C or a kill, so --resume continues it) or failed.
    """
    del debug  # read by `main`
    runs = list_runs(folder)
    if json:
        print_json([vars(run) | {"path": str(run.path), "age_seconds": round(run.age_seconds, 1)} for run in runs])
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
    for name in ("best return", "steps", "age"):
        table.add_column(name, justify="right", no_wrap=True)
    if not narrow:
        table.add_column("trials", justify="right")
        table.add_column("algo")
        table.add_column("env", overflow="fold")
    for run in runs:
        best = "-" if run.best_return is None else f"{run.best_return:.4g}"
        cells = [Text(str(run.path)), Text(run.state, style=_STYLES[run.state]), best]
        cells += [_count(run.env_steps), _age(run.age_seconds)]
        table.add_row(*cells, *([] if narrow else [str(run.trials), run.algo, Text(run.env)]))
    return table


def _count(steps: int) -> str:
    for size, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if steps >= size:
            return f"{steps / size:.3g}{unit}"
    return str(steps)


def _age(seconds: float) -> str:
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds:.0f} s"
