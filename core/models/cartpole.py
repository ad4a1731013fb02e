"""Cart-pole: balance a pole on a cart by pushing the cart left or right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..authoring.model import Model
from ..context import ContextSpace, UniformFloat
from ..spec import Array, Discrete

X_LIMIT, ANGLE_LIMIT = 2.4, 12 * 2 * math.pi / 360


class CartPoleState(NamedTuple):
    """The motion, and the physics of the episode's context."""

    position: float  # m
    speed: float  # m/s
    angle: float  # rad from upright
    spin: float  # rad/s
    gravity: float
    mass: float  # of cart and pole
    pole: float  # mass of the pole
    length: float  # half the pole's
    force: float
    tau: float  # seconds per step


class CartPole(Model):
    """Barto, Sutton and Anderson's cart-pole (1983), in the Euler form of gymnasium's CartPole-v1.

    The features of its context are CARL's, with gymnasium's values as defaults. The observation has no bounds, because
    a strong push over a long time step can exceed gymnasium's bounds.
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

    def initial(self, rng: np.random.Generator, context: Mapping[str, Any]) -> CartPoleState:
        low = float(context["initial_state_lower"])
        width = float(context["initial_state_upper"]) - low
        pole = float(context["masspole"])
        return CartPoleState(
            low + width * rng.random(), low + width * rng.random(), low + width * rng.random(),
            low + width * rng.random(), float(context["gravity"]), float(context["masscart"]) + pole, pole,
            float(context["length"]), float(context["force_mag"]), float(context["tau"]),
        )  # fmt: skip

    def transition(self, state: CartPoleState, action: Any, rng: np.random.Generator) -> CartPoleState:
        position, speed, angle, spin, gravity, mass, pole, length, force, tau = state
        cos, sin = math.cos(angle), math.sin(angle)
        push = ((force if action == 1 else -force) + pole * length * (spin * spin) * sin) / mass
        spin_up = (gravity * sin - cos * push) / (length * (4.0 / 3.0 - pole * (cos * cos) / mass))
        speed_up = push - pole * length * spin_up * cos / mass
        return CartPoleState(
            position + tau * speed, speed + tau * speed_up, angle + tau * spin, spin + tau * spin_up, gravity, mass,
            pole, length, force, tau,
        )  # fmt: skip

    def observe(self, state: CartPoleState, rng: np.random.Generator) -> NDArray[np.float32]:
        return np.array([state.position, state.speed, state.angle, state.spin], np.float32)

    def reward(self, state: CartPoleState, action: Any, next_state: CartPoleState) -> float:
        return 1.0

    def terminal(self, state: CartPoleState) -> bool:
        return abs(state.position) > X_LIMIT or abs(state.angle) > ANGLE_LIMIT
