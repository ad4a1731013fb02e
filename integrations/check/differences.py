"""Compares values and traces, and describes the first difference in a sentence."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from envoi.protocol.multi_env import MASK, Agent

from .drivers.base import Driver, Reply
from .transition import Transition


def traces_differ(
    expected: Sequence[Transition], actual: Sequence[Transition], driver: Driver, infos: bool = False
) -> str | None:
    """Describes the first difference of two traces; None where they are equal.

    Args:
        expected: The expected trace.
        actual: The actual trace.
        driver: Labels the values of agents.
        infos: Compare the infos, and nothing else.
    """
    for a, b in zip(expected, actual, strict=False):
        difference = _replies_differ(a.reply_copy, b.reply_copy, driver, infos)
        if difference is not None:
            return f"{difference} ({b.where})"
        if (a.episode, a.step) != (b.episode, b.step):
            return f"{a.where} against {b.where}"
    if len(expected) != len(actual):
        return f"{len(expected)} calls against {len(actual)}"
    return None


def _replies_differ(one: Reply, other: Reply, driver: Driver, infos: bool) -> str | None:
    if infos:
        return _mappings_differ("info", one.infos, other.infos, driver)
    for name in ("agents", "acting"):
        a, b = getattr(one, name), getattr(other, name)
        if a != b:
            if driver.kind == "single":
                return "the episode ends in one and continues in the other"
            return f"{name}: {list(a)} against {list(b)}"
    parts = (
        ("observation", one.observations, other.observations),
        ("reward", one.rewards, other.rewards),
        ("terminated", one.terminated, other.terminated),
        ("truncated", one.truncated, other.truncated),
        ("discount", one.discounts, other.discounts),
        # Of the infos only the masks, as the actions depend on them.
        ("action mask", _masks(one), _masks(other)),
    )
    differences = (_mappings_differ(name, a, b, driver) for name, a, b in parts)
    return next((difference for difference in differences if difference is not None), None)


def _masks(reply: Reply) -> dict[Any, Any]:
    return {a: info[MASK] for a, info in reply.infos.items() if isinstance(info, Mapping) and MASK in info}


def _mappings_differ(name: str, one: Mapping[Agent, Any], other: Mapping[Agent, Any], driver: Driver) -> str | None:
    if one.keys() != other.keys():
        return f"{name}: for {list(one)} against {list(other)}"
    for agent in one:
        difference = values_differ(one[agent], other[agent], driver.label(name, agent))
        if difference is not None:
            return difference
    return None


def values_differ(one: Any, other: Any, path: str = "", tolerance: float = 0.0) -> str | None:
    """Describes the first difference of two values; None where they are equal.

    Numbers are compared by value, arrays also by dtype and shape, objects of unknown classes by class only.

    Args:
        one: A value of any structure.
        other: Another value.
        path: Name of the value.
        tolerance: Largest difference of numbers relative to their size; if not 0, dtypes may differ too.
    """
    if one is other:
        return None
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        if one.keys() != other.keys():
            return f"{path}: keys {list(one)} against {list(other)}"
        parts = ((f"{path}[{key!r}]", one[key], other[key]) for key in one)
    elif isinstance(one, (list, tuple)) and isinstance(other, (list, tuple)):
        if len(one) != len(other):
            return f"{path}: {len(one)} elements against {len(other)}"
        parts = ((f"{path}[{index}]", a, b) for index, (a, b) in enumerate(zip(one, other, strict=True)))
    elif _is_number(one) and _is_number(other):
        return _arrays_differ(one, other, path, tolerance)
    elif isinstance(one, (str, bytes, type(None))) or isinstance(other, (str, bytes, type(None))):
        return None if type(one) is type(other) and one == other else f"{path}: {_short(one)} against {_short(other)}"
    else:
        return None if type(one) is type(other) else f"{path}: {_short(one)} against {_short(other)}"
    differences = (values_differ(a, b, where, tolerance) for where, a, b in parts)
    return next((difference for difference in differences if difference is not None), None)


def _is_number(value: Any) -> bool:
    if isinstance(value, (np.ndarray, np.generic)):
        return value.dtype.kind in "biufcSU"
    return isinstance(value, (bool, int, float, complex))


def _arrays_differ(one: Any, other: Any, path: str, tolerance: float) -> str | None:
    if isinstance(one, np.ndarray) and isinstance(other, np.ndarray) and not tolerance and one.dtype != other.dtype:
        return f"{path}: dtype {one.dtype} against {other.dtype}"
    a, b = np.asarray(one), np.asarray(other)
    if a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes():
        return None
    if a.shape != b.shape:
        return f"{path}: shape {a.shape} against {b.shape}"
    if a.dtype.kind in "SU" or b.dtype.kind in "SU":
        wrong = np.asarray(a != b)
    else:
        with np.errstate(all="ignore"):
            wrong = np.asarray((a != b) & ~((a != a) & (b != b)))  # nan
            if tolerance:
                wrong = wrong & ~np.asarray(np.isclose(a, b, rtol=tolerance, atol=tolerance))
    if not wrong.any():
        return None
    at = np.unravel_index(int(np.argmax(wrong)), wrong.shape)
    index = "".join(f"[{int(i)}]" for i in at)
    return f"{path}{index}: {_short(a[at])} against {_short(b[at])}"


def _short(value: Any) -> str:
    text = str(value) if isinstance(value, np.generic) else repr(value)
    text = " ".join(text.split())
    return text if len(text) <= 40 else text[:37] + "…"
