"""Requirements on the lanes of a batch, and on the batch that a single-agent environment becomes."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from envoi import Env, Lanes
from envoi import batch as make_batch

from ..differences import values_differ
from ..drivers.base import SINGLE
from ..drivers.core import BatchDriver, CoreDriver
from ..outcome import PASSED, Outcome, failed, skipped
from ..requirement import Requirement
from ..transition import Transition, copy_reply
from .randomness import REPRODUCIBLE
from .values import VALUE_KEYS

if TYPE_CHECKING:
    from ..env_under_test import EnvUnderTest

LANES = 3
"""Lanes of the batch that a single-agent environment becomes."""
CALLS = 60
"""Most calls of a batch that is compared with its lanes alone."""


def lanes_like_alone(env: EnvUnderTest) -> Outcome:
    """Each lane of a batch gives the trace that its environment gives alone, with the lane's seed."""
    if env.driver.kind == "single":
        if not env.independent:
            return skipped("the only environment cannot be copied; give a function that makes it")
        lanes = make_batch(lambda: _core_env(env), LANES)
        alone: Callable[[int], Env] = lambda index: _core_env(env)  # noqa: E731
    else:
        lanes: Any = env.new_driver().env
        if not isinstance(lanes, Lanes):
            return skipped("its lanes are not environments of their own")
        alone = lambda index: env.new_driver().env.envs[index]  # noqa: E731
    if not isinstance(lanes, Lanes):
        return skipped("one random stream serves all lanes, so a lane alone gets other random numbers")
    seeds = [env.extent.seed + index for index in range(lanes.batch_size)]
    collector = env.collector(BatchDriver(lanes), seed=seeds)
    calls = min(CALLS, 2 * env.trace_limit)
    trace = [collector.advance(calls) for _ in range(calls)]
    for index in range(lanes.batch_size):
        difference = _difference_alone(trace, index, CoreDriver(alone(index)), seeds[index])
        if difference is not None:
            return failed(f"lane {index} of a batch differs from the environment alone: {difference}")
    return PASSED


def _core_env(env: EnvUnderTest) -> Env:
    core = env.new_driver().core_env()
    assert isinstance(core, Env)
    return core


def _difference_alone(trace: list[Transition], index: int, driver: CoreDriver, seed: int) -> str | None:
    for number, transition in enumerate(trace):
        batch = transition.reply_copy
        parts = ["observation", "reward", "terminated", "truncated", "discount"]
        if transition.step == 0 or index in batch.restarted:
            alone = copy_reply(driver.reset(seed if transition.step == 0 else None))
            parts = ["observation"]
        else:
            alone = copy_reply(driver.step({SINGLE: transition.actions[index]}))
        for part in parts:
            name = part if part.endswith("ated") else f"{part}s"
            difference = values_differ(getattr(alone, name)[SINGLE], getattr(batch, name)[index], part)
            if difference is not None:
                return f"{difference} (call {number})"
    return None


def lanes_apart(env: EnvUnderTest) -> Outcome:
    """Resetting one lane does not change the others."""
    with env.temporary_driver() as driver:
        assert isinstance(driver, BatchDriver)
        n = len(driver.possible_agents)
        if n < 2:
            return skipped("there is one lane")
        collector = env.collector(driver)
        for _ in range(3):
            transition = collector.advance(env.trace_limit)
        mask = np.zeros(n, bool)
        mask[0] = True
        observations, _ = driver.env.reset(mask=mask)
        after = driver.split(driver.env.observation_spec, observations, "observation")
        for index in range(1, n):
            before = transition.reply_copy.observations[index]
            difference = values_differ(before, after[index], f"observation in lane {index}")
            if difference is not None:
                return failed(f"reset(mask=…) of lane 0 changes another: {difference}")
    return PASSED


LANE_REQUIREMENTS = (
    Requirement(
        "lanes-like-alone",
        "Each lane of a batch gives the trace that its environment gives alone, with the lane's seed.",
        (47,),
        lanes_like_alone,
        kinds=("single", "batch"),
        needs=(REPRODUCIBLE, "no-global-generator"),
        unless=("instances-apart", *VALUE_KEYS),
    ),
    Requirement("lanes-apart", "Resetting one lane does not change the others.", (48,), lanes_apart, kinds=("batch",)),
)
