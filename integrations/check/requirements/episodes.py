"""Requirements on the life of an environment: episodes and their ends, copies, pictures, closing."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from envoi import EpisodeError, SnapshotUnsupported

from ..drivers.core import CoreHand, Hand, LanesHand, NothingThere, core_hand
from ..requirement import PASSED, Found, Requirement, failed, failed_if, remark, skipped
from ..rollout import Moment, Player, copied, difference, values_differ
from .agents import AGENT_KEYS
from .randomness import REPRODUCIBLE
from .values import VALUE_KEYS, fits

if TYPE_CHECKING:
    from ..env_under_test import Subject

LIMITS = ("max_episode_steps", "_max_episode_steps", "max_steps", "_max_steps", "max_cycles", "horizon", "time_limit")
"""What environments call their time limits."""
SURELY_A_LIMIT = 50
"""Where no limit is declared, shorter episodes than this may well all end alike by their nature."""
LIMIT_EPISODES = 3


def resets_twice(subject: Subject) -> Found:
    """Two resets in a row begin an episode like one does."""
    with subject.played() as hand:
        hand.begin(subject.extent.seed)
        beat = hand.begin()
        for agent, value in beat.observations.items():
            path = hand.label("observation", agent)
            wrong, key = fits(hand.observation_specs[agent], value, path, hand.exact_specs)
            if wrong is not None and key == "observation-in-spec":
                return failed(f"{wrong} (the second of two resets in a row)")
        player = subject.player(hand)
        player.beat = beat
        player.episode = 1
        player.play(1, min(subject.limit, 10))
    return PASSED


def ends(subject: Subject) -> Found:
    """Episodes end, or are cut off."""
    if subject.hand.kind == "lanes":
        ended = any(m.ended(lane) for m in (moment.beat for moment in subject.reference) for lane in m.agents)
        return PASSED if ended else remark(f"no lane ended within {subject.limit} steps of random actions")
    walk = subject.walk
    if walk.error is not None:
        return skipped("see plays")
    if not walk.lengths:
        return remark(
            f"no episode ended within {walk.longest:,} steps of random actions; a time limit would cut it off"
        )
    return PASSED


def no_limit_as_termination(subject: Subject) -> Found:
    """A time limit truncates, and does not terminate.

    Told only with care. Of an environment that declares a limit L, that every episode which got so far, under other
    seeds and policies too, was terminated at exactly L. Of one that declares none, that all were at one and the same
    length, and not a short one; that may be the nature of a game, so it is a remark.
    """
    walk, extent = subject.walk, subject.extent
    if walk.error is not None or not walk.lengths:
        return skipped("no episode ended")
    lengths = {length for length, _ in walk.lengths}
    declared = sorted(set(_declared_limits(subject.hand)))
    longest = max(lengths)
    if longest not in declared and (len(lengths) > 1 or longest < SURELY_A_LIMIT or len(walk.lengths) < LIMIT_EPISODES):
        return PASSED
    ended = list(walk.lengths)
    with subject.played() as hand:
        for number in range(LIMIT_EPISODES):
            player = subject.player(hand, seed=extent.seed + 1 + number, policy="same", start=number)
            moments = player.play(1, longest + 1)
            if moments[-1].beat.over:
                ended.append((moments[-1].step, moments[-1]))
    reached = [moment for length, moment in ended if length >= longest]
    if len(reached) < 2 or not all(moment.step == longest and _terminated(moment) for moment in reached):
        return PASSED
    if longest in declared:
        return failed(
            f"a time limit that terminates: it declares a limit of {longest} steps, and each of the "
            f"{len(reached)} episodes that got so far was terminated there; a cut-off should set truncated instead"
        )
    if {length for length, _ in ended} != {longest}:
        return PASSED
    return remark(
        f"each of {len(ended)} episodes, under other seeds and actions too, was terminated after exactly {longest} "
        "steps; if that is a time limit, it should set truncated instead"
    )


def _terminated(moment: Moment) -> bool:
    flags = [bool(np.any(flag)) for flag in moment.kept.terminated.values()]
    return bool(flags) and all(flags)


def _declared_limits(hand: Hand) -> Iterator[int]:
    for layer in hand.layers():
        for holder in (layer, getattr(layer, "spec", None)):
            for name in LIMITS:
                value = getattr(holder, name, None)
                if isinstance(value, (int, np.integer)) and not isinstance(value, bool) and value > 0:
                    yield int(value)


def _until_over(subject: Subject, hand: Hand) -> Player | None:
    """A player at the end of an episode; None where none came."""
    player = subject.player(hand)
    limit = max((length for length, _ in subject.walk.lengths), default=0)
    if hand.kind == "lanes" or limit == 0:
        return None
    while not player.advance(limit + 1).beat.over:
        if player.episode > subject.extent.episodes:
            return None
    return player


def after_the_end(subject: Subject) -> Found:
    """A step after the end is an error, or for dm_env another episode."""
    with subject.played() as hand:
        if isinstance(hand, LanesHand):
            return _after_a_lane(subject, hand)
        player = _until_over(subject, hand)
        if player is None:
            return skipped("no episode ended")
        actions = player.given
        begins_anew = getattr(hand, "begins_anew", None)
        if begins_anew is not None:
            if begins_anew(next(iter(actions.values()))):
                return PASSED
            return remark("a step after the end does not begin another episode, as dm_env wants it")
        return _is_refused(hand, lambda: hand.act(dict(actions)), "after the end")


def _after_a_lane(subject: Subject, hand: LanesHand) -> Found:
    player = subject.player(hand)
    for _ in range(subject.limit):
        moment = player.advance(subject.limit)
        if any(moment.beat.ended(lane) for lane in hand.possible):
            return _is_refused(hand, lambda: hand.act_beyond(player.given), "of a lane that has ended")
    return skipped("no lane ended")


def _is_refused(hand: Hand, act: Callable[[], Any], when: str) -> Found:
    """Whether a step where none is possible is an error: by the core's rules it is, by others' it had better be."""
    core = isinstance(hand, CoreHand)
    try:
        act()
    except EpisodeError:
        return PASSED
    except Exception as error:
        if core:
            return failed(f"a step {when} raises {type(error).__name__} rather than EpisodeError: {error}")
        return PASSED
    said = f"a step {when} goes on without an error, so that a forgotten reset is not noticed"
    return failed(said) if core else remark(said)


def before_the_reset(subject: Subject) -> Found:
    """A step before the first reset is an error."""
    if not subject.independent:
        return skipped("the only environment that there is was reset before")
    with subject.played() as hand:
        begins_anew = getattr(hand, "begins_anew", None)
        actions = dict(subject.reference[1].actions) if len(subject.reference) > 1 else {}
        if not actions:
            return skipped("no step was made")
        if begins_anew is not None:
            anew = begins_anew(next(iter(actions.values())))
            return PASSED if anew else remark("a step before the first reset does not begin an episode")
        return _is_refused(hand, lambda: hand.act(actions), "before the first reset")


def same_spaces(subject: Subject) -> Found:
    """The spaces stay what they are."""
    hand = subject.hand
    for name, ask in hand.declared().items():
        if not hand.same_declared(ask(), ask()):
            return failed(f"{name} is another object each time it is asked for; seeding it has no effect")
    return PASSED


def metadata_stays(subject: Subject) -> Found:
    """Building, playing and closing leave the metadata as it is."""
    before = copied(subject.hand.metadata)
    if subject.independent:
        with subject.played() as hand:
            subject.player(hand).play(1, 3)
    said = values_differ(before, subject.hand.metadata, "metadata")
    return PASSED if said is None else failed(f"{said}, after another environment was built, played and closed")


def closes_twice(subject: Subject) -> Found:
    """An environment may be closed again."""
    if not subject.independent:
        return skipped("the only environment that there is stays open")
    hand = subject.new()
    hand.begin(subject.extent.seed)
    hand.close()
    try:
        hand.close()
    except Exception as error:
        return failed(f"the second close() raises {type(error).__name__}: {error}")
    return PASSED


# Copies.

COPIERS: dict[str, Callable[[Any], Any]] = {
    "copy.deepcopy": copy.deepcopy,
    "pickle": lambda env: pickle.loads(pickle.dumps(env)),  # noqa: S301 (its own)
}


def copies(subject: Subject) -> Found:
    """A copy taken in an episode goes on as the original does, and neither disturbs the other."""
    unsupported: list[str] = []
    if any(kind.__name__ == "EzPickle" for layer in subject.hand.layers() for kind in type(layer).__mro__):
        return remark("a copy is a new environment, and not in the episode: it is an EzPickle")
    for name, copier in COPIERS.items():
        with subject.played() as hand:
            player = subject.player(hand)
            done = [player.advance(subject.limit) for _ in range(min(5, len(subject.reference)))]
            try:
                twin = hand.over(copier(hand.env))
            except Exception as error:
                unsupported.append(f"{name} raises {type(error).__name__}: {_short(error)}")
                continue
            left = len(subject.reference) - len(done)
            other, apart = player.on(twin), difference(subject.reference[: len(done)], done, hand)
            for who, one in (("the copy", other), ("the original, beside its copy,", player)):
                expected = subject.reference[len(done) :]
                said = apart or difference(expected, [one.advance(subject.limit) for _ in range(left)], hand)
                if said is not None:
                    return failed(f"{name} in an episode: {who} goes on differently: {said}")
    return remark("; ".join(unsupported)) if unsupported else PASSED


def _short(error: Exception) -> str:
    text = " ".join(str(error).split())
    return text if len(text) <= 100 else text[:97] + "…"


def snapshots(subject: Subject) -> Found:
    """What a snapshot holds is all that the future depends on."""
    with subject.played() as raw:
        core: Any = raw.core()
        hand = core_hand(core)
        player = subject.player(hand)
        for _ in range(min(5, len(subject.reference))):
            player.advance(subject.limit)
        try:
            held = core.snapshot()
        except SnapshotUnsupported as error:
            return remark(_short(error))
        again = player.on(hand)
        over = getattr(hand, "_over", None)
        # To the end of an episode and beyond, so that a snapshot is restored across it.
        first = [player.advance(subject.limit) for _ in range(2 * subject.limit)]
        core.restore(held)
        if over is not None:
            hand._over = over  # pyright: ignore[reportAttributeAccessIssue]
        second = [again.advance(subject.limit) for _ in range(2 * subject.limit)]
    said = difference(first, second, hand)
    return failed_if(None if said is None else f"after restore() it goes on differently: {said}")


def renders(subject: Subject) -> Found:
    """A picture is one."""
    mode = subject.hand.render_mode
    with subject.played() as hand:
        player = subject.player(hand)
        for _ in range(3):
            player.advance(subject.limit)
            try:
                picture = hand.draw()
            except NothingThere:
                return skipped("a window would open" if mode == "human" else "it was not made to render")
            if mode == "rgb_array":
                if hand.kind == "lanes":
                    continue
                is_picture = isinstance(picture, np.ndarray) and picture.ndim == 3 and picture.shape[-1] == 3
                if not is_picture or picture.dtype != np.uint8:
                    what = (
                        f"{picture.dtype} of shape {picture.shape}"
                        if isinstance(picture, np.ndarray)
                        else repr(picture)
                    )
                    return failed(
                        f"render() in the mode rgb_array: expected uint8 of shape (height, width, 3), got {what}"
                    )
            elif picture is None:
                return failed(f"render() in the mode {mode!r} gives None")
    return PASSED


LIFECYCLE = (
    Requirement(
        "resets-twice", "Two resets in a row begin an episode like one does.", (20,), resets_twice,
        unless=("observation-in-spec",),
    ),
    Requirement("ends", "Episodes end, or are cut off.", (), ends),
    Requirement(
        "limit-truncates", "A time limit sets `truncated`, and not `terminated`.", (1,), no_limit_as_termination,
        kinds=("one", "several"),
    ),
    Requirement(
        "after-the-end",
        "A step after the end is an error (in dm_env another episode), never a silent step.",
        (31,),
        after_the_end,
        on_forms=True,
    ),
    Requirement(
        "before-the-reset",
        "A step before the first reset is an error (in dm_env it begins an episode).",
        (31,),
        before_the_reset,
        on_forms=True,
    ),
    Requirement(
        "same-spaces", "A space is the same object each time it is asked for (in dm_env an equal one).", (18,),
        same_spaces, on_forms=True,
    ),
    Requirement(
        "metadata-stays", "Building, playing and closing an environment leave the metadata as they are.", (29,),
        metadata_stays,
    ),
    Requirement("closes-twice", "close() may be called again.", (26,), closes_twice, on_forms=True),
    Requirement(
        "copies", "A copy taken in an episode goes on as the original, and neither disturbs the other.", (27,),
        copies, needs=(REPRODUCIBLE,), unless=("instances-apart",), on_forms=True,
    ),
    Requirement(
        "snapshots", "A snapshot restores all that the future depends on.", (27,), snapshots,
        needs=(REPRODUCIBLE,), unless=("instances-apart", *VALUE_KEYS, *AGENT_KEYS),
    ),
    Requirement("renders", "render() gives what the render mode says.", (29,), renders),
)  # fmt: skip
