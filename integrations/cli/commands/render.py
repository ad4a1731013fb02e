"""The commands `envoi render` and `play`: episodes as pictures, and by the keyboard."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from io import BytesIO
from itertools import count
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

import envoi
from envoi import adapters
from envoi.adapters.shared.exported import several_agents
from envoi.atomic_write import write_atomically

from ...errors import check_number, one_line
from ...evaluation.evaluator import play_episodes
from ...rllib import RunFolder
from ...rllib.job_process import redirected
from ..app import EnvName, Episodes, FirstSeed, PicturesASecond, Steps, command, flag, output_console, text, working

MODE = "rgb_array"
FPS = 20.0
"""Pictures a second of envs that do not tell."""
Picture = np.ndarray[Any, np.dtype[np.uint8]]


@command("render")
def _render(
    env: EnvName,
    gif: Annotated[
        Path | None, text("Write an animated GIF here.", show_default="show it in the terminal", metavar="FILE")
    ] = None,
    policy: Annotated[
        str, text("Who acts: random, or the output folder of envoi train.", metavar="RUN|random")
    ] = "random",
    episodes: Episodes = 1,
    steps: Steps = 500,
    seed: FirstSeed = 0,
    fps: PicturesASecond = None,
) -> None:
    """Render episodes of an env: as an animated GIF, or in the terminal."""
    check_extent(gif, episodes, steps, fps)
    if policy != "random":
        run = RunFolder(policy)
        if not run.path.exists():
            raise envoi.EnvoiError(f"--policy: {policy} does not exist; expected random, or a folder of envoi train")
        run.read_settings()
        run.refuse_without_checkpoint()
    loaded = load_drawing(env)
    try:
        if isinstance(loaded, envoi.BatchEnv):
            raise envoi.EnvoiError(f"{env} is a batch of {loaded.batch_size} lanes; give one env")
        console, rate = output_console(), fps or float(loaded.metadata.get("render_fps") or FPS)
        ends: list[Moment] = []
        with show_episodes(console, rate) if gif is None else write_gif(gif, rate) as add:
            watched = Watched(envoi.TimeLimit(loaded, steps), partial(_film, env, ends, add))
            if policy == "random":
                play_at_random(watched, range(seed, seed + episodes))
            else:
                _play_by_policy(env, watched, Path(policy), range(seed, seed + episodes))
        for end in ends:
            console.print(f"episode {end.episode + 1}: return {end.total:.4g} in {end.step:,} steps")
        if gif is not None:
            console.print(f"written to {gif}", soft_wrap=True)
    finally:
        loaded.close()


def check_extent(gif: Path | None, episodes: int, steps: int, fps: float | None) -> None:
    """Checks the options for the amount of rendering and for the file."""
    check_number("episodes", episodes, 1)
    check_number("steps", steps, 1)
    if fps is not None and not 0 < fps <= 1000:
        raise envoi.EnvoiError(f"--fps: expected a number above 0, at most 1,000, got {fps:g}")
    if gif is None:
        return
    if gif.suffix.lower() != ".gif":
        raise envoi.EnvoiError(f"--gif: expected a .gif file, got {gif}")
    if not gif.absolute().parent.is_dir():
        raise envoi.EnvoiError(f"--gif {gif}: there is no folder {gif.absolute().parent}")


def load_drawing(name: str) -> Any:
    """Loads an env that can render pictures."""
    scheme = name.partition(":")[0]
    os.environ.setdefault("SDL_AUDIODRIVER", "dummy")  # a game's sounds, and what SDL prints where there is no card
    if not has_display():
        os.environ.setdefault("SDL_VIDEODRIVER", "dummy")
    with one_line():
        if scheme in ("gymnasium", "pettingzoo"):
            return adapters.load(name, render_mode=MODE)
        try:
            return adapters.load(name, render_mode=MODE) if scheme == "python" else _drawing(adapters.load(name))
        except (TypeError, envoi.SpecError):  # a factory without this argument
            return _drawing(adapters.load(name))


def _drawing(env: Any) -> Any:
    if env.render_mode is None and MODE in env.metadata.get("render_modes", ()):
        env.unwrapped.render_mode = MODE
    return env


def has_display() -> bool:
    """Returns True if windows can be opened."""
    return not sys.platform.startswith("linux") or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())


class Watched(envoi.Lifted):
    """An env that shows each reset and step, as `show(env, action, result)`; the action of a reset is None."""

    def __init__(self, env: Any, show: Callable[[Any, Any, Any], None]) -> None:
        self._show = show
        super().__init__(env)

    def change(self, specs: envoi.Specs) -> envoi.Change:
        return envoi.Change()

    def reset(self, **arguments: Any) -> Any:
        result = super().reset(**arguments)
        self._show(self, None, result)
        return result

    def step(self, action: Any, restart: Any = None, hold: Any = None) -> Any:
        result: Any = super().step(action, restart, hold)
        self._show(self, action, result)
        return result


def play_at_random(env: Any, seeds: range) -> None:
    """Plays an episode with random actions from each seed."""
    game = several_agents(env)
    with one_line():
        for seed in seeds:
            infos = game.reset(seed=seed).infos
            while game.agents:
                infos = game.step(game.sample_actions(infos)).infos


def _play_by_policy(name: str, env: Any, folder: Path, seeds: range) -> None:
    """Plays an episode with the trained policy of a run, without exploration, from each seed."""
    with redirected(RunFolder(folder).log):  # what Ray prints when it is imported
        from ...rllib import load_policy

        policy = load_policy(folder)
    for _ in play_episodes(name, env, policy, seeds, max_steps=sys.maxsize, in_turn=False):
        pass


@dataclass
class Moment:
    """A point in time of an episode."""

    episode: int
    step: int = 0
    total: float = 0.0


AddPicture = Callable[[Picture, Moment], None]


def _film(name: str, ends: list[Moment], add: AddPicture, env: Any, action: Any, result: Any) -> None:
    """Adds the picture of an env after a reset or step, and updates `ends`, the last moment of each episode."""
    if action is None:
        ends.append(Moment(len(ends)))
    else:
        rewards = result.rewards.values() if isinstance(env, envoi.MultiEnv) else [np.sum(result.reward)]
        ends[-1] = Moment(ends[-1].episode, ends[-1].step + 1, ends[-1].total + sum(map(float, rewards)))
    add(draw(env, name), ends[-1])


def draw(env: Any, name: str) -> Picture:
    """Returns the picture of an env's state."""
    try:
        with one_line():
            found = env.render()
    except envoi.EnvoiError as error:
        hint = "; without a display, set MUJOCO_GL=egl or MUJOCO_GL=osmesa" if "OpenGL" in str(error) else ""
        raise envoi.EnvoiError(f"{name} cannot be rendered: {error}{hint}") from error
    picture = np.asarray(found if found is not None else ())
    if picture.ndim != 3 or picture.shape[-1] not in (3, 4):
        modes = ", ".join(env.metadata.get("render_modes", ())) or "none"
        raise envoi.EnvoiError(f"{name} renders no picture (render modes: {modes}); `envoi info {name}` describes it")
    return picture[..., :3].astype(np.uint8)


