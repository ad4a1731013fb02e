"""The context features of dm_control's suite: parameters of the physics that may differ between episodes.

Names and bounds are those of CARL (Benjamins et al., 2023, https://github.com/automl/CARL) for its dm_control
environments. CARL rewrites and recompiles the XML of a model for every context. Here the fields of the compiled model
are set, which takes 0.1 ms, or 2 ms if masses or the finger's lengths change.

An environment has only the features that affect its model: no friction if nothing touches or the contacts have no
such dimension, no gravity if it is switched off (finger, fish) or nothing can fall (reacher), no wind across a
plane that nothing leaves, no stiffness if all joints are slack.

Values that a task sets at each reset are not changed: the finger's spinner in `spin` has the damping of the task.
"""

from __future__ import annotations

import math
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any

import numpy as np

from envoi import ContextError, ContextSpace

from ..shared.contexts import Bindable
from ..shared.introspection import layers
from . import feature

mujoco: Any = import_module("mujoco")  # untyped, because it has no stubs

_DYNAMICS, _IN_FORCE = "_envoi_dynamics", "_envoi_context"
"""Attributes of an environment for its `Dynamics` and its model's context, so that both are copied and restored."""

_SET = (
    *("opt.gravity", "opt.wind", "opt.density", "opt.viscosity", "geom_friction", "pair_friction"),
    *("dof_damping", "dof_dampingpoly", "jnt_stiffness", "jnt_stiffnesspoly"),
    *("actuator_gainprm", "actuator_biasprm", "actuator_forcerange"),
)
"""Fields of a model that features set."""

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
    """Returns the features of an environment of dm_control's suite, or of another one built from the same classes."""
    control, simulation = sys.modules.get("dm_control.rl.control"), sys.modules.get("dm_control.mujoco.engine")
    if control is None or simulation is None or not isinstance(source, control.dm_env.Environment):
        return None
    native = layers(source, control.dm_env.Environment)[-1]
    if not (isinstance(native, control.Environment) and isinstance(native.physics, simulation.Physics)):
        return None
    dynamics: Dynamics = vars(native).get(_DYNAMICS) or Dynamics(native)
    return Bindable(dynamics.space, dynamics.apply)


class Dynamics:
    """The features that affect one environment's model, and the model's default values."""

    def __init__(self, native: Any) -> None:
        model = native.physics.model.ptr
        domain = domain_of(native.physics)
        kinds = kinds_of(domain)
        features = {n: feature(n, kind.low, kind.high, float(kind.default(model))) for n, kind in kinds.items()}
        defaults = {name: feature.default_value for name, feature in features.items()}
        self._native, self._domain = native, domain
        self._own = _values(model, (*_SET, *_MASSES, *(_SHAPE if domain else ())))
        self._timing = float(model.opt.timestep), native._n_sub_steps, native._step_limit
        self._lengths = {name: defaults[name] for name in FINGER_LENGTHS if name in defaults}
        felt = {name for name, kind in kinds.items() if kind.felt is not None and kind.felt(model)}
        felt |= self._tried([name for name, kind in kinds.items() if kind.felt is None], defaults)
        space = FingerSpace if domain == FINGER else ContextSpace
        self.space = space(feature for name, feature in features.items() if name in felt)
        self._keep(self.space.defaults)

    def apply(self, context: Mapping[str, Any]) -> None:
        """Sets the features in the model; the state of an episode stays the same."""
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
            setattr(*_place(model, path), value if value.ndim else float(value))
        for name, kind in kinds_of(self._domain).items():
            if name in context:
                kind.change(model, context[name])
        if not np.array_equal(model.body_mass, own["body_mass"]):
            before = model.dof_M0.mean()
            mujoco.mj_setConst(model, mujoco.MjData(model))
            model.stat.meaninertia *= model.dof_M0.mean() / before  # scales the solver's tolerance
        # A control step and a time limit stay as long as whole timesteps allow, where CARL refuses some.
        timestep, (default, steps, limit) = context["timestep"], self._timing
        model.opt.timestep = timestep
        if timestep != default:
            control = default * steps
            steps = max(1, round(control / timestep))
            if not math.isclose(steps * timestep, control):
                limit *= control / (steps * timestep)
        self._native._n_sub_steps, self._native._step_limit = steps, limit

    def _tried(self, names: Iterable[str], defaults: Mapping[str, float]) -> set[str]:
        """Finds out which features change the model's accelerations, in a random position without constraints."""
        model, rng = self._native.physics.model.ptr, np.random.default_rng(0)
        data, flags = mujoco.MjData(model), model.opt.disableflags
        mujoco.mj_integratePos(model, data.qpos, rng.normal(size=model.nv), 1.0)
        data.qvel[:], data.act[:] = rng.normal(size=model.nv), rng.normal(size=model.na)
        data.ctrl[:] = rng.normal(size=model.nu)

        def acceleration(changed: Mapping[str, float]) -> Any:
            self._set({**defaults, **changed})
            mujoco.mj_forward(model, data)
            return data.qacc.copy()

        try:
            model.opt.disableflags = flags | mujoco.mjtDisableBit.mjDSBL_CONSTRAINT
            thick = {"density": defaults["density"] + 1000}  # in which wind is felt
            before = acceleration(thick)
            least = 1e-9 * np.abs(before).max(initial=0)
            after = {name: acceleration({**thick, name: defaults[name] + 1}) for name in names}
        finally:
            model.opt.disableflags = flags
            self._set(defaults)
        return {name for name in names if np.abs(after[name] - before).max(initial=0) > least}


