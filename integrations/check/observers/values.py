"""Observes the values of each transition: observations, rewards, discounts, flags and infos, against their specs."""

from __future__ import annotations

from typing import Any

import numpy as np

from envoi import Array, Spec, SpecError, validate
from envoi.spec import SpecTree
from envoi.spec.base import shown
from envoi.tree import is_branch, leaves

from ..transition import Transition
from .base import Observer
from .spec_violation import spec_violation


class ValueObserver(Observer):
    """Compares each value with its declared spec."""

    def observe(self, transition: Transition) -> None:
        self._observe_observations(transition)
        self._observe_rewards(transition)
        self._observe_discounts(transition)
        self._observe_flags(transition)
        self._observe_infos(transition)

    def _observe_observations(self, transition: Transition) -> None:
        specs = self.driver.observation_specs
        for agent, value in transition.reply.observations.items():
            path = self.driver.label("observation", agent)
            if agent not in specs:
                self.report("observation-in-spec", f"{path}: no spec is declared for it", transition)
                continue
            violation = spec_violation(specs[agent], value, path)
            if violation is not None:
                self.report(violation.key, violation.reason, transition)

    def _observe_rewards(self, transition: Transition) -> None:
        reply, specs = transition.reply, self.driver.reward_specs
        for agent, value in reply.rewards.items():
            path = self.driver.label("reward", agent)
            reason = _not_a_number(value, path)
            if reason is not None:
                self.report("reward-given", reason, transition)
            elif agent in specs and agent not in reply.restarted:
                reason = _number_violation(specs[agent], value, path)
                if reason is not None:
                    self.report("reward-in-spec", reason, transition)

    def _observe_discounts(self, transition: Transition) -> None:
        reply, specs = transition.reply, self.driver.discount_specs
        for agent, value in reply.discounts.items():
            if agent in specs and agent not in reply.restarted:
                path = self.driver.label("discount", agent)
                reason = _not_a_number(value, path) or _number_violation(specs[agent], value, path)
                if reason is not None:
                    self.report("discount-in-spec", reason, transition)

    def _observe_flags(self, transition: Transition) -> None:
        reply = transition.reply
        for name, flags in (("terminated", reply.terminated), ("truncated", reply.truncated)):
            for agent, value in flags.items():
                if not isinstance(value, (bool, np.bool_)):
                    path = self.driver.label(name, agent)
                    self.report("flags-are-bools", f"{path}: expected a bool, got {shown(value)}", transition)

    def _observe_infos(self, transition: Transition) -> None:
        for agent, info in transition.reply.infos.items():
            if not isinstance(info, dict):
                path = self.driver.label("info", agent)
                self.report("info-is-dict", f"{path}: expected a dict, got {shown(info)}", transition)


def _not_a_number(value: Any, path: str) -> str | None:
    """Describes a reward or discount that is None, nan or not a number; None where it is a number."""
    for where, leaf in leaves(value, path):
        if leaf is None:
            return f"{where}: None"
        try:
            array = np.asarray(leaf)
        except ValueError:
            return f"{where}: expected a number, got {shown(leaf)}"
        if array.dtype.kind not in "biufc":
            return f"{where}: expected a number, got {shown(leaf)}"
        if np.isnan(array).any():
            return f"{where}: nan"
    return None


def _number_violation(spec: SpecTree, value: Any, path: str) -> str | None:
    """Describes how a reward or discount violates its spec, or None; Python numbers count as arrays there."""
    if not isinstance(spec, Spec):
        if isinstance(spec, dict) != isinstance(value, dict) or not is_branch(value) or len(spec) != len(value):
            return f"{path}: expected a value of {spec!r}, got {shown(value)}"
        keys = list(spec) if isinstance(spec, dict) else range(len(spec))
        violations = (_number_violation(spec[key], value[key], f"{path}[{key!r}]") for key in keys)
        return next((violation for violation in violations if violation is not None), None)
    if isinstance(spec, Array) and not is_branch(value):
        array = np.asarray(value)
        value = array.astype(spec.dtype) if np.can_cast(array.dtype, spec.dtype, "same_kind") else array
    try:
        validate(spec, value, path)
    except SpecError as error:
        return str(error)
    return None
