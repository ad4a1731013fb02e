"""Plays an env by the keyboard, in the window of `gymnasium.utils.play`."""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from typing import Any
from unittest.mock import patch

import envoi
from envoi import Discrete

from .pictures import MODE, has_display

DIGITS = "1234567890"


def why_not(env: Any) -> str | None:
    """Returns the reason why a person cannot play an env by the keyboard; None if they can.

    Args:
        env: The core env.
    """
    if isinstance(env, envoi.MultiEnv | envoi.BatchEnv):
        return "the env has several agents or lanes"
    if MODE not in env.metadata.get("render_modes", ()):
        return "the env renders no picture"
    if keys_of(env) is None:
        return "the env has no keys of its own, and its actions are not one of at most ten"
    if find_spec("gymnasium") is None or find_spec("pygame") is None:
        return "the window needs pygame; pip install 'gymnasium[classic-control]'"
    if not has_display():
        return "there is no display"
    return None


def keys_of(env: Any) -> dict[Any, Any] | None:
    """Returns the action of each combination of keys; None if there is none.

    The env's own, as gymnasium's `get_keys_to_action` gives them; else the arrows left and right for two actions, and
    the digits from 1 for up to ten.

    Args:
        env: The core env.
    """
    own = getattr(env.unwrapped, "get_keys_to_action", None)
    if callable(own):
        found: Any = own()
        return dict(found)
    spec = env.action_spec
    if not isinstance(spec, Discrete) or spec.n > len(DIGITS):
        return None
    if spec.n == 2:
        return {("LEFT",): 0, ("RIGHT",): 1}
    return {(DIGITS[action],): action for action in range(int(spec.n))}


def describe_keys(keys: Mapping[Any, Any]) -> str:
    """Returns a line that says which keys are which actions.

    Args:
        keys: As `keys_of` returns them.
    """
    words = {"LEFT": "left arrow", "RIGHT": "right arrow"}
    parts: list[str] = []
    for combination, action in keys.items():
        single = [combination] if isinstance(combination, str | int) else list(combination)
        names = [one if isinstance(one, str) else chr(one) if 32 < one < 127 else f"key {one}" for one in single]
        parts.append(f"{'+'.join(words.get(name, name) for name in names) or 'no key'} = {action}")
    return ", ".join(parts)


def play_by_keys(env: Any, seed: int, fps: float | None) -> None:
    """Opens a window in which a person plays; it ends when the window is closed or Escape is pressed.

    Args:
        env: The core env, which `why_not` has no reason against.
        seed: Seed of the first episode.
        fps: Pictures a second; None for those of the env.
    """
    import gymnasium
    import pygame
    from gymnasium.utils import play as gymnasium_play

    from envoi.adapters import to_gymnasium

    keys = keys_of(env) or {}
    arrows = {"LEFT": pygame.K_LEFT, "RIGHT": pygame.K_RIGHT}
    codes: Any = {_codes(combination, arrows): action for combination, action in keys.items()}
    own = callable(getattr(env.unwrapped, "get_keys_to_action", None))
    # Without keys of its own an env has no action that does nothing, so it waits for a key.
    noop = keys.get("", keys.get((), 0))
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

    with patch.object(gymnasium_play, "PlayableGame", Game):
        gymnasium_play.play(
            Episodes(to_gymnasium(env)), keys_to_action=codes, seed=seed, noop=noop, wait_on_player=not own,
            fps=None if fps is None else round(fps), zoom=None, callback=lambda *_: unseen_keys.clear(),
        )  # fmt: skip


def _codes(combination: Any, arrows: Mapping[str, int]) -> tuple[Any, ...]:
    single: list[Any] = [combination] if isinstance(combination, int) else list(combination)
    return tuple(arrows.get(one, ord(one) if isinstance(one, str) and len(one) == 1 else one) for one in single)