def _place(model: Any, path: str) -> tuple[Any, str]:
    part, _, name = path.rpartition(".")
    return (getattr(model, part) if part else model), name


def _values(model: Any, paths: Iterable[str]) -> dict[str, Any]:
    """Returns the values of a model's fields; leaves out fields that this version of MuJoCo lacks."""
    places = {path: _place(model, path) for path in paths}
    return {path: np.array(getattr(*place)) for path, place in places.items() if hasattr(*place)}


FINGER, POINT_MASS = "dm_control.suite.finger", "dm_control.suite.point_mass"
"""The domains with features of their own, by the module of their simulation."""


def _always(model: Any) -> bool:
    return True


def _touches(model: Any, dimensions: int) -> bool:
    """Returns True if bodies can touch with friction in `dimensions` (3 sliding, 4 also torsional, 6 also rolling)."""
    off = mujoco.mjtDisableBit
    if model.opt.disableflags & (off.mjDSBL_CONSTRAINT | off.mjDSBL_CONTACT):
        return False
    welded = model.body_weldid[model.geom_bodyid]  # what each geom is fixed to
    meets = (model.geom_contype[:, None] & model.geom_conaffinity) != 0
    has = model.geom_condim >= dimensions
    touches = (meets | meets.T) & (welded[:, None] != welded) & (has[:, None] | has)
    return bool(touches.any() or (model.pair_dim >= dimensions).any())


def _is_scalable(model: Any) -> bool:
    """Returns True if each actuator's force is gain · control + bias, of types whose parameters scale it."""
    gains, biases = mujoco.mjtGain, mujoco.mjtBias
    known = np.isin(model.actuator_gaintype, (gains.mjGAIN_FIXED, gains.mjGAIN_AFFINE))
    known &= np.isin(model.actuator_biastype, (biases.mjBIAS_NONE, biases.mjBIAS_AFFINE))
    return bool(model.nu and known.all())


@dataclass(frozen=True)
class Kind:
    """A feature as it applies to any model."""

    low: float
    high: float
    default: Callable[[Any], float]  # the value in an unchanged model
    change: Callable[[Any, float], None]  # sets the feature in a model that has its default
    felt: Callable[[Any], bool] | None = None  # does it affect a model? None to try it on the model's accelerations


def _leave(model: Any, value: float) -> None:
    """Does nothing. `Dynamics` sets the features that need more than changes of fields."""


def _factor(*fields: str, felt: Callable[[Any], bool] | None = None, low: float = 0) -> Kind:
    def scale(model: Any, factor: float) -> None:
        for field in fields:
            if hasattr(model, field):
                getattr(model, field)[...] *= factor

    return Kind(low, math.inf, lambda model: 1, scale, felt)


def _friction(column: int, of_pairs: slice, dimensions: int) -> Kind:
    def scale(model: Any, factor: float) -> None:
        model.geom_friction[:, column] *= factor
        model.pair_friction[:, of_pairs] *= factor

    return Kind(0, math.inf, lambda model: 1, scale, partial(_touches, dimensions=dimensions))


def _element(low: float, high: float, array: Callable[[Any], Any], index: int, sign: int = 1, **others: Any) -> Kind:
    """Returns a feature that is an element of an array in the model."""

    def put(model: Any, value: float) -> None:
        array(model)[index] = sign * value

    return Kind(low, high, lambda model: 0.0 + sign * array(model)[index], put, **others)  # 0 in place of -0


def _set_mass(model: Any, value: float) -> None:
    factor = value / model.body("pointmass").mass[0]
    model.body_mass *= factor
    model.body_inertia *= factor


FINGER_LENGTHS = {
    "limb_length_0": Kind(0.01, 0.2, lambda model: 2 * model.geom("proximal").size[1], _leave, _always),
    "limb_length_1": Kind(0.01, 0.2, lambda model: 2 * model.geom("distal").size[1], _leave, _always),
    "spinner_radius": Kind(0.01, 0.05, lambda model: model.geom("cap1").size[0], _leave, _always),
    "spinner_length": Kind(0.01, 0.4, lambda model: 2 * model.geom("cap1").size[1], _leave, _always),
}

