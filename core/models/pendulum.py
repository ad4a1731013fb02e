"""Pendulum: swing a pendulum up, and hold it there with little torque."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..batching.batch_model import BatchModel
from ..context import ContextSpace, UniformFloat
from ..spec import Array

MAX_TORQUE = 2.0

_IN_FLOAT64 = np.result_type(np.float32(0), 0.0) == np.float64
"""gymnasium's torque is one float32, which NumPy 1 multiplies by Python's numbers in float64, NumPy 2 in float32."""


class PendulumState(NamedTuple):
    """`motion` of shape (n, 2): angle from upright (rad), angular velocity (rad/s); `physics` of shape (n, 5)."""

    motion: NDArray[np.float64]
    physics: NDArray[np.float64]


class Pendulum(BatchModel):
    """The swing-up task as gymnasium's Pendulum-v1 has it; it never terminates.

    The features of its context are CARL's. The angular velocity is not bounded in the observation's spec, because a
    context may set `max_speed`.
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

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any], size: int) -> PendulumState:
        high = np.array((context["initial_angle_max"], context["initial_velocity_max"]))
        physics = np.array([context[name] for name in ("max_speed", "dt", "g", "m", "l")])
        return PendulumState(rng.uniform(-high, high).T, physics.T)

    def transition(self, state: PendulumState, action: Any, rng: np.random.Generator) -> PendulumState:
        angle, speed = state.motion.T
        max_speed, dt, g, m, length = state.physics.T
        torque = _torque(action)
        pull = (3.0 / (m * length**2)).astype(torque.dtype) * torque
        speed = speed + (3 * g / (2 * length) * np.sin(angle) + pull) * dt
        speed = np.clip(speed, -max_speed, max_speed)
        return PendulumState(np.array((angle + speed * dt, speed)).T, state.physics)

    def observe(self, state: PendulumState, rng: np.random.Generator) -> NDArray[np.float32]:
        angle, speed = state.motion.T
        return np.array((np.cos(angle), np.sin(angle), speed), np.float32).T

    def reward(self, state: PendulumState, action: Any, next_state: PendulumState) -> NDArray[np.float64]:
        angle, speed = state.motion.T
        torque = _torque(action)
        upright = ((angle + np.pi) % (2 * np.pi)) - np.pi
        return -(np.square(upright) + 0.1 * np.square(speed) + 0.001 * np.square(torque))

    def terminal(self, state: PendulumState) -> NDArray[np.bool_]:
        return np.zeros(state.motion.shape[:-1], bool)


def _torque(action: Any) -> Any:
    """Returns torques of shape (n,), clipped, in the dtype in which gymnasium calculates with them."""
    torque = np.clip(action, -MAX_TORQUE, MAX_TORQUE)[..., 0]
    return torque.astype(np.float64) if _IN_FLOAT64 else torque
