"""Nested structures: dicts, lists, tuples and named tuples, to any depth; anything else is a leaf.

Dicts keep their insertion order. The path of a leaf is the Python expression that reads it (`['cart'][2]`, `.speed`
for a field of a named tuple), for use in error messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, cast, overload

Tree: TypeAlias = Any
"""A leaf, or a dict, list, tuple or named tuple of trees."""


def is_branch(tree: Tree) -> bool:
    """Returns True for a dict, list, tuple or named tuple, also an empty one."""
    return isinstance(tree, (dict, list, tuple))


def children(tree: Tree) -> Iterator[tuple[str, Any, Tree]]:
    """Yields the `(path part, key, child)` of each child of a branch, in order."""
    if isinstance(tree, dict):
        for key, child in cast("dict[Any, Any]", tree).items():
            yield f"[{key!r}]", key, child
        return
    fields = getattr(cast("object", tree), "_fields", None)
    for index, child in enumerate(tree):
        yield (f".{fields[index]}" if fields else f"[{index}]"), index, child


def rebuild(tree: Tree, new_children: Iterable[Any]) -> Tree:
    """Returns a branch of the type of `tree`, with the same keys and new children.

    Args:
        tree: A branch.
        new_children: As many children as `tree` has, in order.
    """
    if isinstance(tree, dict):
        branch = cast("dict[Any, Any]", tree)
        return type(branch)(zip(branch, new_children, strict=True))
    if hasattr(cast("object", tree), "_fields"):
        return type(tree)(*new_children)
    return type(tree)(new_children)


@overload
def map_leaves(function: Callable[[Any], Any], tree: Tree) -> Tree: ...
@overload
def map_leaves(function: Callable[[Any, Any], Any], tree: Tree, other: Tree, /) -> Tree: ...
@overload
def map_leaves(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree: ...
def map_leaves(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
    """Applies a function to each leaf.

    Args:
        function: Takes a leaf of `tree`, and the leaves at the same place in each of `others`.
        tree: The structure of the result.
        *others: More trees of the same structure.

    Returns:
        The structure of `tree`, with the function's results as leaves.
    """
    if isinstance(tree, dict):
        branch = cast("dict[Any, Any]", tree)
        return rebuild(branch, [map_leaves(function, branch[key], *(o[key] for o in others)) for key in branch])
    if isinstance(tree, (list, tuple)):
        return rebuild(
            tree, [map_leaves(function, *subs) for subs in zip(cast("list[Any]", tree), *others, strict=True)]
        )
    return function(tree, *others)


def leaves(tree: Tree, path: str = "") -> Iterator[tuple[str, Any]]:
    """Yields the `(path, leaf)` of each leaf, depth first, in order.

    Args:
        tree: A leaf or a branch.
        path: The name of the whole, with which all paths begin.
    """
    if not is_branch(tree):
        yield path, tree
        return
    for part, _, sub in children(tree):
        yield from leaves(sub, path + part)
