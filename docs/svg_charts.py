"""Charts as SVG text: bars in groups, and lines over logarithmic axes.

They are cards with a light background of their own, so that they can be read on a light and on a dark page, and the
same figures give the same text.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

WIDTH = 760
OURS = "#3949ab"
PEERS = ("#8d6e63", "#b0803a", "#78909c", "#a1887f", "#90a4ae")
INK, FAINT = "#22262b", "#d5d9de"
SIZE = 13
"""Height of text, in pixels; a character is about 0.55 of it wide."""


@dataclass(frozen=True)
class Bar:
    """A bar.

    Attributes:
        name: What it measures.
        value: Its length.
        shown: The number beside it.
        is_ours: True for envoi's.
    """

    name: str
    value: float
    shown: str
    is_ours: bool


@dataclass(frozen=True)
class Line:
    """A line.

    Attributes:
        name: What it measures.
        points: Its values by x, both greater than 0.
        is_ours: True for envoi's.
        is_dashed: True for a second line of the same maker.
    """

    name: str
    points: dict[float, float]
    is_ours: bool
    is_dashed: bool = False


def text(x: float, y: float, content: str, anchor: str = "start", weight: int = 400, size: int = SIZE) -> str:
    """Returns a text.

    Args:
        x: The place of its anchor.
        y: Its base line.
        content: What it says.
        anchor: "start", "middle" or "end".
        weight: 400, or 700 for bold.
        size: Its height in pixels.
    """
    return (
        f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}" font-size="{size}" font-weight="{weight}">'
        f"{escape(content)}</text>"
    )


def card(height: float, title: str, axis: str, parts: Iterable[str]) -> str:
    """Returns a picture with a title above and the name of its axis below.

    Args:
        height: Its height in pixels.
        title: The title.
        axis: What is measured, with its unit.
        parts: The elements between.
    """
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height:g}" width="{WIDTH}" role="img" '
        f'aria-label="{escape(title, {chr(34): "&quot;"})}" font-family="system-ui, sans-serif" fill="{INK}">'
    )
    lines = [
        opening,
        f'<rect width="{WIDTH}" height="{height:g}" rx="8" fill="#fbfbfc"/>',
        text(16, 26, title, weight=700, size=15),
        *parts,
        text(WIDTH / 2, height - 12, axis, "middle"),
        "</svg>",
    ]
    return "\n".join(lines) + "\n"


def bar_chart(title: str, axis: str, groups: Sequence[tuple[str, Sequence[Bar]]], is_log: bool = False) -> str:
    """Returns a chart of horizontal bars in groups.

    Args:
        title: The title.
        axis: What is measured, with its unit.
        groups: The bars of each group, by its name.
        is_log: True for a logarithmic axis; a bar below its least tick has no length.
    """
    values = [bar.value for _, bars in groups for bar in bars]
    least = 10.0 ** math.floor(math.log10(min((value for value in values if value > 0), default=1))) if is_log else 0
    most = max(values)
    longest = max(len(bar.name) for _, bars in groups for bar in bars)
    left, right, bar_height = round(40 + 0.58 * SIZE * longest), WIDTH - 80, 16

    def place(value: float) -> float:
        if not is_log:
            return left + max(value, 0) / most * (right - left)
        share = math.log(max(value, least) / least) / math.log(most / least)
        return left + share * (right - left)

    parts, y = [], 46.0
    for name, bars in groups:
        parts.append(text(16, y + 13, name, weight=700))
        y += 18
        for bar in bars:
            colour = OURS if bar.is_ours else PEERS[0]
            length = place(bar.value) - left
            parts += [
                text(left - 8, y + 12, bar.name, "end", 700 if bar.is_ours else 400),
                f'<rect x="{left}" y="{y:g}" width="{length:.1f}" height="{bar_height - 3}" fill="{colour}"/>',
                text(left + length + 6, y + 12, bar.shown, weight=700 if bar.is_ours else 400),
            ]
            y += bar_height
        y += 8
    ticks = _decades(least, most) if is_log else []
    grid = [
        part
        for tick in ticks
        for part in (
            f'<path d="M{place(tick):.1f} 46V{y:g}" stroke="{FAINT}"/>',
            text(place(tick), y + 14, f"{tick:,g}", "middle", size=12),
        )
    ]
    return card(y + 44, title, axis, [*grid, *parts])


def line_chart(title: str, axis: str, height_axis: str, lines: Sequence[Line]) -> str:
    """Returns a chart of lines, both axes logarithmic, with their names at their right ends.

    Args:
        title: The title.
        axis: What is along the bottom.
        height_axis: What is along the side, with its unit.
        lines: The lines.
    """
    xs = sorted({x for line in lines for x in line.points})
    ys = [y for line in lines for y in line.points.values()]
    low, high = math.log10(min(ys)), math.log10(max(ys))
    left, right, top, bottom = 64, WIDTH - 240, 66, 360

    def place(x: float, y: float) -> tuple[float, float]:
        across = (math.log(x) - math.log(xs[0])) / ((math.log(xs[-1]) - math.log(xs[0])) or 1)
        up = (math.log10(y) - low) / ((high - low) or 1)
        return left + across * (right - left), bottom - up * (bottom - top)

    parts = [text(16, 50, height_axis, size=12)]
    for tick in _decades(min(ys), max(ys)):
        y = place(xs[0], tick)[1]
        parts += [
            f'<path d="M{left} {y:.1f}H{right}" stroke="{FAINT}"/>',
            text(left - 8, y + 4, f"{tick:,g}", "end", size=12),
        ]
    parts += [text(place(x, ys[0])[0], bottom + 20, f"{x:,g}", "middle", size=12) for x in xs]
    ends, shade = list[tuple[float, Line, str]](), iter(PEERS * len(lines))
    for line in lines:
        colour = OURS if line.is_ours else next(shade)
        points = [place(x, y) for x, y in sorted(line.points.items())]
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        dash = ' stroke-dasharray="6 4"' if line.is_dashed else ""
        width = 2.5 if line.is_ours else 1.8
        parts.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}"{dash}/>')
        parts += [f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3" fill="{colour}"/>' for x, y in points]
        ends.append((points[-1][1], line, colour))
    lowest = 0.0
    for y, line, colour in sorted(ends, key=lambda end: end[0]):
        lowest = max(y, lowest + SIZE + 3)  # names do not overlap
        named = text(right + 14, lowest + 4, line.name, weight=700 if line.is_ours else 400)
        parts.append(named.replace("<text", f'<text fill="{colour}"'))
    return card(bottom + 56, title, axis, parts)


def _decades(least: float, most: float) -> list[float]:
    """Returns the powers of ten from `least` to `most`."""
    return [10.0**power for power in range(math.ceil(math.log10(least)), math.floor(math.log10(most)) + 1)]
