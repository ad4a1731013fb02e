"""Actions counted from zero on."""

from __future__ import annotations

from typing import Any

from .. import tree
from ..errors import SpecError
from ..spec import Array, Discrete, MultiDiscrete
from ..wrapping.action_leaves import each_leaf, plus
from ..wrapping.bounds import bounds, counts, integers
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class ActionOffset(Lifted):
    """Counts the integers of an action from zero on, as learners expect that know no negative actions.

    Args:
        env: The environment; every leaf of its action is of integers with bounds.

    Raises:
        SpecError: A leaf of the action is not, or its dtype does not hold as many.
    """

    def change(self, specs: Specs) -> Change:
        from_zero = each_leaf(specs.action, self._from_zero)
        start: Any = tree.map_leaves(lambda leaf: bounds(leaf)[0], specs.action)
        return Change(
            action_spec=from_zero,
            action=lambda action: tree.map_leaves(plus, start, action),
        )

    def _from_zero(self, spec: Any, path: str) -> Any:
        ends = integers(spec)
        if ends is None:
            raise SpecError(f"{path}: expected integers with bounds to count from zero on, got {spec!r}")
        try:
            if isinstance(spec, Discrete):
                return Discrete(spec.n, 0, spec.dtype, spec.name)
            if isinstance(spec, MultiDiscrete):
                return MultiDiscrete(spec.nvec, 0, spec.dtype, spec.name)
            return Array(spec.shape, spec.dtype, 0, counts(*ends) - 1, spec.name) if isinstance(spec, Array) else spec
        except SpecError as error:
            raise SpecError(f"{path}: counted from zero, {spec!r} does not fit its dtype ({error})") from error
