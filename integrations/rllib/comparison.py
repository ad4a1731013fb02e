"""Compares runs: trials of the same settings are seeds of one curve, with the IQM and an interval of them.

The interquartile mean and the bootstrap over runs are those of Agarwal et al., "Deep Reinforcement Learning at the Edge
of the Statistical Precipice", 2021.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import envoi

from .run_folder import RunFolder
from .search_space import format_value
from .settings import Settings
from .sweep import Trial
from .trial_state import TrialState

POINTS = 200
"""Points of a curve."""
RESAMPLES = 2000
"""Resamples of the bootstrap."""
IGNORED = frozenset(
    {"seed", "samples", "lr", "set", "scheduler", "stop_return", "stop_steps", "stop_minutes", "address", "track"}
    | {"evaluate_every", "trials", "env", "algo", "step_timeout", "max_env_restarts", "check_specs", "gpus"}
)
"""Settings that two runs may differ by and still train in the same way, or that a group has by another name."""
_DEFAULTS = {one.name: one.default for one in fields(Settings) if one.default is not MISSING}


@dataclass(frozen=True)
class Interval:
    """An interquartile mean over seeds.

    Args:
        iqm: The mean of the middle half of the values; of fewer than four values their mean.
        low: Lower end of the 95 % bootstrap interval; None for one seed.
        high: Its upper end.
    """

    iqm: float
    low: float | None
    high: float | None

    def __str__(self) -> str:
        if self.low is None or self.high is None:
            return f"{self.iqm:.4g}"
        return f"{self.iqm:.4g} [{self.low:.4g}, {self.high:.4g}]"


@dataclass(frozen=True)
class Group:
    """Trials of the same settings.

    Args:
        label: What tells it from the other groups.
        env: Name of the env.
        algo: Name of the algorithm.
        runs: Folders of its trials.
        seeds: Seed of each trial.
        steps: Env steps of the curve, shape [points].
        iqm: Interquartile mean of the mean returns at each of them, shape [points].
        low: Lower end of the 95 % interval, shape [points]; the IQM for one seed.
        high: Its upper end.
        final: The return at the last of these steps.
        common: The return at the last step that all groups have reached; None if this one ends before it begins.
    """

    label: str
    env: str
    algo: str
    runs: tuple[str, ...]
    seeds: tuple[int, ...]
    steps: NDArray[np.float64]
    iqm: NDArray[np.float64]
    low: NDArray[np.float64]
    high: NDArray[np.float64]
    final: Interval
    common: Interval | None


@dataclass(frozen=True)
class Comparison:
    """The groups of several runs.

    Args:
        groups: The groups, the best last return first.
        common_steps: Env steps that all groups have reached.
    """

    groups: tuple[Group, ...]
    common_steps: int

    def to_dict(self) -> dict[str, Any]:
        """Returns the groups as plain values for JSON, with their curves."""
        return {
            "common_steps": self.common_steps,
            "groups": [
                {
                    "label": group.label,
                    "env": group.env,
                    "algo": group.algo,
                    "runs": list(group.runs),
                    "seeds": list(group.seeds),
                    "final": vars(group.final),
                    "common": None if group.common is None else vars(group.common),
                    "curve": {
                        "env_steps": [round(step) for step in group.steps.tolist()],
                        "iqm": group.iqm.tolist(),
                        "low": group.low.tolist(),
                        "high": group.high.tolist(),
                    },
                }
                for group in self.groups
            ],
        }


@dataclass(frozen=True)
class _Curve:
    """The mean returns of a trial, which hold on after its goal is reached."""

    run: str
    seed: int
    steps: NDArray[np.float64]
    returns: NDArray[np.float64]
    reached_goal: bool

    def at(self, steps: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.interp(steps, self.steps, self.returns)


def compare_runs(folders: Sequence[str | Path], *, seed: int = 0) -> Comparison:
    """Compares the runs in several folders.

    Args:
        folders: Output folders of `envoi train`.
        seed: Seed of the bootstrap.

    Raises:
        envoi.EnvoiError: A folder holds no run, or no episode has ended in any.
    """
    curves: dict[tuple[Any, ...], list[_Curve]] = {}
    for folder in dict.fromkeys(Path(folder).expanduser() for folder in folders):
        run = RunFolder(folder)
        settings = run.read_settings()
        for trial, curve in _curves(run, settings):
            curves.setdefault(_key(settings, trial), []).append(curve)
    if not curves:
        raise envoi.EnvoiError(f"no episode has ended yet in {', '.join(map(str, folders))}")
    ends = {key: _end(own) for key, own in curves.items()}
    common = min(ends.values())
    labels = _labels(curves)
    rng = np.random.default_rng(seed)
    groups = [_group(labels[key], key, own, ends[key], common, rng) for key, own in curves.items()]
    return Comparison(tuple(sorted(groups, key=lambda group: -group.final.iqm)), round(common))


def _curves(run: RunFolder, settings: Settings) -> list[tuple[Trial, _Curve]]:
    states, found = run.read_state(settings), list[tuple[Trial, _Curve]]()
    rows = run.read_progress()
    for trial in settings.trials:
        own = [row for row in rows if int(row["trial"]) == trial.index and row["return_mean"]]
        if not own:
            continue
        steps = np.array([float(row["env_steps"]) for row in own])
        forward = np.append(np.diff(steps) > 0, True)  # population based training steps back
        returns = np.array([float(row["return_mean"]) for row in own])
        state = states.get(trial.index, TrialState())
        goal = state.reached is not None and state.reached.startswith("mean return")
        found.append((trial, _Curve(str(run.path), trial.seed, *_rising(steps, returns, forward), goal)))
    return found


def _rising(
    steps: NDArray[np.float64], returns: NDArray[np.float64], forward: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns a curve over steps that rise; of steps that a trial repeated, the last."""
    if forward.all():
        return steps, returns
    last = {float(step): float(value) for step, value in zip(steps, returns, strict=True)}
    ordered = sorted(last)
    return np.array(ordered), np.array([last[step] for step in ordered])


