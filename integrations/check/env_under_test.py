"""An environment under check: makes new instances of it, and plays them."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from envoi import Env, EnvoiError, MultiEnv
from envoi.adapters import load
from envoi.adapters.registry import home

from ..errors import describe
from .drivers import Driver, driver_for
from .observers import Rollout
from .transitions import Collector, Transition

BATCH_ROLLOUT_STEPS = 200
"""Most steps between two resets of a batch in the observed rollout, as its lanes end and restart within."""
BATCH_TRACE_STEPS = 40
"""Most steps between two resets of a batch in traces that are compared."""
TRACE_SECONDS = 0.25
"""Seconds that one of the many traces that are compared should take at most."""


@dataclass(frozen=True)
class Extent:
    """The amount of play: the first seed, the episodes, of which only the first has a seed, and their most steps."""

    seed: int = 0
    episodes: int = 3
    steps: int = 1000


class EnvUnderTest:
    """An environment under check, by one API.

    Attributes:
        name: Its name as a subject of results.
        title: Its name in reports.
        independent: True if each driver has a new environment.
        origin: A name or function that another process can make the environment from; None where there is none.
    """

    def __init__(
        self,
        name: str,
        make: Callable[[], Driver],
        extent: Extent,
        independent: bool = True,
        title: str = "",
        origin: Any = None,
    ) -> None:
        self.name, self._make, self.extent, self.independent = name, make, extent, independent
        self.title, self.origin = title, origin
        self._first: Driver | None = None
        self._only: Driver | None = None

    @classmethod
    def of(cls, given: Any, name: str, extent: Extent) -> EnvUnderTest:
        """Returns an environment under check, from what a user gives, and makes its first instance."""
        is_env = isinstance(given, (Env, MultiEnv)) or home(given) is not None
        if isinstance(given, (str, type)) or (callable(given) and not is_env):
            name_of = getattr(given, "__qualname__", type(given).__qualname__)
            title = given if isinstance(given, str) else f"{getattr(given, '__module__', '')}.{name_of}".lstrip(".")
            env = cls(name, lambda: new_driver(given), extent, True, title, given)
        else:
            driver, title = driver_for(given), str(given) if len(str(given)) <= 60 else type(given).__name__
            try:
                copy.deepcopy(given)
                env = cls(name, lambda: driver_for(copy.deepcopy(given)), extent, True, title)
            except Exception:
                env = cls(name, lambda: driver, extent, False, title)
        try:
            env._first = env.new_driver()
        except EnvoiError:
            raise
        except Exception as error:
            raise EnvoiError(f"{title}: it could not be made: {describe(error)}") from error
        return env

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
        extent = self.extent
        limit = min(extent.steps, BATCH_ROLLOUT_STEPS) if self.driver.kind == "batch" else extent.steps
        return Rollout(self.driver).play(extent.seed, extent.episodes, limit)

    @property
    def trace_limit(self) -> int:
        """Most steps of an episode in traces that are compared."""
        most = BATCH_TRACE_STEPS if self.driver.kind == "batch" else 100
        affordable = TRACE_SECONDS / max(self.rollout.seconds_per_call, 1e-6) / self.extent.episodes
        return max(8, min(self.extent.steps, most, math.floor(affordable)))

    def collector(self, driver: Driver, seed: Any = None, **options: Any) -> Collector:
        """Returns a collector for a driver, with the options of `Collector`."""
        return Collector(driver, self.extent.seed if seed is None else seed, **{"limit": self.trace_limit, **options})

    def trace(self, driver: Driver | None = None, episodes: int | None = None, **options: Any) -> list[Transition]:
        """Collects the transitions of some episodes, for a comparison."""
        count = self.extent.episodes if episodes is None else episodes
        if driver is not None:
            return self.collector(driver, **options).collect(count)
        with self.temporary_driver() as new:
            return self.trace(new, count, **options)

    @cached_property
    def reference(self) -> list[Transition]:
        """The trace that others are compared with."""
        return self.trace()

    def close(self) -> None:
        """Closes the environments that are still open."""
        for driver in {id(one): one for one in (self._first, self._only) if one is not None}.values():
            with suppress(Exception):
                driver.close()


def new_driver(origin: Any) -> Driver:
    """Returns a driver of a new environment, made from a name or by a function."""
    return driver_for(load(origin) if isinstance(origin, str) else origin())