OWN_KINDS = {
    FINGER: FINGER_LENGTHS,
    POINT_MASS: {  # which cannot itself get further than a target
        "mass": Kind(0.001, math.inf, lambda model: model.body("pointmass").mass[0], _set_mass),
        "target_x": _element(-0.29, 0.29, lambda model: model.geom("target").pos, 0, felt=_always),
        "target_y": _element(-0.29, 0.29, lambda model: model.geom("target").pos, 1, felt=_always),
    },
}

_KINDS = {
    "gravity": _element(0.1, math.inf, lambda model: model.opt.gravity, 2, sign=-1),
    "friction_tangential": _friction(0, slice(0, 2), dimensions=3),
    "friction_torsional": _friction(1, slice(2, 3), dimensions=4),
    "friction_rolling": _friction(2, slice(3, 5), dimensions=6),
    "timestep": Kind(0.001, 0.1, lambda model: model.opt.timestep, _leave, _always),
    "joint_damping": _factor("dof_damping", "dof_dampingpoly"),
    "joint_stiffness": _factor("jnt_stiffness", "jnt_stiffnesspoly"),  # CARL's default of 0 slackens the fish
    "actuator_strength": _factor("actuator_gainprm", "actuator_biasprm", "actuator_forcerange", felt=_is_scalable),
    "density": Kind(0, math.inf, lambda m: m.opt.density, lambda m, value: setattr(m.opt, "density", value)),
    "viscosity": Kind(0, math.inf, lambda m: m.opt.viscosity, lambda m, value: setattr(m.opt, "viscosity", value)),
    "geom_density": _factor("body_mass", "body_inertia", low=0.001),  # a body needs some mass; CARL allows 0
    **{f"wind_{axis}": _element(-math.inf, math.inf, lambda model: model.opt.wind, i) for i, axis in enumerate("xyz")},
}
"""In SI units; those made by `_factor` and `_friction` are factors on what the model has."""


def kinds_of(domain: str | None) -> dict[str, Kind]:
    """Returns the features of a domain, then those of all domains, so that a factor on masses comes after a mass."""
    return {**(OWN_KINDS[domain] if domain else {}), **_KINDS}


def domain_of(physics: Any) -> str | None:
    """Returns the domain of `OWN_KINDS` that a simulation belongs to, or None for others and for changed models."""
    name, model = type(physics).__module__, physics.model.ptr
    if name not in OWN_KINDS:
        return None
    suites = _description(name).compile()
    same = np.array_equal(model.geom_size, suites.geom_size) and np.array_equal(model.geom_pos, suites.geom_pos)
    return name if same else None


def _description(domain: str) -> Any:
    """Returns the suite's description of a domain's model, without textures, which take long to compile."""
    xml = sys.modules[domain].get_model_and_assets()[0].decode()
    return mujoco.MjSpec.from_string(re.sub(r'<include [^>]*>|material="\w+"', "", xml))


class FingerSpace(ContextSpace):
    """The features of the finger, with the constraint that it reaches its spinner."""

    def verify(self, context: Mapping[str, Any]) -> None:
        super().verify(context)
        full = {**self.defaults, **context}
        reach = full["limb_length_0"] + full["limb_length_1"] + full["spinner_length"] / 2
        if reach < 0.4:  # the distance between the two hinges; CARL has the same constraint
            raise ContextError(
                f"context['limb_length_0']: limb_length_0 + limb_length_1 + spinner_length / 2 is {reach:g}, expected "
                "at least 0.4, else the finger cannot reach its spinner; make one of the three longer"
            )


def finger(lengths: Mapping[str, float]) -> Any:
    """Compiles a model of the finger with other lengths, from the suite's own description."""
    proximal, distal, radius, length = (lengths[name] for name in FINGER_LENGTHS)
    spec = _description(FINGER)
    spec.body("distal").pos = 0, 0, -proximal - 0.01
    ends = {"proximal": (0, -proximal), "distal": (0, -distal), "fingertip": (0.03 - distal, -distal - 0.001)}
    for geom, (start, end) in ends.items():
        spec.geom(geom).fromto = 0, 0, start, 0, 0, end
    for site, x in (("touchtop", 0.01), ("touchbottom", -0.01)):
        spec.site(site).pos = x, 0, -distal - 0.01
    for geom, x in (("cap1", radius / 2), ("cap2", -radius / 2)):
        spec.geom(geom).size, spec.geom(geom).pos = (radius, length / 2, 0), (x, 0, 0)
    spec.geom("spinner_decoration").size = radius / 2, 0, 0
    spec.site("tip").pos = 0, 0, length / 2 + 0.04
    return spec.compile()
