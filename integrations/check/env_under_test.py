"""An environment under check: how it is made anew, and what it does when it is played."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .drivers.core import Hand
from .requirements.agents import AgentWatch
from .requirements.values import Watch
from .rollout import Between, Moment, Noise, Player, Policy

WALK_SECONDS = 4.0
"""The whole episodes that every value is looked at in take at most so long."""
LANE_STEPS = 200
"""A batch is walked through at most so many steps a reset."""
LANE_LIMIT = 40
"""Traces of batches that are compared have at most so many steps."""
TRACE_SECONDS = 0.25
"""One of the many traces that are compared takes about so long at most."""


@dataclass(frozen=True)
class Extent:
    """How much is played.

    Attributes:
        seed: The first seed.
        episodes: How many episodes, of which only the first is begun with a seed.
        steps: The most steps of an episode.
    """

    seed: int = 0
    episodes: int = 3
    steps: int = 1000


@dataclass
class Walk:
    """Some whole episodes, in which every value was looked at.

    Attributes:
        watch: What was found in the values.
        agents: What was found about the agents, where there are several; complaints are in `watch`.
        lengths: Of the episodes that ended, with the moment in which they did.
        error: The environment's own, which stopped it, and when it was raised.
        seconds_a_call: How long a reset or step takes.
        longest: The most steps of an episode, ended or not.
        out_of_time: Whether it was stopped before the last episode ended.
    """

    watch: Watch
    agents: AgentWatch | None
    lengths: list[tuple[int, Moment]]
    error: tuple[Exception, str] | None = None
    seconds_a_call: float = 0.0
    longest: int = 0
    out_of_time: bool = False


class Subject:
    """An environment under check, by one API.

    Args:
        name: What results call it.
        make: Makes a hand on a new, or newly copied, environment.
        extent: How much is played.
        independent: Whether `make` gives a new environment each time, and not the only one that there is.
        origin: What another process could make it of, or None.

    Attributes:
        hand: The hand on the environment that is walked, and looked at for what never changes.
    """

    def __init__(
        self, name: str, make: Callable[[], Hand], extent: Extent, independent: bool = True, origin: Any = None
    ) -> None:
        self.name, self._make, self.extent, self.independent, self.origin = name, make, extent, independent, origin
        self._only: Hand | None = None

    def new(self) -> Hand:
        """A hand on a new environment (or on the only one)."""
        if self.independent:
            return self._make()
        if self._only is None:
            self._only = self._make()
        return self._only

    @contextmanager
    def played(self) -> Iterator[Hand]:
        """A hand on a new environment, which is closed afterwards."""
        hand = self.new()
        try:
            yield hand
        finally:
            if self.independent:
                with suppress(Exception):
                    hand.close()

    @cached_property
    def hand(self) -> Hand:
        return self.new()

    @cached_property
    def walk(self) -> Walk:
        """Some whole episodes."""
        hand, extent = self.hand, self.extent
        # The lanes of a batch end within it, again and again.
        steps = min(extent.steps, LANE_STEPS) if hand.kind == "lanes" else extent.steps
        watch = Watch(hand)
        agents = AgentWatch(hand, watch.complaints) if hand.kind == "several" else None
        walk = Walk(watch, agents, [])
        player = Player(hand, extent.seed)
        began, calls = time.perf_counter(), 0
        while True:
            try:
                moment = player.advance(steps)
            except Exception as error:
                when = f"step {player.step}" if player.step else "the reset"
                walk.error = error, f"{when} of episode {max(player.episode, 1)}"
                break
            watch.see(moment)
            if agents is not None:
                agents.see(moment)
            calls += 1
            walk.longest = max(walk.longest, moment.step)
            over = moment.beat.over
            if over:
                walk.lengths.append((moment.step, moment))
            if moment.episode >= extent.episodes and (over or moment.step >= steps):
                break
            if time.perf_counter() - began > WALK_SECONDS:
                walk.out_of_time = True
                break
        watch.finish()
        walk.seconds_a_call = (time.perf_counter() - began) / max(calls, 1)
        return walk

    @property
    def limit(self) -> int:
        """The most steps of an episode where traces are compared."""
        most = LANE_LIMIT if self.hand.kind == "lanes" else 100
        affordable = TRACE_SECONDS / max(self.walk.seconds_a_call, 1e-6) / self.extent.episodes
        return max(8, min(self.extent.steps, most, math.floor(affordable)))

    def player(
        self,
        hand: Hand,
        seed: int | None = None,
        policy: Policy = "random",
        start: int = 0,
        noise: Noise = Noise(),  # noqa: B008 (a tuple)
        between: Between | None = None,
    ) -> Player:
        """A player that begins with `seed`, or with the first one."""
        return Player(hand, self.extent.seed if seed is None else seed, policy, start, noise, between)

    def trace(self, hand: Hand | None = None, episodes: int | None = None, **how: Any) -> list[Moment]:
        """What happens in some episodes, on a new environment unless it is given."""
        count = self.extent.episodes if episodes is None else episodes
        if hand is not None:
            return self.player(hand, **how).play(count, self.limit)
        with self.played() as new:
            return self.player(new, **how).play(count, self.limit)

    @cached_property
    def reference(self) -> list[Moment]:
        """The trace that others are compared with."""
        return self.trace()

    def close(self) -> None:
        """Closes what is still open."""
        for hand in {id(h): h for h in (self.__dict__.get("hand"), self._only) if h is not None}.values():
            with suppress(Exception):
                hand.close()
