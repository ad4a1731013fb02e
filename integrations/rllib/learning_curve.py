"""Plots the learning curves of a job: return against env steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from envoi.atomic_write import write_atomically

Rows = Sequence[Mapping[str, str]]


def plot_learning_curve(rows: Rows, path: Path, title: str, goal: float | None = None, *, ending: str = "") -> None:
    """Plots the return of each trial; for a single trial, also its standard deviation."""
    figure = Figure(figsize=(8.4, 4.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    trials: dict[str, list[Mapping[str, str]]] = {}
    for row in rows:
        trials.setdefault(row["trial"], []).append(row)
    for trial, own in trials.items():
        _plot_return(axes, own, f"C{trial}", alone=len(trials) == 1)
    if goal is not None:
        axes.axhline(goal, color="grey", linewidth=1, linestyle="--", zorder=0, label=f"goal {goal:g}")
    axes.set_title(title, loc="left", fontweight="bold", pad=22 if ending else 8)
    axes.text(0, 1.02, ending[:118], transform=axes.transAxes, color="firebrick", fontsize=8.5)
    axes.set(xlabel="env steps", ylabel="return of an episode")
    if not any(row["return_mean"] for row in rows):
        axes.text(0.5, 0.5, "no episode has ended", transform=axes.transAxes, ha="center")
    axes.set_xlim(left=0)
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.grid(axis="y", color="0.9")
    axes.spines[["top", "right"]].set_visible(False)
    if len(trials) <= 12 and axes.get_legend_handles_labels()[1]:
        axes.legend(frameon=False, fontsize=8.5)
    picture = BytesIO()
    figure.savefig(picture, format="png")
    write_atomically(path, picture.getvalue())


def _plot_return(axes: Axes, rows: Rows, colour: str, *, alone: bool) -> None:
    ended = [row for row in rows if row["return_mean"]]
    steps, mean = _series(ended, "return_mean")
    if not ended:
        return
    swept = [name for name, value in rows[0].items() if value and (name == "lr" or name.startswith("set."))]
    label = ", ".join(f"{name.removeprefix('set.')} {rows[0][name]}" for name in (*swept, "seed"))
    label = "mean of the last 100 episodes ± standard deviation" if alone else label
    axes.plot(steps, mean, color=colour, linewidth=2, label=label)
    if alone:
        std = [float(row["return_std"] or 0) for row in ended]
        # Clipped, so that the band shows no return that did not occur.
        low = [max(m - s, float(row["return_min"])) for m, s, row in zip(mean, std, ended, strict=True)]
        high = [min(m + s, float(row["return_max"])) for m, s, row in zip(mean, std, ended, strict=True)]
        axes.fill_between(steps, low, high, color=colour, alpha=0.16, linewidth=0)
    steps, evaluated = _series(rows, "evaluation_return_mean")
    if evaluated:
        label = "evaluation, without exploration" if alone else None
        axes.plot(steps, evaluated, "s--", color=colour, markersize=3, linewidth=1.2, label=label)


def _series(rows: Rows, name: str) -> tuple[list[int], list[float]]:
    """Returns the env steps and the values of a column, without rows that lack a value."""
    held = [(int(row["env_steps"]), float(row[name])) for row in rows if row.get(name)]
    return [steps for steps, _ in held], [value for _, value in held]
