"""Numbers for evenly spaced values of a continuous action."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from .. import tree
from ..errors import SpecError
from ..spec import Array, Discrete, MultiDiscrete, SpecTree
from ..spec.base import shown
from ..spec.nested import check_branch
from ..wrapping.action_leaves import each_leaf
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class ActionDiscretize(Lifted):
    """Numbers some evenly spaced values of each continuous element of an action: 0 is its lower bound, n - 1 its upper.

    An array of one element becomes `Discrete`, one of more `MultiDiscrete`. Leaves that are no floating-point arrays
    stay as they are.

    Args:
        env: The environment; the floating-point leaves of its action have finite bounds.
        num_actions: How many values, at least 2: one number for all elements, or an array that broadcasts to the
            shape of the action; for a nested action also such of each leaf, nested as the action is.
        dtype: The integer dtype of the new actions. The default is that of gymnasium's discrete spaces; TF-Agents'
            `ActionDiscretizeWrapper` has `"int32"`.

    Raises:
        SpecError: There is nothing continuous, or it is unbounded; or the numbers are none or do not fit; or the dtype
            is none of integers, or too narrow.
    """

    def __init__(self, env: Any, num_actions: Any, dtype: DTypeLike = "int64") -> None:
        self.num_actions, self.dtype = num_actions, dtype
        super().__init__(env)

    def change(self, specs: Specs) -> Change:
        spec = specs.action
        tables: Any = each_leaf(spec, _table, _spread(self.num_actions, spec, "num_actions"))
        if all(table is None for _, table in tree.leaves(tables)):
            raise SpecError(f"ActionDiscretize: expected a continuous action, got {spec!r}")
        return Change(
            action_spec=each_leaf(spec, self._numbered, tables),
            action=lambda action: tree.map_leaves(_looked_up, spec, tables, action),
        )

    def _numbered(self, spec: Any, path: str, table: _Values | None) -> Any:
        if table is None:
            return spec
        number, one = table.number, table.number.size == 1
        try:
            if one:
                return Discrete(int(number.flat[0]), dtype=self.dtype, name=spec.name)
            return MultiDiscrete(number, dtype=self.dtype, name=spec.name)
        except (SpecError, TypeError) as error:
            raise SpecError(
                f"dtype: expected an integer dtype that holds the numbers of {path}, up to {int(number.max()) - 1}, "
                f"got {self.dtype!r} ({error})"
            ) from error


def _spread(given: Any, spec: SpecTree, path: str) -> Any:
    """Returns an option of all leaves, or of each, in the structure of the spec."""
    if not tree.is_branch(spec) or not tree.is_branch(given):
        return tree.map_leaves(lambda leaf: given, spec)
    check_branch(spec, given, path)
    return tree.rebuild(spec, [_spread(given[key], sub, path + part) for part, key, sub in tree.children(spec)])


class _Values:
    """The values that an element of an array may have, by their numbers.

    Args:
        number: How many values each element has, of the array's shape.
        values: Shape (*shape, most), the surplus being nan.
    """

    def __init__(self, number: NDArray[np.int64], values: NDArray[Any]) -> None:
        self.number, self.values = number, values


def _table(spec: Any, path: str, number: Any) -> _Values | None:
    if not (isinstance(spec, Array) and spec.dtype.kind == "f"):
        return None
    if spec.low is None or spec.high is None or not np.isfinite([spec.low, spec.high]).all():
        raise SpecError(f"{path}: expected finite bounds to divide, got {spec!r}")
    given = np.asarray(number)
    try:
        many = np.broadcast_to(given, spec.shape)
    except ValueError:
        many = None
    if many is None or given.dtype.kind not in "iu" or (many < 2).any():
        raise SpecError(
            f"num_actions: expected integers of at least 2, one or an array that broadcasts to the shape {spec.shape} "
            f"of {path}, got {number!r}"
        )
    low, high = spec.low.astype(np.float64)[..., None], spec.high.astype(np.float64)[..., None]
    index = np.arange(int(many.max(initial=2)))
    share = index / (many[..., None] - 1)
    # Weighted, for the difference of two bounds may overflow; and clipped, for the weights may round.
    values = np.clip(low * (1 - share) + high * share, low, high).astype(spec.dtype)
    return _Values(many.astype(np.int64), np.where(index < many[..., None], values, np.nan).astype(spec.dtype))


def _looked_up(spec: Any, table: _Values | None, number: Any) -> Any:
    if table is None:
        return number
    chosen = np.asarray(number)
    shape = () if table.number.size == 1 else spec.shape
    if chosen.dtype.kind not in "iu" or chosen.shape[chosen.ndim - len(shape) :] != shape:
        raise SpecError(f"action: expected integers of shape {shape}, got {shown(number)}")
    if (chosen < 0).any() or (chosen >= (table.number.reshape(()) if not shape else table.number)).any():
        raise SpecError(f"action: expected integers from 0 to {(table.number - 1).tolist()}, got {chosen.tolist()}")
    if table.number.size == 1:
        return np.asarray(table.values.reshape(-1)[chosen]).reshape(chosen.shape + spec.shape)
    return table.values[(*np.indices(spec.shape, sparse=True), chosen)]
