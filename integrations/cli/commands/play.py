"""The command `envoi play`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

import envoi

from ..app import command
from ..option_types import Debug, EnvName, flag, real, whole


@command("play")
def _play(
    env: EnvName,
    random: Annotated[bool, flag("--random", "Watch random actions, rather than play by the keyboard.")] = False,
    gif: Annotated[
        Path | None,
        typer.Option(help="Write random actions as an animated GIF.", metavar="FILE", show_default=False),
    ] = None,
    episodes: Annotated[int, whole("Number of random episodes.")] = 1,
    steps: Annotated[int, whole("Most steps of a random episode.")] = 500,
    seed: Annotated[int, whole("Seed of the first episode.")] = 0,
    fps: Annotated[float | None, real("Pictures a second.", show_default="the env's")] = None,
    debug: Debug = False,
) -> None:
    """Play an env by the keyboard, in a window.

    Where that is impossible, such as without a display, random actions are shown in the terminal: as pictures, or in
    words if the env renders none.
    """
    del debug
    from ..keyboard import describe_keys, keys_of, play_by_keys, why_not
    from ..pictures import MODE, load_drawing
    from ..render_display import check_extent, run_render
    from ..transcript import print_transcript

    check_extent(gif, episodes, steps, fps)
    if gif is None:
        loaded = load_drawing(env)
        try:
            reason = None if random else why_not(loaded)
            if reason is None and not random:
                typer.echo(f"keys: {describe_keys(keys_of(loaded) or {})}; Escape ends")
                play_by_keys(loaded, seed, fps)
                return
            if reason is not None:
                typer.echo(f"random actions, because {reason}", err=True)
            if MODE not in loaded.metadata.get("render_modes", ()) and not isinstance(loaded, envoi.BatchEnv):
                print_transcript(loaded, episodes=episodes, steps=steps, seed=seed)
                return
        finally:
            loaded.close()
    run_render(env, gif=gif, policy="random", episodes=episodes, steps=steps, seed=seed, fps=fps)
