"""The context features of gymnasium's classic control.

Names and bounds are CARL's. Features that only change the picture are left out (Acrobot's `LINK_LENGTH_2`), and so
are those that the source does not know (Pendulum's `gravity`, which is its `g`). Defaults are gymnasium's, where CARL
has other initial states of CartPole and the goals of the two mountain cars exchanged.

The initial state is uniform between bounds that are features. If they differ from the source's, it is sampled again
after the source's own reset, unless the `options` of that reset give bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from functools import partial
from typing import Any, ClassVar

import numpy as np

from envoi import ContextSpace, UniformFloat

from ..shared.contexts import Bindable, Bounds
from . import Ranges, feature

_INF = math.inf
_OPTIONS = {"low", "high", "x_init", "y_init"}  # options of a reset that bound the initial state


class _Task:
    """The features of one environment, and the way to set them on it."""

    constants: ClassVar[Ranges]  # features that are attributes of the source
    start: ClassVar[Ranges]  # the lowest value and the source's own one of features that bound the initial state
    elements: ClassVar[tuple[tuple[str, str], ...]]  # those that bound each of its elements
    ordered: ClassVar[tuple[tuple[str, str], ...]] = ()  # other pairs of a lower and an upper bound

    def __init__(self, native: Any) -> None:
        self.native = native
        constants = [feature(name, *ends, getattr(native, name)) for name, ends in self.constants.items()]
        start = [UniformFloat(name, low, _INF, default) for name, (low, default) in self.start.items()]
        self.space = ContextSpace([*constants, *start])

    def apply(self, context: Mapping[str, Any]) -> None:
        native = self.native
        for name in self.constants:
            setattr(native, name, context[name])
        if any(context[name] != default for name, (_, default) in self.start.items()):
            native.reset = partial(_reset_within, native, *self.box(context))
        else:
            vars(native).pop("reset", None)

    def box(self, context: Mapping[str, Any]) -> Bounds:
        """Returns the lowest and the highest initial state under a context."""
        low, high = zip(*self.elements, strict=True)
        return np.array([context[name] for name in low]), np.array([context[name] for name in high])

    def bounds(self, least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
        """Returns the lowest and the highest observation under all contexts from `least` to `most`."""
        raise NotImplementedError


def _reset_within(native: Any, low: Any, high: Any, *, seed: Any = None, options: Any = None) -> tuple[Any, Any]:
    observation, info = type(native).reset(native, seed=seed, options=options)
    if options and not _OPTIONS.isdisjoint(options):
        return observation, info
    native.state = native.np_random.uniform(low, high).astype(np.asarray(native.state).dtype)
    if native.render_mode == "human":
        native.render()
    observe = getattr(native, "_get_obs", None) or getattr(native, "_get_ob", None)
    return (np.array(native.state, np.float32) if observe is None else observe()), info


class _CartPole(_Task):
    constants: ClassVar[Ranges] = {
        "gravity": (0.1, _INF), "masscart": (0.1, 10), "masspole": (0.01, 1), "length": (0.05, 5),
        "force_mag": (1, 100), "tau": (0.002, 0.2),
    }  # fmt: skip
    start: ClassVar[Ranges] = {
        "initial_state_lower": (-_INF, -0.05), "initial_state_upper": (-_INF, 0.05),
    }  # fmt: skip
    elements = (("initial_state_lower", "initial_state_upper"),) * 4

    def apply(self, context: Mapping[str, Any]) -> None:
        super().apply(context)
        native = self.native
        native.total_mass = native.masspole + native.masscart
        native.polemass_length = native.masspole * native.length

    def bounds(self, least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
        """Returns bounds of twice the thresholds, as the source declares, or wider if the last step can go further."""
        # Before it, cart and pole are within the thresholds, which bounds their accelerations, and so their speeds.
        share = most["masspole"] / (most["masspole"] + least["masscart"])  # of the pole in the whole mass, at most
        push = most["force_mag"] / (least["masspole"] + least["masscart"])
        start, tau = max(abs(least["initial_state_lower"]), abs(most["initial_state_upper"])), most["tau"]
        track, angle = max(self.native.x_threshold, start), max(self.native.theta_threshold_radians, start)
        tilt = math.sin(min(angle, math.pi / 2))
        constant = (most["gravity"] * tilt + push) / (least["length"] * (4 / 3 - share))
        centrifugal = share * tilt / (4 / 3 - share)
        # The pole's own speed accelerates it, so its bound is a fixed point, which need not exist.
        spin, last = start, -1.0
        while last < spin < 1e6 and spin - last > 1e-9 * spin:
            last, spin = spin, _gathered(start, constant + centrifugal * spin**2, 2 * angle, tau)
        spin = spin if spin < 1e6 else _INF
        turn = constant + centrifugal * spin**2
        pull = push + share * most["length"] * (spin**2 * tilt + turn)
        edge = max(2 * self.native.x_threshold, track + tau * _gathered(start, pull, 2 * track, tau))
        lean = max(2 * self.native.theta_threshold_radians, angle + tau * spin)
        high = np.array([edge, _INF, lean, _INF], np.float32)
        return -high, high


def _gathered(start: float, acceleration: float, way: float, tau: float) -> float:
    """Bounds the speed after steps of `tau` seconds, given bounds of the acceleration and of the distance covered."""
    return 1.000001 * (start + acceleration * tau + math.sqrt(2 * acceleration * way))


class _Pendulum(_Task):
    constants: ClassVar[Ranges] = {
        "max_speed": (0, _INF), "dt": (0, _INF), "g": (0, _INF), "m": (1e-6, _INF), "l": (1e-6, _INF),
    }  # fmt: skip
    start: ClassVar[Ranges] = {"initial_angle_max": (0, math.pi), "initial_velocity_max": (0, 1.0)}
    elements = ()

    def box(self, context: Mapping[str, Any]) -> Bounds:
        high = np.array([context[name] for name in self.start])
        return -high, high

    def bounds(self, least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
        high = np.array([1, 1, max(most["max_speed"], most["initial_velocity_max"])], np.float32)
        return -high, high


class _Acrobot(_Task):
    constants: ClassVar[Ranges] = {
        "LINK_LENGTH_1": (0.1, 10), "LINK_MASS_1": (0.1, 10), "LINK_MASS_2": (0.1, 10), "LINK_COM_POS_1": (0, 1),
        "LINK_COM_POS_2": (0, 1), "LINK_MOI": (0.1, 10), "MAX_VEL_1": (0.4 * math.pi, 40 * math.pi),
        "MAX_VEL_2": (0.9 * math.pi, 90 * math.pi),
        "torque_noise_max": (0, 1),  # CARL allows negative ones, which the source takes for none
    }  # fmt: skip
    start: ClassVar[Ranges] = {
        "INITIAL_ANGLE_LOWER": (-_INF, -0.1), "INITIAL_ANGLE_UPPER": (-_INF, 0.1),
        "INITIAL_VELOCITY_LOWER": (-_INF, -0.1), "INITIAL_VELOCITY_UPPER": (-_INF, 0.1),
    }  # fmt: skip
    elements = (
        *(("INITIAL_ANGLE_LOWER", "INITIAL_ANGLE_UPPER"),) * 2,
        *(("INITIAL_VELOCITY_LOWER", "INITIAL_VELOCITY_UPPER"),) * 2,
    )

    def bounds(self, least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
        start = max(abs(least["INITIAL_VELOCITY_LOWER"]), abs(most["INITIAL_VELOCITY_UPPER"]))
        high = np.array([1, 1, 1, 1, max(most["MAX_VEL_1"], start), max(most["MAX_VEL_2"], start)], np.float32)
        return -high, high


_CAR: Ranges = {
    "min_position": (-_INF, _INF), "max_position": (-_INF, _INF), "max_speed": (0, _INF),
    "goal_position": (-_INF, _INF), "goal_velocity": (-_INF, _INF),
}  # fmt: skip


class _MountainCarContinuous(_Task):
    constants: ClassVar[Ranges] = {**_CAR, "power": (-_INF, _INF)}
    start: ClassVar[Ranges] = {
        "min_position_start": (-_INF, -0.6), "max_position_start": (-_INF, -0.4),
        "min_velocity_start": (-_INF, 0.0), "max_velocity_start": (-_INF, 0.0),
    }  # fmt: skip
    elements = (("min_position_start", "max_position_start"), ("min_velocity_start", "max_velocity_start"))
    ordered = (("min_position", "max_position"),)

    def bounds(self, least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
        low = np.minimum([least["min_position"], -most["max_speed"]], self.box(least)[0])
        high = np.maximum([most["max_position"], most["max_speed"]], self.box(most)[1])
        return low.astype(np.float32), high.astype(np.float32)


class _MountainCar(_MountainCarContinuous):
    constants: ClassVar[Ranges] = {**_CAR, "force": (-_INF, _INF), "gravity": (0, _INF)}


_TASKS = {
    "CartPoleEnv": _CartPole,
    "PendulumEnv": _Pendulum,
    "AcrobotEnv": _Acrobot,
    "MountainCarEnv": _MountainCar,
    "Continuous_MountainCarEnv": _MountainCarContinuous,
}


def bindable(native: Any) -> Bindable | None:
    """Returns the features of one of these environments, or None for any other environment."""
    for kind in type(native).__mro__:
        if kind.__name__ in _TASKS and kind.__module__.startswith("gymnasium."):
            task = _TASKS[kind.__name__](native)
            return Bindable(task.space, task.apply, task.bounds, (*task.ordered, *dict.fromkeys(task.elements)))
    return None
