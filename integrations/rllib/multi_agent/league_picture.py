"""Plots a league: how often each version beats each other one, and their ratings."""

from __future__ import annotations

import io
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter

from envoi.atomic_write import write_atomically

MOST = 24
"""The most versions in a picture; of more, those at equal distances are chosen."""


def plot_league(described: Mapping[str, Any], path: Path, title: str) -> None:
    """Plots a matrix with the points of each version (row) against each other one (column), and a bar of its rating.

    Args:
        described: A league, as `League.describe` gives it.
        path: The PNG file, which is replaced as a whole.
        title: The title, such as "PPO on envoi:nim".
    """
    everyone = described["versions"]
    chosen = np.unique(np.linspace(0, len(everyone) - 1, min(MOST, len(everyone))).round().astype(int))
    versions = [everyone[index] for index in chosen]
    games, points = (np.array(described[name], float)[np.ix_(chosen, chosen)] for name in ("games", "points"))
    shares = np.divide(points, games, out=np.full_like(points, np.nan), where=games > 0)
    count = len(versions)

    figure = Figure(figsize=(4.6 + 0.36 * count, 2.2 + 0.33 * count), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    matrix, bars = figure.subplots(1, 2, width_ratios=(max(count, 5), 5), sharey=True)
    matrix.set_facecolor("#f2f2f2")  # of pairs that have not met
    image = matrix.imshow(shares, cmap="RdYlBu", vmin=0, vmax=1, aspect="auto")
    matrix.set_xticks(range(count), [str(version["version"]) for version in versions], fontsize=8)
    steps = EngFormatter(places=1, sep="")
    frozen_at = [f", {steps(version['env_steps'])} steps" if version["env_steps"] else "" for version in versions]
    names = [f"{version['version']}  {version['name']}" for version in versions]
    matrix.set_yticks(range(count), list(map("".join, zip(names, frozen_at, strict=True))), fontsize=8)
    matrix.set_xlabel("against version")
    matrix.tick_params(length=0)
    if count <= 14:
        for row, column in zip(*np.nonzero(games), strict=True):
            share = shares[row, column]
            colour = "white" if abs(share - 0.5) > 0.35 else "black"
            matrix.text(column, row, f"{100 * share:.0f}", ha="center", va="center", fontsize=7, color=colour)
    scale = figure.colorbar(image, ax=matrix, label="points in % (a tie is half)", ticks=[0, 0.5, 1])
    scale.ax.set_yticklabels(["0", "50", "100"])
    ratings = [version["elo"] for version in versions]
    bars.barh(range(count), ratings, color=["#2c6fbb"] * (count - 1) + ["#d1495b"], height=0.7)
    for row, rating in enumerate(ratings):
        place = (max(rating, 0), row)
        bars.annotate(f"{rating:.0f}", place, xytext=(3, 0), textcoords="offset points", va="center", fontsize=8)
    bars.set_xlabel("Elo (0: untrained)")
    bars.margins(x=0.25)
    bars.tick_params(axis="y", length=0)
    bars.spines[["top", "right", "left"]].set_visible(False)
    figure.suptitle(f"{title}: who beats whom", x=0.01, ha="left", fontsize=12, fontweight="bold")
    image_file = io.BytesIO()
    figure.savefig(image_file, format="png")
    write_atomically(path, image_file.getvalue())
