"""An env with episodes of random lengths and ends."""

from typing import Any, NamedTuple

import numpy as np

import envoi

OBSERVATIONS = {
    "flat": envoi.Array((3,), "float32"),
    "nested": {"place": envoi.Array((2,), "float64"), "gear": envoi.Discrete(4)},
}
ACTIONS = {
    "discrete": envoi.Discrete(3),
    "box": envoi.Array((2,), "float32", -2, 3),
    "several": envoi.MultiDiscrete([3, 2]),
}


class TimedState(NamedTuple):
    time: int
    length: int
    terminates: bool
    place: Any


class Timed(envoi.Model):
    """Episodes with one of `lengths` steps each, sampled at their start, that terminate or are truncated."""

    state_spec = None

    def __init__(self, lengths=(1, 2, 5, 9), observation="flat", action="discrete", infos=True):
        self.lengths, self.infos = tuple(lengths), infos
        self.observation_spec, self.action_spec = OBSERVATIONS[observation], ACTIONS[action]

    def initial(self, rng, context):
        return TimedState(0, int(rng.choice(self.lengths)), bool(rng.random() < 0.5), rng.normal(size=2))

    def transition(self, state, action, rng):
        moved = state.place + 0.1 * float(np.sum(action)) + rng.normal(size=2)
        return state._replace(time=state.time + 1, place=moved)

    def observe(self, state, rng):
        if isinstance(self.observation_spec, dict):
            return {"place": state.place, "gear": np.int64(state.time % 4)}
        return np.array([*state.place, state.time], np.float32)

    def reward(self, state, action, next_state):
        return float(next_state.place.sum()) + next_state.time / 7

    def terminal(self, state):
        return state.time >= state.length and state.terminates

    def truncated(self, state):
        return state.time >= state.length and not state.terminates

    def info(self, state):
        if not self.infos or state.time % 2:
            return {}
        return {"time": state.time, "word": "far" if state.place[0] > 1 else None}
