"""The context features of gymnasium's Box2D environments.

Names and bounds are CARL's for `LunarLander` and `BipedalWalker` (hardcore too), and for `CarRacing`, where CARL has
cars of its own instead, those of the source. Defaults are gymnasium's (CARL's `TERRAIN_HEIGHT` is half as high again).

The constants of these environments are globals of their modules, shared by the whole process. An environment whose
context differs from the default therefore gets copies of its class's methods, as attributes of the instance, that read
globals of its own. Other environments are not affected, not even in other threads, and the copies are as fast as the
methods. Pickles and deep copies do not contain them, because these environments are pickled as the arguments that
they were made with.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from types import FunctionType, MethodType, SimpleNamespace
from typing import Any, ClassVar

import numpy as np

from envoi import ContextSpace, UniformFloat, UniformInteger

from ..shared.contexts import Bindable, Bounds
from . import Ranges, feature

_MODULE = "gymnasium.envs.box2d."
_INTEGERS = {"TERRAIN_LENGTH", "TERRAIN_GRASS", "TERRAIN_STARTPAD", "VIEWPORT_W", "VIEWPORT_H"}


class _Task:
    """The features of one environment, and the way to set them on it."""

    module: ClassVar[str]  # that of its class, whose globals are its constants
    constants: ClassVar[Ranges]
    # Indices of the observation's elements whose bounds are only estimates for the default constants, such as speeds.
    # Under any other context they are unbounded.
    unsure: ClassVar[list[int]] = []

    def __init__(self, native: Any) -> None:
        self.native = native
        self.space = ContextSpace([*_features(self.module, self.constants), *self.others()])

    def others(self) -> Iterator[UniformFloat]:
        """Yields the features that are not constants of the environment's module."""
        yield from ()

    def apply(self, context: Mapping[str, Any]) -> None:
        methods, own = _functions(type(self.native)), vars(self.native)
        if context == self.space.defaults:
            for name in methods:
                own.pop(name, None)
        else:
            names = {**_globals(self.module), **{name: context[name] for name in self.constants}}
            self.derive(names, context)
            for name, method in methods.items():
                own[name] = MethodType(_with_globals(method, names), self.native)

    def derive(self, names: dict[str, Any], context: Mapping[str, Any]) -> None:
        """Adds the globals that are computed from the constants, and those that depend on other features."""

    def bounds(self, least: Mapping[str, Any], most: Mapping[str, Any]) -> Bounds:
        """Returns the lowest and the highest observation under all contexts from `least` to `most`."""
        space = self.native.observation_space
        low, high = space.low.copy(), space.high.copy()
        if not least == most == self.space.defaults:
            low[self.unsure], high[self.unsure] = -np.inf, np.inf
        return low, high


def _globals(module: str) -> dict[str, Any]:
    return vars(sys.modules[_MODULE + module])


def _features(module: str, ranges: Ranges) -> list[UniformFloat]:
    constants = _globals(module)
    return [
        feature(name, low, high, constants[name], UniformInteger if name in _INTEGERS else UniformFloat)
        for name, (low, high) in ranges.items()
    ]


def _functions(kind: type) -> dict[str, FunctionType]:
    return {name: value for name, value in vars(kind).items() if isinstance(value, FunctionType)}


def _with_globals(function: FunctionType, names: dict[str, Any]) -> FunctionType:
    copy = FunctionType(function.__code__, names, function.__name__, function.__defaults__, function.__closure__)
    copy.__kwdefaults__ = function.__kwdefaults__
    return copy


