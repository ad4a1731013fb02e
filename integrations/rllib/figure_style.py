"""The common look of the pictures of training runs."""

from __future__ import annotations

import math
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from matplotlib import rcParams
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import EngFormatter, MaxNLocator

COLOURS = ("#2c6fbb", "#d1495b", "#3a9d6e", "#e09f3e", "#7b5ea7", "#4f8a8b", "#a0522d", "#666666")
GREY = "#666666"


def new_figure(width: float, height: float) -> Figure:
    """Returns an empty figure that needs no display.

    Args:
        width: Width in inches.
        height: Height in inches.
    """
    figure = Figure(figsize=(width, height), dpi=150, layout="constrained")
    FigureCanvasAgg(figure)
    return figure


def style_axes(axes: Axes, *, small: bool = False) -> None:
    """Gives axes over env steps the common look.

    Args:
        axes: The axes.
        small: True for a small panel below the main one.
    """
    size = 7.5 if small else rcParams["font.size"] * 0.95
    axes.xaxis.set_major_formatter(EngFormatter(sep=""))
    axes.xaxis.set_major_locator(MaxNLocator(3 if small else 7))
    if small:
        axes.yaxis.set_major_locator(MaxNLocator(4))
    axes.tick_params(labelsize=size, length=2 if small else 3.5, colors="#444444")
    axes.set_xlim(left=0)
    axes.margins(x=0.03)
    axes.grid(axis="y", color="#e6e6e6", linewidth=0.8)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#999999")


def finite(values: Sequence[Any]) -> list[float]:
    """Returns texts or numbers as floats, NaN for those that are empty."""
    return [float(value) if value not in (None, "") else math.nan for value in values]


def save(figure: Figure, path: Path) -> None:
    """Replaces a PNG file as a whole.

    Args:
        figure: The figure.
        path: The file.
    """
    temporary = path.with_name(f".{path.name}.{uuid.uuid4().hex[:8]}.tmp")
    try:
        figure.savefig(temporary, format="png")
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)
