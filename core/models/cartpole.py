"""Cart-pole: balance a pole on a cart by pushing the cart left or right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..batching.batch_model import BatchModel
from ..context import ContextSpace, UniformFloat
from ..lane_values import alike
from ..spec import Array, Discrete

X_LIMIT = 2.4
ANGLE_LIMIT = 12 * 2 * math.pi / 360


PHYSICS = ("gravity", "masscart", "masspole", "length", "force_mag", "tau")


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
        low, high = context["initial_state_lower"], context["initial_state_upper"]
        motion = (low + (high - low) * rng.random((4, size))).T
        columns: list[Any] = [context[name] for name in PHYSICS]
        if not any(np.ndim(column) and column.strides[0] for column in columns):  # the same context in all lanes
            return CartPoleState(
                motion, alike(np.array(_physics([np.asarray(column).item(0) for column in columns])), size)
            )
        return CartPoleState(motion, np.array(_physics(columns)).T)

    def transition(self, state: CartPoleState, action: Any, rng: np.random.Generator) -> CartPoleState:
        _, speed, angle, spin = state.motion.T
        gravity, mass, pole, moment, length, strength, tau = state.physics.T
        cos, sin = np.cos(angle), np.sin(angle)
        force = strength * (2.0 * np.asarray(action) - 1.0)
        push = (force + moment * np.square(spin) * sin) / mass
        spin_up = (gravity * sin - cos * push) / (length * (4.0 / 3.0 - pole * np.square(cos) / mass))
        speed_up = push - moment * spin_up * cos / mass
        motion = state.motion.T + tau * np.array((speed, speed_up, spin, spin_up))
        return CartPoleState(motion.T, state.physics)

    def observe(self, state: CartPoleState, rng: np.random.Generator) -> NDArray[np.float32]:
        return state.motion.astype(np.float32)

    def reward(self, state: CartPoleState, action: Any, next_state: CartPoleState) -> NDArray[np.float64]:
        return np.ones(next_state.motion.shape[:-1])

    def terminal(self, state: CartPoleState) -> NDArray[np.bool_]:
        return (np.abs(state.motion[..., 0]) > X_LIMIT) | (np.abs(state.motion[..., 2]) > ANGLE_LIMIT)


def _physics(features: list[Any]) -> tuple[Any, ...]:
    """Returns the quantities that the dynamics use, from the features `PHYSICS`, as numbers or columns."""
    gravity, cart, pole, length, strength, tau = features
    return gravity, cart + pole, pole, pole * length, length, strength, tau
