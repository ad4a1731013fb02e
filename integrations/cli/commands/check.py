"""The command `envoi check`."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated, Any

import typer

from ..app import command
from ..option_types import Debug, EnvName, framework_names, whole

_file: Any = partial(typer.Option, metavar="FILE", show_default=False)


@command("check")
def _check(
    env: EnvName,
    frameworks: Annotated[
        str | None,
        typer.Option(
            help="The frameworks whose forms to check, such as gymnasium,dm_env; none for the env alone.",
            show_default="all that are installed",
            metavar="NAME[,NAME…]",
            autocompletion=framework_names,
        ),
    ] = None,
    seed: Annotated[int, whole("The checks use the seeds after this one.")] = 0,
    episodes: Annotated[int, whole("Episodes of each rollout.")] = 3,
    steps: Annotated[int, whole("Most steps of an episode.")] = 1000,
    json: Annotated[Path | None, _file(help="Write the report as JSON too.")] = None,
    html: Annotated[Path | None, _file(help="Write the report as a page too.")] = None,
    junit: Annotated[Path | None, _file(help="Write the report as JUnit XML too.")] = None,
    badge: Annotated[Path | None, _file(help="Write a badge too: .svg, or .json for shields.io.")] = None,
    debug: Debug = False,
) -> None:
    """Check an env: its values, seeds and episodes, its form in each framework, and the frameworks' own suites.

    The exit code is 1 if a check failed. In a test of your own, call `check_env` of `envoi.integrations.check`.
    """
    del debug
    from ..check_display import ReportFiles, run_check

    chosen = None if frameworks is None else [name.strip() for name in frameworks.split(",") if name.strip()]
    chosen = [] if chosen == ["none"] else chosen
    files = ReportFiles(json, html, junit, badge)
    code = run_check(env, files, frameworks=chosen, seed=seed, episodes=episodes, steps=steps)
    raise typer.Exit(code)