@contextmanager
def write_gif(path: Path, fps: float) -> Iterator[AddPicture]:
    """Writes the pictures that are added as an animated GIF that repeats."""
    try:
        from PIL import Image
    except ImportError as error:
        raise envoi.MissingBackend("pillow is not installed; pip install 'envoi[plots]'") from error
    images: list[Any] = []
    every = max(1, round(fps / 50))
    with working() as show:

        def add(picture: Picture, moment: Moment) -> None:
            if moment.step % every == 0:
                images.append(Image.fromarray(picture).quantize(128))
            show(f"{len(images):,} pictures")

        yield add
        show(f"writing {path}")
        file = BytesIO()
        duration = round(1000 * every / fps)
        images[0].save(file, "GIF", save_all=True, append_images=images[1:], duration=duration, loop=0)
        write_atomically(path, file.getvalue())


@contextmanager
def show_episodes(console: Console, fps: float) -> Iterator[AddPicture]:
    """Shows added pictures in a terminal at `fps`. Without a terminal, prints only the last picture of each episode."""
    last: dict[int, Group] = {}
    with Live(console=console, auto_refresh=False, transient=True) as live:

        def add(picture: Picture, moment: Moment) -> None:
            began = time.monotonic()
            screen = last[moment.episode] = _screen(picture, moment, console)
            if console.is_terminal:
                live.update(screen, refresh=True)
                time.sleep(max(0.0, 1 / fps - (time.monotonic() - began)))

        yield add
    for screen in last.values():
        console.print(screen)


