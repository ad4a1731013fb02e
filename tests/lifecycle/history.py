"""The reference of the life-cycle tests: an environment to which one history of calls, and nothing else, has happened.

An environment's values follow from its history alone: the resets and steps that succeeded, since it was made. Looks,
snapshots, copies, pictures and refused calls are no part of it; a restore goes back to the history of the snapshot. So
whatever was done to the environment under test, the next value is that of a new one which has lived only its history.
"""

import re
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from traces import exact

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
