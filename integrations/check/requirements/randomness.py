"""Requirements on what is random: what a seed fixes, and what must have no influence."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from ..drivers.core import Hand, NothingThere
from ..requirement import PASSED, Found, Requirement, failed, remark, skipped
from ..rollout import Noise, difference

if TYPE_CHECKING:
    from ..env_under_test import Subject

REPRODUCIBLE = "repeats-anew"
"""The requirement without which no two traces can be compared."""


def seed_reaches(subject: Subject) -> Found:
    """A seed reaches the environment at all."""
    why = subject.hand.unseeded
    return remark(why) if why else PASSED


def repeats_anew(subject: Subject) -> Found:
    """Two new environments do the same under the same seed."""
    hand = subject.hand
    said = difference(subject.reference, subject.trace(), hand)
    if said is None:
        return PASSED
    if hand.unseeded:
        return skipped("see seed-reaches")
    if not subject.independent:
        return failed(f"two runs with the seed {subject.extent.seed} differ: {said}")
    return failed(f"two new environments, both reset(seed={subject.extent.seed}), differ: {said}")


def seed_repeats(subject: Subject) -> Found:
    """The same environment does the same again under the same seed."""
    if subject.hand.unseeded:
        return skipped("see seed-reaches")
    seed = subject.extent.seed
    with subject.played() as hand:
        first = subject.trace(hand, 1)
        # Into an episode, so that what the seed fixes is not what a new environment does anyhow.
        subject.trace(hand, 1, seed=seed + 1)
        again = subject.trace(hand, 1)
    said = difference(first, again, hand)
    if said is not None:
        return failed(f"reset(seed={seed}) a second time begins another episode than the first time: {said}")
    said = difference(first, again, hand, infos=True)
    return PASSED if said is None else remark(f"the same but for infos: {said}")


def seed_lasts(subject: Subject) -> Found:
    """The seed fixes also the episodes after plain resets."""
    if subject.hand.unseeded:
        return skipped("see seed-reaches")
    with subject.played() as hand:
        first, again = subject.trace(hand), subject.trace(hand)
    said = difference(first, again, hand)
    if said is None:
        return PASSED
    return failed(f"after reset(seed={subject.extent.seed}) the episodes of plain resets differ: {said}")


def seed_zero(subject: Subject) -> Found:
    """The seed 0 is a seed like any other."""
    if subject.hand.unseeded:
        return skipped("see seed-reaches")
    said = difference(subject.trace(episodes=1, seed=0), subject.trace(episodes=1, seed=0), subject.hand)
    return PASSED if said is None else failed(f"two times reset(seed=0): {said}")


def seeds_differ(subject: Subject) -> Found:
    """Another seed gives other episodes."""
    if subject.hand.unseeded:
        return skipped("see seed-reaches")
    seed = subject.extent.seed
    if difference(subject.reference, subject.trace(seed=seed + 1), subject.hand) is not None:
        return PASSED
    return remark(f"the seeds {seed} and {seed + 1} give the same episodes; fine where nothing in it is random")


def no_global_generator(subject: Subject) -> Found:
    """The process-wide generators have no influence."""
    guilty = [
        name
        for name, noise in (("np.random", Noise(numpy=1)), ("random", Noise(python=1)))
        if difference(subject.reference, subject.trace(noise=noise), subject.hand) is not None
    ]
    if guilty:
        names = " and ".join(guilty)
        return failed(f"what it does depends on the process-wide generator {names}, which no seed of its own fixes")
    written = _written(subject)
    if written:
        return remark(f"it draws from, or seeds, the process-wide generator {written}, on which others may depend")
    return PASSED


def _written(subject: Subject) -> str:
    """A process-wide generator that a reset or a few steps leave in another state."""
    with subject.played() as hand:
        player = subject.player(hand)
        for _ in range(4):
            # As `advance` sets them, and then asks for the actions, which draws from neither.
            player.advance(subject.limit)
            state = _states()
            player.set_generators()
            clean = _states()
            if state[0] != clean[0]:
                return "np.random"
            if state[1] != clean[1]:
                return "random"
    return ""


def _states() -> tuple[Any, Any]:
    """The states of the process-wide generators, as values that compare."""
    name, words, *rest = cast("Any", np.random.get_state())  # noqa: NPY002
    return (name, words.tolist(), rest), random.getstate()


def _unchanged_by(what: str, act: Callable[[Hand], None]) -> Callable[[Subject], Found]:
    """The check that doing something between the steps changes nothing."""

    def check(subject: Subject) -> Found:
        try:
            trace = subject.trace(between=act)
        except NothingThere:
            return skipped("there is nothing to look at")
        said = difference(subject.reference, trace, subject.hand)
        return PASSED if said is None else failed(f"{what} between the steps changes what follows: {said}")

    return check


def instances_apart(subject: Subject) -> Found:
    """Two environments that are played in turn do what each does alone."""
    if not subject.independent:
        return skipped("the only environment that there is cannot be copied; give a function that makes it")
    seed, limit = subject.extent.seed, subject.limit
    other_alone = subject.trace(seed=seed + 1, start=1)
    with subject.played() as first:
        player = subject.player(first)
        mine, others = [player.advance(limit)], []
        with subject.played() as second:
            # Not before the first one's episode, so that building it is one of the disturbances.
            other = subject.player(second, seed=seed + 1, start=1)
            while len(mine) < len(subject.reference) or len(others) < len(other_alone):
                if len(others) < len(other_alone):
                    others.append(other.advance(limit))
                if len(mine) < len(subject.reference):
                    mine.append(player.advance(limit))
    for reference, said in ((subject.reference, mine), (other_alone, others)):
        wrong = difference(reference, said, subject.hand)
        if wrong is not None:
            return failed(f"another environment of the same kind, built and stepped in turn, changes it: {wrong}")
    return PASSED


RANDOMNESS = (
    Requirement("seed-reaches", "There is a way for a seed to reach the environment.", (24,), seed_reaches),
    Requirement(
        REPRODUCIBLE, "Two new environments do the same under the same seed and actions.", (20, 24), repeats_anew
    ),
    Requirement(
        "seed-repeats", "The same environment begins the same episode whenever it gets the same seed.", (20,),
        seed_repeats,
    ),
    Requirement(
        "seed-lasts", "A seed fixes also the episodes that plain resets begin after it.", (20,), seed_lasts,
        needs=("seed-repeats",),
    ),
    Requirement("seed-zero", "The seed 0 is a seed like any other.", (21,), seed_zero, needs=(REPRODUCIBLE,)),
    Requirement("seeds-differ", "Another seed gives other episodes.", (20,), seeds_differ, needs=(REPRODUCIBLE,)),
    Requirement(
        "no-global-generator",
        "The process-wide generators `random` and `np.random` have no influence, and are left alone.",
        (20,),
        no_global_generator,
        needs=(REPRODUCIBLE,),
    ),
    Requirement(
        "sampling-is-free",
        "Sampling actions does not change what follows.",
        (18,),
        _unchanged_by("sampling actions", lambda hand: hand.sample()),
        needs=(REPRODUCIBLE,),
    ),
    Requirement(
        "looking-is-free",
        "Looking (rendering, reading observation and state) does not change what follows.",
        (22,),
        _unchanged_by("looking", lambda hand: hand.look()),
        needs=(REPRODUCIBLE,),
    ),
    Requirement(
        "instances-apart",
        "Building and stepping another environment of the same kind changes nothing.",
        (22, 49),
        instances_apart,
        needs=(REPRODUCIBLE,),
    ),
)  # fmt: skip
