"""Plots the learning curves of a job: return against env steps, with episode length and losses below."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib import colormaps
from matplotlib.axes import Axes
from matplotlib.cm import ScalarMappable
from matplotlib.colors import LogNorm, Normalize, to_hex
from matplotlib.figure import Figure

from .figure_style import COLOURS, GREY, finite, new_figure, save, style_axes
from .multi_agent.curve import plot_policies, policy_columns

Rows = Sequence[Mapping[str, str]]
LABELLED = 8
"""Most trials that a legend names; more are distinguished by a colour bar, or only the best is named."""
PANELS = ("loss/policy_loss", "loss/vf_loss", "loss/entropy", "loss/qf_loss", "loss/total_loss")
"""Losses that small panels show, as many as there are, the first of them first."""


@dataclass(frozen=True)
class _Line:
    """How a trial is drawn in each panel of the picture."""

    rows: Rows
    label: str
    colour: str
    width: float
    order: int = 0


def plot_learning_curve(rows: Rows, path: Path, title: str, goal: float | None = None, *, ending: str = "") -> None:
    """Plots the learning curve of each trial; of a single one with the standard deviation around it.

    Of one trial of several agents, there is a line for the mean return of each policy instead.

    The band is clipped to the smallest and largest return, so that it shows none that did not occur.

    Args:
        rows: Rows of `progress.csv`, as text.
        path: The PNG file, which is replaced as a whole.
        title: The title, such as "PPO on envoi:catch".
        goal: The mean return that stops the job, plotted as a line; None for no line.
        ending: Why the job ended, where it is not done.
    """
    panels = ["length_mean", *[name for name in PANELS if any(row.get(name) for row in rows)][:3]]
    figure = new_figure(8.4, 6.4)
    grid = figure.add_gridspec(2, len(panels), height_ratios=(3.4, 1))
    main = figure.add_subplot(grid[0, :])
    lines = _lines(rows, figure, main)
    if len(lines) == 1 and policy_columns(rows):
        plot_policies(main, rows, COLOURS)
    else:
        for line in lines:
            _plot_return(main, line, alone=len(lines) == 1)
    if goal is not None:
        main.axhline(goal, color="#888888", linewidth=1, linestyle=(0, (5, 4)), zorder=0)
        main.annotate(
            f"goal {goal:g}", (0, goal), xycoords=("axes fraction", "data"),
            xytext=(6, 4), textcoords="offset points", color=GREY, fontsize=9,
        )  # fmt: skip
    main.set_title(title, loc="left", fontsize=12, fontweight="bold", pad=22 if ending else 8)
    if ending:
        shown = textwrap.shorten(ending, 118, placeholder=" …")
        main.annotate(
            shown, (0, 1), xycoords="axes fraction", xytext=(0, 7), textcoords="offset points",
            color="#b03a2e", fontsize=8.5,
        )  # fmt: skip
    main.set_xlabel("env steps")
    main.set_ylabel("return of an episode")
    style_axes(main)
    handles, labels = main.get_legend_handles_labels()
    if labels:
        order = [line.label for line in sorted(lines, key=lambda line: line.order)]
        pairs = sorted(
            zip(handles, labels, strict=True), key=lambda pair: order.index(pair[1]) if pair[1] in order else len(order)
        )
        main.legend(*zip(*pairs, strict=True), frameon=False, loc="best", fontsize=8.5)
    elif not any(row["return_mean"] for row in rows):
        main.text(0.5, 0.5, "no episode has ended", transform=main.transAxes, ha="center", color=GREY)
    for index, name in enumerate(panels):
        axes = figure.add_subplot(grid[1, index])
        axes.set_title(_panel_title(name), fontsize=8.5, loc="left", color="#444444")
        for line in lines:
            _plot_series(axes, line, name)
        if name == "length_mean":
            _widen(axes)
        style_axes(axes, small=True)
    save(figure, path)


def _panel_title(name: str) -> str:
    titles = {"length_mean": "episode length", "loss/vf_loss": "value loss", "loss/qf_loss": "Q loss"}
    return titles.get(name, name.removeprefix("loss/").replace("_", " "))


def _lines(rows: Rows, figure: Figure, axes: Axes) -> list[_Line]:
    """Returns the line of each trial in the plot, with a label, or by the colour bar of what the sweep samples."""
    of_trial: dict[int, list[Mapping[str, str]]] = {}
    for row in rows:
        of_trial.setdefault(int(row["trial"]), []).append(row)
    trials = dict(sorted(of_trial.items()))
    if len(trials) < 2:
        return [
            _Line(own, "mean of the last 100 episodes ± standard deviation", COLOURS[0], 2.0) for own in trials.values()
        ]
    settings = {trial: _settings(own[0]) for trial, own in trials.items()}
    varied = [name for name in next(iter(settings.values())) if len({own[name] for own in settings.values()}) > 1]
    if len(trials) > LABELLED and varied and (numbers := _numbers(settings, varied[0])):
        return _by_colour_bar(trials, numbers, varied[0], figure, axes)
    best = max(trials, key=lambda trial: max([-math.inf, *_returns(trials[trial])]))
    groups = list(dict.fromkeys(tuple(own[name] for name in varied) for own in settings.values()))
    numbers = _numbers(settings, varied[0]) if varied else {}
    ranks = {trial: rank for rank, trial in enumerate(sorted(trials, key=lambda trial: (numbers.get(trial, 0), trial)))}
    lines: list[_Line] = []
    for trial, own in trials.items():
        parts = [f"{_short(name)} {_rounded(settings[trial][name])}" for name in varied]
        if len(groups) < len(trials):
            parts.append(f"seed {own[0]['seed']}")
        named = len(trials) <= LABELLED or trial == best
        label = (", ".join(parts) if len(trials) <= LABELLED else f"best: {', '.join(parts)}") if named else ""
        place = groups.index(tuple(settings[trial][name] for name in varied)) if 1 < len(groups) <= LABELLED else trial
        colour = COLOURS[place % len(COLOURS)] if named or len(groups) <= LABELLED else "#c4c4c4"
        lines.append(_Line(own, label, colour, 2.2 if trial == best else 1.4, ranks[trial]))
    return sorted(lines, key=lambda line: line.width)  # the best one last, so on top


def _by_colour_bar(
    trials: Mapping[int, Rows], numbers: Mapping[int, float], name: str, figure: Figure, axes: Axes
) -> list[_Line]:
    low, high = min(numbers.values()), max(numbers.values())
    scale = LogNorm(low, high) if low > 0 and high / low > 20 else Normalize(low, high)
    colours = ScalarMappable(scale, colormaps["viridis"])
    figure.colorbar(colours, ax=axes, pad=0.01, aspect=35).set_label(_short(name), fontsize=9)
    shades = colours.to_rgba(np.array([numbers[trial] for trial in trials]))
    return [_Line(own, "", to_hex(shade), 1.5) for own, shade in zip(trials.values(), shades, strict=True)]


def _settings(row: Mapping[str, str]) -> dict[str, str]:
    """Returns what the sweep has set for a trial, by column."""
    return {name: value for name, value in row.items() if name == "lr" or name.startswith("set.")}


def _numbers(settings: Mapping[int, Mapping[str, str]], name: str) -> dict[int, float]:
    """Returns the values of a setting by trial; none if one of them is no number."""
    try:
        return {trial: float(own[name]) for trial, own in settings.items()}
    except ValueError:
        return {}


def _short(column: str) -> str:
    return column.removeprefix("set.").rpartition(".")[2]


def _rounded(value: str) -> str:
    try:
        return f"{float(value):.3g}"
    except ValueError:
        return value or "default"


def _returns(rows: Rows) -> list[float]:
    return [float(row["return_mean"]) for row in rows if row["return_mean"]]


def _plot_return(axes: Axes, line: _Line, *, alone: bool) -> None:
    rows = [row for row in line.rows if row["return_mean"]]
    if not rows:
        return
    steps, mean = _steps(rows), finite([row["return_mean"] for row in rows])
    if alone:
        std = finite([row["return_std"] for row in rows])
        low = [max(m - s, float(row["return_min"])) for m, s, row in zip(mean, std, rows, strict=True)]
        high = [min(m + s, float(row["return_max"])) for m, s, row in zip(mean, std, rows, strict=True)]
        axes.fill_between(steps, low, high, color=line.colour, alpha=0.16, linewidth=0)
        axes.annotate(
            f"{mean[-1]:.4g}", (steps[-1], mean[-1]), xytext=(0, 8), textcoords="offset points", ha="center", fontsize=9
        )
    axes.plot(*_broken(steps, mean), color=line.colour, linewidth=line.width, label=line.label or None)
    axes.plot(steps[-1], mean[-1], "o", color=line.colour, markersize=4.5)
    evaluated = [row for row in line.rows if row.get("evaluation_return_mean")]
    if evaluated:
        returns = finite([row["evaluation_return_mean"] for row in evaluated])
        axes.plot(
            _steps(evaluated), returns, color=line.colour, linewidth=1.2, linestyle=(0, (3, 2)), marker="s",
            markersize=3, markerfacecolor="white", label="evaluation, without exploration" if alone else None,
        )  # fmt: skip


def _plot_series(axes: Axes, line: _Line, name: str) -> None:
    rows = [row for row in line.rows if row.get(name)]
    if rows:
        marker = "." if len(rows) == 1 else None
        values = finite([row[name] for row in rows])
        axes.plot(*_broken(_steps(rows), values), color=line.colour, linewidth=line.width * 0.6, marker=marker)


def _widen(axes: Axes) -> None:
    """Widens the axis of a nearly constant series, so that its noise does not look like a course."""
    low, high = axes.get_ylim()
    middle, least = (low + high) / 2, 0.1 * max(abs(low), abs(high))
    if high - low < least:
        axes.set_ylim(middle - least / 2, middle + least / 2)


def _broken(steps: Sequence[int], values: Sequence[float]) -> tuple[list[float], list[float]]:
    """Returns a series with a gap wherever a trial has stepped back, to the checkpoint of another."""
    xs, ys = list[float](), list[float]()
    for step, value in zip(steps, values, strict=True):
        if xs and step <= xs[-1]:
            xs.append(math.nan)
            ys.append(math.nan)
        xs.append(step)
        ys.append(value)
    return xs, ys


def _steps(rows: Rows) -> list[int]:
    return [int(row["env_steps"]) for row in rows]
