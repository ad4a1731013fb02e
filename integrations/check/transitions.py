"""Transitions, which depend only on the number of the call and so can be reproduced, and their differences."""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np

from envoi import Discrete
from envoi.protocol.multi_env import Agent, sample_legal

from .drivers import Driver, Reply


@dataclass(frozen=True)
class Transition:
    """One reset (step 0) or step, counted from 1, with copies that later calls cannot change."""

    episode: int
    step: int
    actions: Mapping[Agent, Any]
    """The very actions that were passed, by agent; empty for a reset."""
    actions_copy: Mapping[Agent, Any]
    """Copies of them from before the call."""
    reply: Reply
    reply_copy: Reply

    @property
    def where(self) -> str:
        """The place of the transition for a message, such as "step 3 of episode 1"."""
        end = ", its last" if self.step and self.reply.over else ""
        when = f"step {self.step}" if self.step else "the reset"
        return f"{when} of episode {self.episode}{end}"


def copy_reply(reply: Reply) -> Reply:
    """Returns a copy of a reply that later calls cannot change."""
    names = ("observations", "infos", "rewards", "terminated", "truncated", "discounts")
    values = {name: {agent: copy_value(value) for agent, value in getattr(reply, name).items()} for name in names}
    return replace(reply, **values)


def copy_value(value: Any) -> Any:
    """Returns a deep copy of a value, or the value itself if it cannot be copied."""
    try:
        return copy.deepcopy(value)
    except Exception:
        return value


@contextmanager
def global_generators_restored() -> Iterator[None]:
    """Restores the states of the process-wide generators at the end."""
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002


@dataclass(eq=False)
class Collector:
    """Plays a driver with random actions, episode after episode, and returns transitions.

    An episode has at most `limit` steps. Before each call, `random` and `np.random` are seeded from `global_seeds` and
    the number of the call; `between` is called before each step.
    """

    driver: Driver
    seed: Any
    limit: int
    policy: Literal["random", "same"] = "random"
    action_seed: int = 0
    global_seeds: tuple[int, int] = (0, 0)
    between: Callable[[Driver], None] | None = None

    def __post_init__(self) -> None:
        self.calls = self.episode = self.step = 0
        self.reply: Reply | None = None
        self.actions: Mapping[Agent, Any] = {}
        self._rng = np.random.default_rng(self.action_seed)

    def advance(self) -> Transition:
        """Makes the next call: a step, or a reset if the episode is over or at its limit."""
        self.calls += 1
        self.seed_global_generators()
        if self.reply is None or self.reply.over or self.step >= self.limit:
            self.episode, self.step, self.actions, before = self.episode + 1, 0, {}, {}
            self.reply = self.driver.reset(self.seed if self.episode == 1 else None)
        else:
            if self.between is not None:
                self.between(self.driver)
                self.seed_global_generators()
            self.step += 1
            self.actions = self._choose_actions(self.reply)
            before = {agent: copy_value(value) for agent, value in self.actions.items()}
            self.reply = self.driver.step(dict(self.actions))
        return Transition(self.episode, self.step, self.actions, before, self.reply, copy_reply(self.reply))

    def collect(self, episodes: int) -> list[Transition]:
        """Collects transitions until the end of an episode, from the current state."""
        trace: list[Transition] = []
        while not (self.episode >= episodes and self.reply and (self.reply.over or self.step >= self.limit)):
            trace.append(self.advance())
        return trace

    def calls_of(self, count: int) -> list[Transition]:
        """Makes `count` calls; begins a new episode after each end."""
        return [self.advance() for _ in range(count)]

    def with_driver(self, driver: Driver) -> Collector:
        """Returns a copy of the collector, at the same call, for another driver."""
        other = copy.copy(self)
        other.driver, other._rng = driver, copy.deepcopy(self._rng)
        return other

    def seed_global_generators(self) -> None:
        """Seeds the process-wide generators with the number of the last call."""
        python, numpy = (seed * 1_000_003 + self.calls for seed in self.global_seeds)
        random.seed(python)
        np.random.seed(numpy % 2**32)  # noqa: NPY002

    def _choose_actions(self, reply: Reply) -> dict[Any, Any]:
        rng = self._rng if self.policy == "random" else np.random.default_rng(self.action_seed)
        actions: dict[Any, Any] = {}
        for agent in reply.acting:
            mask, spec = self.driver.action_mask(agent, reply), self.driver.action_specs[agent]
            legal = np.ravel(mask)[: spec.n] if mask is not None and isinstance(spec, Discrete) else None
            actions[agent] = self.driver.encode_action(agent, sample_legal(spec, legal, rng))
        return actions


