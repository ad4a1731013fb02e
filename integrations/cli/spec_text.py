"""Specs in the words of a person who looks at an env, for `envoi info`."""

from __future__ import annotations

import re
from typing import Any

import numpy as np

from envoi import Array, Discrete, Foreign, MultiBinary, MultiDiscrete
from envoi.tree import leaves

_LONG_NUMBER = re.compile(r"-?\d+\.\d{5,}(?:e[+-]?\d+)?")

SHORT = 6
"""The most elements whose bounds are listed one by one."""


def describe_specs(specs: Any, name: str) -> list[tuple[str, str]]:
    """Returns each leaf of nested specs in words, by its path.

    Args:
        specs: The specs.
        name: The name of the whole, which paths begin with and which a leaf's own name need not repeat.
    """
    found: list[tuple[str, str]] = []
    for path, spec in leaves(specs, name):
        own = getattr(spec, "name", None)
        called = "" if own is None or str(own) in path else f" ({own})"
        found.append((path.removeprefix(name), describe_spec(spec) + called))
    return found


def shorten_numbers(text: str) -> str:
    """Returns a text in which numbers with many decimals have four significant digits."""
    return _LONG_NUMBER.sub(lambda found: _number(float(found[0])), text)


def describe_spec(spec: Any) -> str:
    """Returns a spec in words: how many values of what kind, and their bounds if these are short.

    Args:
        spec: The spec of one leaf.
    """
    if isinstance(spec, Discrete):
        first, last = int(spec.start), int(spec.start) + int(spec.n) - 1
        return f"{first} or {last}" if spec.n == 2 else f"one of {spec.n:,}: {_range(first, last)}"
    if isinstance(spec, MultiDiscrete):
        lows, highs = spec.start.ravel(), spec.last.ravel()
        return f"{_count(spec.shape)} whole numbers, {_bounds(lows, highs)}"
    if isinstance(spec, MultiBinary):
        return f"{_count(spec.shape)} values of 0 or 1"
    if isinstance(spec, Array):
        return _array(spec)
    if isinstance(spec, Foreign):
        origin = spec.origin if isinstance(spec.origin, type) else type(spec.origin)
        return f"a value of {origin.__name__}"
    return str(spec)


def _array(spec: Array) -> str:
    kind = "whole number" if spec.dtype.kind in "iu" else "truth value" if spec.dtype.kind == "b" else "number"
    size = int(np.prod(spec.shape))
    what = f"one {kind}" if spec.shape == () else f"{_count(spec.shape)} {kind}{'' if size == 1 else 's'}"
    if spec.dtype.kind in "bc":
        return f"{what} ({spec.dtype})"
    ends = (spec.low_or_inf, -np.inf), (spec.high_or_inf, np.inf)
    low, high = (np.broadcast_to(free if end is None else end, spec.shape).ravel() for end, free in ends)
    return f"{what} ({spec.dtype}), {_bounds(low, high)}"


def _count(shape: tuple[int, ...]) -> str:
    return " x ".join(f"{size:,}" for size in shape) or "one"


def _bounds(low: Any, high: Any) -> str:
    """Returns bounds in words: one range that all elements share, each element's, or what they span."""
    pairs = list(zip(low.tolist(), high.tolist(), strict=True))
    if not pairs:
        return "none"
    if len(set(pairs)) == 1:
        return _range(*pairs[0])
    if len(pairs) <= SHORT:
        return "each: " + "; ".join(_range(*pair) for pair in pairs)
    free = sum(np.isinf(one).any() for one in np.array(pairs, float))
    finite = [number for pair in pairs for number in pair if np.isfinite(number)]
    own = f"bounds of their own within {_number(min(finite))} … {_number(max(finite))}"
    return f"{own}, {free:,} without" if free else own


def _range(low: float, high: float) -> str:
    if low == -np.inf and high == np.inf:
        return "any"
    if low == -np.inf:
        return f"at most {_number(high)}"
    if high == np.inf:
        return f"at least {_number(low)}"
    return _number(low) if low == high else f"{_number(low)} … {_number(high)}"


def _number(value: float) -> str:
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}"
