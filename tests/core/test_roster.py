"""The roster of agents, by its examples and against a naive model of sets and lists."""

import copy
import pickle

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from envoi import EpisodeError, SpecError
from envoi.protocol.env import ENDED, NOT_RESET
from envoi.protocol.roster import NOT_IN_PLAY, LeftWithoutEnd, Roster
from envoi.steps.record import EpisodeState

POSSIBLE = ("d", "a", "c", "b")

agents = st.lists(st.sampled_from(POSSIBLE), unique=True)


@st.composite
def steps(draw):
    """The listed agents (or None), the flagged ones and the turn, at each step of a source."""
    return draw(st.lists(st.tuples(st.none() | agents, agents, st.none() | agents), max_size=6))


class Naive:
    """The rules of a roster, written once more in the plainest way."""

    def __init__(self, playing):
        self.playing, self.ended, self.turn = set(playing), set(), None

    def after(self, listed, flagged, turn):
        """Takes a step over, or returns the name of the error for which it is refused."""
        now = {a for a in (self.playing if listed is None else listed) if a not in flagged}
        if now & self.ended:
            return EpisodeError
        if any(a not in now and a not in flagged for a in self.playing):
            return LeftWithoutEnd
        if turn is not None and not set(turn) <= now:
            return SpecError
        self.playing, self.ended, self.turn = now, self.ended | set(flagged), turn
        return None


@given(agents, steps())
@settings(deadline=None)
def test_every_sequence_of_steps_is_as_defined(first, sequence):
    naive, roster = Naive(first), Roster(POSSIBLE).begin(first)
    for listed, flagged, turn in sequence:
        playing_before, ended_before = set(naive.playing), set(naive.ended)
        before, held = roster, pickle.dumps(roster)
        refused = naive.after(listed, flagged, turn)
        if refused is not None:
            with pytest.raises(refused):
                roster.after(listed, flagged, turn)
            assert pickle.loads(held) == roster == before
            continue
        roster = roster.after(listed, flagged, turn)
        assert pickle.loads(held) == before
        assert roster.playing == tuple(a for a in POSSIBLE if a in naive.playing)
        assert roster.ended == naive.ended
        assert roster.turn == (None if turn is None else tuple(turn))
        assert roster.acting == (roster.playing if turn is None else tuple(turn))
        assert roster.phase is (EpisodeState.RUNNING if naive.playing else EpisodeState.OVER)
        if roster == before:
            assert roster is before
        spoken = playing_before | naive.playing | (naive.ended - ended_before)
        assert roster.affected(before) == tuple(a for a in POSSIBLE if a in spoken)
        assert pickle.loads(pickle.dumps(roster)) == roster
        assert hash(roster) == hash(pickle.loads(pickle.dumps(roster)))


@given(agents, st.none() | agents, agents)
def test_exactly_those_who_act_are_given_actions(playing, turn, given_to):
    turn = None if turn is None else [agent for agent in turn if agent in playing]
    roster = Roster(POSSIBLE).begin(playing, turn)
    actions = dict.fromkeys(given_to, 0)
    if playing and set(given_to) == set(roster.acting):
        roster.check_actions(actions)
    else:
        with pytest.raises(EpisodeError, match="expected an action for each of" if playing else "episode has ended"):
            roster.check_actions(actions)


def test_revivals_and_silent_exits_are_refused_by_name():
    roster = Roster(("a", "b")).begin("ab").after(ended=["a"])
    assert roster.after(["a", "b"], ended=["a"]) is roster  # a source may list and flag the dead for ever
    with pytest.raises(EpisodeError, match=r"^agents of it: \['a'\] ended before .*cannot come back"):
        roster.after(["a", "b"], where="agents of it")
    with pytest.raises(LeftWithoutEnd, match=r"^agents of it: \['b'\] left without an end"):
        roster.after([], where="agents of it")
    with pytest.raises(EpisodeError, match=r"\['a'\] ended before"):
        roster.check_not_ended(["b", "a"])
    with pytest.raises(SpecError, match=r"got \['bb'\]; did you mean 'b'"):
        roster.check_possible(["bb"])
    with pytest.raises(SpecError, match=r"turn: expected some of \['b'\], who are in play, got \['a'\]"):
        roster.with_turn(["a"])


def test_actions_outside_an_episode_are_refused():
    for roster, message in (
        (Roster(("a",)), NOT_RESET),
        (Roster(("a",)).begin("a").after(ended="a"), ENDED),
        (Roster(("a",)).begin("a").abandoned(), ENDED),
    ):
        assert roster.acting == ()
        for actions in ({}, {"a": 0}):
            with pytest.raises(EpisodeError) as refused:
                roster.check_actions(actions)
            assert message in str(refused.value)
        assert message in str(roster.unseen("a"))
    assert NOT_IN_PLAY in str(Roster(("a", "b")).begin("a").unseen("b"))


def test_a_turn_that_stays_keeps_the_roster():
    first = Roster(("a", "b")).begin("ab", ["a"])
    second = first.after(turn=("b",))
    assert second != first
    assert second.after(turn=("b",)) is second
    assert second.after(turn=["a"]) == first
    assert first.after(turn=None).acting == ("a", "b")


def test_copies_are_the_roster_itself():
    roster = Roster(("a",)).begin("a")
    assert copy.deepcopy(roster) is roster
    with pytest.raises(AttributeError):
        roster.playing = ()
