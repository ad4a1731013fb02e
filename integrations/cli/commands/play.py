"""The command `envoi play`: an env by the keyboard, in the window of `gymnasium.utils.play`, or random actions."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Annotated, Any

import numpy as np
import typer
from rich.text import Text

import envoi

from ..app import command
from ..console import output_console
from ..option_types import Debug, EnvName, Episodes, FirstSeed, PicturesASecond, Steps, flag
from .render import MODE, Watched, check_extent, has_display, load_drawing, play_at_random, run_render

DIGITS = "1234567890"
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
    debug: Debug = False,
) -> None:
    """Play an env by the keyboard, in a window.

    Where that is impossible, such as without a display, random actions are shown in the terminal: as pictures, or in
    words if the env renders none.
    """
    del debug
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
    run_render(env, gif=None, policy="random", episodes=episodes, steps=steps, seed=seed, fps=fps)


def why_not(env: Any) -> str | None:
    """Returns the reason why a person cannot play an env by the keyboard; None if they can."""
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
    """Returns the action of each combination of keys; None if there is none.

    The env's own, as gymnasium's `get_keys_to_action` gives them; else the arrows left and right for two actions, and
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
        return {("LEFT",): 0, ("RIGHT",): 1}
    return {(DIGITS[action],): action for action in range(int(spec.n))}


def describe_keys(keys: Mapping[Any, Any]) -> str:
    """Returns a line that says which keys are which actions."""
    words = {"LEFT": "left arrow", "RIGHT": "right arrow"}
    parts: list[str] = []
    for combination, action in keys.items():
        single = [combination] if isinstance(combination, str | int) else list(combination)
        names = [one if isinstance(one, str) else chr(one) if 32 < one < 127 else f"key {one}" for one in single]
        parts.append(f"{'+'.join(words.get(name, name) for name in names) or 'no key'} = {action}")
    return ", ".join(parts)


def play_by_keys(env: Any, seed: int, fps: float | None) -> None:
    """Opens gymnasium's window, in which a person plays; it ends when the window is closed or Escape is pressed."""
    from unittest.mock import patch

    import gymnasium
    import pygame
    from gymnasium.utils import play as gymnasium_play

    from envoi.adapters import to_gymnasium

    keys = keys_of(env) or {}
    arrows = {"LEFT": pygame.K_LEFT, "RIGHT": pygame.K_RIGHT}
    codes: Any = {_codes(combination, arrows): action for combination, action in keys.items()}
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
            Episodes(to_gymnasium(env)), keys_to_action=codes, seed=seed, noop=noop, wait_on_player=not own,
            fps=None if fps is None else round(fps), zoom=None, callback=lambda *_: unseen_keys.clear(),
        )  # fmt: skip


def _codes(combination: Any, arrows: Mapping[str, int]) -> tuple[Any, ...]:
    single: list[Any] = [combination] if isinstance(combination, int) else list(combination)
    return tuple(arrows.get(one, ord(one) if isinstance(one, str) and len(one) == 1 else one) for one in single)


def _print_episodes(env: Any, episodes: int, steps: int, seed: int) -> None:
    """Prints a line for each step of random episodes: actions, rewards and observations."""
    console = output_console()
    step, plural = 0, "s" if isinstance(env, envoi.MultiEnv) else ""

    def show(env: Any, action: Any, result: Any) -> None:
        nonlocal step
        observed = _shown(getattr(result, f"observation{plural}"))
        if action is None:
            step = 0
            console.print(Text(f"reset: {observed}"))
        else:
            step += 1
            reward = _shown(getattr(result, f"reward{plural}"))
            console.print(Text(f"{step:,}: action {_shown(action)}; reward {reward}; {observed}"))

    watched = Watched(envoi.TimeLimit(env, steps), show)
    for episode in range(episodes):
        console.print(Text(f"episode {episode + 1}", style="bold"))
        play_at_random(watched, range(seed + episode, seed + episode + 1))


def _shown(value: Any) -> str:
    """Returns nested values in one line; of a long array its first elements."""
    with np.printoptions(precision=4, threshold=NUMBERS, legacy="1.25"):  # numbers without their types
        return " ".join(str(value).split())
