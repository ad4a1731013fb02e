"""Makes new instances of an environment under check, plays them, and observes them."""

from __future__ import annotations

import copy
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal

import numpy as np

from envoi import Array, Discrete, Env, EnvoiError, MultiBinary, MultiDiscrete, MultiEnv, SpecError, validate
from envoi.adapters import load
from envoi.adapters.registry import home
from envoi.adapters.shared.arrival import incoming
from envoi.protocol.multi_env import Agent
from envoi.spec import SpecTree
from envoi.spec.base import shown
from envoi.tree import is_branch, leaves, rebuild

from ..errors import describe
from .drivers import CoreDriver, Driver, Reply, driver_for
from .transitions import Collector, Transition, values_differ

BATCH_ROLLOUT_STEPS = 200
"""Most steps between two resets of a batch in the observed rollout, as its lanes end and restart within."""
BATCH_TRACE_STEPS = 40
"""Most steps between two resets of a batch in traces that are compared."""
TRACE_SECONDS = 0.25
"""Seconds that one of the many traces that are compared should take at most."""


@dataclass(frozen=True)
class Extent:
    """The amount of play: the seed of the first episode, the number of episodes, and the most steps of each."""

    seed: int = 0
    episodes: int = 3
    steps: int = 1000


class EnvUnderTest:
    """An environment under check, by one API.

    Attributes:
        name: Its name as a subject of results.
        make: Makes a new environment, and returns its driver.
        title: Its name in reports.
        origin: A name or function from which another process can make the environment, or None.
    """

    def __init__(
        self, name: str, make: Callable[[], Driver], extent: Extent, title: str = "", origin: Any = None
    ) -> None:
        self.name, self.make, self.extent, self.title, self.origin = name, make, extent, title, origin
        self._opened: list[Driver] = []

    @classmethod
    def of(cls, given: Any, name: str, extent: Extent) -> EnvUnderTest:
        """Makes an `EnvUnderTest` from the argument of `check_env`, and its first instance."""
        is_env = isinstance(given, (Env, MultiEnv)) or home(given) is not None
        if isinstance(given, (str, type)) or (callable(given) and not is_env):
            name_of = getattr(given, "__qualname__", type(given).__qualname__)
            title = given if isinstance(given, str) else f"{getattr(given, '__module__', '')}.{name_of}".lstrip(".")
            env = cls(name, lambda: new_driver(given), extent, title, given)
        else:
            title = str(given) if len(str(given)) <= 60 else type(given).__name__
            try:
                copy.deepcopy(given)
            except Exception as error:
                raise EnvoiError(f"{title}: give a function that makes it, as {describe(error)} when copied") from error
            env = cls(name, lambda: driver_for(copy.deepcopy(given)), extent, title)
        try:
            _ = env.driver
        except EnvoiError:
            raise
        except Exception as error:
            raise EnvoiError(f"{title}: it could not be made: {describe(error)}") from error
        return env

    def new_driver(self) -> Driver:
        """Returns a driver of a new environment, which `release` closes after the check."""
        self._opened.append(self.make())
        return self._opened[-1]

    def release(self) -> None:
        """Closes the environments of a check."""
        while self._opened:
            with suppress(Exception):
                self._opened.pop().close()

    @cached_property
    def driver(self) -> Driver:
        """The driver of the observed rollout; also used to read properties that never change."""
        return self.make()

    @cached_property
    def rollout(self) -> Rollout:
        """The rollout of whole episodes, with the findings of all observers."""
        extent = self.extent
        limit = min(extent.steps, BATCH_ROLLOUT_STEPS) if self.driver.kind == "batch" else extent.steps
        return Rollout(self.driver).play(extent.seed, extent.episodes, limit)

    @property
    def trace_limit(self) -> int:
        """The most steps of an episode in traces that are compared."""
        most = BATCH_TRACE_STEPS if self.driver.kind == "batch" else 100
        affordable = TRACE_SECONDS / max(self.rollout.seconds_per_call, 1e-6) / self.extent.episodes
        return max(8, min(self.extent.steps, most, math.floor(affordable)))

    def collector(self, driver: Driver | None = None, seed: Any = None, **options: Any) -> Collector:
        """Returns a collector for a driver, by default that of a new environment, with the options of `Collector`."""
        options = {"seed": self.extent.seed if seed is None else seed, "limit": self.trace_limit, **options}
        return Collector(self.new_driver() if driver is None else driver, **options)

    def trace(self, driver: Driver | None = None, episodes: int | None = None, **options: Any) -> list[Transition]:
        """Collects the transitions of some episodes, for a comparison."""
        return self.collector(driver, **options).collect(self.extent.episodes if episodes is None else episodes)

    @cached_property
    def reference(self) -> list[Transition]:
        """The trace that others are compared with."""
        return self.trace()

    def close(self) -> None:
        """Closes the environment of the observed rollout."""
        self._opened.append(self.driver)
        self.release()


