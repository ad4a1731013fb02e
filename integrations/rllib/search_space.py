"""Search spaces: what a setting of a sweep is sampled from, written as `log(1e-5,1e-3)`."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

import envoi
from envoi.errors import nearest

EXAMPLES = {
    "log": "log(1e-5,1e-3)",
    "uniform": "uniform(0.9,0.999)",
    "int": "int(3,30)",
    "choice": "choice(relu,tanh)",
    "grid": "grid(64,128)",
}
"""An example of each kind of search space."""
_CALL = re.compile(r"\s*([A-Za-z_]\w*)\s*\((.*)\)\s*", re.DOTALL)
RESAMPLE = 0.25
"""Probability that a perturbation samples a new value; that of Ray Tune's population based training."""
FACTORS = (0.8, 1.2)
"""Factors of the other perturbations of a number; those of Ray Tune."""


@dataclass(frozen=True)
class SearchSpace:
    """Values that a setting is sampled from.

    Args:
        kind: `log` (log-uniform), `uniform`, `int` (whole numbers, both ends included), `choice` or `grid`, of which a
            sweep tries every value.
        values: Both ends of a range, or the values to choose from.
    """

    kind: str
    values: tuple[Any, ...]

    def __str__(self) -> str:
        return f"{self.kind}({','.join(map(format_value, self.values))})"

    def sample(self, rng: np.random.Generator) -> Any:
        """Returns a random value."""
        low, high = self.values[0], self.values[-1]
        if self.kind == "log":
            return math.exp(rng.uniform(math.log(low), math.log(high)))
        if self.kind == "uniform":
            return float(rng.uniform(low, high))
        if self.kind == "int":
            return int(rng.integers(low, high, endpoint=True))
        return self.values[int(rng.integers(len(self.values)))]

    def perturb(self, value: Any, rng: np.random.Generator) -> Any:
        """Returns a value near another, by the rule of population based training, and inside the space.

        A number is multiplied by 0.8 or 1.2, and one of several values becomes a neighbour in their list; one time in
        four the value is sampled. Source: Jaderberg et al., 2017, as in `ray.tune.schedulers.PopulationBasedTraining`,
        which, other than this, may leave the space.

        Args:
            value: The value.
            rng: Source of randomness.
        """
        if rng.random() < RESAMPLE or (self.kind in ("choice", "grid") and value not in self.values):
            return self.sample(rng)
        if self.kind in ("choice", "grid"):
            index = self.values.index(value) + int(rng.choice((-1, 1)))
            return self.values[min(max(index, 0), len(self.values) - 1)]
        low, high = self.values
        moved = min(max(value * float(rng.choice(FACTORS)), low), high)
        return round(moved) if self.kind == "int" else moved


def parse_space(text: str, parse_value: Callable[[str], Any]) -> SearchSpace | None:
    """Reads a search space.

    Args:
        text: Such as `log(1e-5,1e-3)`.
        parse_value: Reads one value.

    Returns:
        The space; None if the text is no call at all, so that it is a plain value.

    Raises:
        envoi.EnvoiError: There is no search space of this name, or its values make none.
    """
    call = _CALL.fullmatch(text)
    if call is None:
        return None
    kind, inside = call[1], call[2]
    if kind not in EXAMPLES:
        raise envoi.EnvoiError(f"no search space is called {kind!r}; {_suggestion(kind)}")
    values = tuple(parse_value(part) for part in split(inside))
    problem = _problem(kind, values)
    if problem is not None:
        raise envoi.EnvoiError(f"{text} is no search space: {problem}; expected such as {EXAMPLES[kind]}")
    if kind in ("log", "uniform"):
        values = tuple(map(float, values))
    return SearchSpace(kind, tuple(int(value) for value in values) if kind == "int" else values)


def _suggestion(kind: str) -> str:
    near = nearest(kind, EXAMPLES)
    return (
        f"{near} There are: {', '.join(EXAMPLES.values())}"
        if near.endswith("?")
        else (f"there are: {', '.join(EXAMPLES.values())}")
    )


def _problem(kind: str, values: tuple[Any, ...]) -> str | None:
    if kind in ("choice", "grid"):
        return None if values else "it has no values"
    if len(values) != 2:
        return f"it takes two numbers, a lower and an upper end, and got {len(values)}"
    for value in values:
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            return f"{format_value(value)} is no number"
    low, high = values
    if not low < high:
        return f"its lower end {low:g} is not below its upper end {high:g}"
    if kind == "log" and low <= 0:
        return f"a logarithmic range begins above 0, not at {low:g}"
    if kind == "int" and not (float(low).is_integer() and float(high).is_integer()):
        return "its ends must be whole numbers"
    return None


def split(text: str) -> list[str]:
    """Returns the parts of a text between commas, except commas within brackets or quotes; none for a blank text."""
    parts, depth, quote, start = list[str](), 0, "", 0
    for index, character in enumerate(text):
        if quote:
            quote = "" if character == quote else quote
        elif character in "'\"":
            quote = character
        elif character in "([{":
            depth += 1
        elif character in ")]}":
            depth -= 1
        elif character == "," and depth == 0:
            parts.append(text[start:index].strip())
            start = index + 1
    return [*parts, text[start:].strip()] if text.strip() else []


def parse_value(text: str) -> Any:
    """Reads a value from text that was typed or comes from a file.

    Numbers may be written as `1e-4` or `4_096`; `true`, `false` and `null` (or `none`) in any case; lists and dicts as
    in Python or YAML; anything else is a string.
    """
    words = {"true": True, "false": False, "null": None, "none": None}
    text = text.strip()
    if text.lower() in words:
        return words[text.lower()]
    try:
        value = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return _parse_flow(text)
    return _lists(value)


def _parse_flow(text: str) -> Any:
    """Reads lists and dicts whose strings lack quotes, as `[relu, tanh]` and `{capacity: 1e5}`."""
    if text[:1] == "[" and text[-1:] == "]":
        return [parse_value(part) for part in split(text[1:-1])]
    if text[:1] == "{" and text[-1:] == "}":
        pairs = [part.partition(":") for part in split(text[1:-1])]
        if all(colon for _, colon, _ in pairs):
            return {str(parse_value(key)): parse_value(value) for key, _, value in pairs}
    return text


def _lists(value: Any) -> Any:
    if isinstance(value, tuple | list):
        return [_lists(one) for one in value]
    if isinstance(value, Mapping):
        return {key: _lists(one) for key, one in value.items()}
    return value


def format_value(value: Any) -> str:
    """Returns a value as text that `parse_value` reads."""
    if value is None or isinstance(value, bool):
        return str(value).lower().replace("none", "null")
    if isinstance(value, float):
        return repr(value)
    if isinstance(value, list | tuple):
        return f"[{','.join(map(format_value, value))}]"
    if isinstance(value, Mapping):
        return "{" + ",".join(f"{key}:{format_value(one)}" for key, one in value.items()) + "}"
    return str(value)
