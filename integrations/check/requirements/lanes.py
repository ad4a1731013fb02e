"""Requirements on lanes: those of a batch, and those that become of an environment of one."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from envoi import Env, Lanes
from envoi import batch as make_batch

from ..drivers.core import ONE, CoreHand, LanesHand
from ..requirement import PASSED, Found, Requirement, failed, skipped
from ..rollout import Moment, kept, values_differ
from .randomness import REPRODUCIBLE
from .values import VALUE_KEYS

if TYPE_CHECKING:
    from ..env_under_test import Subject

LANES = 3
CALLS = 60


def lanes_like_alone(subject: Subject) -> Found:
    """Each lane does what its environment does alone, with the lane's seed."""
    if subject.hand.kind == "one":
        if not subject.independent:
            return skipped("the only environment that there is cannot be copied; give a function that makes it")
        lanes = make_batch(lambda: _core(subject), LANES)
        alone: Callable[[int], Env] = lambda index: _core(subject)  # noqa: E731
    else:
        env: Any = subject.new().env
        if not isinstance(env, Lanes):
            return skipped("its lanes are not environments of their own")
        lanes, alone = env, lambda index: subject.new().env.envs[index]
    if not isinstance(lanes, Lanes):
        return skipped("one random stream serves all lanes, so that a lane alone draws otherwise")
    hand = LanesHand(lanes)
    seeds = [subject.extent.seed + index for index in range(lanes.batch_size)]
    player = subject.player(hand)
    player.seed = seeds  # pyright: ignore[reportAttributeAccessIssue]
    calls = min(CALLS, 2 * subject.limit)
    moments = [player.advance(calls) for _ in range(calls)]
    for index in range(lanes.batch_size):
        wrong = _unlike(moments, index, CoreHand(alone(index)), seeds[index])
        if wrong is not None:
            return failed(f"lane {index} of a batch differs from the environment alone: {wrong}")
    return PASSED


def _core(subject: Subject) -> Env:
    env = subject.new().core()
    assert isinstance(env, Env)
    return env


def _unlike(moments: list[Moment], index: int, hand: CoreHand, seed: int) -> str | None:
    for moment in moments:
        said = moment.kept
        if moment.step == 0 or index in said.begun:
            beat = kept(hand.begin(seed if moment.step == 0 else None))
            parts = (("observation", said.observations, beat.observations), ("info", said.infos, beat.infos))
        else:
            beat = kept(hand.act({ONE: moment.actions[index]}))
            parts = (
                ("observation", said.observations, beat.observations),
                ("reward", said.rewards, beat.rewards),
                ("terminated", said.terminated, beat.terminated),
                ("truncated", said.truncated, beat.truncated),
                ("discount", said.discounts, beat.discounts),
            )
        for what, lane, single in parts:
            wrong = values_differ(single[ONE], lane[index], what)
            if wrong is not None and what != "info":
                return f"{wrong} (call {moments.index(moment)})"
    return None


def lanes_apart(subject: Subject) -> Found:
    """Beginning one lane anew leaves the others where they are."""
    with subject.played() as hand:
        n = len(hand.possible)
        if n < 2:
            return skipped("there is one lane")
        player = subject.player(hand)
        for _ in range(3):
            moment = player.advance(subject.limit)
        mask = np.zeros(n, bool)
        mask[0] = True
        observations, _ = hand.env.reset(mask=mask)
        after = hand._split(hand.env.observation_spec, observations, "observation")  # pyright: ignore
        for index in range(1, n):
            wrong = values_differ(moment.kept.observations[index], after[index], f"observation in lane {index}")
            if wrong is not None:
                return failed(f"reset(mask=…) of lane 0 changes another: {wrong}")
    return PASSED


LANE_REQUIREMENTS = (
    Requirement(
        "lanes-like-alone",
        "In a batch, each lane does what its environment does alone with the lane's seed.",
        (47,),
        lanes_like_alone,
        kinds=("one", "lanes"),
        needs=(REPRODUCIBLE, "no-global-generator"),
        unless=("instances-apart", *VALUE_KEYS),
    ),
    Requirement(
        "lanes-apart",
        "Beginning one lane anew leaves the others where they are.",
        (48,),
        lanes_apart,
        kinds=("lanes",),
    ),
)
