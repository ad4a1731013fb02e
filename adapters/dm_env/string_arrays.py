"""A spec of arrays of strings, which only dm_env has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from envoi import Spec, SpecError
from envoi.spec.base import set_fields, shown


@dataclass(frozen=True, eq=False, repr=False)
class Strings(Spec):
    """The spec of arrays of Python strings of any length, from dm_env's `StringArray`; one of shape () may be a string.

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
        letters = [self.string_type(bytes(rng.integers(97, 123, 4, np.uint8)), *self._coding()) for _ in self._cells()]
        return self._array(letters)

    def zeros(self) -> Any:
        return self._array([self.string_type() for _ in self._cells()])

    def _coding(self) -> tuple[str, ...]:
        return ("ascii",) if self.string_type is str else ()

    def _cells(self) -> range:
        return range(int(np.prod(self.shape)))

    def _array(self, cells: list[Any]) -> Any:
        made = np.empty(self.shape, object)
        made.flat[:] = cells
        return made[()]
