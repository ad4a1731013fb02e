"""Plots the learning curve of a training job: return against env steps."""

from __future__ import annotations

import uuid
from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from .multi_agent.curve import plot_policies, policy_columns

_COLOURS = ("#2c6fbb", "#d1495b", "#3a9d6e", "#e09f3e", "#7b5ea7", "#4f8a8b", "#a0522d", "#666666")


def plot_learning_curve(rows: Sequence[Mapping[str, str]], path: Path, title: str, goal: float | None = None) -> None:
    """Plots the learning curve of each trial: the mean return, and one standard deviation around it.

    Of one trial of several agents, there is a line for the mean return of each policy instead.

    The band is clipped to the smallest and largest return, so that it shows none that did not occur.

    Args:
        rows: Rows of `progress.csv`, as text.
        path: The PNG file, which is replaced as a whole.
        title: The title, such as "PPO on envoi:catch".
        goal: The mean return that stops the job, plotted as a line; None for no line.
    """
    figure = Figure(figsize=(8.4, 4.8), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    rate_of = {int(row["trial"]): row["lr"] for row in rows}
    trials = sorted(rate_of, key=lambda trial: (float(rate_of[trial] or 0), trial))
    shown = [row for row in rows if row["return_mean"]]
    rates = list(dict.fromkeys(rate_of[trial] for trial in trials))
    if len(trials) == 1 and policy_columns(rows):
        plot_policies(axes, shown, _COLOURS)
        trials = []
    for trial in trials:
        own = [row for row in shown if int(row["trial"]) == trial]
        if not own:
            continue
        # Colours tell the learning rates of a sweep apart, or its trials where only the seeds differ.
        colour = _COLOURS[(rates.index(own[0]["lr"]) if len(rates) > 1 else trial) % len(_COLOURS)]
        steps = [int(row["env_steps"]) for row in own]
        mean = [float(row["return_mean"]) for row in own]
        std = [float(row["return_std"]) for row in own]
        low = [max(m - s, float(row["return_min"])) for m, s, row in zip(mean, std, own, strict=True)]
        high = [min(m + s, float(row["return_max"])) for m, s, row in zip(mean, std, own, strict=True)]
        axes.fill_between(steps, low, high, color=colour, alpha=0.16 if len(trials) == 1 else 0.08, linewidth=0)
        axes.plot(steps, mean, color=colour, linewidth=2, label=_label(own[0], len(trials), len(rates)))
        axes.plot(steps[-1], mean[-1], "o", color=colour, markersize=5)
        if len(trials) == 1:
            axes.annotate(
                f"{mean[-1]:.4g}",
                (steps[-1], mean[-1]),
                xytext=(0, 8),
                textcoords="offset points",
                ha="center",
            )
    if goal is not None:
        axes.axhline(goal, color="#888888", linewidth=1, linestyle=(0, (5, 4)), zorder=0)
        axes.annotate(
            f"goal {goal:g}", (0, goal), xycoords=("axes fraction", "data"),
            xytext=(6, 4), textcoords="offset points", color="#666666", fontsize=9,
        )  # fmt: skip
    axes.set_title(title, loc="left", fontsize=12, fontweight="bold")
    axes.set_xlabel("env steps")
    axes.set_ylabel("return of an episode")
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.set_xlim(left=0)
    axes.margins(x=0.07)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if shown:
        axes.legend(frameon=False, loc="lower right", fontsize=9)
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    figure.savefig(temporary, format="png")
    temporary.replace(path)


def _label(row: Mapping[str, str], trials: int, rates: int) -> str:
    if trials == 1:
        return "mean of the last 100 episodes ± standard deviation"
    rate = f"lr {float(row['lr']):g}, " if rates > 1 else ""
    return f"{rate}seed {row['seed']}"
