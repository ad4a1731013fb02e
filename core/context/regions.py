"""Contexts for training and for being judged: the regions of Kirk et al., and ranges, grids and values as one text."""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from ..errors import ContextError
from ..seeding import check_seed
from .features import Categorical, Feature, UniformFloat, UniformInteger, is_number, plain
from .sets import load_contexts, value_of
from .space import ContextSpace

__all__ = ["ContextRanges", "Regions", "parse_contexts", "read_contexts", "regions"]

Box = dict[str, tuple[float, float]]
"""An interval for each feature."""

REGIONS = ("train", "interpolation", "combinatorial", "extrapolation_one", "extrapolation_all")
"""The names of all regions, in the order in which reports show them."""


class Regions(dict[str, dict[str, dict[str, float]]]):
    """Mapping from region names to `{id: context}`, made by `regions`.

    Args:
        contexts: The contexts by region and id.
        areas: The area (or volume) of each region, by name.
    """

    def __init__(self, contexts: Mapping[str, dict[str, dict[str, float]]], areas: Mapping[str, float]) -> None:
        super().__init__(contexts)
        self.areas = dict(areas)

    def __repr__(self) -> str:
        return f"<Regions: {', '.join(f'{len(found)} of {name}' for name, found in self.items())}>"


def regions(
    train: Mapping[str, Sequence[float]], protocol: str = "A", n: int = 100, seed: int = 0, *, space: Any = None
) -> Regions:
    """Samples training and test contexts by a protocol of Kirk et al. (2023).

    | region | A | B | C |
    |---|---|---|---|
    | `train` | the box low…mid | bars: one feature in low…constraint, the others in low…mid | lines: one feature in low…mid, the others are low |
    | `interpolation` | as `train` | as `train` | as `train` |
    | `combinatorial` | none | the box constraint…mid | the box low…mid |
    | `extrapolation_one` | one feature in mid…high, the others in low…mid | the same | the same |
    | `extrapolation_all` | the box mid…high | the same | the same |

    Contexts are divided equally over the bars or lines of a region. With a single feature, the two extrapolation
    regions cover the same range.

    Args:
        train: `(low, constraint, mid, high)` for each feature, in increasing order.
        protocol: "A", "B" or "C".
        n: The number of contexts in each region.
        seed: The seed. Increasing `n` does not change the first contexts.
        space: The features to check the contexts against: a `ContextSpace`, or an argument of its constructor.

    Returns:
        A mapping from region names to `{id: context}`. No id occurs twice, and no context is in both `interpolation`
        and `train`.

    Raises:
        ContextError: A region is empty, because the numbers of a feature do not increase or "B" or "C" has only one
            feature; or `space` rejects a context.
    """  # noqa: E501
    if protocol not in ("A", "B", "C"):
        raise ContextError(f"protocol: expected 'A', 'B' or 'C', got {protocol!r}")
    if isinstance(cast("Any", n), bool) or not isinstance(cast("Any", n), (int, np.integer)) or n < 1:
        raise ContextError(f"n: expected how many contexts a region has, at least 1, got {n!r}")
    check_seed(seed)
    bounds = _check_quantities(train)
    if protocol != "A" and len(bounds) < 2:
        region = "combinatorial"
        raise ContextError(
            f"train: protocol {protocol!r} combines features, so with {list(bounds)} alone the region {region!r} is "
            "empty; give two features or more, or protocol 'A'"
        )
    found: dict[str, dict[str, dict[str, float]]] = {}
    for place, (name, boxes) in enumerate(_boxes_of(bounds, protocol).items()):
        rng = np.random.default_rng((seed, place))
        known = [*found["train"].values()] if name == "interpolation" else []
        found[name] = {f"{name}-{i}": _sample_box(boxes[i % len(boxes)], rng, known) for i in range(n)}
    if space is not None:
        space = ContextSpace.of(space)
        for contexts in found.values():
            for key, context in contexts.items():
                space.verify(context, f"regions[{key!r}]")
    areas = _measure_areas(bounds, protocol)
    return Regions(found, {name: areas[name] for name in found})


