"""CartPole of many lanes in numpy, with the values and contexts of `envoi.models.CartPole`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import envoi
from envoi.batching.lane_contexts import derived
from envoi.lane_values import alike
from envoi.models import CartPole
from envoi.models.cartpole import ANGLE_LIMIT, X_LIMIT

# Numbers are arrays without axes, because numpy converts a Python number again in each operation.
X, ANGLE, ONE, TWO, FOUR_THIRDS = map(np.array, (X_LIMIT, ANGLE_LIMIT, 1.0, 2.0, 4.0 / 3.0))


class CartPolesState(NamedTuple):
    """`motion` of shape (n, 4): position, velocity, angle, angular velocity; `physics` of shape (n, 7)."""

    motion: NDArray[np.float64]
    physics: NDArray[np.float64]


class CartPoles(envoi.BatchModel):
    """One call of its functions steps all lanes."""

    observation_spec, action_spec = CartPole.observation_spec, CartPole.action_spec
    reward_spec, context_space = CartPole.reward_spec, CartPole.context_space

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any], size: int) -> CartPolesState:
        low, width, physics = derived(_quantities, context, size)
        return CartPolesState((low + width * rng.random((4, size))).T, physics)

    def transition(self, state: CartPolesState, action: Any, rng: np.random.Generator) -> CartPolesState:
        before = state.motion.T
        speed, angle, spin = before[1], before[2], before[3]
        gravity, mass, pole, moment, length, strength, tau = state.physics.T
        cos, sin = np.cos(angle), np.sin(angle)
        force = strength * (TWO * np.asarray(action, np.float64) - ONE)
        push = (force + moment * np.square(spin) * sin) / mass
        spin_up = (gravity * sin - cos * push) / (length * (FOUR_THIRDS - pole * np.square(cos) / mass))
        speed_up = push - moment * spin_up * cos / mass
        motion = before + tau * np.array((speed, speed_up, spin, spin_up))
        return CartPolesState(motion.T, state.physics)

    def observe(self, state: CartPolesState, rng: np.random.Generator) -> NDArray[np.float32]:
        return state.motion.astype(np.float32)

    def reward(self, state: CartPolesState, action: Any, next_state: CartPolesState) -> NDArray[np.float64]:
        return np.zeros(next_state.motion.shape[:-1]) + ONE  # twice as fast as `np.ones`

    def terminal(self, state: CartPolesState) -> NDArray[np.bool_]:
        return (np.abs(state.motion[..., 0]) > X) | (np.abs(state.motion[..., 2]) > ANGLE)


def _quantities(context: Mapping[str, Any], size: int) -> tuple[Any, Any, NDArray[np.float64]]:
    """Returns the lowest initial motion, the width of its range, and `physics` of lanes."""
    columns: list[Any] = [np.asarray(context[name]) for name in CartPole.context_space.features]
    equal = {column.strides for column in columns} <= {(), (0,)}  # the same in all lanes
    if equal:
        columns = [column.item(0) for column in columns]
    gravity, cart, pole, length, strength, tau, low, high = columns
    physics = np.array((gravity, cart + pole, pole, pole * length, length, strength, tau))
    width = high - low
    return (np.array(low), np.array(width), alike(physics, size)) if equal else (low, width, physics.T)
