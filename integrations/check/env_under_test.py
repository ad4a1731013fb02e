"""An environment under check: makes new instances of it, and plays them."""

from __future__ import annotations

import copy
import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

from envoi import Env, EnvoiError, LossyConversion, MultiEnv, SpecError
from envoi.adapters import from_env, load

from ..errors import describe
from .drivers import driver_for, framework_driver
from .drivers.base import Driver
from .observers import AgentObserver, MutationObserver, Observer, ValueObserver
from .transitions import BetweenSteps, Collector, GlobalSeeds, Policy, Transition

ROLLOUT_SECONDS = 4.0
"""Most seconds of a rollout."""


@dataclass(frozen=True)
class Rollout:
    """Whole episodes, of which the observers have seen every transition; most transitions are not kept.

    Attributes:
        driver: Plays the environment.
        violations: The first violation of each requirement, as a sentence, by the requirement's key.
        counts: Occurrences that requirements ask for, such as "ended agents", by name.
        ends: The last transition of each episode that ended.
        calls: Number of calls that succeeded.
        error: The environment's error that stopped the rollout, and its place; None where none was raised.
        seconds_per_call: Mean duration of a call.
        longest: Most steps of an episode, ended or not.
    """

    driver: Driver
    violations: Mapping[str, str]
    counts: Mapping[str, int]
    ends: Sequence[Transition]
    calls: int
    error: tuple[Exception, str] | None
    seconds_per_call: float
    longest: int


def observed_rollout(driver: Driver, observers: Sequence[Observer], seed: int, episodes: int, limit: int) -> Rollout:
    """Plays whole episodes, and shows each transition to the observers."""
    collector = Collector(driver, seed)
    ends: list[Transition] = []
    error: tuple[Exception, str] | None = None
    began, calls, longest = time.perf_counter(), 0, 0
    while True:
        try:
            transition = collector.advance(limit)
        except Exception as raised:
            when = f"step {collector.step}" if collector.step else "the reset"
            error = raised, f"{when} of episode {max(collector.episode, 1)}"
            break
        for observer in observers:
            observer.observe(transition)
        calls += 1
        longest = max(longest, transition.step)
        over = transition.reply.over
        if over:
            ends.append(transition)
        if transition.episode >= episodes and (over or transition.step >= limit):
            break
        if time.perf_counter() - began > ROLLOUT_SECONDS:
            break
    violations: dict[str, str] = {}
    counts: dict[str, int] = {}
    for observer in observers:
        observer.finish()
        violations.update(observer.violations)
        counts.update(observer.counts)
    seconds = (time.perf_counter() - began) / max(calls, 1)
    return Rollout(driver, violations, counts, ends, calls, error, seconds, longest)


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
    """An environment under check, by one API."""

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
        """Returns a collector for a driver."""
        first = self.extent.seed if seed is None else seed
        return Collector(driver, first, policy, action_seed, global_seeds, between)

    def trace(self, driver: Driver | None = None, episodes: int | None = None, **options: Any) -> list[Transition]:
        """Collects the transitions of some episodes, for a comparison."""
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


class EnvFactory(NamedTuple):
    """Makes the environments under check.

    Attributes:
        name: Name of the environment in reports.
        make: Makes a driver of an environment.
        independent: True if `make` gives a new environment each time.
        origin: A name or function that another process can make the environment from; None where there is none.
    """

    name: str
    make: Callable[[], Driver]
    independent: bool
    origin: Any

    def make_first(self) -> Driver:
        """Makes the first environment, whose errors are bad input."""
        try:
            return self.make()
        except EnvoiError:
            raise
        except Exception as error:
            raise EnvoiError(f"{self.name}: it could not be made: {describe(error)}") from error


def env_factory(given: Any) -> EnvFactory:
    """Returns a factory of the environments to check."""
    if isinstance(given, str):
        return EnvFactory(given, lambda: new_driver(given), True, given)
    if not is_env(given) and callable(given):
        module, name = getattr(given, "__module__", ""), getattr(given, "__qualname__", type(given).__qualname__)
        return EnvFactory(f"{module}.{name}" if module else name, lambda: new_driver(given), True, given)
    driver = driver_for(given)
    name = str(given) if len(str(given)) <= 60 else type(given).__name__
    try:
        copy.deepcopy(given)
    except Exception:
        return EnvFactory(name, lambda: driver, False, None)
    return EnvFactory(name, lambda: driver_for(copy.deepcopy(given)), True, None)


def new_driver(origin: Any) -> Driver:
    """Returns a driver of a new environment, made from a name or by a function."""
    if isinstance(origin, str):
        return driver_for(load(origin))
    return driver_for(origin())


def is_env(thing: Any) -> bool:
    """Returns True if an object is an environment of any framework, rather than a function that makes one."""
    if isinstance(thing, type):
        return False
    if isinstance(thing, (Env, MultiEnv)):
        return True
    try:
        if framework_driver(thing) is not None:
            return True
        from_env(thing)
    except LossyConversion:
        return True  # one with spaces that the core cannot express
    except (SpecError, TypeError, AttributeError):
        return False
    return True
