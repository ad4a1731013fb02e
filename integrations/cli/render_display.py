"""Renders episodes into a GIF or the terminal, for `envoi render` and `envoi play`."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

import envoi

from ..rllib.run_folder import RunFolder
from .console import output_console, working
from .pictures import (
    Moment,
    as_text,
    frames_per_second,
    load_drawing,
    policy_episodes,
    random_episodes,
    write_gif,
)


def run_render(
    env: str, *, gif: Path | None, policy: str, episodes: int, steps: int, seed: int, fps: float | None
) -> None:
    """Renders episodes.

    Args:
        env: Name of the env.
        gif: The GIF; None shows the episodes in the terminal.
        policy: "random", or the output folder of a training job.
        episodes: How many episodes.
        steps: Most steps of each.
        seed: Seed of the first episode.
        fps: Pictures a second; None for those of the env.

    Raises:
        envoi.EnvoiError: There is no such env or run, the env renders no picture, or the file cannot be written.
    """
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
    """Checks how much is to be rendered, and where to.

    Args:
        gif: The GIF; None for none.
        episodes: How many episodes.
        steps: Most steps of each.
        fps: Pictures a second; None for those of the env.

    Raises:
        envoi.EnvoiError: A number is out of range, or the file cannot be written.
    """
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
    """Shows episodes in a terminal at their speed; without a terminal, the last picture of each.

    Args:
        moments: The pictures, in order.
        console: The console.
        fps: Pictures a second.

    Returns:
        The last moment of each episode.
    """
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
    high, wide = moment.picture.shape[:2]
    width = max(8, min(console.width - 1, round(2 * (console.height - 3) * wide / high)))
    line = f"episode {moment.episode + 1}, step {moment.step:,}, return {moment.total:.4g}"
    return Group(as_text(moment.picture, width, colours=colours), Text(line, style="dim"))
