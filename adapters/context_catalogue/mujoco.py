"""The context features of gymnasium's MuJoCo tasks, version 4 and 5 alike.

Names are those of CARL's Brax tasks, and for what every MuJoCo model has, those of its dm_control tasks.
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
from . import feature

_OTHERS = {"AntEnv", "HalfCheetahEnv", "HopperEnv", "Walker2dEnv", "HumanoidEnv", "HumanoidStandupEnv"}
_IDLE = {
    "InvertedPendulumEnv": {"friction"},
    "InvertedDoublePendulumEnv": {"friction"},
    "PusherEnv": {"friction", "mass_goal"},  # its contacts have none
    "ReacherEnv": {"gravity", "friction", "mass_target"},  # the arm turns around the vertical
    "SwimmerEnv": {"gravity", "friction", "joint_damping"},  # likewise, and its joints are not damped
}
"""The features without effect on a task, by its class; all have one on the tasks of `_OTHERS`."""


class _Task:
    """The features of one task, and the way to set them on its model."""

    def __init__(self, native: Any, idle: set[str]) -> None:
        self.native = native
        model = native.model
        changed = "geom_friction", "actuator_gainprm", "actuator_biasprm", "dof_damping", "body_mass", "body_inertia"
        self._plain = {name: np.array(getattr(model, name)) for name in changed}
        bodies = (model.body(i) for i in range(model.nbody))
        self._bodies = {f"mass_{body.name}": body.id for body in bodies if body.name and body.mass[0] > 0}
        self.space = ContextSpace(one for one in self._features() if one.name not in idle)

    def _features(self) -> Iterator[UniformFloat]:
        option = self.native.model.opt
        timestep = float(option.timestep)
        yield feature("gravity", -1000, -1e-6, float(option.gravity[2]))  # upwards, in m/s²
        yield feature("friction", 0, 100, 1.0)  # a factor on the sliding friction of every geom
        yield feature("viscosity", 0, math.inf, float(option.viscosity))  # of the medium, in kg/(m·s)
        yield feature("density", 0, math.inf, float(option.density))  # in kg/m³
        yield feature("timestep", timestep / 10, 2 * timestep, timestep)  # in s
        yield feature("actuator_strength", 0, 10, 1.0)  # a factor on the forces of all actuators
        yield feature("joint_damping", 0, 10, 1.0)  # a factor on that of all joints
        for name, body in self._bodies.items():  # in kg; the inertia grows with it, as if the density did
            yield feature(name, 1e-6, math.inf, float(self._plain["body_mass"][body]))

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


def bindable(native: Any) -> Bindable | None:
    """Returns the features of one of these tasks, or None for any other environment."""
    for kind in type(native).__mro__:
        if kind.__name__ in _OTHERS | _IDLE.keys() and kind.__module__.startswith("gymnasium."):
            task = _Task(native, _IDLE.get(kind.__name__, set()))
            return Bindable(task.space, task.apply)
    return None
