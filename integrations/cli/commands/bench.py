"""The command `envoi bench`: measures what each form adds to a step, and prints a table."""

from __future__ import annotations

import statistics
from functools import partial
from typing import Annotated

import typer
from rich.table import Table

from ..app import command
from ..console import output_console, print_json, working
from ..option_types import Debug, EnvName, Json, whole


@command("bench")
def _bench(
    env: EnvName,
    form: Annotated[
        list[str], typer.Option(help="A framework to measure; can be repeated.", metavar="NAME", show_default="all")
    ] = [],  # noqa: B006 (typer copies it)
    rounds: Annotated[int, whole("Interleaved rounds.")] = 9,
    lanes: Annotated[int, whole("Lanes in forms of many lanes.")] = 16,
    json: Json = False,
    debug: Debug = False,
) -> None:
    """Measure an env: the time that each form adds to a step.

    All forms play the same actions from the same seed. Times are nanoseconds of CPU time a step of one lane, resets
    included; rounds are interleaved, and the table shows medians and quartiles.
    """
    del debug
    from envoi.adapters import load

    from ...errors import one_line
    from ...machine_facts import machine_facts
    from ...step_times import step_times

    with one_line(), working() as show:
        load(env).close()  # a wrong name is an error before anything else
        times = step_times(partial(load, env), form or None, rounds=rounds, lanes=lanes, show=show)
    if json:
        rows = [
            {"form": one.form, **({"refused": one.refused} if one.refused else {"ns": one.ns, "added": one.added})}
            for one in times
        ]
        print_json({"env": env, "base": times[0].form, **machine_facts(), "forms": rows})
        return
    table = Table(box=None, pad_edge=False)
    for index, title in enumerate(("form", "ns a step", "added", "quartiles of added")):
        table.add_column(title, justify="right" if index else "left")
    for one in times:
        if not one.refused:
            low, middle, high = statistics.quantiles(one.added, n=4)
            added = ("base", "") if one is times[0] else (f"{middle:,.0f}", f"{low:,.0f} to {high:,.0f}")
            table.add_row(one.form, f"{statistics.median(one.ns):,.0f}", *added)
    console = output_console()
    console.print(table)
    for one in times:
        if one.refused:
            console.print(f"{one.form}: refused: {one.refused}", markup=False)
