"""The context features of MuJoCo's models: bounds, defaults, the way to set each, and the models that it affects.

`envoi.adapters.context_catalogue.dm_control` sets them, and describes their meaning.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from typing import Any
from xml.etree import ElementTree

import numpy as np

from envoi import ContextError, ContextSpace, UniformFloat

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
        """Returns the feature of one model.

        Args:
            name: The feature's name.
            model: The model, unchanged; it gives the default, and widens the bounds if the default is outside of them.
        """
        default = float(self.default(model) if callable(self.default) else self.default)
        return UniformFloat(name, min(self.low, default), max(self.high, default), default)


def _leave(model: Any, value: float) -> None:
    """Does nothing, for features that are more than a change of fields: `Dynamics` sets them."""


def _set_gravity(model: Any, value: float) -> None:
    model.opt.gravity[2] = -value


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


def _wind(axis: int) -> Kind:
    def blow(model: Any, value: float) -> None:
        model.opt.wind[axis] = value

    return Kind(-math.inf, math.inf, lambda model: model.opt.wind[axis], blow, trial=10)


def _length(low: float, high: float, geom: str, own: Callable[[Any], float]) -> Kind:
    return Kind(low, high, lambda model: own(model.geom(geom).size), _leave, _always)


def _set_mass(model: Any, value: float) -> None:
    factor = value / model.body("pointmass").mass[0]
    model.body_mass *= factor
    model.body_inertia *= factor


def _target(axis: int) -> Kind:
    def move(model: Any, value: float) -> None:
        model.geom("target").pos[axis] = value

    # The mass itself cannot get further.
    return Kind(-0.29, 0.29, lambda model: model.geom("target").pos[axis], move, _always)


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
    "gravity": Kind(0.1, math.inf, lambda model: 0.0 - model.opt.gravity[2], _set_gravity),
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
    """Compiles a model of the finger with other lengths, from the suite's own description.

    Args:
        lengths: A value for each name in `FINGER_LENGTHS`, in m.
    """
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
