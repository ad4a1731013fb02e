"""Cart-pole: balance a pole on a cart by pushing the cart left or right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..batching.batch_model import BatchModel
from ..batching.lane_contexts import derived
from ..context import ContextSpace, UniformFloat
from ..lane_values import alike
from ..spec import Array, Discrete

# Numbers are arrays without axes, because numpy converts a Python number again in each operation.
X_LIMIT = np.array(2.4)
ANGLE_LIMIT = np.array(12 * 2 * math.pi / 360)
ONE, TWO, FOUR_THIRDS = np.array(1.0), np.array(2.0), np.array(4.0 / 3.0)

PHYSICS = ("gravity", "masscart", "masspole", "length", "force_mag", "tau")
FEATURES = (*PHYSICS, "initial_state_lower", "initial_state_upper")
_ONE_FOR_ALL = {(), (0,)}
"""The strides of features that are the same in all lanes."""


class CartPoleState(NamedTuple):
    """`motion` of shape (n, 4): position (m), velocity (m/s), angle (rad), angular velocity (rad/s); `physics`."""

    motion: NDArray[np.float64]
    physics: NDArray[np.float64]


class CartPole(BatchModel):
    """Barto, Sutton and Anderson's cart-pole (1983), in the Euler form of gymnasium's CartPole-v1.

    The features of its context are CARL's, with gymnasium's values as defaults. The observation has no bounds, because
    a strong push over a long time step can exceed those of gymnasium.
    """

    observation_spec = Array((4,), "float32")
    action_spec = Discrete(2)
    reward_spec = Array((), "float64", 1, 1, "reward")
    context_space = ContextSpace(
        [
            UniformFloat("gravity", 0.1, np.inf, default=9.8),
            UniformFloat("masscart", 0.1, 10, default=1.0),
            UniformFloat("masspole", 0.01, 1, default=0.1),
            UniformFloat("length", 0.05, 5, default=0.5),  # half the pole's length
            UniformFloat("force_mag", 1, 100, default=10.0),
            UniformFloat("tau", 0.002, 0.2, default=0.02),  # seconds per step
            UniformFloat("initial_state_lower", -np.inf, np.inf, default=-0.05),
            UniformFloat("initial_state_upper", -np.inf, np.inf, default=0.05),
        ]
    )

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any], size: int) -> CartPoleState:
        low, width, physics = derived(_quantities, context, size)
        return CartPoleState((low + width * rng.random((4, size))).T, physics)

    def transition(self, state: CartPoleState, action: Any, rng: np.random.Generator) -> CartPoleState:
        before = state.motion.T
        speed, angle, spin = before[1], before[2], before[3]
        gravity, mass, pole, moment, length, strength, tau = state.physics.T
        cos, sin = np.cos(angle), np.sin(angle)
        force = strength * (TWO * np.asarray(action, np.float64) - ONE)
        push = (force + moment * np.square(spin) * sin) / mass
        spin_up = (gravity * sin - cos * push) / (length * (FOUR_THIRDS - pole * np.square(cos) / mass))
        speed_up = push - moment * spin_up * cos / mass
        motion = before + tau * np.array((speed, speed_up, spin, spin_up))
        return CartPoleState(motion.T, state.physics)

    def observe(self, state: CartPoleState, rng: np.random.Generator) -> NDArray[np.float32]:
        return state.motion.astype(np.float32)

    def reward(self, state: CartPoleState, action: Any, next_state: CartPoleState) -> NDArray[np.float64]:
        return np.zeros(next_state.motion.shape[:-1]) + ONE  # twice as fast as `np.ones`

    def terminal(self, state: CartPoleState) -> NDArray[np.bool_]:
        return (np.abs(state.motion[..., 0]) > X_LIMIT) | (np.abs(state.motion[..., 2]) > ANGLE_LIMIT)


def _quantities(context: Mapping[str, Any], size: int) -> tuple[Any, Any, NDArray[np.float64]]:
    """Returns the lowest initial motion, the width of its range, and `physics` of lanes."""
    columns: list[Any] = [np.asarray(context[name]) for name in FEATURES]
    equal = {column.strides for column in columns} <= _ONE_FOR_ALL
    if equal:
        columns = [column.item(0) for column in columns]
    gravity, cart, pole, length, strength, tau, low, high = columns
    physics = np.array((gravity, cart + pole, pole, pole * length, length, strength, tau))
    width = high - low
    return (np.array(low), np.array(width), alike(physics, size)) if equal else (low, width, physics.T)
