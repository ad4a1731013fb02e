"""Compares an observation with its spec, and tells a wrong dtype from a value outside the space."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from envoi import Array, Discrete, MultiBinary, MultiDiscrete, Spec, SpecError, validate
from envoi.adapters.shared.arrival import incoming
from envoi.spec import SpecTree
from envoi.tree import is_branch, rebuild

_ARRAYS = (Array, MultiDiscrete, MultiBinary)


class SpecViolation(NamedTuple):
    """A violation of a spec.

    Attributes:
        key: Key of the requirement: "observation-in-spec", or "observation-dtype" where a cast would mend it.
        reason: The violation as a sentence.
    """

    key: str
    reason: str


def spec_violation(spec: SpecTree, value: Any, path: str) -> SpecViolation | None:
    """Describes how an observation violates its spec; None where it is a value of the spec.

    Args:
        spec: The declared spec.
        value: The observation, as the environment returned it.
        path: Name of the observation.
    """
    converted = _in_spec_containers(spec, value)
    try:
        validate(spec, converted, path)
    except SpecError as error:
        try:
            validate(spec, _cast(spec, converted), path)
        except SpecError as other:
            return SpecViolation("observation-in-spec", str(other))
        return SpecViolation("observation-dtype", str(error))
    return None


def _in_spec_containers(spec: SpecTree, value: Any) -> Any:
    """Converts a value to the container types of its spec, which only the core distinguishes."""
    if not isinstance(spec, Spec):
        if isinstance(spec, dict) and isinstance(value, Mapping) and spec.keys() == value.keys():
            return {key: _in_spec_containers(sub, value[key]) for key, sub in spec.items()}
        if isinstance(spec, (list, tuple)) and isinstance(value, (list, tuple)) and len(spec) == len(value):
            parts = [_in_spec_containers(sub, part) for sub, part in zip(spec, value, strict=True)]
            return rebuild(spec, parts)
        return value
    if isinstance(spec, (*_ARRAYS, Discrete)):
        return value
    try:
        return incoming(spec, True)(value)
    except Exception:
        return value


def _cast(spec: SpecTree, value: Any) -> Any:
    """Casts each number of a value to the dtype of its spec, where that is possible."""
    if is_branch(spec):
        if isinstance(spec, dict) and isinstance(value, dict) and spec.keys() == value.keys():
            return {key: _cast(sub, value[key]) for key, sub in spec.items()}
        if not isinstance(spec, dict) and isinstance(value, (list, tuple)) and len(spec) == len(value):
            return rebuild(spec, [_cast(sub, part) for sub, part in zip(spec, value, strict=True)])
        return value
    if not isinstance(spec, (*_ARRAYS, Discrete)):
        return value
    try:
        array = np.asarray(value)
        if array.dtype.kind not in "biufc":
            return value
        with np.errstate(all="ignore"):
            return array.astype(spec.dtype)
    except (TypeError, ValueError):
        return value
