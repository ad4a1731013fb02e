"""The context features of gymnasium's classic control.

Names and bounds are CARL's. Features that only change the picture are left out (Acrobot's `LINK_LENGTH_2`), and so
are those that the source does not know. Where the defaults of the two differ, gymnasium's holds:

| environment | feature | gymnasium | CARL |
|---|---|---|---|
| CartPole | `initial_state_lower`, `initial_state_upper` | ±0.05 | ±0.1 |
| MountainCar | `goal_position` | 0.5 | 0.45 |
| MountainCarContinuous | `goal_position` | 0.45 | 0.5 |
| Pendulum | `max_speed`, which newer versions call `gravity` | 8 | 8 |

The initial state is uniform between bounds that are features. If they differ from the source's, it is sampled again
after the source's own reset, unless the `options` of that reset give bounds.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import numpy as np

from envoi import ContextSpace, UniformFloat

from ..shared.contexts import Bindable, Bounds

_INF = math.inf
_OPTIONS = {"low", "high", "x_init", "y_init"}
"""Reset options that give the bounds of the initial state."""


class _Task:
    """The features of one environment, and the way to set them on it.

    Attributes:
        constants: Features that are attributes of the source.
        start: Features that are bounds of the initial state, with the source's values as defaults.
        ordered: See `Bindable`.
    """

    constants: ClassVar[tuple[UniformFloat, ...]]
    start: ClassVar[tuple[UniformFloat, ...]]
    ordered: ClassVar[tuple[tuple[str, str], ...]] = ()

    def __init__(self, native: Any) -> None:
        self.native = native
        self.space = ContextSpace([*(self._as_it_is(feature) for feature in self.constants), *self.start])

    def _as_it_is(self, feature: UniformFloat) -> UniformFloat:
        default = getattr(self.native, feature.name)
        return replace(feature, low=min(feature.low, default), high=max(feature.high, default), default=default)

    def apply(self, context: Mapping[str, Any]) -> None:
        native = self.native
        for feature in self.constants:
            setattr(native, feature.name, context[feature.name])
        for feature in self.start:
            if context[feature.name] != feature.default:
                native.reset = partial(_reset_within, native, *self.box(context))
                return
        vars(native).pop("reset", None)

    def box(self, context: Mapping[str, Any]) -> Bounds:
        """Returns the lowest and the highest initial state under a context."""
        raise NotImplementedError

    def bounds(self, least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
        """Returns the lowest and the highest observation under contexts between two."""
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
    constants = (
        UniformFloat("gravity", 0.1, _INF), UniformFloat("masscart", 0.1, 10), UniformFloat("masspole", 0.01, 1),
        UniformFloat("length", 0.05, 5), UniformFloat("force_mag", 1, 100), UniformFloat("tau", 0.002, 0.2),
    )  # fmt: skip
    start = (
        UniformFloat("initial_state_lower", -_INF, _INF, -0.05), UniformFloat("initial_state_upper", -_INF, _INF, 0.05),
    )  # fmt: skip
    ordered = (("initial_state_lower", "initial_state_upper"),)

    def apply(self, context: Mapping[str, Any]) -> None:
        super().apply(context)
        native = self.native
        native.total_mass = native.masspole + native.masscart
        native.polemass_length = native.masspole * native.length

    def box(self, context: Mapping[str, Any]) -> Bounds:
        return np.full(4, context["initial_state_lower"]), np.full(4, context["initial_state_upper"])

    def bounds(self, least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
        """Returns bounds of twice the thresholds, as the source declares, or wider if the last step can go further.

        Before the last step, cart and pole are within the thresholds. That bounds their accelerations, and with the
        length of the way also their speeds.
        """
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
        turn = constant + centrifugal * spin**2
        pull = push + share * most["length"] * (spin**2 * tilt + turn)
        if spin < 1e6:
            speed = _gathered(start, pull, 2 * track, tau)
            edge = max(2 * self.native.x_threshold, track + tau * speed)
            lean = max(2 * self.native.theta_threshold_radians, angle + tau * spin)
        else:
            edge = lean = _INF
        high = np.array([edge, _INF, lean, _INF], np.float32)
        return -high, high


def _gathered(start: float, acceleration: float, way: float, tau: float) -> float:
    """Returns a bound of the speed after steps of `tau` seconds, given bounds of acceleration and way."""
    return 1.000001 * (start + acceleration * tau + math.sqrt(2 * acceleration * way))


class _Pendulum(_Task):
    constants = (
        UniformFloat("max_speed", 0, _INF), UniformFloat("dt", 0, _INF), UniformFloat("g", 0, _INF),
        UniformFloat("m", 1e-6, _INF), UniformFloat("l", 1e-6, _INF),
    )  # fmt: skip
    start = (
        UniformFloat("initial_angle_max", 0, _INF, math.pi), UniformFloat("initial_velocity_max", 0, _INF, 1.0),
    )  # fmt: skip

    def box(self, context: Mapping[str, Any]) -> Bounds:
        high = np.array([context["initial_angle_max"], context["initial_velocity_max"]])
        return -high, high

    def bounds(self, least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
        high = np.array([1, 1, max(most["max_speed"], most["initial_velocity_max"])], np.float32)
        return -high, high


class _Acrobot(_Task):
    constants = (
        UniformFloat("LINK_LENGTH_1", 0.1, 10), UniformFloat("LINK_MASS_1", 0.1, 10),
        UniformFloat("LINK_MASS_2", 0.1, 10), UniformFloat("LINK_COM_POS_1", 0, 1),
        UniformFloat("LINK_COM_POS_2", 0, 1), UniformFloat("LINK_MOI", 0.1, 10),
        UniformFloat("MAX_VEL_1", 0.4 * math.pi, 40 * math.pi), UniformFloat("MAX_VEL_2", 0.9 * math.pi, 90 * math.pi),
        UniformFloat("torque_noise_max", 0, 1),  # CARL allows negative ones, which the source takes for none
    )  # fmt: skip
    start = (
        UniformFloat("INITIAL_ANGLE_LOWER", -_INF, _INF, -0.1), UniformFloat("INITIAL_ANGLE_UPPER", -_INF, _INF, 0.1),
        UniformFloat("INITIAL_VELOCITY_LOWER", -_INF, _INF, -0.1),
        UniformFloat("INITIAL_VELOCITY_UPPER", -_INF, _INF, 0.1),
    )  # fmt: skip
    ordered = (("INITIAL_ANGLE_LOWER", "INITIAL_ANGLE_UPPER"), ("INITIAL_VELOCITY_LOWER", "INITIAL_VELOCITY_UPPER"))

    def box(self, context: Mapping[str, Any]) -> Bounds:
        low, high = (
            np.repeat([context[f"INITIAL_ANGLE_{end}"], context[f"INITIAL_VELOCITY_{end}"]], 2)
            for end in ("LOWER", "UPPER")
        )
        return low, high

    def bounds(self, least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
        start = max(abs(least["INITIAL_VELOCITY_LOWER"]), abs(most["INITIAL_VELOCITY_UPPER"]))
        speeds = [max(most["MAX_VEL_1"], start), max(most["MAX_VEL_2"], start)]
        high = np.array([1, 1, 1, 1, *speeds], np.float32)
        return -high, high


class _MountainCarContinuous(_Task):
    constants = (
        UniformFloat("min_position", -_INF, _INF), UniformFloat("max_position", -_INF, _INF),
        UniformFloat("max_speed", 0, _INF), UniformFloat("goal_position", -_INF, _INF),
        UniformFloat("goal_velocity", -_INF, _INF), UniformFloat("power", -_INF, _INF),
    )  # fmt: skip
    start = (
        UniformFloat("min_position_start", -_INF, _INF, -0.6), UniformFloat("max_position_start", -_INF, _INF, -0.4),
        UniformFloat("min_velocity_start", -_INF, _INF, 0.0), UniformFloat("max_velocity_start", -_INF, _INF, 0.0),
    )  # fmt: skip
    ordered = (
        ("min_position", "max_position"),
        ("min_position_start", "max_position_start"),
        ("min_velocity_start", "max_velocity_start"),
    )

    def box(self, context: Mapping[str, Any]) -> Bounds:
        low, high = (np.array([context[f"{end}_position_start"], context[f"{end}_velocity_start"]]) for end in _ENDS)
        return low, high

    def bounds(self, least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
        low = np.minimum([least["min_position"], -most["max_speed"]], self.box(least)[0])
        high = np.maximum([most["max_position"], most["max_speed"]], self.box(most)[1])
        return low.astype(np.float32), high.astype(np.float32)


_ENDS = ("min", "max")


class _MountainCar(_MountainCarContinuous):
    constants = (
        *_MountainCarContinuous.constants[:-1], UniformFloat("force", -_INF, _INF), UniformFloat("gravity", 0, _INF),
    )  # fmt: skip


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
            return Bindable(task.space, task.apply, task.bounds, task.ordered)
    return None