def new_driver(origin: Any) -> Driver:
    """Returns a driver of a new environment, made from a name or by a function."""
    return driver_for(load(origin) if isinstance(origin, str) else origin())


# A rollout of whole episodes, and its observers, which keep the first violation of each requirement.

ROLLOUT_SECONDS = 4.0
"""Most seconds of a rollout."""

Casting = Literal["same_kind", "unsafe"]


@dataclass
class Rollout:
    """Whole episodes. The observers have seen every transition; only the last of each episode is kept."""

    driver: Driver
    violations: dict[str, str] = field(default_factory=dict[str, str])
    """The first violation of each requirement, as a sentence, by the requirement's key."""
    ends: list[Transition] = field(default_factory=list[Transition])
    """The last transition of each episode that ended."""
    ended_agents: int = 0
    masks: int = 0
    calls: int = 0
    """The calls that succeeded."""
    longest: int = 0
    """Most steps of an episode, ended or not."""
    seconds_per_call: float = 0.0
    error: tuple[Exception, str] | None = None
    """The environment's error that stopped the rollout, and its place."""

    def play(self, seed: int, episodes: int, limit: int) -> Rollout:
        """Plays whole episodes, and shows each transition to the observers."""
        collector = Collector(self.driver, seed, limit)
        mutations, agents = MutationObserver(self), AgentObserver(self) if self.driver.kind == "multi" else None
        began = time.perf_counter()
        while time.perf_counter() - began <= ROLLOUT_SECONDS:
            try:
                transition = collector.advance()
            except Exception as raised:
                when = f"step {collector.step}" if collector.step else "the reset"
                self.error = raised, f"{when} of episode {max(collector.episode, 1)}"
                break
            mutations.observe(transition)
            found = [*observe_values(self.driver, transition), *(agents.observe(transition) if agents else ())]
            for key, reason in found:
                self.violations.setdefault(key, f"{reason} ({transition.where})")
            self.calls += 1
            self.longest = max(self.longest, transition.step)
            over = transition.reply.over
            if over:
                self.ends.append(transition)
            if transition.episode >= episodes and (over or transition.step >= limit):
                break
        mutations.finish()
        self.seconds_per_call = (time.perf_counter() - began) / max(self.calls, 1)
        return self


# An observer yields the broken requirements of a transition, each with a reason.
Findings = Iterator[tuple[str, str]]


def spec_violation(spec: SpecTree, value: Any, path: str) -> tuple[str, str] | None:
    """Returns how an observation violates its spec, or None if it does not.

    The result is the broken requirement, "observation-dtype" if a cast helps, else "observation-in-spec", and a reason.
    """
    reason = _violation(spec, value, path)
    if reason is None:
        return None
    worse = _violation(spec, value, path, "unsafe")
    return ("observation-dtype", reason) if worse is None else ("observation-in-spec", worse)


def _violation(spec: SpecTree, value: Any, path: str, casting: Casting | None = None) -> str | None:
    """Returns how a value violates its spec, or None. `casting` allows casts of its numbers to the spec's dtypes."""
    try:
        validate(spec, _converted(spec, value, casting), path)
    except SpecError as error:
        return str(error)
    return None


def _converted(spec: SpecTree, value: Any, casting: Casting | None) -> Any:
    """Converts a value to the container types of its spec, which only the core distinguishes; `casting` also casts it.

    A value that cannot be converted is returned as it is.
    """
    if is_branch(spec):
        if isinstance(spec, dict) and isinstance(value, Mapping) and spec.keys() == value.keys():
            return {key: _converted(sub, value[key], casting) for key, sub in spec.items()}
        if not isinstance(spec, dict) and isinstance(value, (list, tuple)) and len(spec) == len(value):
            return rebuild(spec, [_converted(sub, part, casting) for sub, part in zip(spec, value, strict=True)])
        return value
    try:
        if not isinstance(spec, (Array, MultiDiscrete, MultiBinary, Discrete)):
            return incoming(spec, True)(value)
        array = np.asarray(value)
        if casting is None or array.dtype.kind not in "biufc" or not np.can_cast(array.dtype, spec.dtype, casting):
            return value
        with np.errstate(all="ignore"):
            return array.astype(spec.dtype)
    except Exception:
        return value


