"""Observes whether observations, infos and actions change after the call that returned or received them."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..differences import values_differ
from ..drivers.base import Driver
from ..transition import Transition
from .base import Observer

_RECENT_CALLS = 6
"""Values of this many last calls are compared with their copies after each call."""
_LONG_HELD = 24
"""Values of this many resets and ends are compared with their copies at the end."""


@dataclass(frozen=True, slots=True)
class _HeldValue:
    key: str
    label: str
    where: str
    value: Any
    copy: Any


class MutationObserver(Observer):
    """Holds recent values, and compares each with its copy after every later call.

    Args:
        driver: Plays the environment.
    """

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self._recent: deque[_HeldValue] = deque()
        self._long_held: list[_HeldValue] = []
        self._infos: dict[int, tuple[Any, str]] = {}

    def observe(self, transition: Transition) -> None:
        for held in list(self._recent):
            if self._changed(held, transition.where):
                self._recent.remove(held)
        self._observe_info_identity(transition)
        self._hold(transition)

    def finish(self) -> None:
        for held in self._long_held:
            self._changed(held, "a later call")

    def _observe_info_identity(self, transition: Transition) -> None:
        if not (self.driver.returns_infos and self.driver.fresh_infos):
            return
        for agent, info in transition.reply.infos.items():
            if isinstance(info, dict):
                before = self._infos.get(id(info))
                if before is not None:
                    path = self.driver.label("info", agent)
                    self.report("info-stays", f"{path}: the same dict as of {before[1]}", transition)
                # Held, so that no other object gets its address.
                self._infos[id(info)] = info, transition.where

    def _hold(self, transition: Transition) -> None:
        reply, where, copies = transition.reply, transition.where, transition.reply_copy
        label = self.driver.label
        held: list[_HeldValue] = []
        if self.driver.kind == "multi" and isinstance(reply.observations, dict):
            mapping = reply.observations, copies.observations
            held.append(_HeldValue("observation-stays", "observations", where, *mapping))
        for agent, value in reply.observations.items():
            if _is_mutable(value):
                name = label("observation", agent)
                held.append(_HeldValue("observation-stays", name, where, value, copies.observations[agent]))
        if self.driver.returns_infos:
            for agent, info in reply.infos.items():
                held.append(_HeldValue("info-stays", label("info", agent), where, info, copies.infos[agent]))
        for agent, value in transition.actions.items():
            if _is_mutable(value):
                name = label("action", agent)
                action = _HeldValue("action-stays", name, where, value, transition.actions_copy[agent])
                if not self._changed(action, where):
                    held.append(action)
        self._recent.extend(held)
        while len(self._recent) > _RECENT_CALLS * max(1, 2 * len(self.driver.possible_agents)):
            self._recent.popleft()
        if (transition.step == 0 or reply.over) and len(self._long_held) < _LONG_HELD:
            self._long_held.extend(held)

    def _changed(self, held: _HeldValue, when: str) -> bool:
        """Returns True if a held value differs from its copy, and keeps that as a violation."""
        difference = values_differ(held.copy, held.value, held.label)
        if difference is None:
            return False
        source = "the action passed in" if held.key == "action-stays" else "the value returned by"
        self.violations.setdefault(held.key, f"{difference}: {source} {held.where} was changed by {when}")
        return True


def _is_mutable(value: Any) -> bool:
    if isinstance(value, np.ndarray):
        return True
    return isinstance(value, (dict, list)) or (isinstance(value, tuple) and any(map(_is_mutable, value)))
