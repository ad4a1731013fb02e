"""Discounts in frameworks whose steps have none: one that does not follow from the flags is `info["discount"]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from envoi.tree import leaves


def is_default_discount(discount: Any, terminated: bool) -> bool:
    """Returns True if a discount is the default one: 0 for a terminated step and 1 otherwise."""
    if isinstance(discount, float):  # np.float64 too
        return discount == (0.0 if terminated else 1.0)
    if isinstance(discount, (dict, list, tuple)):
        return all(is_default_discount(leaf, terminated) for _, leaf in leaves(discount))
    return bool(np.all(discount == (0.0 if terminated else 1.0))) and np.ndim(discount) == 0


def is_zero(discount: Any) -> bool:
    """Returns True if a discount, possibly nested, is 0 in every element."""
    if isinstance(discount, float):  # np.float64 too
        return not discount
    return not any(np.any(leaf) for _, leaf in leaves(discount))


def with_discounts(
    infos: Mapping[Any, Any], discounts: Mapping[Any, Any], terminated: Mapping[Any, bool]
) -> dict[Any, Any]:
    """Returns the infos of agents, with `"discount"` in those of agents whose discount is not the default."""
    special = {
        agent: discount for agent, discount in discounts.items() if not is_default_discount(discount, terminated[agent])
    }
    if not special:
        return cast("dict[Any, Any]", infos)
    return {agent: {**info, "discount": special[agent]} if agent in special else info for agent, info in infos.items()}


def is_number(value: Any) -> bool:
    """Returns True if a value can be a discount: a number or a nested structure of numbers."""
    numbers = [np.asarray(leaf).dtype.kind in "biuf" for _, leaf in leaves(value)]
    return bool(numbers) and all(numbers)
