"""The context features of gymnasium's MuJoCo tasks, version 4 and 5 alike.

Names are those of CARL's Brax tasks, and for what every MuJoCo model has, those of its dm_control tasks:

| feature | meaning |
|---|---|
| `gravity` | upwards, in m/s²; CARL's default is -9.8, gymnasium's -9.81, and 0 for `Pusher` |
| `friction` | a factor on the sliding friction of every geom (CARL sets them all to one number) |
| `viscosity`, `density` | of the medium, in kg/(m·s) and kg/m³ |
| `timestep` | of the simulation, in s |
| `actuator_strength`, `joint_damping` | factors on the forces of all actuators and on the damping of all joints |
| `mass_<body>` | in kg, one for each named body; its inertia grows with it, as if its density did |

A task has only the features that have an effect there: without contacts, for example, it has no `friction`. Brax's
`elasticity` and `ang_damping` have no counterpart in MuJoCo, and its targets belong to another task.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import Any

import numpy as np

from envoi import ContextSpace, UniformFloat

from ..shared.contexts import Bindable

_IDLE = {
    "AntEnv": set[str](),
    "HalfCheetahEnv": set[str](),
    "HopperEnv": set[str](),
    "Walker2dEnv": set[str](),
    "HumanoidEnv": set[str](),
    "HumanoidStandupEnv": set[str](),
    "InvertedPendulumEnv": {"friction"},
    "InvertedDoublePendulumEnv": {"friction"},
    "PusherEnv": {"friction", "mass_goal"},  # its contacts have none
    "ReacherEnv": {"gravity", "friction", "mass_target"},  # the arm turns around the vertical
    "SwimmerEnv": {"gravity", "friction", "joint_damping"},  # likewise, and its joints are not damped
}
"""The classes of the tasks, and the features that have no effect on each."""

_CHANGED = ("geom_friction", "actuator_gainprm", "actuator_biasprm", "dof_damping", "body_mass", "body_inertia")


class _Task:
    """The features of one task, and the way to set them on its model."""

    def __init__(self, native: Any, idle: set[str]) -> None:
        self.native = native
        model = native.model
        self._plain = {name: np.array(getattr(model, name)) for name in _CHANGED}
        self._bodies = {f"mass_{model.body(i).name}": i for i in range(model.nbody) if _counts(model, i)}
        self.space = ContextSpace(feature for feature in self._features() if feature.name not in idle)

    def _features(self) -> Iterator[UniformFloat]:
        option = self.native.model.opt
        gravity, timestep = float(option.gravity[2]), float(option.timestep)
        yield UniformFloat("gravity", min(-1000, gravity), max(-1e-6, gravity), gravity)
        yield UniformFloat("friction", 0, 100, 1.0)
        yield UniformFloat("viscosity", 0, math.inf, float(option.viscosity))
        yield UniformFloat("density", 0, math.inf, float(option.density))
        yield UniformFloat("timestep", timestep / 10, 2 * timestep, timestep)
        yield UniformFloat("actuator_strength", 0, 10, 1.0)
        yield UniformFloat("joint_damping", 0, 10, 1.0)
        for name, body in self._bodies.items():
            mass = float(self._plain["body_mass"][body])
            yield UniformFloat(name, min(1e-6, mass), math.inf, mass)

    def apply(self, context: Mapping[str, Any]) -> None:
        model, mujoco = self.native.model, import_module("mujoco")  # already imported by the source
        masses = model.body_mass.copy()
        for name, plain in self._plain.items():
            getattr(model, name)[:] = plain
        model.opt.gravity[2] = context.get("gravity", model.opt.gravity[2])
        model.opt.viscosity, model.opt.density = context["viscosity"], context["density"]
        model.opt.timestep = context["timestep"]
        model.geom_friction[:, 0] *= context.get("friction", 1.0)
        for parameters in (model.actuator_gainprm, model.actuator_biasprm):
            parameters[:, :3] *= context["actuator_strength"]
        model.dof_damping[:] *= context.get("joint_damping", 1.0)
        for name, body in self._bodies.items():
            if name in context:
                factor = context[name] / self._plain["body_mass"][body]
                model.body_mass[body] = context[name]
                model.body_inertia[body] *= factor
        if not np.array_equal(masses, model.body_mass):
            # Recomputes what MuJoCo derives from masses, on fresh data, so that a running episode is not affected.
            mujoco.mj_setConst(model, mujoco.MjData(model))


def _counts(model: Any, body: int) -> bool:
    return bool(model.body(body).name) and model.body_mass[body] > 0


def bindable(native: Any) -> Bindable | None:
    """Returns the features of one of these tasks, or None for any other environment."""
    for kind in type(native).__mro__:
        if kind.__name__ in _IDLE and kind.__module__.startswith("gymnasium."):
            task = _Task(native, _IDLE[kind.__name__])
            return Bindable(task.space, task.apply)
    return None
