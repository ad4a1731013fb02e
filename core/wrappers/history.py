"""A wrapper that stacks the last observations and actions."""

from __future__ import annotations

from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..errors import SpecError
from ..spec import Array, Discrete, MultiBinary, MultiDiscrete, SpecTree
from ..spec.arrays import bounds_or_inf
from ..wrapping.arguments import at_least, counts
from ..wrapping.change import Change, Specs
from ..wrapping.lifted import Lifted


class History(Lifted):
    """Stacks the last observations along a new first axis of each leaf, the newest last.

    Zeros fill the time before the first step, and the bounds of the specs extend to include them.

    Args:
        env: The environment.
        history_length: The number of observations, at least 1.
        include_actions: If True, an observation becomes a dict of `"observation"` and `"action"`. `"action"` stacks the
            actions that led to the observations, with zeros for the first observation.
        tile_first_step_obs: If True, repeat the first observation in place of zeros.

    Raises:
        SpecError: `history_length` is not an integer of at least 1, or the values of a leaf are not arrays.
    """

    def __init__(
        self, env: Any, history_length: int = 3, include_actions: bool = False, tile_first_step_obs: bool = False
    ) -> None:
        self.history_length = at_least(history_length, 1, "history_length")
        self.include_actions, self.tile_first_step_obs = include_actions, tile_first_step_obs
        super().__init__(env)

    def change(self, specs: Specs) -> Change:
        n, tiles, axis = self.history_length, self.tile_first_step_obs, 0 if specs.lanes is None else 1
        kept: dict[str, SpecTree] = {"observation": specs.observation}
        shown: Any = _stacked(specs.observation, "observation", n, 0 if tiles else n - 1)
        if self.include_actions:
            kept["action"] = specs.action
            shown = {"observation": shown, "action": _stacked(specs.action, "action", n, n)}

        def newest(spec: Any, value: Any) -> NDArray[Any]:
            return np.expand_dims(np.asarray(value, spec.dtype), axis)

        def first(spec: Any, value: Any) -> NDArray[Any]:
            last = newest(spec, value)
            return np.concatenate([*([last if tiles else np.zeros_like(last)] * (n - 1)), last], axis)

        def none(spec: Any) -> NDArray[Any]:
            return np.zeros((n, *spec.shape) if specs.lanes is None else (specs.lanes, n, *spec.shape), spec.dtype)

        def next_one(spec: Any, old: NDArray[Any], value: Any) -> NDArray[Any]:
            return np.concatenate([old[1:] if axis == 0 else old[:, 1:], newest(spec, value)], axis)

        def begin(observation: Any) -> dict[str, Any]:
            seen = tree.map_leaves(first, specs.observation, observation)
            done = {"action": tree.map_leaves(none, specs.action)} if self.include_actions else {}
            return {"observation": seen, **done}

        def remember(held: Any, action: Any, observation: Any, reward: Any) -> Any:
            return tree.map_leaves(next_one, kept, held, {"observation": observation, "action": action})

        def seen(observation: Any, held: Any) -> Any:
            # Copies, because an agent may write into its observation, and the next one is made from the memory.
            return tree.map_leaves(np.copy, held if self.include_actions else held["observation"])

        return Change(observation_spec=shown, begin=begin, remember=remember, observation=seen)


def _stacked(spec: SpecTree, path: str, n: int, padded: int) -> Any:
    """The spec of n values along a first axis, of which the first `padded` may be zeros."""
    if tree.is_branch(spec):
        return tree.rebuild(spec, [_stacked(sub, path + part, n, padded) for part, _, sub in tree.children(spec)])
    if isinstance(spec, MultiBinary):
        return MultiBinary((n, *spec.shape), spec.name)
    if not isinstance(spec, (Array, Discrete, MultiDiscrete)):
        raise SpecError(f"{path}: expected a spec whose values are arrays to stack, got {spec!r}")
    below, above = bounds_or_inf(spec)
    low = None if below is None else np.repeat(below[None], n, 0)
    high = None if above is None else np.repeat(above[None], n, 0)
    if low is not None:
        low[:padded] = np.minimum(low[:padded], 0)
    if high is not None:
        high[:padded] = np.maximum(high[:padded], 0)
    if isinstance(spec, Array):
        return Array((n, *spec.shape), spec.dtype, low, high, spec.name)
    return _between(spec, cast("Any", low), cast("Any", high))


def _between(spec: Discrete | MultiDiscrete, low: NDArray[Any], high: NDArray[Any]) -> MultiDiscrete | Array:
    number = counts(low, high)
    if number.max(initial=0) > np.iinfo(np.int64).max:
        return Array(low.shape, spec.dtype, low, high, spec.name)
    return MultiDiscrete(number, low, spec.dtype, spec.name)
