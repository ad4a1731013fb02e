"""Actions out of bounds, clipped to them."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..errors import SpecError
from ..spec import Array
from ..wrapping.bounds import Bound, bounds
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class ActionClip(Lifted):
    """Takes actions out of bounds too, and clips them to the bounds of the action spec, in every leaf that has some.

    The action spec stays as it is, because agents need its bounds: random exploration, squashing policies and
    normalising frameworks all read them there. (So it is in TF-Agents; gymnasium's `ClipAction` drops
    the bounds, and `unbounded` does so here.)

    Args:
        env: The environment.
        unbounded: If True, the spec drops the bounds of its floating-point leaves.

    Raises:
        SpecError: No leaf of the action has a bound.
    """

    def __init__(self, env: Any, unbounded: bool = False) -> None:
        self.unbounded = unbounded
        super().__init__(env)

    def change(self, specs: Specs) -> Change:
        spec = specs.action
        if all(low is None and high is None for low, high in (bounds(leaf) for _, leaf in tree.leaves(spec))):
            raise SpecError(f"ActionClip: expected an action with bounds, got {spec!r}")
        ends: Any = tree.map_leaves(bounds, spec)
        return Change(
            action_spec=tree.map_leaves(_without_bounds, spec) if self.unbounded else None,
            action=lambda action: tree.map_leaves(_clipped, spec, ends, action),
        )


def _without_bounds(spec: Any) -> Any:
    is_float = isinstance(spec, Array) and spec.dtype.kind == "f"
    return Array(spec.shape, spec.dtype, name=spec.name) if is_float else spec


def _clipped(spec: Any, ends: tuple[Bound, Bound], value: Any) -> Any:
    low, high = ends
    return value if low is None and high is None else np.clip(np.asarray(value), low, high)
