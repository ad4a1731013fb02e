"""The observer's interface."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter

from ..drivers.base import Driver
from ..transition import Transition


class Observer(ABC):
    """Sees every transition of a rollout, and keeps the first violation of each requirement.

    Args:
        driver: Plays the environment, and declares its specs.

    Attributes:
        violations: The first violation of each requirement, as a sentence, by the requirement's key.
        counts: Occurrences that requirements ask for, by name.
    """

    def __init__(self, driver: Driver) -> None:
        self.driver = driver
        self.violations: dict[str, str] = {}
        self.counts: Counter[str] = Counter()

    @abstractmethod
    def observe(self, transition: Transition) -> None:
        """Examines a transition, as soon as it is made."""

    def finish(self) -> None:  # noqa: B027 (most observers need nothing here)
        """Ends the rollout."""

    def report(self, key: str, reason: str, transition: Transition) -> None:
        """Keeps a violation, unless the requirement has one already.

        Args:
            key: Key of the requirement.
            reason: The violation as a sentence.
            transition: The transition in which it occurred.
        """
        self.violations.setdefault(key, f"{reason} ({transition.where})")
