"""Finds functions of a model that modify a state in place, which would destroy the previous state."""

from __future__ import annotations

import copy
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from typing import Any

from ..errors import SpecError
from ..structural_equality import attributes
from ..tree import AnyArray, AnyDict, AnyList, AnyTuple
from .model import Model
from .multi_model import MultiModel

_FUNCTIONS = ("transition", "observe", "reward", "terminal", "truncated", "discount", "info", "live", "mask")


@contextmanager
def unchanged_states(env: Any) -> Generator[None]:
    """Raises an error if a function of a model inside an environment changes a state in place.

    Within this context, models step interpreted.

    Raises:
        SpecError: A function has changed a state; the message names the function and the leaf.
    """
    batches: list[Any] = []
    models: dict[int, Any] = {id(model): model for model in _models(env, batches)}
    spaces: list[tuple[Any, dict[str, Any]]] = [(model, model.__dict__) for model in models.values()]
    before = [dict(space) for _, space in spaces]
    for batch in batches:
        batch.is_watched = True
    try:
        for model, space in spaces:
            kind = model.__class__
            for name in _FUNCTIONS:
                written = getattr(kind, name, None)
                own = name in space or written not in (getattr(Model, name, None), getattr(MultiModel, name, None))
                if own and written is not None:
                    space[name] = _watched(getattr(model, name), f"{kind.__name__}.{name}")
        yield
    finally:
        for batch in batches:
            batch.is_watched = False
        for (_, space), held in zip(spaces, before, strict=True):
            for name in _FUNCTIONS:
                space.pop(name, None)
                if name in held:
                    space[name] = held[name]


def _models(env: Any, batches: list[Any]) -> Iterator[Any]:
    """Yields the models whose functions are called. Also adds batches that may compile them to `batches`."""
    while hasattr(env, "env"):
        env = env.env
    batch = getattr(env, "lanes", env)  # of a compiled model, or a `BatchModel`, the batch that steps it
    if getattr(batch, "has_kernel", False) or getattr(batch, "workers", None):  # models in other processes
        return
    if hasattr(batch, "is_watched"):
        batches.append(batch)
    for one in (env, getattr(batch, "model", None)):
        if isinstance(one, (Model, MultiModel)):
            yield one
    for lane in getattr(batch, "members", ()):
        yield from _models(lane, batches)


def _watched(function: Callable[..., Any], title: str) -> Callable[..., Any]:
    def call(*arguments: Any) -> Any:
        states = {0: "state", **({2: "next_state"} if title.endswith(".reward") else {})}
        try:
            before = {index: copy.deepcopy(arguments[index]) for index in states}
        except Exception:  # such a state cannot be compared
            return function(*arguments)
        result = function(*arguments)
        for index, name in states.items():
            leaf = _changed_leaf(before[index], arguments[index], name)
            if leaf is not None:
                raise SpecError(
                    f"{title}: changes {leaf} in place; return a new state, and leave the one given as it is"
                )
        return result

    call.__wrapped__ = function  # type: ignore[attr-defined]
    return call


def _changed_leaf(before: Any, after: Any, path: str) -> str | None:
    """Returns the path of the first leaf that differs between a value and its copy."""
    parts: list[tuple[str, Any, Any]]
    if type(before) is not type(after):
        return path
    if isinstance(before, AnyArray):
        same = before.shape == after.shape and before.dtype == after.dtype
        same = same and (before.dtype.hasobject or before.tobytes() == after.tobytes())
        return None if same else path
    if isinstance(before, AnyDict):
        if before.keys() != after.keys():
            return path
        parts = [(f"[{key!r}]", value, after[key]) for key, value in before.items()]
    elif isinstance(before, (AnyList, AnyTuple)):
        if len(before) != len(after):
            return path
        parts = [(f"[{index}]", one, after[index]) for index, one in enumerate(before)]
    elif type(before).__eq__ is not object.__eq__ and not hasattr(before, "__dict__"):
        return None if before == after or before != before else path
    else:
        now = dict(attributes(after))  # more attributes than before are values that were computed on first use
        parts = [(f".{name}", value, now.get(name)) for name, value in attributes(before)]
    found = (_changed_leaf(one, other, path + part) for part, one, other in parts)
    return next((leaf for leaf in found if leaf is not None), None)
