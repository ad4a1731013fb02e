"""Actions as vectors whose largest element counts."""

from __future__ import annotations

from typing import Any

import numpy as np

from .. import tree
from ..errors import SpecError
from ..spec import Array
from ..spec.base import shown
from ..wrapping.action_leaves import each_leaf, plus
from ..wrapping.bounds import bounds, counts, integers
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class OneHotAction(Lifted):
    """Takes the integers of an action as vectors whose largest element counts, the first of equally large ones.

    Each integer becomes a last axis with an element for each of its values; leaves that are no bounded integers stay as
    they are. An action without any integers stays as it is.

    Args:
        env: The environment; where its action has integers, a leaf of them has bounds, each element of as many values.

    Raises:
        SpecError: All integers are without bounds, or the elements of an array have different numbers of values.
    """

    def change(self, specs: Specs) -> Change:
        spec = specs.action
        held = [leaf for _, leaf in tree.leaves(spec)]
        if all(integers(leaf) is None for leaf in held):
            if any(isinstance(leaf, Array) and leaf.dtype.kind in "iu" for leaf in held):
                raise SpecError(f"OneHotAction: expected an action whose integers have bounds, got {spec!r}")
            return Change()
        hot: Any = each_leaf(spec, _one_hot)
        numbers = tree.map_leaves(lambda leaf, one: None if integers(leaf) is None else one.shape[-1], spec, hot)
        start: Any = tree.map_leaves(lambda leaf: bounds(leaf)[0], spec)
        return Change(action_spec=hot, action=lambda action: tree.map_leaves(_largest, numbers, start, action))


def _one_hot(spec: Any, path: str) -> Any:
    ends = integers(spec)
    if ends is None:
        return spec
    number = np.unique(counts(*ends))
    if len(number) != 1:
        raise SpecError(f"{path}: expected one number of values for all elements, got {number.tolist()} in {spec!r}")
    if number[0] > np.iinfo(np.intp).max:
        raise SpecError(
            f"{path}: expected integers of so few values that an array holds one element each, got {spec!r}"
        )
    return Array((*spec.shape, int(number[0])), spec.dtype, 0, 1, spec.name)


def _largest(number: int | None, start: Any, value: Any) -> Any:
    if number is None:
        return value
    if np.shape(value)[-1:] != (number,):
        raise SpecError(f"action: expected a last axis of {number}, one-hot, got {shown(value)}")
    return plus(start, np.argmax(value, axis=-1))
