"""Requirements on environments of several agents: who is in play, who acts, and what each of them is told."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from envoi import Discrete

from ..drivers.core import CoreHand, Hand
from ..hash_seeds import NotHere, order_under_another_hash
from ..requirement import PASSED, Found, Requirement, failed, skipped
from ..rollout import Moment

if TYPE_CHECKING:
    from ..env_under_test import Subject

ZERO_SUM = "zero_sum"
"""The entry of the metadata by which an environment says that its rewards sum to 0."""


class AgentWatch:
    """Looks at who is in play at each call, and keeps the first complaint about each requirement.

    Args:
        hand: The environment.
        complaints: Where complaints go, by the key of the requirement.
    """

    def __init__(self, hand: Hand, complaints: dict[str, str]) -> None:
        self.hand, self.complaints = hand, complaints
        self._ended: set[Any] = set()
        self._before: tuple[Any, ...] = ()
        self._sum = 0.0
        self._scale = 0.0
        self.masks = 0
        self.ends = 0

    def complain(self, key: str, reason: str, moment: Moment) -> None:
        """Notes a complaint, unless there is one about the requirement already."""
        self.complaints.setdefault(key, f"{reason} ({moment.where})")

    def see(self, moment: Moment) -> None:
        """Looks at a call."""
        if moment.step == 0:
            self._ended, self._before = set(), ()
            self._sum = self._scale = 0.0
        self._see_order(moment)
        self._see_silence(moment)
        self._see_ends(moment)
        self._see_turn(moment)
        self._see_masks(moment)
        self._see_sum(moment)
        beat = moment.beat
        self._ended |= {agent for agent in beat.terminated if beat.ended(agent)}
        self._ended |= {agent for agent in beat.truncated if beat.ended(agent)}
        self._before = beat.agents

    def _see_order(self, moment: Moment) -> None:
        beat, possible = moment.beat, self.hand.possible
        named: dict[str, Any] = {"agents": beat.agents}
        if isinstance(self.hand, CoreHand):  # which promises the order of its mappings
            named |= {"observations": beat.observations, "rewards": beat.rewards, "terminated": beat.terminated}
        for what, given in named.items():
            strange = [agent for agent in given if agent not in possible]
            if strange:
                self.complain("agents-in-order", f"{what}: {strange} are not among possible_agents", moment)
            elif list(given) != [agent for agent in possible if agent in given]:
                reason = f"{what}: {list(given)}, while possible_agents has the order {list(possible)}"
                self.complain("agents-in-order", reason, moment)

    def _see_silence(self, moment: Moment) -> None:
        beat = moment.beat
        back = [agent for agent in beat.agents if agent in self._ended]
        if back:
            self.complain("ended-are-silent", f"agents: {back} ended before in this episode, and are back", moment)
        told = ("observations", "rewards", "terminated", "truncated", "infos")
        for what in told if self.hand.says_infos else told[:-1]:
            late = [agent for agent in getattr(beat, what) if agent in self._ended]
            if late:
                self.complain("ended-are-silent", f"{what}: still of {late}, which ended in an earlier step", moment)

    def _see_ends(self, moment: Moment) -> None:
        beat = moment.beat
        if moment.step == 0:
            return
        for what in ("rewards", "terminated", "truncated", *(("infos",) if self.hand.says_infos else ())):
            missing = [agent for agent in self._before if agent not in getattr(beat, what)]
            if missing:
                self.complain("agents-complete", f"{what}: nothing for {missing}, in play before this step", moment)
        gone = [agent for agent in self._before if agent not in beat.agents and not beat.ended(agent)]
        if gone:
            self.complain("agents-complete", f"agents: {gone} left without being terminated or truncated", moment)
        for agent in self._before:
            if not beat.ended(agent):
                continue
            self.ends += 1
            if agent in beat.agents:
                self.complain("ended-are-silent", f"agents: {agent!r} has ended, and is in play still", moment)
            if agent not in beat.observations:
                reason = f"observations: {agent!r} has ended, and there is no final observation of it"
                self.complain("final-observation", reason, moment)

    def _see_turn(self, moment: Moment) -> None:
        beat = moment.beat
        if beat.agents and not beat.acting:
            self.complain("turn", f"nobody acts, while {list(beat.agents)} are in play", moment)
        strange = [agent for agent in beat.acting if agent not in beat.agents]
        if strange:
            self.complain("turn", f"it is the turn of {strange}, who are not in play", moment)
        unseen = [agent for agent in beat.acting if agent not in beat.observations]
        if unseen:
            self.complain("agents-complete", f"observations: nothing for {unseen}, who act next", moment)

    def _see_masks(self, moment: Moment) -> None:
        beat, hand = moment.beat, self.hand
        for agent in beat.acting:
            mask, spec = hand.mask(agent, beat), hand.action_specs.get(agent)
            if mask is None or not isinstance(spec, Discrete):
                continue
            self.masks += 1
            array = np.asarray(mask)
            path = hand.label("action mask", agent)
            if array.shape != (spec.n,):
                self.complain("mask-legal", f"{path}: expected the shape ({spec.n},), got {array.shape}", moment)
            elif not array.any():
                self.complain("mask-legal", f"{path}: no action is legal, though it has to act", moment)

    def _see_sum(self, moment: Moment) -> None:
        if not declares_zero_sum(self.hand):
            return
        for reward in moment.beat.rewards.values():
            if isinstance(reward, (bool, int, float, np.number)):
                self._sum += float(reward)
                self._scale += abs(float(reward))
        if moment.beat.over and abs(self._sum) > 1e-6 * max(1.0, self._scale):
            self.complain("zero-sum", f"the rewards of all agents sum to {self._sum:g}", moment)


def declares_zero_sum(hand: Hand) -> bool:
    """Whether an environment says that its rewards sum to 0."""
    return isinstance(hand.metadata, Mapping) and bool(hand.metadata.get(ZERO_SUM, False))


def _watched(key: str, missing: Callable[[Subject], str] = lambda subject: "") -> Callable[[Subject], Found]:
    def check(subject: Subject) -> Found:
        walk = subject.walk
        if key in walk.watch.complaints:
            return failed(walk.watch.complaints[key])
        why = missing(subject) or ("" if walk.watch.calls else "no call succeeded")
        return skipped(why) if why else PASSED

    return check


def _no_masks(subject: Subject) -> str:
    watch = subject.walk.agents
    return "" if watch is not None and watch.masks else "it tells no action masks"


def _no_ends(subject: Subject) -> str:
    watch = subject.walk.agents
    return "" if watch is not None and watch.ends else "no agent ended"


def _not_zero_sum(subject: Subject) -> str:
    if not declares_zero_sum(subject.hand):
        return f"its metadata does not say {ZERO_SUM!r}"
    return "" if subject.walk.lengths else "no episode ended"


def hash_order(subject: Subject) -> Found:
    """The order of agents does not follow Python's hash seed."""
    try:
        said = order_under_another_hash(subject.origin, subject.extent.seed, subject.hand.possible)
    except NotHere as error:
        return skipped(str(error))
    return PASSED if said is None else failed(said)