def _key(settings: Settings, trial: Trial) -> tuple[Any, ...]:
    """Returns what two trials that are seeds of each other share."""
    stored = settings.to_dict().items()
    others = {name: value for name, value in stored if name not in IGNORED and value != _DEFAULTS.get(name)}
    if settings.scheduler == "pbt":  # which changes settings while it trains
        others["scheduler"] = "pbt"
    overrides = {name: format_value(value) for name, value in sorted(trial.overrides.items())}
    return settings.env, settings.algo, tuple(overrides.items()), tuple((n, str(v)) for n, v in sorted(others.items()))


def _end(curves: Sequence[_Curve]) -> float:
    """Returns the last step at which the group has all its trials, of which those at their goal stay there."""
    open_ended = [curve.steps[-1] for curve in curves if not curve.reached_goal]
    return float(min(open_ended) if open_ended else max(curve.steps[-1] for curve in curves))


def _group(
    label: str, key: tuple[Any, ...], curves: Sequence[_Curve], end: float, common: float, rng: np.random.Generator
) -> Group:
    begin = max(curve.steps[0] for curve in curves)
    steps = np.linspace(min(begin, end), end, POINTS)
    values = np.stack([curve.at(steps) for curve in curves])
    iqm, low, high = _interval(values, rng)
    at_common = None if common < begin else _single(np.stack([curve.at(np.array([common])) for curve in curves]), rng)
    return Group(
        label, key[0], key[1], tuple(dict.fromkeys(curve.run for curve in curves)),
        tuple(curve.seed for curve in curves), steps, iqm, low, high, _single(values[:, -1:], rng), at_common,
    )  # fmt: skip


def _single(values: NDArray[np.float64], rng: np.random.Generator) -> Interval:
    iqm, low, high = (float(one[0]) for one in _interval(values, rng))
    return Interval(iqm, None, None) if len(values) == 1 else Interval(iqm, low, high)


def _interval(
    values: NDArray[np.float64], rng: np.random.Generator
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Returns the IQM over the first axis, and the ends of its 95 % percentile bootstrap interval.

    Args:
        values: Shape [seeds, points].
        rng: Source of randomness.
    """
    count = len(values)
    iqm = interquartile_mean(values)
    if count == 1:
        return iqm, iqm, iqm
    chosen = rng.integers(count, size=(RESAMPLES, count))
    resampled = np.stack([interquartile_mean(values[one]) for one in chosen])
    low, high = np.percentile(resampled, [2.5, 97.5], axis=0)
    return iqm, low, high


def interquartile_mean(values: NDArray[np.float64]) -> NDArray[np.float64]:
    """Returns the mean over the first axis without the lowest and the highest quarter, each rounded down."""
    cut = len(values) // 4
    return np.mean(np.sort(values, axis=0)[cut : len(values) - cut], axis=0)


def _labels(curves: Mapping[tuple[Any, ...], Sequence[_Curve]]) -> dict[tuple[Any, ...], str]:
    """Returns a label of each group: the name of its run, and the settings that tell it from others."""
    runs = {key: tuple(dict.fromkeys(curve.run for curve in own)) for key, own in curves.items()}
    folders = {run for own in runs.values() for run in own}
    short = {run: Path(run).name for run in folders}
    names = short if len(set(short.values())) == len(folders) else {run: run for run in folders}
    facts = {key: {"env": key[0], "algo": key[1], **dict(key[2]), **dict(key[3])} for key in curves}
    labels: dict[tuple[Any, ...], str] = {}
    for key, own in runs.items():
        # Of a run of its own only what differs inside of that run; else what differs from any group.
        rivals = [facts[other] for other in runs if len(own) > 1 or runs[other] == own]
        known = dict.fromkeys(name for one in rivals for name in one)
        varied = [name for name in known if len({one.get(name) for one in rivals}) > 1 and name in facts[key]]
        parts = [_fact(name, facts[key][name]) for name in varied]
        if len(own) == 1 and len(folders) > 1:
            labels[key] = f"{names[own[0]]}: {', '.join(parts)}" if parts else names[own[0]]
        else:
            labels[key] = ", ".join(parts) or f"{key[1]} on {key[0]}"
    return labels


def _fact(name: str, value: str) -> str:
    if name in ("env", "algo"):
        return value
    if value.lstrip("-").isdigit():
        return f"{name}={int(value):,}"
    try:
        return f"{name}={float(value):.3g}"
    except ValueError:
        return f"{name}={value}"
