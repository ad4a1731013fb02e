"""Requirements on copies and snapshots of an environment, and on the lanes of a batch."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from envoi import Env, Lanes, SnapshotUnsupported
from envoi import batch as make_batch

from ..drivers.base import SINGLE
from ..drivers.core import BatchDriver, CoreDriver, core_driver
from ..env_under_test import EnvUnderTest
from ..requirement import PASSED, Outcome, failed, failed_if, remark, requirement, skipped
from ..transitions import Transition, copy_reply, short, traces_differ, values_differ
from .randomness import REPRODUCIBLE
from .values import AGENT_KEYS, VALUE_KEYS

COPIERS: dict[str, Callable[[Any], Any]] = {
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),  # noqa: S301 (made by the same call)
}
STEPS_BEFORE = 5
"""Calls before an environment is copied."""
LANES = 3
"""Lanes of the batch that a single-agent environment becomes."""
CALLS = 60
"""Most calls of a batch that is compared with its lanes alone."""


@requirement("copies", 27, needs=(REPRODUCIBLE,), unless=("instances-apart",), on_forms=True)
def copies(env: EnvUnderTest) -> Outcome:
    """A copy taken in an episode continues as the original, and neither changes the other."""
    unsupported: list[str] = []
    if any(kind.__name__ == "EzPickle" for layer in env.driver.layers() for kind in type(layer).__mro__):
        return remark("a copy is a new environment outside of the episode, as its class is an EzPickle")
    for name, copier in COPIERS.items():
        with env.temporary_driver() as driver:
            original = env.collector(driver)
            done = original.calls_of(min(STEPS_BEFORE, len(env.reference)))
            try:
                copied = original.with_driver(driver.with_env(copier(driver.env)))
            except Exception as error:
                unsupported.append(f"{name} raises {type(error).__name__}: {short(str(error), 100)}")
                continue
            expected = env.reference[len(done) :]
            before = traces_differ(env.reference[: len(done)], done, driver)
            for label, collector in (("the copy", copied), ("the original, beside its copy,", original)):
                difference = before or traces_differ(expected, collector.calls_of(len(expected)), driver)
                if difference is not None:
                    return failed(f"{name} in an episode: {label} continues differently: {difference}")
    return remark("; ".join(unsupported)) if unsupported else PASSED


@requirement("snapshots", 27, needs=(REPRODUCIBLE,), unless=("instances-apart", *VALUE_KEYS, *AGENT_KEYS))
def snapshots(env: EnvUnderTest) -> Outcome:
    """A snapshot restores everything that later steps depend on."""
    with env.temporary_driver() as own_driver:
        core: Any = own_driver.core_env()
        driver = core_driver(core)
        collector = env.collector(driver)
        collector.calls_of(min(STEPS_BEFORE, len(env.reference)))
        try:
            snapshot = core.snapshot()
        except SnapshotUnsupported as error:
            return remark(short(str(error), 100))
        restored = collector.with_driver(driver)
        ended = driver.ended if isinstance(driver, BatchDriver) else None
        # Past the end of an episode, so that the snapshot is restored across it.
        first = collector.calls_of(2 * env.trace_limit)
        core.restore(snapshot)
        if isinstance(driver, BatchDriver) and ended is not None:
            driver.ended = ended
        second = restored.calls_of(2 * env.trace_limit)
    return failed_if(traces_differ(first, second, driver), "after restore() it continues differently")


@requirement(
    "lanes-like-alone",
    47,
    kinds=("single", "batch"),
    needs=(REPRODUCIBLE, "no-global-generator"),
    unless=("instances-apart", *VALUE_KEYS),
)
def lanes_like_alone(env: EnvUnderTest) -> Outcome:
    """Each lane of a batch gives the trace that its environment gives alone, with the lane's seed."""
    if env.driver.kind == "single":
        if not env.independent:
            return skipped("the only environment cannot be copied; give a function that makes it")
        new: Any = lambda: env.new_driver().core_env()  # noqa: E731
        lanes: Any = make_batch(new, LANES)
        alone: Callable[[int], Env] = lambda index: new()  # noqa: E731
    else:
        lanes = env.new_driver().env
        if not isinstance(lanes, Lanes):
            return skipped("its lanes are not environments of their own")
        alone = lambda index: env.new_driver().env.envs[index]  # noqa: E731
    if not isinstance(lanes, Lanes):
        return skipped("one random stream serves all lanes, so a lane alone gets other random numbers")
    seeds = [env.extent.seed + index for index in range(lanes.batch_size)]
    calls = min(CALLS, 2 * env.trace_limit)
    trace = env.collector(BatchDriver(lanes), seeds, limit=calls).calls_of(calls)
    for index in range(lanes.batch_size):
        difference = _difference_alone(trace, index, CoreDriver(alone(index)), seeds[index])
        if difference is not None:
            return failed(f"lane {index} of a batch differs from the environment alone: {difference}")
    return PASSED


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


@requirement("lanes-apart", 48, kinds=("batch",))
def lanes_apart(env: EnvUnderTest) -> Outcome:
    """Resetting one lane does not change the others."""
    with env.temporary_driver() as driver:
        assert isinstance(driver, BatchDriver)
        n = len(driver.possible_agents)
        if n < 2:
            return skipped("there is one lane")
        transition = env.collector(driver).calls_of(3)[-1]
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


COPIES = (copies, snapshots)
LANE_REQUIREMENTS = (lanes_like_alone, lanes_apart)
