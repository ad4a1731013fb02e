"""Prints and plots the comparison of several runs, for `envoi compare`."""

from __future__ import annotations

from pathlib import Path

from rich.table import Table
from rich.text import Text

import envoi

from ..rllib.comparison import Comparison, compare_runs
from .console import output_console, print_json

NUMBERS = 60
"""Columns that the numbers of a table take."""


def run_comparison(folders: list[Path], out: Path | None, *, as_json: bool) -> None:
    """Compares runs: writes the picture, and prints a table or JSON.

    Args:
        folders: The folders of the runs; one that holds runs is replaced by all of them.
        out: The PNG file; None for `comparison.png` here, and for no picture with JSON.
        as_json: Print JSON instead of a table.

    Raises:
        envoi.EnvoiError: As `compare_runs`; or the picture cannot be written.
    """
    comparison = compare_runs(_runs(folders))
    picture = out if out is not None or as_json else Path("comparison.png")
    if picture is not None:
        _plot(comparison, picture)
    if as_json:
        print_json(comparison.to_dict())
        return
    console = output_console()
    labels = [group.label for group in comparison.groups]
    # A label goes below the table if the column would break one of its words.
    if max(len(word) for label in labels for word in label.split()) > console.width - NUMBERS:
        short = [str(number) for number in range(1, len(labels) + 1)]
        console.print(_table(comparison, short))
        for number, label in zip(short, labels, strict=True):
            console.print(Text(f"run {number}: {label}"))
    else:
        console.print(_table(comparison, labels))
    several = any(len(group.seeds) > 1 for group in comparison.groups)
    note = "mean return of the last 100 episodes"
    if several:
        note += "; over seeds the interquartile mean with its 95 % bootstrap interval"
    console.print(Text(note, style="dim"))
    if len({group.env for group in comparison.groups}) > 1:
        console.print(Text("the runs are of several envs, whose returns do not compare", style="yellow"))
    console.print(f"plotted in {picture}", soft_wrap=True)


def _runs(folders: list[Path]) -> list[Path]:
    """Returns the folders of runs; for a folder that is none, the runs below it."""
    from ..rllib.run_folder import RunFolder
    from ..rllib.run_list import list_runs

    found: list[Path] = []
    for folder in folders:
        if RunFolder(folder).exists:
            found.append(folder)
        else:
            found += sorted(run.path for run in list_runs(folder) if run.env)
    return found


def _plot(comparison: Comparison, path: Path) -> None:
    if path.suffix.lower() != ".png":
        raise envoi.EnvoiError(f"--out takes a .png file, got {path}")
    if not path.absolute().parent.is_dir():
        raise envoi.EnvoiError(f"--out {path}: there is no folder {path.absolute().parent}")
    try:
        from ..rllib.comparison_plot import plot_comparison
    except ImportError as error:
        raise envoi.MissingBackend("matplotlib is not installed; pip install 'envoi[plots]'") from error
    plot_comparison(comparison, path)


def _table(comparison: Comparison, labels: list[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="dim")
    table.add_column("run")
    for name in ("seeds", "steps", "last return"):
        table.add_column(name, justify="right", no_wrap=True)
    lengths = {round(group.steps[-1]) for group in comparison.groups}
    if len(lengths) > 1:
        table.add_column(f"at {comparison.common_steps:,} steps", justify="right", no_wrap=True)
    for index, group in enumerate(comparison.groups):
        cells = [Text(labels[index]), str(len(group.seeds)), f"{group.steps[-1]:,.0f}"]
        cells.append(Text(str(group.final), style="bold green" if index == 0 else ""))
        if len(lengths) > 1:
            cells.append("-" if group.common is None else str(group.common))
        table.add_row(*cells)
    return table