class _LunarLander(_Task):
    module = "lunar_lander"
    constants: ClassVar[Ranges] = {
        "FPS": (1, 500), "SCALE": (1, 100), "MAIN_ENGINE_POWER": (0, 50), "SIDE_ENGINE_POWER": (0, 50),
        "INITIAL_RANDOM": (0, 2000), "LEG_AWAY": (0, 50), "LEG_DOWN": (0, 50), "LEG_W": (1, 10), "LEG_H": (1, 20),
        "LEG_SPRING_TORQUE": (0, 100), "SIDE_ENGINE_HEIGHT": (1, 20), "SIDE_ENGINE_AWAY": (1, 20),
        "VIEWPORT_W": (400, 1000), "VIEWPORT_H": (200, 800),
    }  # fmt: skip
    unsure: ClassVar[list[int]] = [*range(6)]  # all but whether the legs touch the ground

    def others(self) -> Iterator[UniformFloat]:
        native = self.native
        yield UniformFloat("GRAVITY_X", -20, 20, 0.0)
        yield feature("GRAVITY_Y", -20, -0.01, native.gravity)
        if native.enable_wind:
            yield feature("wind_power", 0, 20, native.wind_power)
            yield feature("turbulence_power", 0, 2, native.turbulence_power)

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
    constants: ClassVar[Ranges] = {
        "FPS": (1, 500), "SCALE": (1, 100), "FRICTION": (0, 10), "TERRAIN_STEP": (0.25, 1),
        "TERRAIN_LENGTH": (100, 500), "TERRAIN_HEIGHT": (3, 10), "TERRAIN_GRASS": (5, 15),
        "TERRAIN_STARTPAD": (10, 30),  # CARL allows fractions, which the source counts down past 0
        "MOTORS_TORQUE": (0.01, 200), "SPEED_HIP": (0.01, 15), "SPEED_KNEE": (0.01, 15), "LIDAR_RANGE": (0.01, 20),
        "LEG_DOWN": (-2, -0.25), "LEG_W": (0.25, 0.5), "LEG_H": (0.25, 2), "INITIAL_RANDOM": (0, 50),
        "VIEWPORT_W": (400, 1000), "VIEWPORT_H": (200, 800),
    }  # fmt: skip
    unsure: ClassVar[list[int]] = [*range(8), *range(9, 13)]  # all but which feet touch the ground, and what lidar sees

    def others(self) -> Iterator[UniformFloat]:
        yield UniformFloat("GRAVITY_X", -20, 20, 0.0)
        yield UniformFloat("GRAVITY_Y", -20, -0.01, -10.0)

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
        kept = ("density", "friction", "restitution", "categoryBits", "maskBits")
        for name, shape in shapes.items():
            names[name] = fixture(shape=shape, **{field: getattr(names[name], field) for field in kept})


class _CarRacing(_Task):
    module = "car_racing"
    constants: ClassVar[Ranges] = {  # the track is half as wide again as its radius, in a field of 333
        "FPS": (10, 500), "TRACK_RAD": (100, 200), "TRACK_TURN_RATE": (0.1, 0.6), "TRACK_WIDTH": (3, 15),
    }  # fmt: skip
    car: ClassVar[Ranges] = {
        "ENGINE_POWER": (1e3, 4e5),
        "WHEEL_MOMENT_OF_INERTIA": (0.1, 16),
        "FRICTION_LIMIT": (10, 4e3),
    }

    def others(self) -> Iterator[UniformFloat]:
        yield from _features("car_dynamics", self.car)

    def derive(self, names: dict[str, Any], context: Mapping[str, Any]) -> None:
        kind, inside = names["Car"], {**_globals("car_dynamics"), **{name: context[name] for name in self.car}}
        functions = {name: _with_globals(method, inside) for name, method in _functions(kind).items()}
        names["Car"] = type(kind.__name__, (kind,), functions)


_TASKS = {"LunarLander": _LunarLander, "BipedalWalker": _BipedalWalker, "CarRacing": _CarRacing}


def bindable(native: Any) -> Bindable | None:
    """Returns the features of one of these environments, or None for any other environment."""
    kind = type(native)
    if kind.__name__ not in _TASKS or not kind.__module__.startswith(_MODULE):
        return None  # a subclass would call methods of its parent, which read the shared globals
    task = _TASKS[kind.__name__](native)
    return Bindable(task.space, task.apply, task.bounds if task.unsure else None)
