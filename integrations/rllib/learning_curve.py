"""Plots the learning curves of a job: return against env steps."""

from __future__ import annotations

import math
import textwrap
from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from envoi.atomic_write import write_atomically

Rows = Sequence[Mapping[str, str]]
COLOURS = ("#2c6fbb", "#d1495b", "#3a9d6e", "#e09f3e", "#7b5ea7", "#4f8a8b", "#a0522d", "#666666")
GREY, FADED = "#666666", "#c4c4c4"


def plot_learning_curve(rows: Rows, path: Path, title: str, goal: float | None = None, *, ending: str = "") -> None:
    """Plots the return of each trial; for a single trial, also its standard deviation."""
    figure = Figure(figsize=(8.4, 4.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    trials: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        trials.setdefault(row["trial"], []).append(row)
    colours = _colours(trials)
    for trial, own in trials.items():
        _plot_return(axes, own, colours[trial], alone=len(trials) == 1)
    if goal is not None:
        axes.axhline(goal, color="#888888", linewidth=1, linestyle=(0, (5, 4)), zorder=0, label=f"goal {goal:g}")
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold", pad=22 if ending else 8)
    if ending:
        shown = textwrap.shorten(ending, 118, placeholder=" …")
        axes.text(0, 1.02, shown, transform=axes.transAxes, color="#b03a2e", fontsize=8.5)
    axes.set_xlabel("env steps")
    axes.set_ylabel("return of an episode")
    if not any(row["return_mean"] for row in rows):
        axes.text(0.5, 0.5, "no episode has ended", transform=axes.transAxes, ha="center", color=GREY)
    elif axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, loc="best", fontsize=8.5)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.tick_params(labelsize=9.5, colors="#444444")
    axes.set_xlim(left=0)
    axes.margins(x=0.03)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")
    picture = BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue())


def _colours(trials: Mapping[str, Rows]) -> dict[str, str]:
    """Returns a colour for each trial. If there are more trials than colours, only the best one gets a colour."""
    if len(trials) <= len(COLOURS):
        return dict(zip(trials, COLOURS, strict=False))
    best = max(trials, key=lambda trial: max(_series(trials[trial], "return_mean")[1], default=-math.inf))
    return {trial: COLOURS[0] if trial == best else FADED for trial in trials}


def _plot_return(axes: Axes, rows: Rows, colour: str, *, alone: bool) -> None:
    steps, mean = _series(rows, "return_mean")
    if not steps:
        return
    swept = [name for name, value in rows[0].items() if value and (name == "lr" or name.startswith("set."))]
    label = ", ".join(f"{name.removeprefix('set.')} {_short(rows[0][name])}" for name in (*swept, "seed"))
    label = "mean of the last 100 episodes ± standard deviation" if alone else label
    style: dict[str, Any] = {"linewidth": 1.2, "zorder": 1} if colour == FADED else {"linewidth": 2, "label": label}
    axes.plot(steps, mean, color=colour, **style)
    if alone:
        ended = [row for row in rows if row["return_mean"]]
        std = [float(row["return_std"] or 0) for row in ended]
        # Clipped, so that the band shows no return that did not occur.
        low = [max(m - s, float(row["return_min"])) for m, s, row in zip(mean, std, ended, strict=True)]
        high = [min(m + s, float(row["return_max"])) for m, s, row in zip(mean, std, ended, strict=True)]
        axes.fill_between(steps, low, high, color=colour, alpha=0.16, linewidth=0)
        axes.plot(steps[-1], mean[-1], "o", color=colour, markersize=4.5)
        axes.annotate(f"{mean[-1]:.4g}", (steps[-1], mean[-1]), xytext=(0, 8), textcoords="offset points", ha="center")
    steps, evaluated = _series(rows, "evaluation_return_mean")
    if evaluated:
        label = "evaluation, without exploration" if alone else None
        axes.plot(steps, evaluated, color=colour, linewidth=1.2, linestyle="--", marker="s", markersize=3, label=label)


def _series(rows: Rows, name: str) -> tuple[list[int], list[float]]:
    """Returns the env steps and the values of a column, without rows that lack a value."""
    held = [(int(row["env_steps"]), float(row[name])) for row in rows if row.get(name)]
    return [steps for steps, _ in held], [value for _, value in held]


def _short(value: str) -> str:
    try:
        return f"{float(value):.3g}"
    except ValueError:
        return value
