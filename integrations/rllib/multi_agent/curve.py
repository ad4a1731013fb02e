"""Plots the return of each policy of several agents against env steps."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

PREFIX, SUFFIX = "policy/", "/return_mean"


def policy_columns(rows: Sequence[Mapping[str, str]]) -> list[str]:
    """Returns the columns of `progress.csv` with the return of a policy; none for one agent."""
    return [name for name in (rows[0] if rows else ()) if name.startswith(PREFIX) and name.endswith(SUFFIX)]


def plot_policies(axes: Any, rows: Sequence[Mapping[str, str]], colours: Sequence[str]) -> None:
    """Plots a line for the mean return of each policy; in self-play also the rating, against an axis on the right.

    Args:
        axes: The axes of matplotlib.
        rows: Rows of `progress.csv` of one trial, as text.
        colours: The colours of the lines, in turn.
    """
    if rows and rows[0].get("elo"):
        right = axes.twinx()
        steps, ratings = [int(row["env_steps"]) for row in rows], [float(row["elo"]) for row in rows]
        right.plot(steps, ratings, color="#888888", linewidth=1.5, linestyle=(0, (4, 2)))
        right.set_ylabel("Elo (dashed)", color="#666666")
        right.spines["top"].set_visible(False)
    for index, column in enumerate(policy_columns(rows)):
        own = [row for row in rows if row[column]]
        if not own:
            continue
        steps, mean = [int(row["env_steps"]) for row in own], [float(row[column]) for row in own]
        colour = colours[index % len(colours)]
        name = column.removeprefix(PREFIX).removesuffix(SUFFIX)
        axes.plot(steps, mean, color=colour, linewidth=2, label=f"an agent of the policy {name}")
        axes.plot(steps[-1], mean[-1], "o", color=colour, markersize=5)
        axes.annotate(f"{mean[-1]:.4g}", (steps[-1], mean[-1]), xytext=(0, 8), textcoords="offset points", ha="center")
