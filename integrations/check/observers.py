"""Observers: see every transition of a rollout, and keep the first violation of each requirement."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from envoi import Array, Discrete, MultiBinary, MultiDiscrete, Spec, SpecError, validate
from envoi.adapters.shared.arrival import incoming
from envoi.protocol.multi_env import Agent
from envoi.spec import SpecTree
from envoi.spec.base import shown
from envoi.tree import is_branch, leaves, rebuild

from .drivers.base import Driver
from .drivers.core import CoreDriver
from .transitions import Transition, values_differ


class Observer(ABC):
    """Sees every transition of a rollout, and keeps the first violation of each requirement.

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
        """Keeps a violation, unless the requirement has one already."""
        self.violations.setdefault(key, f"{reason} ({transition.where})")


_ARRAYS = (Array, MultiDiscrete, MultiBinary)


class SpecViolation(NamedTuple):
    """A violation of a spec.

    Attributes:
        key: Key of the requirement: "observation-in-spec", or "observation-dtype" where a cast would mend it.
        reason: The violation as a sentence.
    """

    key: str
    reason: str


def spec_violation(spec: SpecTree, value: Any, path: str) -> SpecViolation | None:
    """Describes how an observation violates its spec; None where it is a value of the spec."""
    converted = _in_spec_containers(spec, value)
    try:
        validate(spec, converted, path)
    except SpecError as error:
        try:
            validate(spec, _cast(spec, converted), path)
        except SpecError as other:
            return SpecViolation("observation-in-spec", str(other))
        return SpecViolation("observation-dtype", str(error))
    return None


def _in_spec_containers(spec: SpecTree, value: Any) -> Any:
    """Converts a value to the container types of its spec, which only the core distinguishes."""
    if not isinstance(spec, Spec):
        if isinstance(spec, dict) and isinstance(value, Mapping) and spec.keys() == value.keys():
            return {key: _in_spec_containers(sub, value[key]) for key, sub in spec.items()}
        if isinstance(spec, (list, tuple)) and isinstance(value, (list, tuple)) and len(spec) == len(value):
            parts = [_in_spec_containers(sub, part) for sub, part in zip(spec, value, strict=True)]
            return rebuild(spec, parts)
        return value
    if isinstance(spec, (*_ARRAYS, Discrete)):
        return value
    try:
        return incoming(spec, True)(value)
    except Exception:
        return value


def _cast(spec: SpecTree, value: Any) -> Any:
    """Casts each number of a value to the dtype of its spec, where that is possible."""
    if is_branch(spec):
        if isinstance(spec, dict) and isinstance(value, dict) and spec.keys() == value.keys():
            return {key: _cast(sub, value[key]) for key, sub in spec.items()}
        if not isinstance(spec, dict) and isinstance(value, (list, tuple)) and len(spec) == len(value):
            return rebuild(spec, [_cast(sub, part) for sub, part in zip(spec, value, strict=True)])
        return value
    if not isinstance(spec, (*_ARRAYS, Discrete)):
        return value
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufc":
            return value
        with np.errstate(all="ignore"):
            return array.astype(spec.dtype)
    except (TypeError, ValueError):
        return value


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
    """Holds recent values, and compares each with its copy after every later call."""

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


ENDED, MASKED = "ended agents", "action masks"
"""Names of counts."""

ZERO_SUM = "zero_sum"
"""Metadata key by which an environment declares that its rewards sum to 0."""


def declares_zero_sum(driver: Driver) -> bool:
    """Returns True if the environment's metadata declare that its rewards sum to 0."""
    return isinstance(driver.metadata, Mapping) and bool(driver.metadata.get(ZERO_SUM, False))


