"""A rollout: whole episodes of random actions, with the findings of the observers that saw each transition."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from .collector import Collector
from .drivers.base import Driver
from .observers.base import Observer
from .transition import Transition

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
    """Plays whole episodes, and shows each transition to the observers.

    Args:
        driver: Plays the environment.
        observers: They see each transition as soon as it is made.
        seed: Seed of the first reset.
        episodes: Number of episodes, fewer where they take more than `ROLLOUT_SECONDS`.
        limit: Most steps of an episode.
    """
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
