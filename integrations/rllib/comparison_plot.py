"""Plots the curves of several runs in one picture."""

from __future__ import annotations

from pathlib import Path
from textwrap import fill

from .comparison import Comparison, Group
from .figure_style import COLOURS, new_figure, save, style_axes

STYLES = ("-", (0, (5, 2)), (0, (1, 1.2)), (0, (6, 2, 1, 2)))

LONG = 40
"""Characters of a label that would cover the curves; the legend is then below them."""


def plot_comparison(comparison: Comparison, path: Path) -> None:
    """Plots the IQM of each group against env steps, with its 95 % interval.

    Args:
        comparison: The groups.
        path: The PNG file, which is replaced as a whole.
    """
    groups = comparison.groups
    figure = new_figure(8.8, 5.0)
    axes = figure.add_subplot()
    for index, group in enumerate(groups):
        colour, style = COLOURS[index % len(COLOURS)], STYLES[index // len(COLOURS) % len(STYLES)]
        if len(group.seeds) > 1:
            axes.fill_between(group.steps, group.low, group.high, color=colour, alpha=0.15, linewidth=0)
        axes.plot(group.steps, group.iqm, color=colour, linewidth=2, linestyle=style, label=_label(group))
        axes.plot(group.steps[-1], group.iqm[-1], "o", color=colour, markersize=4.5)
    envs = list(dict.fromkeys(group.env for group in groups))
    axes.set_title(fill(" and ".join(envs), 80), loc="left", fontsize=12, fontweight="bold")
    axes.set_xlabel("env steps")
    several = any(len(group.seeds) > 1 for group in groups)
    axes.set_ylabel("return: IQM over seeds, 95 % interval" if several else "mean return of the last 100 episodes")
    style_axes(axes)
    if max(len(group.label) for group in groups) > LONG:
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(0.0, -0.12))
    elif len(groups) > 6:
        axes.legend(frameon=False, fontsize=8, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    else:
        axes.legend(frameon=False, fontsize=8.5, loc="best")
    save(figure, path)


def _label(group: Group) -> str:
    label = f"{group.label} ({len(group.seeds)} seeds)" if len(group.seeds) > 1 else group.label
    return fill(label, 110, break_long_words=False)
