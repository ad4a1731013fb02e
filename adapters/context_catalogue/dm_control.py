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
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any
from xml.etree import ElementTree

import numpy as np

from envoi import ContextError, ContextSpace, UniformFloat

from ..shared.contexts import Bindable
from ..shared.introspection import layers

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
    """Returns the features of an environment of dm_control's suite, or of one made of the same parts."""
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

    `space` has the features that affect the model.
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


FINGER, POINT_MASS = "dm_control.suite.finger", "dm_control.suite.point_mass"
"""The domains with features of their own, by the module of their simulation."""


def engine() -> Any:
    """Returns MuJoCo's bindings, untyped because they have no stubs."""
    return import_module("mujoco")


# Tests whether a feature affects a model.


def _always(model: Any) -> bool:
    return True


def _touches(model: Any, dimensions: int) -> bool:
    """Returns True if a contact of so many dimensions (3 slides, 4 twists too, 6 rolls too) is possible in MuJoCo."""
    mujoco = engine()
    off = mujoco.mjtDisableBit
    if model.opt.disableflags & (off.mjDSBL_CONSTRAINT | off.mjDSBL_CONTACT):
        return False
    bodies = model.geom_bodyid
    welded = model.body_weldid[bodies]  # what each geom is fixed to; 0 is the world
    above = model.body_weldid[model.body_parentid[welded]]
    meets = (model.geom_contype[:, None] & model.geom_conaffinity) != 0
    apart = welded[:, None] == welded
    if not model.opt.disableflags & off.mjDSBL_FILTERPARENT:
        apart |= (welded[:, None] == above) & (welded[:, None] != 0)
    for signature in model.exclude_signature:
        apart |= (bodies[:, None] == signature >> 16) & (bodies == signature & 0xFFFF)
    rank, condim = model.geom_priority, model.geom_condim
    # MuJoCo takes the dimensions of the geom of higher priority, or the larger ones if the priorities are equal. So a
    # pair has these dimensions if either geom has them and the other's priority is not higher.
    has = (condim[:, None] >= dimensions) & (rank[:, None] >= rank)
    return bool(((meets | meets.T) & ~(apart | apart.T) & (has | has.T)).any() or (model.pair_dim >= dimensions).any())


def _is_scalable(model: Any) -> bool:
    """Returns True if each actuator's force is gain · control + bias, of types whose parameters scale it."""
    mujoco = engine()
    gains, biases = mujoco.mjtGain, mujoco.mjtBias
    known = np.isin(model.actuator_gaintype, (gains.mjGAIN_FIXED, gains.mjGAIN_AFFINE))
    known &= np.isin(model.actuator_biastype, (biases.mjBIAS_NONE, biases.mjBIAS_AFFINE))
    return bool(model.nu and known.all())


# The features.


@dataclass(frozen=True)
class Kind:
    """A feature as it applies to any model.

    Attributes:
        low: The lowest value.
        high: The highest value.
        default: The value in an unchanged model, or a function of that model.
        change: Sets the feature in a model that has its default.
        felt: Returns True if the feature affects a model; None to find out by trying it on the model's accelerations.
        trial: The difference from the default for that trial.
    """

    low: float
    high: float
    default: float | Callable[[Any], float]
    change: Callable[[Any, float], None]
    felt: Callable[[Any], bool] | None = None
    trial: float = 1

    def feature(self, name: str, model: Any) -> UniformFloat:
        """Returns the feature of one model."""
        default = float(self.default(model) if callable(self.default) else self.default)
        return UniformFloat(name, min(self.low, default), max(self.high, default), default)


def _leave(model: Any, value: float) -> None:
    """Does nothing, for features that are more than a change of fields: `Dynamics` sets them."""


def _factor(*fields: str, felt: Callable[[Any], bool] | None = None, low: float = 0) -> Kind:
    def scale(model: Any, factor: float) -> None:
        for field in fields:
            if hasattr(model, field):
                getattr(model, field)[...] *= factor

    return Kind(low, math.inf, 1, scale, felt)


def _friction(column: int, of_pairs: slice, dimensions: int) -> Kind:
    def scale(model: Any, factor: float) -> None:
        model.geom_friction[:, column] *= factor
        model.pair_friction[:, of_pairs] *= factor

    return Kind(0, math.inf, 1, scale, partial(_touches, dimensions=dimensions))


def _medium(name: str, trial: float = 1) -> Kind:
    return Kind(0, math.inf, lambda m: getattr(m.opt, name), lambda m, value: setattr(m.opt, name, value), None, trial)


def _element(low: float, high: float, array: Callable[[Any], Any], index: int, sign: int = 1, **others: Any) -> Kind:
    """Returns a feature that is an element of an array in the model."""

    def put(model: Any, value: float) -> None:
        array(model)[index] = sign * value

    return Kind(low, high, lambda model: 0.0 + sign * array(model)[index], put, **others)  # 0 in place of -0


def _wind(axis: int) -> Kind:
    return _element(-math.inf, math.inf, lambda model: model.opt.wind, axis, trial=10)


def _length(low: float, high: float, geom: str, own: Callable[[Any], float]) -> Kind:
    return Kind(low, high, lambda model: own(model.geom(geom).size), _leave, _always)


def _set_mass(model: Any, value: float) -> None:
    factor = value / model.body("pointmass").mass[0]
    model.body_mass *= factor
    model.body_inertia *= factor