def traces_differ(
    expected: Sequence[Transition],
    actual: Sequence[Transition],
    driver: Driver,
    infos: bool = False,
    tolerance: float = 0.0,
) -> str | None:
    """Returns the first difference of two traces, or of their infos, as text; None if they are equal."""
    for a, b in zip(expected, actual, strict=False):
        difference = _replies_differ(a.reply_copy, b.reply_copy, driver, infos, tolerance)
        if difference is not None:
            return f"{difference} ({b.where})"
        if (a.episode, a.step) != (b.episode, b.step):
            return f"{a.where} against {b.where}"
    if len(expected) != len(actual):
        return f"{len(expected)} calls against {len(actual)}"
    return None


def _replies_differ(one: Reply, other: Reply, driver: Driver, infos: bool, tolerance: float) -> str | None:
    if infos:
        return _mappings_differ("info", one.infos, other.infos, driver)
    for name in ("agents", "acting"):
        a, b = getattr(one, name), getattr(other, name)
        if a != b:
            if driver.kind == "single":
                return "the episode ends in one and continues in the other"
            return f"{name}: {list(a)} against {list(b)}"
    for name in ("observations", "rewards", "terminated", "truncated", "discounts"):
        values = getattr(one, name), getattr(other, name)
        difference = _mappings_differ(name.removesuffix("s"), *values, driver, tolerance)
        if difference is not None:
            return difference
    # Of the infos only the masks, as the actions depend on them.
    a, b = ({agent: driver.action_mask(agent, reply) for agent in reply.acting} for reply in (one, other))
    return _mappings_differ("action mask", a, b, driver)


def _mappings_differ(
    name: str, one: Mapping[Agent, Any], other: Mapping[Agent, Any], driver: Driver, tolerance: float = 0.0
) -> str | None:
    if one.keys() != other.keys():
        return f"{name}: for {list(one)} against {list(other)}"
    for agent in one:
        difference = values_differ(one[agent], other[agent], driver.label(name, agent), tolerance)
        if difference is not None:
            return difference
    return None


def values_differ(one: Any, other: Any, path: str = "", tolerance: float = 0.0) -> str | None:
    """Returns the first difference of two values as text, or None if they are equal.

    Numbers are compared by value, arrays also by dtype and shape, objects of unknown classes by class only.
    """
    if one is other:
        return None
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if one.keys() != other.keys():
            return f"{path}: keys {list(one)} against {list(other)}"
        parts = ((f"{path}[{key!r}]", one[key], other[key]) for key in one)
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if len(one) != len(other):
            return f"{path}: {len(one)} elements against {len(other)}"
        parts = ((f"{path}[{index}]", a, b) for index, (a, b) in enumerate(zip(one, other, strict=True)))
    elif _is_number(one) and _is_number(other):
        return _arrays_differ(one, other, path, tolerance)
    else:
        same = type(one) is type(other) and (one == other or not isinstance(one, (str, bytes)))
        return None if same else f"{path}: {short(repr(one))} against {short(repr(other))}"
    differences = (values_differ(a, b, where, tolerance) for where, a, b in parts)
    return next((difference for difference in differences if difference is not None), None)


def _is_number(value: Any) -> bool:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biufcSU"
    return isinstance(value, (bool, int, float, complex))


def _arrays_differ(one: Any, other: Any, path: str, tolerance: float) -> str | None:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and not tolerance and one.dtype != other.dtype:
        return f"{path}: dtype {one.dtype} against {other.dtype}"
    a, b = np.asarray(one), np.asarray(other)
    if a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes():
        return None
    if a.shape != b.shape:
        return f"{path}: shape {a.shape} against {b.shape}"
    if a.dtype.kind in "SU" or b.dtype.kind in "SU":
        wrong = np.asarray(a != b)
    else:
        with np.errstate(all="ignore"):
            wrong = np.asarray((a != b) & ~((a != a) & (b != b)))  # nan
            if tolerance:
                wrong = wrong & ~np.asarray(np.isclose(a, b, rtol=tolerance, atol=tolerance))
    if not wrong.any():
        return None
    at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    index = "".join(f"[{int(i)}]" for i in at)
    return f"{path}{index}: {short(str(a[at]))} against {short(str(b[at]))}"


def short(text: str, most: int = 40) -> str:
    """Returns a text as one line; cuts a long text."""
    text = " ".join(text.split())
    return text if len(text) <= most else text[: most - 3] + "…"
