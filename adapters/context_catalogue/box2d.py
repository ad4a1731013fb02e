"""The context features of gymnasium's Box2D environments.

Names and bounds are CARL's for `LunarLander` and `BipedalWalker` (hardcore too); for `CarRacing`, where CARL has cars
of its own instead, they are the constants of the source. Where the defaults differ, gymnasium's holds:

| environment | feature | gymnasium | CARL |
|---|---|---|---|
| BipedalWalker | `TERRAIN_HEIGHT` | 400 / 30 / 4 | 600 / 30 / 4 |

The constants of these environments are globals of their modules, shared by the whole process. An environment whose
context differs from the default therefore gets copies of its class's methods, as attributes of the instance, that read
globals of its own. Other environments are not affected, not even in other threads, and the copies are as fast as the
methods. Pickles and deep copies do not contain them, because these environments are pickled as the arguments that
they were made with.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from envoi import ContextSpace, UniformFloat, UniformInteger

from ..shared.contexts import Bindable, Bounds

_Number = UniformFloat | UniformInteger

_MODULE = "gymnasium.envs.box2d."


class _Task:
    """The features of one environment, and the way to set them on it.

    Attributes:
        module: The module of its class, whose globals are its constants.
        constants: Features that are such constants.
        others: Features that are kept elsewhere.
        unsure: Indices of the observation's elements whose bounds are only estimates for the default constants, such
            as speeds. Under any other context they are unbounded.
    """

    module: ClassVar[str]
    constants: ClassVar[tuple[_Number, ...]]
    others: ClassVar[tuple[_Number, ...]] = ()
    unsure: ClassVar[list[int]] = []

    def __init__(self, native: Any) -> None:
        self.native = native
        constants = vars(sys.modules[_MODULE + self.module])
        known = (replace(feature, default=constants[feature.name]) for feature in self.constants)
        self.space = ContextSpace([*known, *self.others])

    def apply(self, context: Mapping[str, Any]) -> None:
        module = sys.modules[_MODULE + self.module]
        methods, own = _functions(type(self.native)), vars(self.native)
        if context == self.space.defaults:
            for name, _ in methods:
                own.pop(name, None)
        else:
            names = {**vars(module), **{feature.name: context[feature.name] for feature in self.constants}}
            self.derive(names, context)
            for name, method in methods:
                own[name] = MethodType(_with_globals(method, names), self.native)

    def derive(self, names: dict[str, Any], context: Mapping[str, Any]) -> None:
        """Adds the globals that are computed from the constants, and those that depend on other features."""

    def bounds(self, least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
        """Returns the lowest and the highest observation under contexts between two."""
        space = self.native.observation_space
        low, high = space.low.copy(), space.high.copy()
        if not least == most == self.space.defaults:
            low[self.unsure], high[self.unsure] = -np.inf, np.inf
        return low, high


def _functions(kind: type) -> list[tuple[str, FunctionType]]:
    return [(name, value) for name, value in vars(kind).items() if isinstance(value, FunctionType)]


def _with_globals(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


class _LunarLander(_Task):
    module = "lunar_lander"
    constants = (
        UniformFloat("FPS", 1, 500), UniformFloat("SCALE", 1, 100), UniformFloat("MAIN_ENGINE_POWER", 0, 50),
        UniformFloat("SIDE_ENGINE_POWER", 0, 50), UniformFloat("INITIAL_RANDOM", 0, 2000),
        UniformFloat("LEG_AWAY", 0, 50), UniformFloat("LEG_DOWN", 0, 50), UniformFloat("LEG_W", 1, 10),
        UniformFloat("LEG_H", 1, 20), UniformFloat("LEG_SPRING_TORQUE", 0, 100),
        UniformFloat("SIDE_ENGINE_HEIGHT", 1, 20), UniformFloat("SIDE_ENGINE_AWAY", 1, 20),
        UniformInteger("VIEWPORT_W", 400, 1000), UniformInteger("VIEWPORT_H", 200, 800),
    )  # fmt: skip
    unsure: ClassVar[list[int]] = [*range(6)]  # all but whether the legs touch the ground

    def __init__(self, native: Any) -> None:
        others = [
            UniformFloat("GRAVITY_X", -20, 20, 0.0),
            UniformFloat("GRAVITY_Y", min(-20, native.gravity), -0.01, native.gravity),
        ]
        if native.enable_wind:
            others += [
                UniformFloat("wind_power", 0, max(20, native.wind_power), native.wind_power),
                UniformFloat("turbulence_power", 0, max(2, native.turbulence_power), native.turbulence_power),
            ]
        self.others = tuple(others)  # pyright: ignore[reportAttributeAccessIssue]
        super().__init__(native)

    def apply(self, context: Mapping[str, Any]) -> None:
        super().apply(context)
        self.native.gravity = context["GRAVITY_Y"]
        if self.native.enable_wind:
            self.native.wind_power, self.native.turbulence_power = context["wind_power"], context["turbulence_power"]

    def derive(self, names: dict[str, Any], context: Mapping[str, Any]) -> None:
        # Each reset makes a world in which gravity points straight down.
        world, sideways = names["Box2D"].b2World, context["GRAVITY_X"]
        names["Box2D"] = SimpleNamespace(b2World=lambda gravity: world(gravity=(sideways, gravity[1])))


class _BipedalWalker(_Task):
    module = "bipedal_walker"
    constants = (
        UniformFloat("FPS", 1, 500), UniformFloat("SCALE", 1, 100), UniformFloat("FRICTION", 0, 10),
        UniformFloat("TERRAIN_STEP", 0.25, 1), UniformInteger("TERRAIN_LENGTH", 100, 500),
        UniformFloat("TERRAIN_HEIGHT", 3, 10), UniformInteger("TERRAIN_GRASS", 5, 15),
        UniformInteger("TERRAIN_STARTPAD", 10, 30),  # CARL allows fractions, which the source counts down past 0
        UniformFloat("MOTORS_TORQUE", 0.01, 200), UniformFloat("SPEED_HIP", 0.01, 15),
        UniformFloat("SPEED_KNEE", 0.01, 15), UniformFloat("LIDAR_RANGE", 0.01, 20),
        UniformFloat("LEG_DOWN", -2, -0.25), UniformFloat("LEG_W", 0.25, 0.5), UniformFloat("LEG_H", 0.25, 2),
        UniformFloat("INITIAL_RANDOM", 0, 50), UniformInteger("VIEWPORT_W", 400, 1000),
        UniformInteger("VIEWPORT_H", 200, 800),
    )  # fmt: skip
    others = (UniformFloat("GRAVITY_X", -20, 20, 0.0), UniformFloat("GRAVITY_Y", -20, -0.01, -10.0))
    unsure: ClassVar[list[int]] = [*range(8), *range(9, 13)]  # all but which feet touch the ground, and what lidar sees

    def apply(self, context: Mapping[str, Any]) -> None:
        super().apply(context)
        native = self.native
        native.world.gravity = context["GRAVITY_X"], context["GRAVITY_Y"]
        for ground in (native.fd_polygon, native.fd_edge):
            ground.friction = context["FRICTION"]

    def derive(self, names: dict[str, Any], context: Mapping[str, Any]) -> None:
        fixture, polygon, scale = names["fixtureDef"], names["polygonShape"], context["SCALE"]
        width, height = context["LEG_W"] / 2, context["LEG_H"] / 2
        shapes = {
            "HULL_FD": polygon(vertices=[(x / scale, y / scale) for x, y in names["HULL_POLY"]]),
            "LEG_FD": polygon(box=(width, height)),
            "LOWER_FD": polygon(box=(0.8 * width, height)),
        }
        for name, shape in shapes.items():
            names[name] = _reshaped(names[name], shape, fixture)


def _reshaped(part: Any, shape: Any, fixture: Any) -> Any:
    kept = ("density", "friction", "restitution", "categoryBits", "maskBits")
    return fixture(shape=shape, **{name: getattr(part, name) for name in kept})


class _CarRacing(_Task):
    module = "car_racing"
    constants = (
        UniformFloat("FPS", 10, 500),
        UniformFloat("TRACK_RAD", 100, 200),  # the track is half as wide again, in a field of 333
        UniformFloat("TRACK_TURN_RATE", 0.1, 0.6), UniformFloat("TRACK_WIDTH", 3, 15),
    )  # fmt: skip
    of_the_car: ClassVar[tuple[UniformFloat, ...]] = (
        UniformFloat("ENGINE_POWER", 1e3, 4e5), UniformFloat("WHEEL_MOMENT_OF_INERTIA", 0.1, 16),
        UniformFloat("FRICTION_LIMIT", 10, 4e3),
    )  # fmt: skip

    def __init__(self, native: Any) -> None:
        constants = vars(sys.modules[_MODULE + "car_dynamics"])
        self.others = tuple(replace(f, default=constants[f.name]) for f in self.of_the_car)  # pyright: ignore[reportAttributeAccessIssue]
        super().__init__(native)

    def derive(self, names: dict[str, Any], context: Mapping[str, Any]) -> None:
        kind, module = names["Car"], sys.modules[_MODULE + "car_dynamics"]
        inside = {**vars(module), **{feature.name: context[feature.name] for feature in self.of_the_car}}
        functions = {name: _with_globals(method, inside) for name, method in _functions(kind)}
        names["Car"] = type(kind.__name__, (kind,), functions)


_TASKS = {"LunarLander": _LunarLander, "BipedalWalker": _BipedalWalker, "CarRacing": _CarRacing}


def bindable(native: Any) -> Bindable | None:
    """Returns the features of one of these environments, or None for any other environment."""
    kind = type(native)
    if kind.__name__ not in _TASKS or not kind.__module__.startswith(_MODULE):
        return None  # a subclass would call methods of its parent, which read the shared globals
    task = _TASKS[kind.__name__](native)
    return Bindable(task.space, task.apply, task.bounds if task.unsure else None)
