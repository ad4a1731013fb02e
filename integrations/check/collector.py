"""Collects transitions that can be reproduced exactly: all random inputs follow from the number of the call.

Before each call, the process-wide generators of `random` and `numpy.random` are seeded with the number of that call.
So an environment that uses them gives equal traces, unless their influence is what a check examines.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Literal, NamedTuple

import numpy as np

from envoi import Discrete, sample
from envoi.protocol.multi_env import Agent
from envoi.spec import SpecTree

from .drivers.base import Driver, Reply
from .transition import Transition, copy_reply, copy_value

Policy = Literal["random", "same"]
BetweenSteps = Callable[[Driver], None]


class GlobalSeeds(NamedTuple):
    """Seeds of the process-wide generators, to which the number of the call is added."""

    numpy: int = 0
    python: int = 0


@contextmanager
def global_generators_restored() -> Iterator[None]:
    """Restores the states of the process-wide generators at the end."""
    python_state, numpy_state = random.getstate(), np.random.get_state()  # noqa: NPY002
    try:
        yield
    finally:
        random.setstate(python_state)
        np.random.set_state(numpy_state)  # noqa: NPY002


class Collector:
    """Plays a driver with random actions, episode after episode, and returns transitions.

    Args:
        driver: Plays the environment.
        seed: Seed of the first reset, for a batch also a list of one per lane; later resets have none.
        policy: `"random"`, or `"same"` for one action over and over.
        action_seed: Seed of the sampled actions.
        global_seeds: Seeds of the process-wide generators.
        between: Called with the driver before each step.
    """

    def __init__(
        self,
        driver: Driver,
        seed: Any,
        policy: Policy = "random",
        action_seed: int = 0,
        global_seeds: GlobalSeeds = GlobalSeeds(),  # noqa: B008 (a tuple)
        between: BetweenSteps | None = None,
    ) -> None:
        self.driver, self.seed, self.policy, self.action_seed = driver, seed, policy, action_seed
        self.global_seeds, self.between = global_seeds, between
        self.calls = self.episode = self.step = 0
        self.reply: Reply | None = None
        self.actions: Mapping[Agent, Any] = {}
        self._rng = np.random.default_rng(action_seed)

    def advance(self, limit: int) -> Transition:
        """Makes the next call: a step, or a reset where the episode is over or `limit` steps long."""
        self.calls += 1
        self.seed_global_generators()
        if self.reply is None or self.reply.over or self.step >= limit:
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

    def collect(self, episodes: int, limit: int) -> list[Transition]:
        """Collects transitions until the end of an episode, from the current state.

        Args:
            episodes: Number of the episode, from 1, to stop after.
            limit: Most steps of an episode.
        """
        trace: list[Transition] = []
        while not (self.episode >= episodes and self.reply is not None and (self.reply.over or self.step >= limit)):
            trace.append(self.advance(limit))
        return trace

    def with_driver(self, driver: Driver) -> Collector:
        """Returns a copy of the collector, at the same call, for another driver."""
        other = copy.copy(self)
        other.driver, other._rng = driver, copy.deepcopy(self._rng)
        return other

    def seed_global_generators(self) -> None:
        """Seeds the process-wide generators with the number of the last call."""
        random.seed(self.global_seeds.python * 1_000_003 + self.calls)
        np.random.seed((self.global_seeds.numpy * 1_000_003 + self.calls) % 2**32)  # noqa: NPY002

    def _choose_actions(self, reply: Reply) -> dict[Any, Any]:
        rng = self._rng if self.policy == "random" else np.random.default_rng(self.action_seed)
        driver = self.driver
        return {
            agent: driver.encode_action(
                agent, _random_action(driver.action_specs[agent], driver.action_mask(agent, reply), rng)
            )
            for agent in reply.acting
        }


def _random_action(spec: SpecTree, mask: Any, rng: np.random.Generator) -> Any:
    """Samples an action, among those that the mask allows where there is one."""
    if mask is not None and isinstance(spec, Discrete):
        legal = np.flatnonzero(np.asarray(mask).ravel()[: spec.n])
        if legal.size:
            return spec.dtype.type(spec.start + int(legal[int(rng.integers(legal.size))]))
    return sample(spec, rng)
