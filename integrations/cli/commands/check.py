"""The command `envoi check`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..app import command
from ..option_types import Debug, EnvName, whole


@command("check")
def _check(
    env: EnvName,
    frameworks: Annotated[
        str | None,
        typer.Option(
            help="The frameworks whose forms to check, such as gymnasium,dm_env.", show_default="all that are installed"
        ),
    ] = None,
    seed: Annotated[int, whole("The checks use the seeds after this one.")] = 0,
    episodes: Annotated[int, whole("Episodes of each rollout.")] = 3,
    steps: Annotated[int, whole("Most steps of an episode.")] = 1000,
    json: Annotated[Path | None, typer.Option(help="Write the report as JSON too.", show_default=False)] = None,
    html: Annotated[Path | None, typer.Option(help="Write the report as a page too.", show_default=False)] = None,
    debug: Debug = False,
) -> None:
    """Check an env: its values, seeds and episodes, its form in each framework, and the frameworks' own suites.

    The exit code is 1 if a check failed. In a test of your own, write
    `envoi.integrations.check.check_env(make_env).raise_if_failed()`.
    """
    del debug
    from ..check_display import run_check

    chosen = None if frameworks is None else [name.strip() for name in frameworks.split(",") if name.strip()]
    raise typer.Exit(run_check(env, frameworks=chosen, seed=seed, episodes=episodes, steps=steps, json=json, html=html))
