"""Pendulum: swing a pendulum up, and hold it there with little torque."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..authoring.model import Model
from ..context import ContextSpace, UniformFloat
from ..spec import Array

MAX_TORQUE = 2.0

IN_32_BITS = np.result_type(np.float32(0), 0.0) == np.float32
"""True if numpy multiplies a float32 by a Python number in float32 (since NumPy 2); then gymnasium does too."""


class PendulumState(NamedTuple):
    """The motion, and the physics of the episode's context."""

    angle: float  # rad from upright
    speed: float  # rad/s
    max_speed: float
    dt: float  # seconds per step
    fall: float  # the acceleration by gravity where the pendulum is horizontal
    pull: float  # that by a torque of 1


class Pendulum(Model):
    """The swing-up task of gymnasium's Pendulum-v1, which never terminates.

    The features of its context are CARL's. The observation spec does not bound the angular velocity, because a context
    may set `max_speed`.
    """

    observation_spec = Array((3,), "float32", [-1, -1, -np.inf], [1, 1, np.inf])
    action_spec = Array((1,), "float32", -MAX_TORQUE, MAX_TORQUE)
    reward_spec = Array((), "float64", high=0, name="reward")
    context_space = ContextSpace(
        [
            UniformFloat("max_speed", 0, np.inf, default=8.0),
            UniformFloat("dt", 0, np.inf, default=0.05),  # seconds per step
            UniformFloat("g", 0, np.inf, default=10.0),
            UniformFloat("m", 1e-6, np.inf, default=1.0),
            UniformFloat("l", 1e-6, np.inf, default=1.0),
            UniformFloat("initial_angle_max", 0, np.inf, default=np.pi),
            UniformFloat("initial_velocity_max", 0, np.inf, default=1.0),
        ]
    )

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any]) -> PendulumState:
        angle, speed = float(context["initial_angle_max"]), float(context["initial_velocity_max"])
        length = float(context["l"])
        return PendulumState(
            rng.uniform(-angle, angle), rng.uniform(-speed, speed), float(context["max_speed"]), float(context["dt"]),
            3 * float(context["g"]) / (2 * length), 3.0 / (float(context["m"]) * (length * length)),
        )  # fmt: skip

    def transition(self, state: PendulumState, action: Any, rng: np.random.Generator) -> PendulumState:
        angle, speed, max_speed, dt, fall, pull = state
        speed += (fall * math.sin(angle) + _times(pull, float(action[0]), False)) * dt
        speed = min(max(speed, -max_speed), max_speed)
        return PendulumState(angle + speed * dt, speed, max_speed, dt, fall, pull)

    def observe(self, state: PendulumState, rng: np.random.Generator) -> NDArray[np.float32]:
        return np.array([math.cos(state.angle), math.sin(state.angle), state.speed], np.float32)

    def reward(self, state: PendulumState, action: Any, next_state: PendulumState) -> float:
        upright = (state.angle + math.pi) % (2 * math.pi) - math.pi
        return -(upright * upright + 0.1 * (state.speed * state.speed) + _times(0.001, float(action[0]), True))

    def terminal(self, state: PendulumState) -> bool:
        return False


def _times(factor: float, action: float, squared: bool) -> float:
    """Multiplies a factor by the torque or its square, in the precision that gymnasium uses for this action."""
    torque = min(max(action, -MAX_TORQUE), MAX_TORQUE)
    if IN_32_BITS and _in_32_bits(action) == action:
        return _in_32_bits(_in_32_bits(factor) * (_in_32_bits(torque * torque) if squared else torque))
    return factor * (torque * torque if squared else torque)


def _in_32_bits(number: float) -> float:
    return float(np.float32(number))
