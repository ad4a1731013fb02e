"""Conversions of dm_env's specs, and the spec of arrays of strings, which only dm_env has."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass
from typing import Any

import numpy as np
from dm_env import specs

from envoi import Array, Discrete, LossyConversion, Spec, SpecError, Text
from envoi.spec import SpecTree
from envoi.spec.base import set_fields, shown
from envoi.tree import children, is_branch, rebuild

from ..shared.array_specs import array_form, default_discrete, origin, remembering


@dataclass(frozen=True, eq=False, repr=False)
class Strings(Spec):
    """Spec for arrays of Python strings, from dm_env's `StringArray`; a value of shape () may be a plain string.

    Args:
        shape: Sizes of the axes.
        string_type: `str` or `bytes`.
        name: The name of the value, or None.
    """

    shape: tuple[int, ...]
    string_type: type
    name: str | None

    def __init__(self, shape: tuple[int, ...], string_type: type = str, name: str | None = None) -> None:
        set_fields(self, shape=tuple(shape), string_type=string_type, name=name)

    def validate(self, value: Any, path: str = "value") -> None:
        array = np.asarray(value, object)
        if array.shape != self.shape or not all(isinstance(item, self.string_type) for item in array.flat):
            kind = self.string_type.__name__
            raise SpecError(f"{path}: expected {kind} objects in an array of shape {self.shape}, got {shown(value)}")

    def sample(self, rng: np.random.Generator) -> Any:
        words = [bytes(rng.integers(97, 123, 4, np.uint8)) for _ in range(int(np.prod(self.shape)))]
        return self._array([word.decode() for word in words] if self.string_type is str else words)

    def zeros(self) -> Any:
        return self._array([self.string_type()] * int(np.prod(self.shape)))

    def _array(self, cells: list[Any]) -> Any:
        made = np.empty(self.shape, object)
        made.flat[:] = cells
        return made[()]


NAME = "dm_env"


def to_spec(spec: SpecTree, path: str = "spec") -> Any:
    """Converts a core spec, possibly nested, to a dm_env spec with exactly the same values.

    Args:
        spec: The core spec.
        path: The spec's path, for errors.

    Raises:
        LossyConversion: dm_env has no such spec; the message names the leaf.
    """
    if is_branch(spec):
        return rebuild(spec, [to_spec(sub, path + part) for part, _, sub in children(spec)])
    if isinstance(spec, (Text, Strings)):
        shape, kind = ((), str) if isinstance(spec, Text) else (spec.shape, spec.string_type)
        return remembering(specs.StringArray, (shape, kind, spec.name), spec)
    form = array_form(spec, path, NAME)
    if isinstance(spec, Discrete) and spec.start == 0:
        return remembering(specs.DiscreteArray, (spec.n, spec.dtype, spec.name), spec)
    if form.is_bounded:
        return remembering(specs.BoundedArray, (form.shape, form.dtype, *form.bounds, form.name), spec)
    return remembering(specs.Array, (form.shape, form.dtype, form.name), spec)


def from_spec(spec: Any, path: str = "spec", action: bool = False) -> SpecTree:
    """Converts a dm_env spec, possibly nested, to a core spec with exactly the same values.

    Args:
        spec: The dm_env spec.
        path: The spec's path, for errors.
        action: True if it describes actions; bounded integer scalars then become `Discrete`.

    Returns:
        The core spec; the original one if `spec` came from `to_spec`.

    Raises:
        LossyConversion: A leaf is not one of dm_env's own specs, or describes arrays of objects.
    """
    if is_branch(spec):
        inner = [from_spec(sub, path + part, action) for part, _, sub in children(spec)]
        if isinstance(spec, dict) and type(spec) not in (dict, OrderedDict):  # which may not accept pairs
            return dict(zip(spec, inner, strict=True))
        return rebuild(spec, inner)
    made_from = origin(spec)
    if made_from is not None:
        return made_from
    if isinstance(spec, specs.StringArray):
        return Strings(spec.shape, spec.string_type, spec.name)
    if isinstance(spec, specs.DiscreteArray):
        return Discrete(spec.num_values, 0, spec.dtype, spec.name)
    if not isinstance(spec, specs.Array):
        hint = "use one of dm_env.specs"
        raise LossyConversion(path, "type", f"a {type(spec).__name__}", "the core", hint)
    low, high = (spec.minimum, spec.maximum) if isinstance(spec, specs.BoundedArray) else (None, None)
    try:
        found = Array(spec.shape, spec.dtype, low, high, spec.name)
    except SpecError as error:
        raise LossyConversion(path, "values", repr(spec), "the core", str(error)) from error
    return default_discrete(found) if action else found
