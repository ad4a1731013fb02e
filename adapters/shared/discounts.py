"""Discounts in forms that have no place for them: one that the flags do not say already is `info["discount"]`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import numpy as np

from envoi.tree import leaves


def is_default_discount(discount: Any, terminated: bool) -> bool:
    """Whether a discount says nothing that `terminated` does not say already."""
    if isinstance(discount, float):  # np.float64 too
        return discount == (0.0 if terminated else 1.0)
    if isinstance(discount, (dict, list, tuple)):
        return all(is_default_discount(leaf, terminated) for _, leaf in leaves(discount))
    return bool(np.all(discount == (0.0 if terminated else 1.0))) and np.ndim(discount) == 0


def with_discounts(
    infos: Mapping[Any, Any], discounts: Mapping[Any, Any], terminated: Mapping[Any, bool]
) -> dict[Any, Any]:
    """The infos of agents, which name the discounts that the flags do not say already."""
    special = {
        agent: discount for agent, discount in discounts.items() if not is_default_discount(discount, terminated[agent])
    }
    if not special:
        return cast("dict[Any, Any]", infos)
    return {agent: {**info, "discount": special[agent]} if agent in special else info for agent, info in infos.items()}


def is_number(value: Any) -> bool:
    """Whether a value can be a discount: a number or a nested structure of numbers."""
    numbers = [np.asarray(leaf).dtype.kind in "biuf" for _, leaf in leaves(value)]
    return bool(numbers) and all(numbers)
