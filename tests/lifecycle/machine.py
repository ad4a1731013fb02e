"""A state machine over the life cycle of an environment: all that may be called, in any order.

An environment's values follow from its history alone: the resets and steps that succeeded, since it was made. Looks,
snapshots, copies, pictures and refused calls are no part of it; a restore goes back to the history of the snapshot. So
whatever was done to the environment under test, the next value is that of a new one which has lived only its history.
"""

import os
import pickle
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import cloudpickle
import numpy as np
import pytest
from depth import deep
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from traces import COPIES, exact

import envoi


class Outcome(NamedTuple):
    """The result of a call, or its error."""

    value: Any  # None if it raised
    key: Any  # equal only for results that are equal in every bit, or for equal errors
    error: Exception | None

    @property
    def over(self):
        """The lanes that have ended, of a step of a core batch; None for other results."""
        step = self.value
        lanes = isinstance(step, envoi.Step) and isinstance(step.terminated, np.ndarray)
        return step.terminated | step.truncated if lanes else None


def outcome(call: Callable[[], Any]) -> Outcome:
    """Calls a function, and returns its result or its error."""
    try:
        value = call()
    except Exception as error:
        return Outcome(None, (type(error), re.sub(r" at 0x[0-9a-f]+", "", str(error))), error)
    return Outcome(value, exact(value), None)


class Histories:
    """New environments that live given histories, of which `play(env, call)` makes each call."""

    def __init__(self, make, play):
        self.make, self.play = make, play
        self._living = {}  # history -> an environment that has lived it
        self._known = {}
        self._looks = {}

    def after(self, history, call):
        """Returns the outcome of a call after a history."""
        longer = (*history, call)
        if longer not in self._known:
            env = self._lived(history)
            self._known[longer] = found = outcome(lambda: self.play(env, call))
            if found.error is None:
                self._living[longer] = env
        return self._known[longer]

    def looks(self, history, looks):
        """Returns the outcome of each look, by name, after a history; at an environment that then lives no longer."""
        if history not in self._looks:
            env = self._lived(history)
            self._looks[history] = {name: outcome(lambda look=look: look(env)) for name, look in looks.items()}
        return self._looks[history]

    def _lived(self, history):
        env, start = self._living.pop(history, None), len(history)
        if env is None:
            env, start = self.make(), 0
        for call in history[start:]:
            self.play(env, call)
        return env


@dataclass(frozen=True)
class Subject:
    """An environment to test, and how it is used."""

    make: Callable[[], Any]  # a new one
    play: Callable[[Any, Any], Any]  # `(env, call) -> result` of one of `calls`
    calls: st.SearchStrategy[Any]  # of hashable values
    looks: dict[str, Callable[[Any], Any]]  # by name, `(env) -> value` of what must not change anything
    hold: Callable[[Any], Any] = lambda env: env.snapshot()
    go_back: Callable[[Any, Any], None] = lambda env, snapshot: env.restore(snapshot)
    begins_by_step: bool = False  # a step before the first reset is one
    takes_generator: bool = True  # all random numbers follow from a generator that is set
    reference: Callable[[], Any] | None = None  # makes the environment that lives a history; None for `make`
    lanes: int | None = None  # None for an environment of one lane or several agents
    copies: tuple[str, ...] = tuple(COPIES)  # the ways in which it can be copied
    errors: tuple[type[Exception], ...] = (envoi.EnvoiError,)  # that wrong calls may raise


@dataclass
class Life:
    """An environment, its history, and its lanes that have ended."""

    env: Any
    history: tuple[Any, ...]
    over: Any


class Kept(NamedTuple):
    """A snapshot, what it was of, and its bytes if they could be read."""

    snapshot: Any
    history: tuple[Any, ...]
    over: Any


