"""The command `envoi runs`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..app import command
from ..option_types import Debug, Json


@command("runs")
def _runs(
    folder: Annotated[Path, typer.Argument(help="The folder that holds the runs.", metavar="FOLDER")] = Path("runs"),
    json: Json = False,
    debug: Debug = False,
) -> None:
    """List the runs in a folder: state, best return, env steps, and time since they last wrote.

    A run is running, done, interrupted (by Ctrl-C or a kill, so --resume continues it) or failed.
    """
    del debug  # read by `main` in `entry_point`
    from ..runs_display import print_runs

    print_runs(folder, as_json=json)
