"""Requirements on episodes, steps outside of them, spaces, metadata, closing, rendering, copies and lanes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from envoi import EpisodeError, Lanes, SnapshotUnsupported

from ..drivers import SINGLE, BatchDriver, CoreDriver, Driver, NotAvailable, core_driver
from ..env_under_test import EnvUnderTest, spec_violation
from ..requirement import PASSED, Outcome, failed, failed_if, remark, requirement, skipped
from ..transitions import Transition, copy_value, short, traces_differ, values_differ
from .randomness import REPRODUCIBLE
from .values import AGENT_KEYS, VALUE_KEYS

LIMITS = ("max_episode_steps", "_max_episode_steps", "max_steps", "_max_steps", "max_cycles", "horizon", "time_limit")
"""Attributes in which environments keep their time limits."""
SHORTEST_LIMIT = 50
"""Where no limit is declared, episodes shorter than this may all end at one length by the nature of the game."""
LIMIT_EPISODES = 3
"""Episodes under other seeds and actions that decide whether a length is a limit."""


@requirement("resets-twice", 20, unless=("observation-in-spec",))
def resets_twice(env: EnvUnderTest) -> Outcome:
    """The second of two resets in a row starts an episode as the first does."""
    driver = env.new_driver()
    driver.reset(env.extent.seed)
    reply = driver.reset()
    for agent, value in reply.observations.items():
        violation = spec_violation(driver.observation_specs[agent], value, driver.label("observation", agent))
        if violation is not None and violation[0] == "observation-in-spec":
            return failed(f"{violation[1]} (the second of two resets in a row)")
    collector = env.collector(driver, limit=min(env.trace_limit, 10))
    collector.reply, collector.episode = reply, 1
    collector.collect(1)
    return PASSED


@requirement("ends")
def ends(env: EnvUnderTest) -> Outcome:
    """Episodes terminate, or are truncated."""
    if env.driver.kind == "batch":
        replies = [transition.reply for transition in env.reference]
        ended = any(reply.ended(lane) for reply in replies for lane in reply.agents)
        return PASSED if ended else remark(f"no lane ended within {env.trace_limit} steps of random actions")
    rollout = env.rollout
    if rollout.error is not None:
        return skipped("see plays")
    if not rollout.ends:
        steps = f"{rollout.longest:,} steps of random actions"
        return remark(f"no episode ended within {steps}; a time limit would truncate it")
    return PASSED


@requirement("limit-truncates", 1, kinds=("single", "multi"))
def no_limit_as_termination(env: EnvUnderTest) -> Outcome:
    """A time limit sets `truncated`, and not `terminated`.

    The check is careful. An environment that declares a limit L fails if every episode that reached L, under other
    seeds and policies too, was terminated at exactly L. One that declares none gets a remark if all episodes were
    terminated at one length that is not short, as that may be the nature of a game.
    """
    rollout, extent = env.rollout, env.extent
    if rollout.error is not None or not rollout.ends:
        return skipped("no episode ended")
    lengths = {end.step for end in rollout.ends}
    declared, longest = _declared_limits(env.driver), max(lengths)
    few_or_short = len(lengths) > 1 or longest < SHORTEST_LIMIT or len(rollout.ends) < LIMIT_EPISODES
    if longest not in declared and few_or_short:
        return PASSED
    episode_ends = list(rollout.ends)
    driver = env.new_driver()
    for number in range(LIMIT_EPISODES):
        options: Any = {"limit": longest + 1, "policy": "same", "action_seed": number}
        last = env.collector(driver, extent.seed + 1 + number, **options).collect(1)[-1]
        if last.reply.over:
            episode_ends.append(last)
    reached = [end for end in episode_ends if end.step >= longest]
    if len(reached) < 2 or not all(end.step == longest and _terminated(end) for end in reached):
        return PASSED
    if longest in declared:
        return failed(
            f"a time limit that terminates: it declares a limit of {longest} steps, and each of the "
            f"{len(reached)} episodes that reached it was terminated there; a time limit should set truncated instead"
        )
    if {end.step for end in episode_ends} != {longest}:
        return PASSED
    return remark(
        f"each of {len(episode_ends)} episodes, under other seeds and actions too, was terminated after exactly "
        f"{longest} steps; if that is a time limit, it should set truncated instead"
    )


def _terminated(end: Transition) -> bool:
    flags = [bool(np.any(flag)) for flag in end.reply_copy.terminated.values()]
    return bool(flags) and all(flags)


def _declared_limits(driver: Driver) -> set[int]:
    holders = [holder for layer in driver.layers() for holder in (layer, getattr(layer, "spec", None))]
    values = [getattr(holder, name, None) for holder in holders for name in LIMITS]
    return {int(one) for one in values if isinstance(one, (int, np.integer)) and not isinstance(one, bool) and one > 0}


@requirement("after-the-end", 31, on_forms=True)
def after_the_end(env: EnvUnderTest) -> Outcome:
    """A step after the end is an error (in dm_env another episode), never a silent step."""
    driver = env.new_driver()
    collector = env.collector(driver)
    if isinstance(driver, BatchDriver):
        for _ in range(env.trace_limit):
            reply = collector.advance().reply
            if any(map(reply.ended, driver.possible_agents)):
                step = lambda: driver.step_without_restart(collector.actions)  # noqa: E731
                return _is_refused(driver, step, "of a lane that has ended")
        return skipped("no lane ended")
    longest = max((end.step for end in env.rollout.ends), default=0)
    collector.limit, over = longest + 1, False
    while longest and not over and collector.episode <= env.extent.episodes:
        over = collector.advance().reply.over
    if not over:
        return skipped("no episode ended")
    actions = dict(collector.actions)
    if driver.restarts_itself:
        if driver.step_starts_episode(next(iter(actions.values()))):
            return PASSED
        return remark("a step after the end does not start another episode, as dm_env requires")
    return _is_refused(driver, lambda: driver.step(actions), "after the end")


def _is_refused(driver: Driver, step: Callable[[], Any], when: str) -> Outcome:
    """Checks that a step outside of an episode is an error: required of the core, only a remark for others."""
    is_core = isinstance(driver, CoreDriver)
    try:
        step()
    except Exception as error:
        if is_core and not isinstance(error, EpisodeError):
            return failed(f"a step {when} raises {type(error).__name__} rather than EpisodeError: {error}")
        return PASSED
    return (failed if is_core else remark)(f"a step {when} raises no error, so a forgotten reset remains unnoticed")


@requirement("before-the-reset", 31, on_forms=True)
def before_the_reset(env: EnvUnderTest) -> Outcome:
    """A step before the first reset is an error (in dm_env it starts an episode)."""
    driver = env.new_driver()
    actions = dict(env.reference[1].actions) if len(env.reference) > 1 else {}
    if not actions:
        return skipped("no step was made")
    if driver.restarts_itself:
        starts = driver.step_starts_episode(next(iter(actions.values())))
        return PASSED if starts else remark("a step before the first reset does not start an episode")
    return _is_refused(driver, lambda: driver.step(actions), "before the first reset")


@requirement("same-spaces", 18, on_forms=True)
def same_spaces(env: EnvUnderTest) -> Outcome:
    """A space is the same object in each call (in dm_env an equal one)."""
    driver = env.driver
    again = driver.read_spaces()
    for name, space in driver.read_spaces().items():
        if not driver.same_space(space, again[name]):
            return failed(f"{name} is a new object in each call; seeding it has no effect")
    return PASSED


@requirement("metadata-stays", 29)
def metadata_stays(env: EnvUnderTest) -> Outcome:
    """Building, playing and closing an environment do not change the metadata."""
    before = copy_value(env.driver.metadata)
    env.collector(limit=3).collect(1)
    env.release()
    difference = values_differ(before, env.driver.metadata, "metadata")
    if difference is None:
        return PASSED
    return failed(f"{difference}, after another environment was built, played and closed")


@requirement("closes-twice", 26, on_forms=True)
def closes_twice(env: EnvUnderTest) -> Outcome:
    """close() can be called again."""
    driver = env.new_driver()
    driver.reset(env.extent.seed)
    driver.close()
    try:
        driver.close()
    except Exception as error:
        return failed(f"the second close() raises {type(error).__name__}: {error}")
    return PASSED


@requirement("renders", 29)
def renders(env: EnvUnderTest) -> Outcome:
    """render() returns a value of the render mode."""
    mode = env.driver.render_mode
    driver = env.new_driver()
    collector = env.collector(driver)
    for _ in range(3):
        collector.advance()
        try:
            image = driver.render()
        except NotAvailable:
            return skipped("a window would open" if mode == "human" else "it was made without a render mode")
        if mode != "rgb_array":
            if image is None:
                return failed(f"render() in the mode {mode!r} returns None")
        elif driver.kind != "batch":
            is_array = isinstance(image, np.ndarray)
            if not (is_array and image.dtype == np.uint8 and image.ndim == 3 and image.shape[-1] == 3):
                got = f"{image.dtype} of shape {image.shape}" if is_array else repr(image)
                expected = "uint8 of shape (height, width, 3)"
                return failed(f"render() in the mode rgb_array: expected {expected}, got {got}")
    return PASSED


EPISODES = (resets_twice, ends, no_limit_as_termination, after_the_end, before_the_reset)
INTERFACE = (same_spaces, metadata_stays, closes_twice, renders)


# Copies, snapshots and lanes.

COPIERS: dict[str, Callable[[Any], Any]] = {
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),  # noqa: S301 (made by the same call)
}
STEPS_BEFORE = 5
"""Calls before an environment is copied."""
CALLS = 60
"""Most calls of a batch that is compared with its lanes alone."""


@requirement("copies", 27, needs=(REPRODUCIBLE,), unless=("instances-apart",), on_forms=True)
def copies(env: EnvUnderTest) -> Outcome:
    """A copy taken in an episode continues as the original, and neither changes the other."""
    unsupported: list[str] = []
    if any(kind.__name__ == "EzPickle" for layer in env.driver.layers() for kind in type(layer).__mro__):
        return remark("a copy is a new environment outside of the episode, as its class is an EzPickle")
    for name, copier in COPIERS.items():
        driver = env.new_driver()
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
    core: Any = env.new_driver().core_env()
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
    kinds=("batch",),
    needs=(REPRODUCIBLE, "no-global-generator"),
    unless=("instances-apart", *VALUE_KEYS),
)
def lanes_like_alone(env: EnvUnderTest) -> Outcome:
    """Each lane of a batch gives the trace that its environment gives alone, with the lane's seed."""
    lanes: Any = env.new_driver().env
    if not isinstance(lanes, Lanes):
        return skipped("its lanes are not environments of their own")
    seeds = [env.extent.seed + index for index in range(lanes.batch_size)]
    calls = min(CALLS, 2 * env.trace_limit)
    trace = env.collector(BatchDriver(lanes), seeds, limit=calls).calls_of(calls)
    for index in range(lanes.batch_size):
        difference = _difference_alone(trace, index, CoreDriver(env.new_driver().env.envs[index]), seeds[index])
        if difference is not None:
            return failed(f"lane {index} of a batch differs from the environment alone: {difference}")
    return PASSED


def _difference_alone(trace: list[Transition], index: int, driver: CoreDriver, seed: int) -> str | None:
    for number, transition in enumerate(trace):
        batch, names = transition.reply_copy, ("observations", "rewards", "terminated", "truncated", "discounts")
        if transition.step == 0 or index in batch.restarted:
            alone, names = driver.reset(seed if transition.step == 0 else None), names[:1]
        else:
            alone = driver.step({SINGLE: transition.actions[index]})
        for name in names:
            part = name.removesuffix("s")
            difference = values_differ(getattr(alone, name)[SINGLE], getattr(batch, name)[index], part)
            if difference is not None:
                return f"{difference} (call {number})"
    return None


@requirement("lanes-apart", 48, kinds=("batch",))
def lanes_apart(env: EnvUnderTest) -> Outcome:
    """Resetting one lane does not change the others."""
    driver = env.new_driver()
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