def observe_values(driver: Driver, transition: Transition) -> Findings:
    """Compares each value with its declared spec."""
    reply = transition.reply
    for agent, value in reply.observations.items():
        path = driver.label("observation", agent)
        if agent not in driver.observation_specs:
            yield "observation-in-spec", f"{path}: no spec is declared for it"
        elif violation := spec_violation(driver.observation_specs[agent], value, path):
            yield violation
    yield from _observe_numbers(driver, reply, "reward", "reward-given")
    yield from _observe_numbers(driver, reply, "discount", "discount-in-spec")
    for name, kind, key, wanted in (
        ("terminated", (bool, np.bool_), "flags-are-bools", "a bool"),
        ("truncated", (bool, np.bool_), "flags-are-bools", "a bool"),
        ("infos", dict, "info-is-dict", "a dict"),
    ):
        for agent, value in getattr(reply, name).items():
            if not isinstance(value, kind):
                yield key, f"{driver.label(name.removesuffix('s'), agent)}: expected {wanted}, got {shown(value)}"


def _observe_numbers(driver: Driver, reply: Reply, name: str, given: str) -> Findings:
    """Checks rewards or discounts; `given` is the key of the requirement that they are numbers."""
    specs = getattr(driver, f"{name}_specs")
    for agent, value in getattr(reply, f"{name}s").items():
        path = driver.label(name, agent)
        if reason := _not_a_number(value, path):
            yield given, reason
        elif agent in specs and agent not in reply.restarted:
            reason = _violation(specs[agent], value, path, "same_kind")  # Python numbers count as arrays here
            if reason is not None:
                yield f"{name}-in-spec", reason


def _not_a_number(value: Any, path: str) -> str | None:
    """Returns what is wrong with a reward or discount that is None, nan or not a number; returns None for a number."""
    for where, leaf in leaves(value, path):
        if leaf is None:
            return f"{where}: None"
        try:
            is_nan = np.isnan(np.asarray(leaf)).any()
        except (TypeError, ValueError):
            return f"{where}: expected a number, got {shown(leaf)}"
        if is_nan:
            return f"{where}: nan"
    return None


_RECENT_CALLS = 6
"""Values of this many last calls are compared with their copies after each call."""
_LONG_HELD = 24
"""Values of this many resets and ends are compared with their copies at the end."""


class MutationObserver:
    """Keeps recent transitions; after every later call, checks that their values still equal the copies."""

    def __init__(self, rollout: Rollout) -> None:
        self.driver, self._violations = rollout.driver, rollout.violations
        self._recent: deque[Transition] = deque(maxlen=_RECENT_CALLS)
        self._long_held: list[Transition] = []
        self._infos: dict[int, tuple[Any, str]] = {}

    def observe(self, transition: Transition) -> None:
        if self.driver.returns_infos and self.driver.fresh_infos:
            self._observe_info_identity(transition)
        self._recent.append(transition)  # its actions may have changed already
        for held in self._recent:
            self._compare(held, transition.where)
        if (transition.step == 0 or transition.reply.over) and len(self._long_held) < _LONG_HELD:
            self._long_held.append(transition)

    def finish(self) -> None:
        for held in self._long_held:
            self._compare(held, "a later call")

    def _observe_info_identity(self, transition: Transition) -> None:
        for agent, info in transition.reply.infos.items():
            if isinstance(info, dict):
                if before := self._infos.get(id(info)):
                    reason = f"{self.driver.label('info', agent)}: the same dict as of {before[1]}"
                    self._violations.setdefault("info-stays", f"{reason} ({transition.where})")
                # Held, so that no other object gets its address.
                self._infos[id(info)] = info, transition.where

    def _compare(self, held: Transition, when: str) -> None:
        """Reports the first value of each kind that differs from its copy."""
        reply, copies, label = held.reply, held.reply_copy, self.driver.label
        parts = [("observation", reply.observations, copies.observations), ("action", held.actions, held.actions_copy)]
        if self.driver.returns_infos:
            parts.append(("info", reply.infos, copies.infos))
        found = [(kind, label(kind, a), one, kept[a]) for kind, values, kept in parts for a, one in values.items()]
        if self.driver.kind == "multi":  # the mapping, too
            found.append(("observation", "observations", reply.observations, copies.observations))
        for kind, path, value, before in found:
            if f"{kind}-stays" not in self._violations and (difference := values_differ(before, value, path)):
                source = "the action passed in" if kind == "action" else "the value returned by"
                self._violations[f"{kind}-stays"] = f"{difference}: {source} {held.where} was changed by {when}"


