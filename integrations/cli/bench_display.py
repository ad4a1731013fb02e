"""Prints the times of an env's steps, and makes a chart of them, for `envoi bench`."""

from __future__ import annotations

import json
from functools import partial
from io import BytesIO
from pathlib import Path
from typing import Any

from rich.table import Table

from envoi import SpecError
from envoi.adapters import load
from envoi.atomic_write import write_atomically

from ..errors import one_line
from ..machine_facts import machine_facts
from ..step_times import StepTime, step_times
from .console import output_console, print_json, working

STDOUT = Path("-")


def run_bench(
    name: str, forms: list[str], rounds: int, lanes: int, json_file: Path | None, picture: Path | None
) -> None:
    """Measures an env, prints the table, and writes the files.

    Args:
        name: Name of the env, as in `envoi.adapters.load`.
        forms: The frameworks to measure; an empty list for all that are installed.
        rounds: The number of interleaved rounds.
        lanes: The number of lanes in forms of many lanes.
        json_file: For the times and the machine; None for no file, `-` for stdout in place of the table.
        picture: For a bar chart, a PNG or SVG file; None for no file.

    Raises:
        envoi.EnvoiError: There is no such env, form or folder, or the env raises an error of its own.
    """
    _check_files(json_file, picture)
    with one_line(), working() as show:
        load(name).close()  # a wrong name is an error before anything else
        times = step_times(partial(load, name), forms or None, rounds=rounds, lanes=lanes, show=show)
    if json_file == STDOUT:
        print_json(_report(name, times))
    else:
        console = output_console()
        console.print(_table(times))
        for one in times:
            if one.refused:
                console.print(f"{one.form}: refused: {one.refused}", markup=False)
    if json_file is not None and json_file != STDOUT:
        write_atomically(json_file, json.dumps(_report(name, times), indent=2) + "\n")
    if picture is not None:
        write_atomically(picture, _chart(name, times, picture.suffix[1:]))


def _check_files(json_file: Path | None, picture: Path | None) -> None:
    """Refuses files that could not be written, before the time that it takes to measure."""
    for option, path in (("json", json_file), ("out", picture)):
        if path is not None and path != STDOUT and not path.absolute().parent.is_dir():
            raise SpecError(f"--{option}: {path}: expected a file in a folder that exists; there is no {path.parent}")
    if picture is not None and picture.suffix not in (".png", ".svg"):
        raise SpecError(f"--out: {picture}: expected a name that ends in .png or .svg")


def _measured(times: list[StepTime]) -> list[StepTime]:
    return [one for one in times if not one.refused]


def _table(times: list[StepTime]) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("form")
    table.add_column("ns a step", justify="right")
    table.add_column("added", justify="right")
    table.add_column("quartiles of added", justify="right")
    for index, one in enumerate(_measured(times)):
        low, middle, high = one.quartiles
        added = ("base", "") if index == 0 else (f"{middle:,.0f}", f"{low:,.0f} to {high:,.0f}")
        table.add_row(one.form, f"{one.median:,.0f}", *added)
    return table


def _report(name: str, times: list[StepTime]) -> dict[str, Any]:
    rows = [
        {"form": one.form, "refused": one.refused}
        if one.refused
        else {"form": one.form, "ns": one.ns, "added": one.added, "quartiles": one.quartiles}
        for one in times
    ]
    return {"env": name, "base": times[0].form, **machine_facts(), "forms": rows}


def _chart(name: str, times: list[StepTime], kind: str) -> bytes:
    """Returns a bar chart of the added times, with lines from the first to the third quartile.

    Args:
        name: The env.
        times: The times.
        kind: "png" or "svg".
    """
    from matplotlib.figure import Figure  # takes long to import

    shown = _measured(times)[1:]
    figure = Figure(figsize=(7, 0.8 + 0.4 * len(shown)), layout="constrained")
    axes: Any = figure.add_subplot()
    middles = [one.quartiles[1] for one in shown]
    spread = [[max(0.0, m - one.quartiles[0]) for m, one in zip(middles, shown, strict=True)]]
    spread.append([max(0.0, one.quartiles[2] - m) for m, one in zip(middles, shown, strict=True)])
    axes.barh([one.form for one in shown], middles, xerr=spread, color="#4c6fa8", ecolor="#333333", capsize=3)
    axes.invert_yaxis()
    axes.axvline(0, color="#333333", linewidth=0.8)
    axes.set_xlabel(f"ns added to a step of {times[0].form}")
    axes.set_title(name)
    file = BytesIO()
    figure.savefig(file, format=kind, dpi=150)
    return file.getvalue()
