"""Specs backed by a framework-specific space object, or by a class."""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..errors import SpecError
from .base import Spec, set_fields, shown


@dataclass(frozen=True, init=False, eq=False, repr=False)
class Foreign(Spec):
    """The values of a framework-specific space object, or the instances of a Python class.

    A space object, such as minigrid's `MissionSpace`, converts back to its own framework unchanged, but to no other
    framework. Instances of a class convert to no framework, unless `Represented` turns them into arrays.

    Args:
        origin: An object with `contains(value)`, `seed(seed)` and `sample()`, such as a gymnasium space; or a class,
            whose instances cannot be sampled.
        name: The name of the value, for frameworks that name their specs.

    Raises:
        SpecError: `origin` is an object without these methods, or a class that defines them.
    """

    origin: Any
    name: str | None

    def __init__(self, origin: Any, name: str | None = None) -> None:
        is_space = all(callable(getattr(origin, method, None)) for method in ("contains", "seed", "sample"))
        if isinstance(origin, type) == is_space:
            what = "its class " if is_space else ""
            raise SpecError(f"origin: expected an object with contains, seed and sample, got {what}{origin!r}")
        set_fields(self, origin=origin, name=name)

    def validate(self, value: Any, path: str = "value") -> None:
        if isinstance(self.origin, type):
            if not isinstance(value, self.origin):
                raise SpecError(f"{path}: expected an object of class {self.origin.__name__}, got {shown(value)}")
        elif not self.origin.contains(value):
            raise SpecError(f"{path}: expected a value that {self.origin!r} contains, got {shown(value)}")

    def sample(self, rng: np.random.Generator) -> Any:
        if isinstance(self.origin, type):
            raise SpecError(f"sample: objects of class {self.origin.__name__} cannot be sampled")
        source = deepcopy(self.origin)  # so that the generator of the original does not advance
        source.seed(int(rng.integers(2**31)))
        return source.sample()

    def zeros(self) -> Any:
        return self.sample(np.random.default_rng(0))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Foreign):
            return NotImplemented
        return self.name == other.name and (self.origin is other.origin or bool(self.origin == other.origin))

    def __hash__(self) -> int:
        # The origin may be unhashable.
        origin: object = self.origin
        return hash((Foreign, type(origin), self.name))