def _check_quantities(train: Any) -> dict[str, list[float]]:
    """Returns the four numbers of each feature as floats."""
    if not isinstance(train, Mapping) or not train:
        raise ContextError(f"train: expected (low, constraint, mid, high) for each feature, got {train!r}")
    bounds: dict[str, list[float]] = {}
    for name, given in cast("Mapping[str, Any]", train).items():
        numbers: list[Any] = list(cast("Any", given)) if isinstance(given, (Sequence, np.ndarray)) else []
        if len(numbers) != 4 or not all(map(is_number, numbers)):
            raise ContextError(f"train[{name!r}]: expected four numbers (low, constraint, mid, high), got {given!r}")
        bounds[name] = [float(number) for number in numbers]
        for (before, low), (after, high) in itertools.pairwise(
            zip(("low", "constraint", "mid", "high"), bounds[name], strict=True)
        ):
            if not low < high:
                raise ContextError(
                    f"train[{name!r}]: the region between {before} and {after} is empty; expected low < constraint < "
                    f"mid < high, got {tuple(numbers)}"
                )
    return bounds


def _boxes_of(bounds: Mapping[str, Sequence[float]], protocol: str) -> dict[str, list[Box]]:
    """Returns the boxes that make up each region, in the order of `REGIONS`."""

    def box(start: int, stop: int, one: str | None = None, its: tuple[int, int] = (0, 0)) -> Box:
        """Returns a box from one to another of the four numbers of each feature; one feature may have other ends."""
        spans = {name: its if name == one else (start, stop) for name in bounds}
        return {name: (bounds[name][low], bounds[name][high]) for name, (low, high) in spans.items()}

    train = {
        "A": [box(0, 2)],
        "B": [box(0, 2, one, (0, 1)) for one in bounds],
        "C": [box(0, 0, one, (0, 2)) for one in bounds],
    }[protocol]
    combined = {"A": [], "B": [box(1, 2)], "C": [box(0, 2)]}[protocol]
    further = [box(0, 2, one, (2, 3)) for one in bounds]
    found = dict(zip(REGIONS, (train, train, combined, further, [box(2, 3)]), strict=True))
    return {name: boxes for name, boxes in found.items() if boxes}


def _sample_box(box: Box, rng: np.random.Generator, known: Sequence[dict[str, float]]) -> dict[str, float]:
    """Samples a context from a box, different from all contexts in `known`."""
    while True:
        context = {name: float(rng.uniform(low, high)) for name, (low, high) in box.items()}
        if context not in known:  # equal in all features; two contexts may well share the value of one
            return context


def _measure_areas(bounds: Mapping[str, Sequence[float]], protocol: str) -> dict[str, float]:
    def area(start: int, stop: int) -> float:
        return math.prod(numbers[stop] - numbers[start] for numbers in bounds.values())

    train = {"A": area(0, 2), "B": area(0, 2) - area(1, 2), "C": 0.0}[protocol]  # lines have no area
    one = sum(area(0, 2) / (mid - low) * (high - mid) for low, _, mid, high in bounds.values())
    return dict(zip(REGIONS, (train, train, area(1 if protocol == "B" else 0, 2), one, area(2, 3)), strict=True))


# Contexts as one text.


@dataclass(frozen=True)
class ContextRanges:
    """Ranges and values of features, as parsed by `parse_contexts`.

    Attributes:
        ranges: The features with a range, as distributions by name.
        values: The features with listed values or a grid, as lists by name.
    """

    ranges: Mapping[str, Feature]
    values: Mapping[str, Sequence[Any]]

    @property
    def cells(self) -> int:
        """The number of combinations of listed values; 1 if there are only ranges."""
        return math.prod(map(len, self.values.values()))

    @property
    def features(self) -> list[Feature]:
        """All features as distributions for `Sampled`: uniform over each range and over listed values."""
        return [*self.ranges.values(), *(Categorical(name, tuple(found)) for name, found in self.values.items())]

    def contexts(self, n: int = 100, seed: int = 0) -> dict[int, dict[str, Any]]:
        """Returns contexts with ids 0, 1, 2, …: all combinations of values, or `n` samples if a feature has a range.

        Samples cycle through the combinations of values, each used at least once.

        Args:
            n: The number of samples.
            seed: Seed of the samples.
        """
        grid = itertools.product(*self.values.values())
        cells = [dict(zip(self.values, combination, strict=True)) for combination in grid]
        if not self.ranges:
            return dict(enumerate(cells))
        rng = np.random.default_rng(check_seed(seed))
        return {
            i: {**{name: feature.sample(rng) for name, feature in self.ranges.items()}, **cells[i % len(cells)]}
            for i in range(max(n, len(cells)))
        }