def _screen(picture: Picture, moment: Moment, console: Console) -> Group:
    high, wide = picture.shape[:2]
    width = max(8, min(console.width - 1, round(2 * (console.height - 3) * wide / high)))
    line = f"episode {moment.episode + 1}, step {moment.step:,}, return {moment.total:.4g}"
    colours = console.is_terminal and not console.no_color
    return Group(as_text(picture, width, colours=colours), Text(line, style="dim"))


def as_text(picture: Picture, width: int, *, colours: bool) -> Text:
    """Returns a picture as characters; with colours, each character shows two pixels."""
    high, wide = picture.shape[:2]
    rows = max(1, round(high / wide * width / 2))
    shrunk = picture[np.ix_(np.arange(2 * rows) * high // (2 * rows), np.arange(width) * wide // width)]
    text = Text(no_wrap=True)
    for row in range(rows):
        upper, lower = shrunk[2 * row], shrunk[2 * row + 1]
        for above, below in zip(upper.tolist(), lower.tolist(), strict=True):
            if colours:
                text.append("▀", style=f"rgb({','.join(map(str, above))}) on rgb({','.join(map(str, below))})")
            else:
                text.append(" .:-=+*#%@"[min(9, sum(above + below) // 154)])
        text.append("\n")
    return text


DIGITS = "1234567890"
LEFT, RIGHT = 1073741904, 1073741903
"""The codes of the arrows in pygame, which may be missing."""
NUMBERS = 8
"""The most numbers of an array that are printed."""


@command("play")
def _play(
    env: EnvName,
    random: Annotated[bool, flag("--random", "Watch random actions, rather than play by the keyboard.")] = False,
    episodes: Episodes = 1,
    steps: Steps = 500,
    seed: FirstSeed = 0,
    fps: PicturesASecond = None,
) -> None:
    """Play an env by the keyboard, in a window.

    If that is impossible, for example without a display, random actions are shown in the terminal: as pictures, or in
    words if the env renders none.
    """
    check_extent(None, episodes, steps, fps)
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
            _print_episodes(loaded, episodes, steps, seed)
            return
    finally:
        loaded.close()
    _render(env, episodes=episodes, steps=steps, seed=seed, fps=fps)


def why_not(env: Any) -> str | None:
    """Returns the reason why an env cannot be played by keyboard, or None if it can."""
    if isinstance(env, envoi.MultiEnv | envoi.BatchEnv):
        return "the env has several agents or lanes"
    if MODE not in env.metadata.get("render_modes", ()):
        return "the env renders no picture"
    if keys_of(env) is None:
        return "the env has no keys of its own, and its actions are not one of at most ten"
    if find_spec("gymnasium") is None or find_spec("pygame") is None:
        return "the window needs pygame; pip install 'envoi[play]'"
    return None if has_display() else "there is no display"


def keys_of(env: Any) -> dict[Any, Any] | None:
    """Returns the action of each combination of keys (texts or codes), or None if no keys fit the actions.

    Uses the env's `get_keys_to_action` if it has one; else the arrows left and right for two actions, and
    the digits from 1 for up to ten.
    """
    own = getattr(env.unwrapped, "get_keys_to_action", None)
    if callable(own):
        found: Any = own()
        return dict(found)
    spec = env.action_spec
    if not isinstance(spec, envoi.Discrete) or spec.n > len(DIGITS):
        return None
    if spec.n == 2:
        return {(LEFT,): 0, (RIGHT,): 1}
    return {(DIGITS[action],): action for action in range(int(spec.n))}


def describe_keys(keys: Mapping[Any, Any]) -> str:
    """Returns a line that lists the action of each key."""
    arrows, parts = {LEFT: "left arrow", RIGHT: "right arrow"}, list[str]()
    for combination, action in keys.items():
        single = [combination] if isinstance(combination, int) else combination
        codes = [ord(one) if isinstance(one, str) else one for one in single]
        names = [chr(one) if 32 < one < 127 else arrows.get(one, f"key {one}") for one in codes]
        parts.append(f"{'+'.join(names) or 'no key'} = {action}")
    return ", ".join(parts)


def play_by_keys(env: Any, seed: int, fps: float | None) -> None:
    """Opens gymnasium's window, in which a person plays; it ends when the window is closed or Escape is pressed."""
    from unittest.mock import patch

    import gymnasium
    import pygame
    from gymnasium.utils import play as gymnasium_play

    keys = keys_of(env) or {}
    own = callable(getattr(env.unwrapped, "get_keys_to_action", None))
    unseen_keys: set[int] = set()

    class Game(gymnasium_play.PlayableGame):
        """Keeps a key pressed until a step has seen it, because a tap can be over before the next picture."""

        def process_event(self, event: Any) -> None:
            key: Any = getattr(event, "key", None)
            if key in unseen_keys:
                pygame.event.post(event)  # comes back after the next picture
                return
            if event.type == pygame.KEYDOWN and key in self.relevant_keys:
                unseen_keys.add(key)
            super().process_event(event)

    class Episodes(gymnasium.Wrapper[Any, Any, Any, Any]):
        """Seeds the first episode alone, where `play` would begin them all alike."""

        begun = False

        def reset(self, *, seed: int | None = None, options: Any = None) -> Any:
            seed, self.begun = None if self.begun else seed, True
            return super().reset(seed=seed, options=options)

    # Without keys of its own an env has no action that does nothing, so it waits for a key.
    noop = keys.get("", keys.get((), 0))
    with patch.object(gymnasium_play, "PlayableGame", Game):
        gymnasium_play.play(
            Episodes(adapters.to_gymnasium(env)), keys_to_action=keys, seed=seed, noop=noop, wait_on_player=not own,
            fps=None if fps is None else round(fps), zoom=None, callback=lambda *_: unseen_keys.clear(),
        )  # fmt: skip


def _print_episodes(env: Any, episodes: int, steps: int, seed: int) -> None:
    """Prints a line for each step of random episodes: actions, rewards and observations."""
    console, plural, lines = output_console(), "s" if isinstance(env, envoi.MultiEnv) else "", count()

    def show(env: Any, action: Any, result: Any) -> None:
        nonlocal lines
        said = _shown(getattr(result, f"observation{plural}"))
        if action is None:
            lines = count()
        else:
            said = f"action {_shown(action)}; reward {_shown(getattr(result, f'reward{plural}'))}; {said}"
        console.print(Text(f"{next(lines) or 'reset'}: {said}"))

    watched = Watched(envoi.TimeLimit(env, steps), show)
    for episode in range(episodes):
        console.print(Text(f"episode {episode + 1}", style="bold"))
        play_at_random(watched, range(seed + episode, seed + episode + 1))


def _shown(value: Any) -> str:
    """Formats nested values in one line; shortens long arrays to their first elements."""
    plain: Any = {} if np.__version__ < "2" else {"legacy": "1.25"}  # numbers without their types, as numpy 1 has them
    with np.printoptions(precision=4, threshold=NUMBERS, **plain):
        return " ".join(str(value).split())
