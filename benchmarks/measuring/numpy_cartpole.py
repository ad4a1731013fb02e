"""CartPole of many lanes in numpy, with the values of `envoi.models.CartPole`, and a class with its contexts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import envoi
from envoi.models import CartPole
from envoi.models.cartpole import ANGLE_LIMIT, X_LIMIT

# Numbers are arrays without axes, because numpy converts a Python number again in each operation.
X, ANGLE, ONE, TWO, FOUR_THIRDS = map(np.array, (X_LIMIT, ANGLE_LIMIT, 1.0, 2.0, 4.0 / 3.0))


def quantities(context: Mapping[str, Any]) -> tuple[Any, Any, tuple[Any, ...]]:
    """Returns the lowest and the highest initial number of a context, and the quantities of its physics."""
    gravity, cart, pole, length, strength, tau, low, high = (context[name] for name in CartPole.context_space.features)
    return low, high, (gravity, cart + pole, pole, pole * length, length, strength, tau)


LOW, HIGH, USUAL = quantities({name: np.array(value) for name, value in CartPole.context_space.defaults.items()})


def moved(motion: NDArray[np.float64], action: Any, physics: Any) -> NDArray[np.float64]:
    """Returns the motion after a step, of shape (n, 4): position, velocity, angle, angular velocity."""
    before = motion.T
    speed, angle, spin = before[1], before[2], before[3]
    gravity, mass, pole, moment, length, strength, tau = physics
    cos, sin = np.cos(angle), np.sin(angle)
    force = strength * (TWO * np.asarray(action, np.float64) - ONE)
    push = (force + moment * np.square(spin) * sin) / mass
    spin_up = (gravity * sin - cos * push) / (length * (FOUR_THIRDS - pole * np.square(cos) / mass))
    speed_up = push - moment * spin_up * cos / mass
    return (before + tau * np.array((speed, speed_up, spin, spin_up))).T


class CartPoles(envoi.BatchModel):
    """One call of its functions steps all lanes; a state is their motion."""

    observation_spec, action_spec, reward_spec = CartPole.observation_spec, CartPole.action_spec, CartPole.reward_spec

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any], size: int) -> Any:
        return (LOW + (HIGH - LOW) * rng.random((4, size))).T

    def transition(self, state: Any, action: Any, rng: np.random.Generator) -> Any:
        return moved(state, action, USUAL)

    def observe(self, state: Any, rng: np.random.Generator) -> NDArray[np.float32]:
        return state.astype(np.float32)

    def reward(self, state: Any, action: Any, next_state: Any) -> NDArray[np.float64]:
        return np.zeros(next_state.shape[:-1]) + ONE  # twice as fast as `np.ones`

    def terminal(self, state: Any) -> NDArray[np.bool_]:
        return (np.abs(state[..., 0]) > X) | (np.abs(state[..., 2]) > ANGLE)


class State(NamedTuple):
    """The motion of lanes, and the quantities of their physics, of shape (n, 7)."""

    motion: NDArray[np.float64]
    physics: NDArray[np.float64]


class ContextCartPoles(CartPoles):
    """The same, with contexts."""

    context_space = CartPole.context_space

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any], size: int) -> State:
        low, high, physics = quantities(context)
        return State((low + (high - low) * rng.random((4, size))).T, np.array(physics).T)

    def transition(self, state: State, action: Any, rng: np.random.Generator) -> State:
        return State(moved(state.motion, action, state.physics.T), state.physics)

    def observe(self, state: State, rng: np.random.Generator) -> NDArray[np.float32]:
        return super().observe(state.motion, rng)

    def reward(self, state: State, action: Any, next_state: State) -> NDArray[np.float64]:
        return super().reward(state.motion, action, next_state.motion)

    def terminal(self, state: State) -> NDArray[np.bool_]:
        return super().terminal(state.motion)