class Lives(RuleBasedStateMachine):
    """The machine; each rule is a call, and is checked at once."""

    def __init__(self, subject):
        super().__init__()
        self.subject, self.has_failed = subject, False
        self.histories = Histories(subject.reference or subject.make, subject.play)
        self.lives = [Life(subject.make(), (), None)]
        self.kept: list[Kept] = []
        self.given: list[Outcome] = []

    def _life(self, at):
        return self.lives[at % len(self.lives)]

    def _agrees(self, found, expected, what):
        # Another class may refuse a call for another of its mistakes, restart its lanes in fewer ways, and never pause.
        refusals = (envoi.EpisodeError, envoi.SpecError) if what[0] == "pause" else envoi.EpisodeError
        fewer = isinstance(found.error, refusals) and call_has_mask(what)
        refused = isinstance(expected.error, envoi.EnvoiError) or fewer
        if found.key != expected.key and not (self.subject.reference and found.error and refused):
            self.has_failed = True
            raise AssertionError(
                f"{what}:\n  expected {expected.value if expected.error is None else repr(expected.error)}"
                f"\n  got      {found.value if found.error is None else repr(found.error)}"
            ) from found.error
        if found.error is not None:
            assert isinstance(found.error, self.subject.errors), repr(found.error)

    @rule(data=st.data(), at=st.integers(0, 2), greedy=st.booleans())
    def calls(self, data, at, greedy):
        for call in data.draw(st.lists(self.subject.calls, min_size=1, max_size=9)):
            self._call(self._life(at), call, greedy)

    def _call(self, life, call, greedy):
        if call[0] == "step" and call[-1] == "ended":
            call = (*call[:-1], None if life.over is None or not life.over.any() else tuple(life.over.tolist()))
        call = self._seeded(call, life.history)
        expected = self.histories.after(life.history, call)
        found = outcome(lambda: self.subject.play(life.env, call))
        self._agrees(found, expected, call)
        if found.error is not None:
            return
        life.history = (*life.history, call)
        if self.subject.lanes is not None:
            life.over = _over_after(life.over, call, found)
        if greedy:
            _empty_infos(found.value)  # they belong to the receiver
        else:
            self.given.append(found)

    def _seeded(self, call, history):
        """Returns a call with a seed, if it would take random numbers from the operating system."""
        seeding = ("reset", "generator") if self.subject.takes_generator or call[0] == "sample" else ("reset",)
        seeded = [one[1] for one in history if one[0] in seeding]
        if any(seed is not None and not (isinstance(seed, tuple) and None in seed) for seed in seeded):
            return call
        if call[0] == "sample":
            return ("generator", 0)
        if call[0] == "step" and self.subject.begins_by_step:
            return ("reset", 0, None, None)
        lacks = call[0] == "reset" and (call[1] is None or (isinstance(call[1], tuple) and None in call[1]))
        return ("reset", 0, *call[2:]) if lacks else call

    @rule(data=st.data(), at=st.integers(0, 2))
    def look(self, data, at):
        life, name = self._life(at), data.draw(st.sampled_from(sorted(self.subject.looks)))
        self._look(life, name)

    def _look(self, life, name):
        found = outcome(lambda: self.subject.looks[name](life.env))
        self._agrees(found, self.histories.looks(life.history, self.subject.looks)[name], name)

    @rule(at=st.integers(0, 2), pickled=st.booleans())
    def snapshot(self, at, pickled):
        life = self._life(at)
        snapshot = self.subject.hold(life.env)
        if pickled:
            snapshot = pickle.loads(cloudpickle.dumps(snapshot))
        self.kept.append(Kept(snapshot, life.history, life.over))

    @precondition(lambda self: self.kept)
    @rule(at=st.integers(0, 2), which=st.integers(0, 5))
    def restore(self, at, which):
        life, kept = self._life(at), self.kept[which % len(self.kept)]
        self.subject.go_back(life.env, kept.snapshot)
        life.history, life.over = kept.history, kept.over

    @precondition(lambda self: self.subject.copies)
    @rule(data=st.data(), at=st.integers(0, 2), stays=st.booleans())
    def copied(self, data, at, stays):
        life = self._life(at)
        twin = COPIES[data.draw(st.sampled_from(self.subject.copies))](life.env)
        if stays and len(self.lives) < 3:
            self.lives.append(Life(twin, life.history, life.over))
        else:
            life.env = twin

    @rule(at=st.integers(0, 2), closes=st.booleans())
    def close_or_restore_a_foreign_snapshot(self, at, closes):
        life = self._life(at)
        if closes:
            life.env.close()
        elif self.subject.go_back is Subject.go_back:
            for foreign in FOREIGN:
                with pytest.raises(envoi.SnapshotUnsupported):
                    life.env.restore(foreign)

    def teardown(self):
        if self.has_failed:
            return
        for value, key, _ in self.given:
            assert exact(value) == key, f"a value that was returned has changed: {value}"
        for life in self.lives:
            for name in self.subject.looks:
                self._look(life, name)


def call_has_mask(call):
    """Returns True for a call of some of the lanes."""
    return call[0] == "pause" or (call[0] in ("step", "reset") and call[3:] not in ((), (None,)))


def _over_after(over, call, found):
    """Returns the lanes that have ended after a call."""
    if call[0] == "reset":
        mask = call[3]
        return np.zeros(len(found.value.info), bool) if mask is None or over is None else over & ~np.array(mask)
    if call[0] == "pause":
        return np.where(np.array(call[2]), found.over, over)
    return over if found.over is None else found.over


def _empty_infos(value):
    """Empties the infos in the result of a core environment."""
    if isinstance(value, (envoi.Reset, envoi.Step)) and isinstance(value.info, dict):
        value.info.clear()
    if isinstance(value, (envoi.MultiReset, envoi.MultiStep)):
        for info in value.infos.values():
            info.clear()
        value.infos.clear()


FOREIGN = [envoi.models.Nim().snapshot(), envoi.batch(envoi.models.Catch(), 4, compiled=False).snapshot()]
"""Snapshots that no subject can restore."""


def subjects(table, deep):
    """Returns the names of subjects as parameters of a test; those with a part in `deep` are for full depth only."""
    return [pytest.param(name, marks=[pytest.mark.deep] * any(part in name for part in deep)) for name in table]


def live(subject: Subject, examples: int = 2, steps: int = 8) -> None:
    """Runs the machine: so many sequences of so many calls, and fifteen and four times as many in a long run."""
    # The same few in both profiles; by hand, `LIVES=40 pytest --hypothesis-profile full tests/lifecycle` runs for long.
    factor = int(os.environ.get("LIVES", "1"))
    long = deep() and "LIVES" in os.environ
    run_state_machine_as_test(
        lambda: Lives(subject),
        settings=settings(
            max_examples=factor * (15 * examples if long else examples),
            stateful_step_count=4 * steps if long else steps,
            deadline=None,
            derandomize=not long,
            database=None,
            phases=[p for p in Phase if p is not Phase.shrink or "LIVES" not in os.environ],
            suppress_health_check=list(HealthCheck),
        ),
    )
