"""Nested structures: dicts, lists, tuples and named tuples, to any depth; anything else is a leaf.

Dict order is the insertion order and is kept. A leaf's path is written as Python would index it
(`['cart'][2]`, `.speed` for a named tuple's field), so that an error can point at it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeAlias, cast, overload

Tree: TypeAlias = Any
"""A leaf, or a dict, list, tuple or named tuple of trees."""


def is_branch(tree: Tree) -> bool:
    """Whether `tree` has children (possibly none at all: an empty dict is a branch)."""
    return isinstance(tree, (dict, list, tuple))


def children(tree: Tree) -> Iterator[tuple[str, Any, Tree]]:
    """The `(path part, key, child)` of each child of a branch, in order."""
    if isinstance(tree, dict):
        for key, child in cast("dict[Any, Any]", tree).items():
            yield f"[{key!r}]", key, child
        return
    fields = getattr(cast("object", tree), "_fields", None)
    for index, child in enumerate(tree):
        yield (f".{fields[index]}" if fields else f"[{index}]"), index, child


def rebuild(tree: Tree, new_children: Iterable[Any]) -> Tree:
    """A branch of the same kind as `tree`, with the same keys, holding `new_children`."""
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
    """Applies `function(leaf, *other leaves)` to each leaf, keeping the structure of `tree`."""
    if isinstance(tree, dict):
        branch = cast("dict[Any, Any]", tree)
        return rebuild(branch, [map_leaves(function, branch[key], *(o[key] for o in others)) for key in branch])
    if isinstance(tree, (list, tuple)):
        return rebuild(
            tree, [map_leaves(function, *subs) for subs in zip(cast("list[Any]", tree), *others, strict=True)]
        )
    return function(tree, *others)


def leaves(tree: Tree, path: str = "") -> Iterator[tuple[str, Any]]:
    """The `(path, leaf)` of each leaf, depth first, in order."""
    if not is_branch(tree):
        yield path, tree
        return
    for part, _, sub in children(tree):
        yield from leaves(sub, path + part)
