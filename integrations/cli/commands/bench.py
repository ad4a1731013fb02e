"""The command `envoi bench`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..app import command
from ..option_types import Debug, EnvName, whole


@command("bench")
def _bench(
    env: EnvName,
    form: Annotated[
        list[str], typer.Option(help="A framework to measure; can be repeated.", metavar="NAME", show_default="all")
    ] = [],  # noqa: B006 (typer copies it)
    rounds: Annotated[int, whole("Interleaved rounds.")] = 9,
    lanes: Annotated[int, whole("Lanes in forms of many lanes.")] = 16,
    json: Annotated[
        Path | None, typer.Option(help="A file for all times and the machine; - for stdout.", metavar="FILE")
    ] = None,
    out: Annotated[Path | None, typer.Option(help="A bar chart, a PNG or SVG file.", metavar="FILE")] = None,
    debug: Debug = False,
) -> None:
    """Measure an env: the time that each form adds to a step.

    All forms play the same actions from the same seed. Times are nanoseconds of CPU time a step of one lane, resets
    included; rounds are interleaved, and the table shows medians and quartiles.
    """
    del debug
    from ..bench_display import run_bench

    run_bench(env, form, rounds, lanes, json, out)