ZERO_SUM = "zero_sum"
"""Metadata key by which an environment declares that its rewards sum to 0."""


def declares_zero_sum(driver: Driver) -> bool:
    """Returns True if the environment's metadata declare that the agents' rewards sum to 0."""
    return isinstance(driver.metadata, Mapping) and bool(driver.metadata.get(ZERO_SUM, False))


class AgentObserver:
    """Follows the agents through each episode."""

    def __init__(self, rollout: Rollout) -> None:
        self.rollout, self.driver = rollout, rollout.driver

    def observe(self, transition: Transition) -> Findings:
        reply = transition.reply
        if transition.step == 0:
            self._ended: set[Agent] = set()
            self._before: tuple[Agent, ...] = ()
            self._reward_sum = self._reward_scale = 0.0
        yield from self._observe_order(reply)
        yield from self._observe_masks(reply)
        yield from self._observe_reward_sum(reply)
        before, ended_before = self._before, self._ended
        playing, seen, acting = {*reply.agents}, {*reply.observations}, {*reply.acting}
        ended = set(filter(reply.ended, before))
        found = [
            ("ended-are-silent", ended_before & playing, "agents: {} ended before in this episode, and are back"),
            ("ended-are-silent", ended & playing, "agents: {} have ended, and are still in play"),
            ("final-observation", ended - seen, "observations: {} have ended, and have no final observation"),
            ("agents-complete", {*before} - playing - ended, "agents: {} left without being terminated or truncated"),
            ("agents-complete", acting - seen, "observations: no value for {}, which act next"),
            ("turn", set() if acting else playing, "no agent acts, while {} are in play"),
            ("turn", acting - playing, "it is the turn of {}, which are not in play"),
        ]
        names = ("observations", "rewards", "terminated", "truncated", "infos")
        for name in names if self.driver.returns_infos else names[:-1]:
            late = ended_before & {*getattr(reply, name)}
            found.append(("ended-are-silent", late, f"{name}: still values for {{}}, which ended in an earlier step"))
            if name != "observations":
                missing = {*before} - {*getattr(reply, name)}
                found.append(("agents-complete", missing, f"{name}: no value for {{}}, in play before this step"))
        for key, agents, sentence in found:
            if agents:
                listed = [agent for agent in self.driver.possible_agents if agent in agents] or [*agents]
                yield key, sentence.format(listed)
        self.rollout.ended_agents += len(ended)
        self._ended |= {agent for agent in (*reply.terminated, *reply.truncated) if reply.ended(agent)}
        self._before = reply.agents

    def _observe_order(self, reply: Reply) -> Findings:
        possible = self.driver.possible_agents
        ordered: dict[str, Any] = {"agents": reply.agents}
        if isinstance(self.driver, CoreDriver):  # whose API promises the order of its mappings
            ordered |= {"observations": reply.observations, "rewards": reply.rewards, "terminated": reply.terminated}
        for name, agents in ordered.items():
            if unknown := [agent for agent in agents if agent not in possible]:
                yield "agents-in-order", f"{name}: {unknown} are not among possible_agents"
            elif list(agents) != [agent for agent in possible if agent in agents]:
                order = f"{list(agents)}, while possible_agents has the order {list(possible)}"
                yield "agents-in-order", f"{name}: {order}"

    def _observe_masks(self, reply: Reply) -> Findings:
        for agent in reply.acting:
            mask, spec = self.driver.action_mask(agent, reply), self.driver.action_specs.get(agent)
            if mask is None or not isinstance(spec, Discrete):
                continue
            self.rollout.masks += 1
            array, path = np.asarray(mask), self.driver.label("action mask", agent)
            if array.shape != (spec.n,):
                yield "mask-legal", f"{path}: expected the shape ({spec.n},), got {array.shape}"
            elif not array.any():
                yield "mask-legal", f"{path}: it allows no action, though the agent acts next"

    def _observe_reward_sum(self, reply: Reply) -> Findings:
        if not declares_zero_sum(self.driver):
            return
        numbers = [float(one) for one in reply.rewards.values() if isinstance(one, (bool, int, float, np.number))]
        self._reward_sum += sum(numbers)
        self._reward_scale += sum(map(abs, numbers))
        if reply.over and abs(self._reward_sum) > 1e-6 * max(1.0, self._reward_scale):
            yield "zero-sum", f"the rewards of all agents sum to {self._reward_sum:g}"