class AgentObserver(Observer):
    """Follows the agents through each episode."""

    def __init__(self, driver: Driver) -> None:
        super().__init__(driver)
        self._start_episode()

    def _start_episode(self) -> None:
        self._ended: set[Agent] = set()
        self._before: tuple[Agent, ...] = ()
        self._reward_sum = self._reward_scale = 0.0

    def observe(self, transition: Transition) -> None:
        if transition.step == 0:
            self._start_episode()
        self._observe_order(transition)
        self._observe_ended_agents(transition)
        if transition.step:
            self._observe_completeness(transition)
            self._observe_ends(transition)
        self._observe_turn(transition)
        self._observe_masks(transition)
        self._observe_reward_sum(transition)
        reply = transition.reply
        self._ended |= {agent for agent in (*reply.terminated, *reply.truncated) if reply.ended(agent)}
        self._before = reply.agents

    def _observe_order(self, transition: Transition) -> None:
        reply, possible = transition.reply, self.driver.possible_agents
        ordered: dict[str, Any] = {"agents": reply.agents}
        if isinstance(self.driver, CoreDriver):  # whose API promises the order of its mappings
            ordered |= {"observations": reply.observations, "rewards": reply.rewards, "terminated": reply.terminated}
        for name, agents in ordered.items():
            unknown = [agent for agent in agents if agent not in possible]
            if unknown:
                self.report("agents-in-order", f"{name}: {unknown} are not among possible_agents", transition)
            elif list(agents) != [agent for agent in possible if agent in agents]:
                reason = f"{name}: {list(agents)}, while possible_agents has the order {list(possible)}"
                self.report("agents-in-order", reason, transition)

    def _observe_ended_agents(self, transition: Transition) -> None:
        reply = transition.reply
        back = [agent for agent in reply.agents if agent in self._ended]
        if back:
            reason = f"agents: {back} ended before in this episode, and are back"
            self.report("ended-are-silent", reason, transition)
        names = ("observations", "rewards", "terminated", "truncated", "infos")
        for name in names if self.driver.returns_infos else names[:-1]:
            late = [agent for agent in getattr(reply, name) if agent in self._ended]
            if late:
                reason = f"{name}: still values for {late}, which ended in an earlier step"
                self.report("ended-are-silent", reason, transition)

    def _observe_completeness(self, transition: Transition) -> None:
        reply = transition.reply
        names = ("rewards", "terminated", "truncated", "infos")
        for name in names if self.driver.returns_infos else names[:-1]:
            missing = [agent for agent in self._before if agent not in getattr(reply, name)]
            if missing:
                reason = f"{name}: no value for {missing}, in play before this step"
                self.report("agents-complete", reason, transition)
        gone = [agent for agent in self._before if agent not in reply.agents and not reply.ended(agent)]
        if gone:
            reason = f"agents: {gone} left without being terminated or truncated"
            self.report("agents-complete", reason, transition)

    def _observe_ends(self, transition: Transition) -> None:
        reply = transition.reply
        for agent in filter(reply.ended, self._before):
            self.counts[ENDED] += 1
            if agent in reply.agents:
                self.report("ended-are-silent", f"agents: {agent!r} has ended, and is still in play", transition)
            if agent not in reply.observations:
                reason = f"observations: {agent!r} has ended, and has no final observation"
                self.report("final-observation", reason, transition)

    def _observe_turn(self, transition: Transition) -> None:
        reply = transition.reply
        if reply.agents and not reply.acting:
            self.report("turn", f"no agent acts, while {list(reply.agents)} are in play", transition)
        absent = [agent for agent in reply.acting if agent not in reply.agents]
        if absent:
            self.report("turn", f"it is the turn of {absent}, which are not in play", transition)
        blind = [agent for agent in reply.acting if agent not in reply.observations]
        if blind:
            self.report("agents-complete", f"observations: no value for {blind}, which act next", transition)

    def _observe_masks(self, transition: Transition) -> None:
        for agent in transition.reply.acting:
            mask, spec = self.driver.action_mask(agent, transition.reply), self.driver.action_specs.get(agent)
            if mask is None or not isinstance(spec, Discrete):
                continue
            self.counts[MASKED] += 1
            array = np.asarray(mask)
            path = self.driver.label("action mask", agent)
            if array.shape != (spec.n,):
                reason = f"{path}: expected the shape ({spec.n},), got {array.shape}"
                self.report("mask-legal", reason, transition)
            elif not array.any():
                self.report("mask-legal", f"{path}: it allows no action, though the agent acts next", transition)

    def _observe_reward_sum(self, transition: Transition) -> None:
        if not declares_zero_sum(self.driver):
            return
        for reward in transition.reply.rewards.values():
            if isinstance(reward, (bool, int, float, np.number)):
                self._reward_sum += float(reward)
                self._reward_scale += abs(float(reward))
        if transition.reply.over and abs(self._reward_sum) > 1e-6 * max(1.0, self._reward_scale):
            self.report("zero-sum", f"the rewards of all agents sum to {self._reward_sum:g}", transition)
