"""The command `envoi render`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ..app import command
from ..option_types import Debug, EnvName, real, whole


@command("render")
def _render(
    env: EnvName,
    gif: Annotated[
        Path | None,
        typer.Option(help="Write an animated GIF here.", show_default="show it in the terminal", metavar="FILE"),
    ] = None,
    policy: Annotated[
        str, typer.Option(help="Who acts: random, or the output folder of envoi train.", metavar="RUN|random")
    ] = "random",
    episodes: Annotated[int, whole("Number of episodes.")] = 1,
    steps: Annotated[int, whole("Most steps of an episode.")] = 500,
    seed: Annotated[int, whole("Seed of the first episode.")] = 0,
    fps: Annotated[float | None, real("Pictures a second.", show_default="the env's")] = None,
    debug: Debug = False,
) -> None:
    """Render episodes of an env: as an animated GIF, or in the terminal."""
    del debug
    from ..render_display import run_render

    run_render(env, gif=gif, policy=policy, episodes=episodes, steps=steps, seed=seed, fps=fps)
