"""The command `envoi compare`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..app import command
from ..option_types import Debug, flag


@command("compare")
def _compare(
    runs: Annotated[
        list[Path],
        typer.Argument(
            help="Output folders of envoi train, or folders that hold them.", metavar="RUN…", show_default=False
        ),
    ],
    out: Annotated[
        Path | None, typer.Option(help="The picture, a PNG file.", metavar="FILE", show_default="comparison.png")
    ] = None,
    json: Annotated[bool, flag("--json", "Print JSON instead of a table; then a picture only with --out.")] = False,
    debug: Debug = False,
) -> None:
    """Compare runs: their curves in one picture, and a table of their returns.

    Trials of the same settings, in one run or in several, are seeds of one curve: the interquartile mean with its 95 %
    bootstrap interval.
    """
    del debug
    from ..comparison_display import run_comparison

    run_comparison(runs, out, as_json=json)