def _target(axis: int) -> Kind:
    # The mass itself cannot get further.
    return _element(-0.29, 0.29, lambda model: model.geom("target").pos, axis, felt=_always)


FINGER_LENGTHS = {
    "limb_length_0": _length(0.01, 0.2, "proximal", lambda size: 2 * size[1]),
    "limb_length_1": _length(0.01, 0.2, "distal", lambda size: 2 * size[1]),
    "spinner_radius": _length(0.01, 0.05, "cap1", lambda size: size[0]),
    "spinner_length": _length(0.01, 0.4, "cap1", lambda size: 2 * size[1]),
}

OWN_KINDS = {
    FINGER: FINGER_LENGTHS,
    POINT_MASS: {
        "mass": Kind(0.001, math.inf, lambda model: model.body("pointmass").mass[0], _set_mass),
        "target_x": _target(0),
        "target_y": _target(1),
    },
}

_KINDS = {
    "gravity": _element(0.1, math.inf, lambda model: model.opt.gravity, 2, sign=-1),
    "friction_tangential": _friction(0, slice(0, 2), dimensions=3),
    "friction_torsional": _friction(1, slice(2, 3), dimensions=4),
    "friction_rolling": _friction(2, slice(3, 5), dimensions=6),
    "timestep": Kind(0.001, 0.1, lambda model: model.opt.timestep, _leave, _always),
    "joint_damping": _factor("dof_damping", "dof_dampingpoly"),
    "joint_stiffness": _factor("jnt_stiffness", "jnt_stiffnesspoly"),
    "actuator_strength": _factor("actuator_gainprm", "actuator_biasprm", "actuator_forcerange", felt=_is_scalable),
    "density": _medium("density", trial=1000),
    "viscosity": _medium("viscosity"),
    "geom_density": _factor("body_mass", "body_inertia", low=0.001),
    "wind_x": _wind(0),
    "wind_y": _wind(1),
    "wind_z": _wind(2),
}


def kinds_of(domain: str | None) -> dict[str, Kind]:
    """Returns the features of a domain, then those of all domains, so that a factor on masses comes after a mass."""
    return {**(OWN_KINDS[domain] if domain else {}), **_KINDS}


def domain_of(physics: Any) -> str | None:
    """Returns the domain of `OWN_KINDS` that a simulation belongs to, or None for others and for changed models."""
    mujoco = engine()
    name, model = type(physics).__module__, physics.model.ptr
    if name not in OWN_KINDS:
        return None
    suites = mujoco.MjModel.from_xml_string(_text(_description(name)))
    same = np.array_equal(model.geom_size, suites.geom_size) and np.array_equal(model.geom_pos, suites.geom_pos)
    return name if same else None


def _description(domain: str) -> ElementTree.Element:
    """Returns the suite's XML description of a domain's model, without textures, which take long to compile."""
    tree = ElementTree.fromstring(sys.modules[domain].get_model_and_assets()[0])  # noqa: S314 (the suite's own)
    for include in tree.findall("include"):
        tree.remove(include)
    for element in tree.iter():
        element.attrib.pop("material", None)
    return tree


def _text(tree: ElementTree.Element) -> str:
    return ElementTree.tostring(tree, encoding="unicode")


# The finger.


class FingerSpace(ContextSpace):
    """The features of the finger, with the constraint that it reaches its spinner."""

    def verify(self, context: Mapping[str, Any]) -> None:
        super().verify(context)
        full = {**self.defaults, **context}
        reach = full["limb_length_0"] + full["limb_length_1"] + full["spinner_length"] / 2
        # The distance between the two hinges; CARL has the same constraint.
        if reach < 0.4:
            raise ContextError(
                f"context['limb_length_0']: limb_length_0 + limb_length_1 + spinner_length / 2 is {reach:g}, expected "
                "at least 0.4, else the finger cannot reach its spinner; make one of the three longer"
            )


def finger(lengths: Mapping[str, float]) -> Any:
    """Compiles a model of the finger with other lengths, from the suite's own description."""
    mujoco = engine()
    proximal, distal, radius, length = (lengths[name] for name in FINGER_LENGTHS)
    tree = _description(FINGER)
    changes = {
        "body[@name='distal']": {"pos": (0, 0, -proximal - 0.01)},
        "geom[@name='proximal']": {"fromto": (0, 0, 0, 0, 0, -proximal)},
        "geom[@name='distal']": {"fromto": (0, 0, 0, 0, 0, -distal)},
        "geom[@name='fingertip']": {"fromto": (0, 0, 0.03 - distal, 0, 0, -distal - 0.001)},
        "site[@name='touchtop']": {"pos": (0.01, 0, -distal - 0.01)},
        "site[@name='touchbottom']": {"pos": (-0.01, 0, -distal - 0.01)},
        "geom[@name='cap1']": {"size": (radius, length / 2), "pos": (radius / 2, 0, 0)},
        "geom[@name='cap2']": {"size": (radius, length / 2), "pos": (-radius / 2, 0, 0)},
        "geom[@name='spinner_decoration']": {"size": (radius / 2,)},
        "site[@name='tip']": {"pos": (0, 0, length / 2 + 0.04)},
    }
    for path, attributes in changes.items():
        element = tree.find(f".//{path}")
        assert element is not None, path
        for name, numbers in attributes.items():
            element.set(name, " ".join(map(str, map(float, numbers))))
    return mujoco.MjModel.from_xml_string(_text(tree))
