"""The context features of dm_control's suite: parameters of the physics that may differ between episodes.

The features are those that CARL (Benjamins et al., 2023, https://github.com/automl/CARL) has for its dm_control
environments, with its names and bounds. CARL rewrites and recompiles the XML of a model for every context. Here the
fields of the compiled model are set, which takes 0.1 ms, or 2 ms if masses or the finger's lengths change.

| feature | default | what it is |
|---|---|---|
| `gravity` | the model's | downward acceleration, m/s² |
| `friction_tangential`, `friction_torsional`, `friction_rolling` | 1 | factors on the friction of contacts |
| `timestep` | the model's | of the integration, s |
| `joint_damping`, `joint_stiffness` | 1 | factors on the joints' own |
| `actuator_strength` | 1 | factor on the actuators' forces, and on their limits |
| `density`, `viscosity` | the model's | of the medium, kg/m³ and Pa·s |
| `geom_density` | 1 | factor on all masses and inertias |
| `wind_x`, `wind_y`, `wind_z` | the model's | velocity of the medium, m/s; felt where it has density or viscosity |
| `limb_length_0`, `limb_length_1`, `spinner_radius`, `spinner_length` | the model's | finger only, m |
| `mass`, `target_x`, `target_y` | the model's | point_mass only, kg and m |

An environment has only the features that affect its model: no friction if nothing touches or the contacts have no
such dimension, no gravity if it is switched off (finger, fish) or nothing can fall (reacher), no wind across a
plane that nothing leaves, no stiffness if all joints are slack.

Differences from CARL:

- CARL also has features without effect, such as the gravity of its finger and its fish.
- `joint_stiffness` is a factor, 1 by default. CARL multiplies by its default of 0, which slackens the fish.
- `geom_density` also scales bodies whose mass the model states. A body needs some mass, so the factor is at least
  0.001; CARL allows 0.
- The control timestep stays the same: a control step has the nearest number of integration steps, at least one. CARL
  refuses a `timestep` that does not divide it. A time limit stays the same in seconds, too.
- The finger is the suite's. CARL's has a slanted spinner and a tip further out, which its touch sensors do not follow.
- A finger that cannot reach its spinner is refused as in CARL, but as soon as the context is set.
- The point mass has neither `starting_x` and `starting_y` (its task samples the start) nor `area_size` (only visible).

Values that a task sets at each reset are not changed: the finger's spinner in `spin` has the damping of the task.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from envoi import ContextSpace

from ..shared.contexts import Bindable
from ..shared.introspection import layers
from .dm_features import FINGER, FINGER_LENGTHS, FingerSpace, domain_of, engine, finger, kinds_of

_DYNAMICS, _IN_FORCE = "_envoi_dynamics", "_envoi_context"
"""Attributes of an environment for its `Dynamics` and its model's context, so that both are copied and restored."""

_SET = (
    *("opt.gravity", "opt.wind", "opt.density", "opt.viscosity", "geom_friction", "pair_friction"),
    *("dof_damping", "dof_dampingpoly", "jnt_stiffness", "jnt_stiffnesspoly"),
    *("actuator_gainprm", "actuator_biasprm", "actuator_forcerange"),
)
"""Fields of a model that features set. Not every version of MuJoCo has every field."""

_MASSES = (
    *("body_mass", "body_inertia", "body_subtreemass", "body_invweight0", "dof_M0", "dof_invweight0"),
    *("tendon_invweight0", "actuator_acc0", "stat.meaninertia", "stat.meanmass"),
)
"""Masses of a model, and the fields that MuJoCo derives from them."""

_SHAPE = (
    *("body_pos", "body_ipos", "body_iquat", "geom_pos", "geom_size", "geom_rbound", "geom_aabb", "bvh_aabb"),
    *("site_pos", "dof_length", "cam_poscom0", "light_poscom0", "stat.meansize", "stat.extent", "stat.center"),
)
"""Lengths and positions in a model, and the fields that MuJoCo derives from them."""


def bindable(source: Any) -> Bindable | None:
    """Returns the features of an environment of dm_control's suite, or of one made of the same parts.

    Args:
        source: The environment, possibly wrapped, whose model no context has changed yet.

    Returns:
        The features and the function that sets them. None if `source` does not wrap a
        `dm_control.rl.control.Environment` with a MuJoCo model, as in dm_control's composer and locomotion, which
        compile a model for every episode.
    """
    control, simulation = sys.modules.get("dm_control.rl.control"), sys.modules.get("dm_control.mujoco.engine")
    if control is None or simulation is None or not isinstance(source, control.dm_env.Environment):
        return None
    native = layers(source, control.dm_env.Environment)[-1]
    if not (isinstance(native, control.Environment) and isinstance(native.physics, simulation.Physics)):
        return None
    dynamics: Dynamics = vars(native).get(_DYNAMICS) or Dynamics(native)
    return Bindable(dynamics.space, dynamics.apply)