def parse_contexts(text: str, space: Any = None) -> ContextRanges:
    """Parses contexts written as text.

    `length=0.3..0.7` is a range, `length=0.3..0.7:8` a grid of eight values including both ends, `length=0.3,0.5` a
    list of values. Separate features by `;`, as in `length=0.3..0.7;floor=wood,ice`.

    Args:
        text: The text.
        space: The features to check the values against: a `ContextSpace`, or an argument of its constructor.

    Raises:
        ContextError: The text is malformed, a range is empty, a feature or value occurs twice, or `space` rejects a
            value.
    """
    space = None if space is None else ContextSpace.of(space)
    ranges: dict[str, Feature] = {}
    values: dict[str, list[Any]] = {}
    for part in filter(str.strip, text.split(";")):
        name, equals, written = (word.strip() for word in part.partition("="))
        if not name or not equals or not written:
            raise ContextError(
                f"contexts: expected feature=low..high, feature=low..high:n or feature=value,value, joined by ';', got "
                f"{part.strip()!r}"
            )
        if name in ranges or name in values:
            raise ContextError(f"contexts: expected each feature once, got {name!r} twice")
        feature = None if space is None else space.subspace([name]).features[name]
        if ".." not in written:
            values[name] = [value_of(word.strip()) for word in written.split(",")]
        else:
            start, _, rest = written.partition("..")
            stop, colon, count = rest.partition(":")
            low, high = (_read_bound(word, part) for word in (start, stop))
            if not low < high:
                raise ContextError(f"contexts: {part.strip()!r} is empty; expected low < high, got {low} and {high}")
            if colon:
                values[name] = _spread(low, high, count.strip(), isinstance(feature, UniformInteger), part)
            else:
                uniform = UniformInteger if isinstance(feature, UniformInteger) else UniformFloat
                ranges[name] = uniform(name, low, high)
                if space is not None:
                    space.distributions([ranges[name]])
        found = values.get(name, [])
        if len({repr(value) for value in found}) < len(found):
            raise ContextError(f"contexts: {part.strip()!r} has a value twice")
        if space is not None:
            for value in found:
                space.verify({name: value}, "contexts")
    if not ranges and not values:
        raise ContextError("contexts: expected a file, or features such as length=0.3..0.7, got an empty text")
    return ContextRanges(ranges, values)


def _read_bound(word: str, part: str) -> Any:
    number = value_of(word.strip())
    if not is_number(number):
        raise ContextError(f"contexts: {part.strip()!r}: expected a finite number on each side of '..', got {word!r}")
    return number


def _spread(low: float, high: float, count: str, is_integer: bool, part: str) -> list[Any]:
    """Returns `count` evenly spaced values from low to high, including both."""
    if not count.isdecimal() or not 2 <= int(count) <= 10**6:
        raise ContextError(f"contexts: {part.strip()!r}: expected how many values, from 2 to a million, got {count!r}")
    values = [plain(value) for value in np.linspace(low, high, int(count))]
    return [round(value) for value in values] if is_integer else values


def read_contexts(text: str | os.PathLike[str], space: Any = None) -> ContextRanges | dict[Any, dict[str, Any]]:
    """Reads contexts from a file (see `load_contexts`), or parses them from text (see `parse_contexts`).

    Args:
        text: The path of a file, or ranges, grids and values such as `length=0.3..0.7`.
        space: The features to check the contexts against: a `ContextSpace`, or an argument of its constructor.

    Raises:
        ContextError: See `load_contexts` and `parse_contexts`.
    """
    if isinstance(text, str) and ("=" in text or "." not in text) and not os.path.exists(text):  # noqa: PTH110 (no path)
        return parse_contexts(text, space)
    return load_contexts(text, space=space)
