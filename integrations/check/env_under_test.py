"""An environment under check: makes new instances of it, and plays them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .collector import BetweenSteps, Collector, GlobalSeeds, Policy
from .drivers.base import Driver
from .observers.agents import AgentObserver
from .observers.base import Observer
from .observers.mutations import MutationObserver
from .observers.values import ValueObserver
from .rollout import Rollout, observed_rollout
from .transition import Transition

BATCH_ROLLOUT_STEPS = 200
"""Most steps between two resets of a batch in the observed rollout, as its lanes end and restart within."""
BATCH_TRACE_STEPS = 40
"""Most steps between two resets of a batch in traces that are compared."""
TRACE_SECONDS = 0.25
"""Seconds that one of the many traces that are compared should take at most."""


@dataclass(frozen=True)
class Extent:
    """The amount of play.

    Attributes:
        seed: The first seed.
        episodes: Number of episodes, of which only the first has a seed.
        steps: Most steps of an episode.
    """

    seed: int = 0
    episodes: int = 3
    steps: int = 1000


class EnvUnderTest:
    """An environment under check, by one API.

    Args:
        name: Its name in results.
        make: Makes a driver of a new, or newly copied, environment.
        extent: The amount of play.
        independent: True if `make` gives a new environment each time, False if there is only one.
        origin: A name or function that another process can make it from, or None.
        first: A driver that was made already, for the observed rollout; None to make one.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Driver],
        extent: Extent,
        independent: bool = True,
        origin: Any = None,
        first: Driver | None = None,
    ) -> None:
        self.name, self._make, self.extent, self.independent, self.origin = name, make, extent, independent, origin
        self._first = first
        self._only: Driver | None = None

    def new_driver(self) -> Driver:
        """Returns a driver of a new environment, or of the only one."""
        if self.independent:
            return self._make()
        if self._only is None:
            self._only = self._make()
        return self._only

    @contextmanager
    def temporary_driver(self) -> Iterator[Driver]:
        """Provides a driver of a new environment, and closes it at the end."""
        driver = self.new_driver()
        try:
            yield driver
        finally:
            if self.independent:
                with suppress(Exception):
                    driver.close()

    @property
    def driver(self) -> Driver:
        """The driver of the observed rollout, also read for properties that never change."""
        if self._first is None:
            self._first = self.new_driver()
        return self._first

    @cached_property
    def rollout(self) -> Rollout:
        """Whole episodes, with the findings of all observers."""
        driver, extent = self.driver, self.extent
        limit = min(extent.steps, BATCH_ROLLOUT_STEPS) if driver.kind == "batch" else extent.steps
        observers: list[Observer] = [MutationObserver(driver), ValueObserver(driver)]
        if driver.kind == "multi":
            observers.append(AgentObserver(driver))
        return observed_rollout(driver, observers, extent.seed, extent.episodes, limit)

    @property
    def trace_limit(self) -> int:
        """Most steps of an episode in traces that are compared."""
        most = BATCH_TRACE_STEPS if self.driver.kind == "batch" else 100
        affordable = TRACE_SECONDS / max(self.rollout.seconds_per_call, 1e-6) / self.extent.episodes
        return max(8, min(self.extent.steps, most, math.floor(affordable)))

    def collector(
        self,
        driver: Driver,
        seed: Any = None,
        policy: Policy = "random",
        action_seed: int = 0,
        global_seeds: GlobalSeeds = GlobalSeeds(),  # noqa: B008 (a tuple)
        between: BetweenSteps | None = None,
    ) -> Collector:
        """Returns a collector for a driver.

        Args:
            driver: Plays the environment.
            seed: Seed of the first reset; None for the first seed of the extent.
            policy: As in `Collector`.
            action_seed: As in `Collector`.
            global_seeds: As in `Collector`.
            between: As in `Collector`.
        """
        first = self.extent.seed if seed is None else seed
        return Collector(driver, first, policy, action_seed, global_seeds, between)

    def trace(self, driver: Driver | None = None, episodes: int | None = None, **options: Any) -> list[Transition]:
        """Collects the transitions of some episodes, for a comparison.

        Args:
            driver: Plays the environment; None for a new environment.
            episodes: Number of episodes; None for that of the extent.
            **options: Arguments of `collector`.
        """
        count = self.extent.episodes if episodes is None else episodes
        if driver is not None:
            return self.collector(driver, **options).collect(count, self.trace_limit)
        with self.temporary_driver() as new:
            return self.collector(new, **options).collect(count, self.trace_limit)

    @cached_property
    def reference(self) -> list[Transition]:
        """The trace that others are compared with."""
        return self.trace()

    def close(self) -> None:
        """Closes the environments that are still open."""
        for driver in {id(one): one for one in (self._first, self._only) if one is not None}.values():
            with suppress(Exception):
                driver.close()
