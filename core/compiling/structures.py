"""Trees of arrays put together from their leaves, as fast as their structure allows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .. import tree


def rebuilder(structure: Any) -> Callable[[Sequence[Any]], Any]:
    """Returns a function that makes a tree of some structure from its first leaves in a sequence.

    Args:
        structure: A tree; its leaves are not used.
    """
    if not tree.is_branch(structure):
        return lambda leaves: leaves[0]
    if type(structure) is dict and not any(tree.is_branch(leaf) for leaf in structure.values()):
        keys = tuple(structure)
        return lambda leaves: dict(zip(keys, leaves, strict=False))

    def rebuilt(leaves: Sequence[Any]) -> Any:
        remaining = iter(leaves)
        return tree.map_leaves(lambda _: next(remaining), structure)

    return rebuilt
