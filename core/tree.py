"""Nested structures: dicts, lists, tuples and named tuples, to any depth; anything else is a leaf.

Dicts keep their insertion order. The path of a leaf is the Python expression that reads it (`['cart'][2]`, `.speed`
for a field of a named tuple), for use in error messages.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar, overload

import numpy as np

from .errors import SpecError

T = TypeVar("T")
U = TypeVar("U")

if TYPE_CHECKING:
    # After `isinstance(value, dict)`, a strict type checker knows nothing about the keys and values of a value of
    # unknown type; after `isinstance(value, AnyDict)`, which is the same at run time, it takes them for `Any`.

    class AnyDict(dict[Any, Any]):
        """A dict."""

    class AnyList(list[Any]):
        """A list."""

    class AnyTuple(tuple[Any, ...]):
        """A tuple."""

    class AnyMapping(Mapping[Any, Any]):
        """A mapping."""

    class AnySequence(Sequence[Any]):
        """A sequence."""

    class AnyArray(np.ndarray[Any, np.dtype[Any]]):
        """An array of any shape and dtype."""

    class AnyScalar(np.generic[Any]):
        """A numpy scalar of any dtype."""

else:
    AnyDict, AnyList, AnyTuple, AnyMapping, AnySequence = dict, list, tuple, Mapping, Sequence
    AnyArray, AnyScalar = np.ndarray, np.generic

if TYPE_CHECKING:
    Nested: TypeAlias = T | dict[Any, "Nested[T]"] | list["Nested[T]"] | tuple["Nested[T]", ...]
else:  # without forward references, which only this module could resolve
    Nested = T | dict[Any, Any] | list[Any] | tuple[Any, ...]
"""A leaf of type T, or a dict, list, tuple or named tuple of such trees."""

Branch: TypeAlias = dict[Any, T] | list[T] | tuple[T, ...]
"""A dict, list, tuple or named tuple, with children of type T."""


def is_branch(tree: Any) -> bool:
    """Returns True for a dict, list, tuple or named tuple, also an empty one."""
    return isinstance(tree, (dict, list, tuple))


def children(tree: Branch[T]) -> Iterator[tuple[str, Any, T]]:
    """Yields the `(path part, key, child)` of each child of a branch, in order."""
    if isinstance(tree, dict):
        for key, child in tree.items():
            yield f"[{key!r}]", key, child
        return
    if not is_branch(tree):
        hint = "; `envoi.adapters.gymnasium.from_space` converts a gymnasium space" if hasattr(tree, "sample") else ""
        raise SpecError(f"expected a spec (Array, Discrete, …) or a dict, list or tuple of specs, got {tree!r}{hint}")
    fields = getattr(tree, "_fields", None)
    for index, child in enumerate(tree):
        yield (f".{fields[index]}" if fields else f"[{index}]"), index, child


def rebuild(tree: Branch[Any], new_children: Iterable[U]) -> Branch[U]:
    """Returns a branch of the type of `tree`, with the same keys and new children."""
    kind: Any = type(tree)
    if isinstance(tree, dict):
        return kind(zip(tree, new_children, strict=True))
    return kind(*new_children) if hasattr(tree, "_fields") else kind(new_children)


@overload
def map_leaves(function: Callable[[T], U], tree: Nested[T]) -> Nested[U]: ...
@overload
def map_leaves(function: Callable[[Any, Any], U], tree: Nested[Any], other: Nested[Any], /) -> Nested[U]: ...
@overload
def map_leaves(function: Callable[..., U], tree: Nested[Any], *others: Nested[Any]) -> Nested[U]: ...
def map_leaves(function: Callable[..., Any], tree: Nested[Any], *others: Nested[Any]) -> Any:
    """Applies a function to each leaf."""
    if isinstance(tree, AnyDict):
        return rebuild(tree, [map_leaves(function, tree[key], *(o[key] for o in others)) for key in tree])
    if isinstance(tree, (AnyList, AnyTuple)):
        return rebuild(tree, [map_leaves(function, *subs) for subs in zip(tree, *others, strict=True)])
    return function(tree, *others)


def leaves(tree: Nested[T], path: str = "") -> Iterator[tuple[str, T]]:
    """Yields the `(path, leaf)` of each leaf, depth first, in order."""
    branch: Any = tree
    if not is_branch(branch):
        yield path, branch
        return
    for part, _, sub in children(branch):
        yield from leaves(sub, path + part)