class Dynamics:
    """The features of one environment, and its model's default values.

    Args:
        native: A `dm_control.rl.control.Environment`, whose model no context has changed yet.

    Attributes:
        space: The features that affect the model.
    """

    def __init__(self, native: Any) -> None:
        model = native.physics.model.ptr
        domain = domain_of(native.physics)
        kinds = kinds_of(domain)
        features = {name: kind.feature(name, model) for name, kind in kinds.items()}
        defaults = {name: feature.default_value for name, feature in features.items()}
        self._native, self._domain = native, domain
        self._own = _values(model, (*_SET, *_MASSES, *(_SHAPE if domain else ())))
        self._timing = float(model.opt.timestep), native._n_sub_steps, native._step_limit
        self._lengths = {name: defaults[name] for name in FINGER_LENGTHS if name in defaults}
        trials = {name: kind.trial for name, kind in kinds.items() if kind.felt is None}
        felt = {name for name, kind in kinds.items() if kind.felt is not None and kind.felt(model)}
        felt |= self._tried(trials, defaults)
        space = FingerSpace if domain == FINGER else ContextSpace
        self.space = space(feature for name, feature in features.items() if name in felt)
        self._keep(self.space.defaults)

    def apply(self, context: Mapping[str, Any]) -> None:
        """Sets the features in the model; the state of an episode stays the same.

        Args:
            context: A value for every feature. The defaults restore exactly the original model.
        """
        # A context already in force is not set again, because tasks change the model too, at every reset.
        if vars(self._native).get(_IN_FORCE, self.space.defaults) != context:
            self._set(context)
        self._keep(context)

    def _keep(self, context: Mapping[str, Any]) -> None:
        vars(self._native).update({_DYNAMICS: self, _IN_FORCE: dict(context)})

    def _set(self, context: Mapping[str, Any]) -> None:
        model, own = self._native.physics.model.ptr, self._own
        lengths = {name: context[name] for name in self._lengths}
        if lengths != self._lengths:
            own = {**own, **_values(finger(lengths), (*_MASSES, *_SHAPE))}
        for path, value in own.items():
            _put(model, path, value)
        for name, kind in kinds_of(self._domain).items():
            if name in context:
                kind.change(model, context[name])
        if not np.array_equal(model.body_mass, own["body_mass"]):
            _derive_from_masses(model)
        self._set_timing(context["timestep"])

    def _set_timing(self, timestep: float) -> None:
        own, steps, limit = self._timing
        self._native.physics.model.opt.timestep = timestep
        if timestep != own:
            control = own * steps
            steps = max(1, round(control / timestep))
            if not math.isclose(steps * timestep, control):
                limit *= control / (steps * timestep)
        self._native._n_sub_steps, self._native._step_limit = steps, limit

    def _tried(self, trials: Mapping[str, float], defaults: Mapping[str, float]) -> set[str]:
        """Returns the features that change the model's accelerations in a random position without constraints."""
        mujoco = engine()
        model, rng = self._native.physics.model.ptr, np.random.default_rng(0)
        data, flags = mujoco.MjData(model), model.opt.disableflags
        mujoco.mj_integratePos(model, data.qpos, rng.normal(size=model.nv), 1.0)
        data.qvel[:], data.act[:] = rng.normal(size=model.nv), rng.normal(size=model.na)
        data.ctrl[:] = rng.normal(size=model.nu)

        def acceleration(changed: Mapping[str, float]) -> Any:
            self._set({**defaults, **changed})
            mujoco.mj_forward(model, data)
            return data.qacc.copy()

        felt: set[str] = set()
        try:
            model.opt.disableflags = flags | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
            still, medium = acceleration({}), {"density": defaults["density"] + 1000}
            blown = acceleration(medium)
            for name, change in trials.items():
                wind = name.startswith("wind")  # has an effect only in a medium
                before = blown if wind else still
                after = acceleration({**(medium if wind else {}), name: defaults[name] + change})
                if np.abs(after - before).max(initial=0) > 1e-9 * np.abs(before).max(initial=0):
                    felt.add(name)
        finally:
            model.opt.disableflags = flags
            self._set(defaults)
        return felt


# The fields of a model.


def _place(model: Any, path: str) -> tuple[Any, str]:
    part, _, name = path.rpartition(".")
    return (getattr(model, part) if part else model), name


def _values(model: Any, paths: Iterable[str]) -> dict[str, Any]:
    places = {path: _place(model, path) for path in paths}
    return {path: np.array(getattr(*place)) for path, place in places.items() if hasattr(*place)}


def _put(model: Any, path: str, value: Any) -> None:
    holder, name = _place(model, path)
    setattr(holder, name, value if value.ndim else float(value))


def _derive_from_masses(model: Any) -> None:
    mujoco = engine()
    before = model.dof_M0.mean()
    mujoco.mj_setConst(model, mujoco.MjData(model))
    model.stat.meaninertia *= model.dof_M0.mean() / before  # scales the solver's tolerance