AGENTS = (
    Requirement(
        "agents-in-order",
        "Agents are among `possible_agents`, and in that order.",
        (38,),
        _watched("agents-in-order"),
        kinds=("several",),
        on_forms=True,
    ),
    Requirement(
        "hash-order",
        "The order of agents is the same under every hash seed of Python.",
        (38,),
        hash_order,
        kinds=("several",),
    ),
    Requirement(
        "agents-complete",
        "Each agent in play is told of in each step until it ends; whoever acts next has an observation.",
        (34, 39),
        _watched("agents-complete"),
        kinds=("several",),
        on_forms=True,
    ),
    Requirement(
        "ended-are-silent",
        "Of an agent that has ended nothing more is heard in the episode.",
        (36,),
        _watched("ended-are-silent", _no_ends),
        kinds=("several",),
        on_forms=True,
    ),
    Requirement(
        "final-observation",
        "Each agent that ends has a final observation.",
        (34, 35),
        _watched("final-observation", _no_ends),
        kinds=("several",),
        on_forms=True,
    ),
    Requirement(
        "turn",
        "As long as anybody is in play, some of those act.",
        (41,),
        _watched("turn"),
        kinds=("several",),
        on_forms=True,
    ),
    Requirement(
        "mask-legal",
        "An action mask is as long as there are actions, and leaves one of them to whoever acts.",
        (42,),
        _watched("mask-legal", _no_masks),
        kinds=("several",),
        on_forms=True,
    ),
    Requirement(
        "zero-sum",
        "Where the metadata say 'zero_sum', the rewards of all agents sum to 0 in each episode.",
        (33,),
        _watched("zero-sum", _not_zero_sum),
        kinds=("several",),
        on_forms=True,
    ),
)

AGENT_KEYS = tuple(requirement.key for requirement in AGENTS)
"""Requirements on agents, whose importers refuse what breaks them."""
