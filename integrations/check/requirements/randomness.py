"""Requirements on randomness: a seed fixes all episodes after it, and nothing else has an influence."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np

from ..drivers import Driver, NotAvailable
from ..env_under_test import EnvUnderTest
from ..requirement import PASSED, Outcome, failed, failed_if, remark, requirement, skipped
from ..transitions import traces_differ

REPRODUCIBLE = "repeats-anew"
"""Key of the requirement without which no two traces can be compared."""


@requirement("seed-reaches", 24)
def seed_reaches(env: EnvUnderTest) -> Outcome:
    """There is a way for a seed to reach the environment."""
    reason = env.driver.unseeded_reason
    return remark(reason) if reason else PASSED


def _if_seeded(check: Callable[[EnvUnderTest], Outcome]) -> Callable[[EnvUnderTest], Outcome]:
    """Makes a check that is skipped if no seed reaches the environment."""
    return wraps(check)(lambda env: skipped("see seed-reaches") if env.driver.unseeded_reason else check(env))


@requirement(REPRODUCIBLE, 20, 24)
def repeats_in_new_envs(env: EnvUnderTest) -> Outcome:
    """Two new environments give equal traces under the same seed and actions."""
    difference, seed = traces_differ(env.reference, env.trace(), env.driver), env.extent.seed
    if difference is not None and env.driver.unseeded_reason:
        return skipped("see seed-reaches")
    return failed_if(difference, f"two new environments, both reset(seed={seed}), differ")


@requirement("seed-repeats", 20)
@_if_seeded
def seed_repeats(env: EnvUnderTest) -> Outcome:
    """The same environment starts the same episode whenever it gets the same seed."""
    seed = env.extent.seed
    driver = env.new_driver()
    first = env.trace(driver, 1)
    # An episode under another seed between, to tell the seed's influence from that of a new environment.
    env.trace(driver, 1, seed=seed + 1)
    again = env.trace(driver, 1)
    difference = traces_differ(first, again, driver)
    if difference is not None:
        return failed(f"reset(seed={seed}) a second time starts another episode than the first time: {difference}")
    difference = traces_differ(first, again, driver, infos=True)
    return PASSED if difference is None else remark(f"equal except for infos: {difference}")


@requirement("seed-lasts", 20, needs=("seed-repeats",))
@_if_seeded
def seed_lasts(env: EnvUnderTest) -> Outcome:
    """A seed also fixes the episodes that plain resets start after it."""
    driver = env.new_driver()
    difference = traces_differ(env.trace(driver), env.trace(driver), driver)
    return failed_if(difference, f"after reset(seed={env.extent.seed}) the episodes of plain resets differ")


@requirement("seed-zero", 21, needs=(REPRODUCIBLE,))
@_if_seeded
def seed_zero(env: EnvUnderTest) -> Outcome:
    """The seed 0 fixes the episode as any other seed does."""
    difference = traces_differ(env.trace(episodes=1, seed=0), env.trace(episodes=1, seed=0), env.driver)
    return failed_if(difference, "two times reset(seed=0)")


@requirement("seeds-differ", 20, needs=(REPRODUCIBLE,))
@_if_seeded
def seeds_differ(env: EnvUnderTest) -> Outcome:
    """Another seed gives other episodes."""
    seed = env.extent.seed
    if traces_differ(env.reference, env.trace(seed=seed + 1), env.driver) is not None:
        return PASSED
    return remark(f"the seeds {seed} and {seed + 1} give the same episodes; fine for a deterministic environment")


@requirement("no-global-generator", 20, needs=(REPRODUCIBLE,))
def no_global_generator(env: EnvUnderTest) -> Outcome:
    """The process-wide generators `random` and `np.random` have no influence, and are not changed."""
    used = [
        name
        for name, seeds in (("np.random", (0, 1)), ("random", (1, 0)))
        if traces_differ(env.reference, env.trace(global_seeds=seeds), env.driver) is not None
    ]
    if used:
        names = " and ".join(used)
        return failed(f"its episodes depend on the process-wide generator {names}, which no seed of its own fixes")
    changed = _changed_generator(env)
    if changed:
        return remark(f"it uses or seeds the process-wide generator {changed}, on which other code may depend")
    return PASSED


def _changed_generator(env: EnvUnderTest) -> str:
    """Returns the name of a process-wide generator that a reset or a few steps change, or an empty text."""
    collector = env.collector()
    for _ in range(4):
        # `advance` seeds the generators, then makes the call; choosing actions uses neither.
        collector.advance()
        states = _generator_states()
        collector.seed_global_generators()
        for name, clean in _generator_states().items():
            if states[name] != clean:
                return name
    return ""


def _generator_states() -> dict[str, Any]:
    """Returns the states of the process-wide generators, as values that compare."""
    return {"np.random": pickle.dumps(np.random.get_state()), "random": random.getstate()}  # noqa: NPY002


def _act_between(env: EnvUnderTest, activity: str, act: Callable[[Driver], None]) -> Outcome:
    try:
        trace = env.trace(between=act)
    except NotAvailable:
        return skipped("there is nothing to read")
    difference = traces_differ(env.reference, trace, env.driver)
    return failed_if(difference, f"{activity} between the steps changes later steps")


@requirement("sampling-is-free", 18, needs=(REPRODUCIBLE,))
def sampling_is_free(env: EnvUnderTest) -> Outcome:
    """Sampling actions does not change later steps."""
    return _act_between(env, "sampling actions", lambda driver: driver.sample_actions())


@requirement("looking-is-free", 22, needs=(REPRODUCIBLE,))
def looking_is_free(env: EnvUnderTest) -> Outcome:
    """Rendering, and reading observation and state, do not change later steps."""
    return _act_between(env, "rendering, or reading observation or state,", lambda driver: driver.inspect())


@requirement("instances-apart", 22, 49, needs=(REPRODUCIBLE,))
def instances_apart(env: EnvUnderTest) -> Outcome:
    """Building and stepping another environment of the same kind has no influence."""
    seed = env.extent.seed
    second_alone = env.trace(seed=seed + 1, action_seed=1)
    collector = env.collector()
    first, second = [collector.advance()], []
    # Built within the first one's episode, as building it may be what disturbs that.
    other = env.collector(seed=seed + 1, action_seed=1)
    while len(first) < len(env.reference) or len(second) < len(second_alone):
        if len(second) < len(second_alone):
            second.append(other.advance())
        if len(first) < len(env.reference):
            first.append(collector.advance())
    difference = traces_differ(env.reference, first, env.driver) or traces_differ(second_alone, second, env.driver)
    return failed_if(difference, "another environment of the same kind, built and stepped in turn, changes it")


RANDOMNESS = (
    seed_reaches, repeats_in_new_envs, seed_repeats, seed_lasts, seed_zero, seeds_differ, no_global_generator,
    sampling_is_free, looking_is_free, instances_apart,
)  # fmt: skip
