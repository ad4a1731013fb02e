"""The parts of an observation space that networks encode: images, and the rest as one vector."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from gymnasium import spaces

import envoi
from envoi.adapters.rllib.codec.masks import OBSERVATIONS, is_masked, unmasked

Path = tuple[Any, ...]
"""The keys that lead to a leaf of an observation."""


@dataclass(frozen=True)
class Part:
    """A leaf of an observation space.

    Args:
        path: The keys that lead to it.
        space: Its space.
        size: The number of its elements in the vector; 0 for an image.
    """

    path: Path
    space: spaces.Space[Any]
    size: int

    @property
    def is_image(self) -> bool:
        """True for an array of shape (height, width, channels)."""
        return not self.size


def is_flat(space: spaces.Space[Any]) -> bool:
    """Returns True for a `Box` of one axis, the only space that RLlib's own encoders take besides images."""
    return isinstance(space, spaces.Box) and len(space.shape) == 1


def parts(space: spaces.Space[Any]) -> list[Part]:
    """Returns the leaves of an observation space, without an action mask.

    Args:
        space: The observation space.

    Raises:
        envoi.EnvoiError: A leaf has no fixed number of elements; the message names it.
    """
    start: Path = (OBSERVATIONS,) if is_masked(space) else ()
    return list(_parts(unmasked(space), start))


def _parts(space: Any, path: Path) -> Iterator[Part]:
    if isinstance(space, spaces.Dict):
        for key, inner in space.spaces.items():
            yield from _parts(inner, (*path, key))
    elif isinstance(space, spaces.Tuple):
        for index, inner in enumerate(space.spaces):
            yield from _parts(inner, (*path, index))
    elif isinstance(space, spaces.Box):
        is_image = len(space.shape) == 3 and 0 not in space.shape
        yield Part(path, space, 0 if is_image else int(np.prod(space.shape)))
    elif isinstance(space, spaces.Discrete):
        yield Part(path, space, int(space.n))
    elif isinstance(space, spaces.MultiDiscrete):
        yield Part(path, space, int(space.nvec.sum()))
    elif isinstance(space, spaces.MultiBinary):
        yield Part(path, space, int(np.prod(space.shape)))
    else:
        raise envoi.EnvoiError(
            f"{leaf_name(path)}: no network encodes {space}; register the environment with canonical=True, or wrap it "
            "so that it shows an array"
        )


def leaf_name(path: Path) -> str:
    """Returns the name of a leaf in messages, such as `observation['camera']`."""
    keys = path[1:] if path[:1] == (OBSERVATIONS,) else path
    return "observation" + "".join(f"[{key!r}]" for key in keys)
