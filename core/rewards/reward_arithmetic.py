"""Sums and multiples of rewards, and the specs and ranges of rewards."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import tree
from ..errors import SpecError
from ..spec import Array, Spec, SpecTree
from ..tree import AnyDict, AnyMapping


def added(one: Any, other: Any) -> Any:
    """Returns the sum of two rewards; a mapping from agents if at least one of them is a mapping.

    Args:
        one: A reward, or a mapping from agents.
        other: Another one; a reward that is not a mapping counts for every agent.
    """
    if not isinstance(one, AnyMapping) and not isinstance(other, AnyMapping):
        return one + other
    agents: dict[Any, None] = {}
    for side in (one, other):
        agents |= dict.fromkeys(side if isinstance(side, AnyMapping) else ())
    return {agent: _share(one, agent, 0) + _share(other, agent, 0) for agent in agents}


def scaled(reward: Any, weight: float) -> Any:
    """Returns a weight times a reward; a mapping from agents for a mapping.

    Args:
        reward: The reward, or a mapping from agents.
        weight: The factor.
    """
    if isinstance(reward, AnyMapping):
        return {agent: weight * own for agent, own in reward.items()}
    return weight * reward


def sum_spec(specs: list[SpecTree]) -> SpecTree:
    """Returns the spec of a sum of rewards; a dict of specs by agent if one of `specs` is a dict.

    Args:
        specs: The specs of the rewards.

    Raises:
        SpecError: The rewards are not arrays of one shape.
    """
    return _combined(specs, _sum)


def scaled_spec(spec: SpecTree, weight: float) -> SpecTree:
    """Returns the spec of a weight times a reward.

    Args:
        spec: The spec of the reward, or a dict of specs by agent.
        weight: The factor.

    Raises:
        SpecError: The reward is not an array.
    """
    return _combined([spec], partial(_scaled, weight=weight))


def spec_range(spec: SpecTree) -> tuple[float, float]:
    """Returns the lowest and the highest number that a possibly nested reward spec allows."""
    lows, highs = [0.0], [0.0]
    leaves = [leaf for _, leaf in tree.leaves(spec) if isinstance(leaf, Spec)]
    if leaves:
        lows = [_extreme(leaf, "low", -np.inf) for leaf in leaves]
        highs = [_extreme(leaf, "high", np.inf) for leaf in leaves]
    return min(lows), max(highs)


def _extreme(leaf: Spec, side: str, default: float) -> float:
    bound = getattr(leaf, side, None)
    if bound is None or not bound.size:
        return default
    return float(bound.min() if side == "low" else bound.max())


def _combined(specs: list[SpecTree], combine: Callable[[list[Array]], Array]) -> SpecTree:
    """Returns the spec of a composed reward; a dict of specs by agent if one of `specs` is a dict."""
    agents: dict[Any, None] = {}
    for spec in specs:
        agents |= dict.fromkeys(spec if isinstance(spec, AnyDict) else ())
    if agents:
        none = Array((), "float64", 0, 0)
        return {agent: _combined([_share(spec, agent, none) for spec in specs], combine) for agent in agents}
    for spec in specs:
        if not isinstance(spec, Array):
            raise SpecError(f"rewarder: expected a reward that is one array to compose, got {spec!r}")
    return combine(specs)


def _share(whole: Any, agent: Any, none: Any) -> Any:
    """Returns an agent's entry of a mapping from agents, or the whole if it is not a mapping."""
    return whole.get(agent, none) if isinstance(whole, AnyMapping) else whole


def _sum(arrays: list[Array]) -> Array:
    shapes = [array.shape for array in arrays]
    if len(set(shapes)) != 1:
        raise SpecError(f"rewarder: expected rewards of one shape to add, got shapes {shapes}")
    lows, highs = zip(*map(_bounds, arrays), strict=True)
    return _between(np.sum(lows, axis=0), np.sum(highs, axis=0))


def _scaled(arrays: list[Array], weight: float) -> Array:
    (array,) = arrays
    if not weight:  # 0·inf would be nan
        return _between(np.zeros(array.shape), np.zeros(array.shape))
    ends = [weight * bound for bound in _bounds(array)]
    return _between(np.minimum(*ends), np.maximum(*ends))


def _bounds(spec: Array) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    low = np.full(spec.shape, -np.inf) if spec.low_or_inf is None else spec.low_or_inf.astype(np.float64)
    high = np.full(spec.shape, np.inf) if spec.high_or_inf is None else spec.high_or_inf.astype(np.float64)
    return low, high


def _between(low: NDArray[np.float64], high: NDArray[np.float64]) -> Array:
    bottom = None if np.isneginf(low).all() else low
    return Array(low.shape, "float64", bottom, None if np.isposinf(high).all() else high, "reward")
