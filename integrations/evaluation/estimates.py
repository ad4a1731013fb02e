"""Statistics over seeds and contexts with bootstrap intervals, as rliable 1.2 computes them.

Scores have the shape (seeds, contexts). Each interval takes its resamples from a fresh `RandomState(seed)`: every cell
of a resample takes its own seed of the same context.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Scores = NDArray[np.float64]
Figure = Callable[[Scores], Any]

_CELLS = 10_000_000
"""Cells of resamples that are held at a time."""


def interquartile_mean(scores: Scores) -> Any:
    """Returns the mean of the scores of all seeds and contexts, without the lowest and the highest quarter.

    A quarter is rounded down to whole scores, as in `scipy.stats.trim_mean`. Leading axes are resamples.
    """
    flat = np.sort(scores.reshape(*scores.shape[:-2], -1), axis=-1)
    cut = flat.shape[-1] // 4
    return flat[..., cut : flat.shape[-1] - cut].mean(-1)


def mean(scores: Scores) -> Any:
    """Averages scores over seeds, then over contexts."""
    return scores.mean(-2).mean(-1)


def median(scores: Scores) -> Any:
    """Averages scores over seeds; returns the median of these means over contexts."""
    return np.median(scores.mean(-2), axis=-1)


def optimality_gap(scores: Scores) -> Any:
    """Returns the mean distance of scores below 1; scores above 1 count as 1."""
    return 1.0 - np.minimum(scores, 1.0).mean((-2, -1))


def share_above(levels: Scores) -> Figure:
    """Returns a function that computes the share of scores above each level."""

    def share(scores: Scores) -> Any:
        above = [(scores > level).mean((-2, -1)) for level in levels]
        return np.stack(above, axis=-1)

    return share


def interval(figure: Figure, scores: Scores, seed: int, resamples: int) -> tuple[Any, Any]:
    """Returns the ends of a statistic's 95 % interval: percentiles of its values in stratified resamples."""
    runs, tasks = scores.shape
    random, found = np.random.RandomState(seed), list[Any]()
    for start in range(0, resamples, at_once := max(1, _CELLS // scores.size)):
        rows = random.randint(0, runs, (min(at_once, resamples - start), runs, tasks))
        found.append(figure(scores[rows, np.arange(tasks)]))
    return _ends(np.concatenate(found))


def interval_of_mean(values: Scores, seed: int, resamples: int) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of the mean of one value per seed."""
    return interval(mean, values[:, None], seed, resamples)


def _ends(values: Scores) -> tuple[Any, Any]:
    low, high = np.percentile(values, [2.5, 97.5], axis=0).tolist()
    return low, high


def probability_of_improvement(x: Scores, y: Scores) -> float:
    """Returns the probability that x is better than y in a random context; ties count half."""
    one, other = x[..., :, None, :], y[..., None, :, :]
    return float(((one > other).mean((-3, -2)) + 0.5 * (one == other).mean((-3, -2))).mean(-1))


def interval_of_improvement(x: Scores, y: Scores, seed: int, resamples: int) -> tuple[float, float]:
    """Returns the ends of the 95 % interval of `probability_of_improvement`. Resamples first x, then y."""
    random = np.random.RandomState(seed)

    def resample(scores: Scores) -> Scores:
        return scores[random.randint(0, len(scores), scores.shape), np.arange(scores.shape[1])]

    return _ends(np.array([probability_of_improvement(resample(x), resample(y)) for _ in range(resamples)]))
