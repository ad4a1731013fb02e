"""The command `envoi render`: episodes in a GIF or the terminal."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

import envoi

from ..app import command
from ..console import output_console, working
from ..option_types import Debug, EnvName, real, whole

if TYPE_CHECKING:
    from ..pictures import Moment


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
    run_render(env, gif=gif, policy=policy, episodes=episodes, steps=steps, seed=seed, fps=fps)


def run_render(
    env: str, *, gif: Path | None, policy: str, episodes: int, steps: int, seed: int, fps: float | None
) -> None:
    """Renders episodes."""
    from ...rllib.run_folder import RunFolder
    from ..pictures import frames_per_second, load_drawing, policy_episodes, random_episodes, write_gif

    check_extent(gif, episodes, steps, fps)
    if policy != "random":
        run = RunFolder(policy)
        if not run.path.exists():
            raise envoi.EnvoiError(f"--policy: {policy} does not exist; expected random, or a folder of envoi train")
        run.read_settings()
        run.refuse_without_checkpoint()
    loaded = load_drawing(env)
    try:
        how = {"episodes": episodes, "steps": steps, "seed": seed}
        if policy == "random":
            moments = random_episodes(env, loaded, **how)
        else:
            moments = policy_episodes(env, Path(policy), loaded, **how)
        console, rate = output_console(), fps or frames_per_second(loaded)
        if gif is None:
            ends = show_episodes(moments, console, rate)
        else:
            with working() as show:
                ends = write_gif(gif, moments, rate, show)
        for end in ends:
            console.print(f"episode {end.episode + 1}: return {end.total:.4g} in {end.step:,} steps")
        if gif is not None:
            console.print(f"written to {gif}", soft_wrap=True)
    finally:
        loaded.close()


def check_extent(gif: Path | None, episodes: int, steps: int, fps: float | None) -> None:
    """Checks how much is to be rendered, and where to."""
    for name, value in (("--episodes", episodes), ("--steps", steps)):
        if value < 1:
            raise envoi.EnvoiError(f"{name}: expected at least 1, got {value}")
    if fps is not None and not 0 < fps <= 1000:
        raise envoi.EnvoiError(f"--fps: expected a number above 0, at most 1,000, got {fps:g}")
    if gif is None:
        return
    if gif.suffix.lower() != ".gif":
        raise envoi.EnvoiError(f"--gif: expected a .gif file, got {gif}")
    if not gif.absolute().parent.is_dir():
        raise envoi.EnvoiError(f"--gif {gif}: there is no folder {gif.absolute().parent}")


def show_episodes(moments: Iterator[Moment], console: Console, fps: float) -> list[Moment]:
    """Shows episodes in a terminal at their speed; without a terminal, the last picture of each."""
    last: dict[int, Moment] = {}
    colours = console.is_terminal and not console.no_color
    with Live(console=console, auto_refresh=False, transient=True) as live:
        for moment in moments:
            last[moment.episode] = moment
            if console.is_terminal:
                began = time.monotonic()
                live.update(_screen(moment, console, colours=colours), refresh=True)
                time.sleep(max(0.0, 1 / fps - (time.monotonic() - began)))
    for moment in last.values():
        console.print(_screen(moment, console, colours=colours))
    return list(last.values())


def _screen(moment: Moment, console: Console, *, colours: bool) -> Group:
    from ..pictures import as_text

    high, wide = moment.picture.shape[:2]
    width = max(8, min(console.width - 1, round(2 * (console.height - 3) * wide / high)))
    line = f"episode {moment.episode + 1}, step {moment.step:,}, return {moment.total:.4g}"
    return Group(as_text(moment.picture, width, colours=colours), Text(line, style="dim"))
