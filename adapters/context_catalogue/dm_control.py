"""The contexts of dm_control's suite: what of the physics may differ from one episode to the next.

The features are the ones that CARL (Benjamins et al., 2023, https://github.com/automl/CARL) has for its dm_control
environments, by its names and with its bounds. CARL writes the XML of a model anew for every context and compiles it;
here the fields of the living model are set, which takes 0.1 ms, and 2 ms where masses or the finger's lengths change.

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

An environment has those of them that its model can feel: no friction where nothing touches or the contacts have no
such direction, no gravity where it is switched off (finger, fish) or nothing can fall (reacher), no wind across a
plane that nothing leaves, no stiffness where all joints are slack.

What is different from CARL:

- It also has features that do nothing, such as the gravity of its finger and its fish.
- `joint_stiffness` is a factor, 1 by default. CARL multiplies by its default of 0, which slackens the fish.
- `geom_density` counts for bodies whose mass the model states, too. A body needs some mass: from 0.001, not 0.
- The control timestep stays: a control step has the number of integration steps that comes nearest to it, one at
  least. CARL refuses a `timestep` that does not divide it. A time limit stays the same in seconds, too.
- The finger is the suite's. CARL's has a slanted spinner and a tip further out, which its touch sensors do not follow.
- The finger that cannot reach its spinner is refused as in CARL, but when the context is set.
- Not here: the point mass' `starting_x`, `starting_y` (its task draws the start) and `area_size` (only painted).

What a task itself sets at each reset stays its own: the finger's spinner in `spin` has the damping of the task.
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
"""Where an environment keeps its `Dynamics` and what context its model has: they are copied and restored with it."""

_SET = (
    *("opt.gravity", "opt.wind", "opt.density", "opt.viscosity", "geom_friction", "pair_friction"),
    *("dof_damping", "dof_dampingpoly", "jnt_stiffness", "jnt_stiffnesspoly"),
    *("actuator_gainprm", "actuator_biasprm", "actuator_forcerange"),
)
"""What of a model features set. Not every version of MuJoCo has every field here."""

_MASSES = (
    *("body_mass", "body_inertia", "body_subtreemass", "body_invweight0", "dof_M0", "dof_invweight0"),
    *("tendon_invweight0", "actuator_acc0", "stat.meaninertia", "stat.meanmass"),
)
"""The masses of a model, and what MuJoCo derives from them."""

_SHAPE = (
    *("body_pos", "body_ipos", "body_iquat", "geom_pos", "geom_size", "geom_rbound", "geom_aabb", "bvh_aabb"),
    *("site_pos", "dof_length", "cam_poscom0", "light_poscom0", "stat.meansize", "stat.extent", "stat.center"),
)
"""The lengths and places in a model, and what MuJoCo derives from them."""


def bindable(source: Any) -> Bindable | None:
    """The context features of an environment of dm_control's suite, or of one that is made of the same parts.

    Args:
        source: The environment, wrappers and all; its model as it was made.

    Returns:
        The features and what sets them. None where `source` is not around a `dm_control.rl.control.Environment` with a
        MuJoCo model: so for dm_control's composer and locomotion, which compile a model anew for every episode.
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
    """The features of one environment, and the values that its model has by itself.

    Args:
        native: A `dm_control.rl.control.Environment`, its model as it was made.

    Attributes:
        space: The features that the model can feel.
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
        """Sets the features in the model; the state of an episode stays.

        Args:
            context: A value for every feature. The defaults give back exactly the model as it was.
        """
        # What it has already is not set again, for tasks change the model as well, at every reset.
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
        """The features that change how the model accelerates, in some position where no constraint holds it."""
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
                wind = name.startswith("wind")  # which is felt in a medium
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
    model.stat.meaninertia *= model.dof_M0.mean() / before  # the scale of the solver's tolerance
