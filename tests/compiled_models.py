"""Scalar models that numba compiles: one whose episodes follow from their beginnings, and one that is random."""

import math
from typing import NamedTuple

import numpy as np

import envoi

LIMIT = 2.4


class PoleState(NamedTuple):
    position: float
    speed: float
    angle: float
    spin: float
    gravity: float


def acceleration(state, force):
    cos, sin = math.cos(state.angle), math.sin(state.angle)
    push = (force + 0.05 * state.spin**2 * sin) / 1.1
    spin_up = (state.gravity * sin - cos * push) / (0.5 * (4.0 / 3.0 - 0.1 * cos**2 / 1.1))
    return push - 0.05 * spin_up * cos / 1.1, spin_up


class Pole(envoi.Model):
    """Cart-pole of one state."""

    observation_spec = envoi.Array((4,), "float32")
    action_spec = envoi.Discrete(2)
    context_space = envoi.ContextSpace([envoi.UniformFloat("gravity", 0.1, 20, default=9.8)])

    def __init__(self, force=10.0):
        self.force, self.tau = force, 0.02

    def initial(self, rng, context):
        low, high = -0.05, 0.05
        return PoleState(
            rng.uniform(low, high), rng.uniform(low, high), rng.uniform(low, high), rng.random() * 0.01,
            context["gravity"],
        )  # fmt: skip

    def push(self, action):
        return self.force if action == 1 else -self.force

    def transition(self, state, action, rng):
        speed_up, spin_up = acceleration(state, self.push(action))
        return state._replace(
            position=state.position + self.tau * state.speed,
            speed=state.speed + self.tau * speed_up,
            angle=state.angle + self.tau * state.spin,
            spin=state.spin + self.tau * spin_up,
        )

    def observe(self, state, rng):
        return np.array([state.position, state.speed, state.angle, state.spin], np.float32)

    def reward(self, state, action, next_state):
        return 1.0

    def terminal(self, state):
        return abs(state.position) > LIMIT or abs(state.angle) > 0.2095


class BreezeState(NamedTuple):
    place: float
    row: int
    time: int


class Breeze(envoi.Model):
    """A walk in a gusty wind, seen with noise: random transitions and observations, a discount, a time limit."""

    observation_spec = {"place": envoi.Array((), "float64"), "row": envoi.Discrete(5)}
    action_spec = envoi.Discrete(3, start=-1)
    rows = np.array([0.1, 0.2, 0.4, 0.2, 0.1])

    def initial(self, rng, context):
        return BreezeState(rng.uniform(-1.0, 1.0), rng.integers(5), 0)

    def transition(self, state, action, rng):
        row = min(max(state.row + action, 0), 4)
        gust = rng.normal(0.0, 0.3) * self.rows[row]
        if rng.integers(1, 10) == 3:
            gust = 2 * rng.random() - 1
        return BreezeState(state.place * 1.1 + gust, row, state.time + 1)

    def observe(self, state, rng):
        return {"place": state.place + 0.01 * rng.standard_normal(), "row": state.row}

    def reward(self, state, action, next_state):
        return -(next_state.place**3) - 0.1 * abs(action)

    def terminal(self, state):
        return abs(state.place) > 2.0

    def truncated(self, state):
        return state.time >= 30

    def discount(self, state):
        return 0.0 if abs(state.place) > 2.0 else 0.9


class SlopeState(NamedTuple):
    height: float
    slope: float


class Slope(envoi.Model):
    """Climbs by its action and by its context."""

    observation_spec = envoi.Array((1,), "float64")
    action_spec = envoi.Discrete(2)
    context_space = envoi.ContextSpace([envoi.UniformFloat("slope", 0, 1, default=0.5)])

    def initial(self, rng, context):
        return SlopeState(0.0, context["slope"])

    def transition(self, state, action, rng):
        return SlopeState(state.height + state.slope + action, state.slope)

    def observe(self, state, rng):
        return np.array([state.height])

    def reward(self, state, action, next_state):
        return next_state.height

    def terminal(self, state):
        return state.height > 4.0
