"""Environments around another one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from .process import Process, Snapshot
from .streams import Streams


class Around(Process):
    """What an environment takes from another one that it holds: all but specs, resets and steps.

    Args:
        env: The environment inside.
    """

    def __init__(self, env: Any) -> None:
        self.env = env
        self.metadata, self.render_mode = env.metadata, env.render_mode

    @property
    def state(self) -> Any:
        return self.env.state

    @property
    def streams(self) -> Streams:
        return self.env.streams

    @property
    def rng(self) -> np.random.Generator:
        """The inner environment's generator; settable there through here."""
        return self.env.rng

    @rng.setter
    def rng(self, generator: np.random.Generator) -> None:
        self.env.rng = generator

    @property
    def context(self) -> Mapping[str, Any]:
        """The inner environment's context, where it has one; settable there through here."""
        return self.env.context

    @context.setter
    def context(self, context: Mapping[str, Any]) -> None:
        self.env.context = context

    def snapshot(self) -> Snapshot:
        return Snapshot(type(self), self.env.snapshot())

    def restore(self, snapshot: Snapshot) -> None:
        self.env.restore(self._content(snapshot))

    def render(self) -> Any:
        return self.env.render()

    def close(self) -> None:
        self.env.close()

    @property
    def unwrapped(self) -> Any:
        return self.env.unwrapped
