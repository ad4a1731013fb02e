"""Charts as SVG inside of a page, whose style sheet has their colours for light and dark."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from html import escape
from typing import Any, NamedTuple

WIDTH = 480
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 40
HUES = 6
"""Colours for variants; more of them begin again."""
_SCALE = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
_SIGNED = ((178, 24, 43), (244, 165, 130), (240, 240, 240), (146, 197, 222), (33, 102, 172))


class Series(NamedTuple):
    """A line of a chart, with a band where low and high are given."""

    name: str
    hue: int
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dashed: bool = False


class Dot(NamedTuple):
    """A figure of a chart of intervals."""

    label: str
    hue: int
    value: float
    low: float | None
    high: float | None


def ticks(low: float, high: float, count: int = 5) -> list[float]:
    """Returns round numbers between two others."""
    step = (high - low) / count or 1.0
    size = 10.0 ** math.floor(math.log10(step))
    step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= step * 0.999)
    return [round(k * step, 12) for k in range(math.ceil(low / step), math.floor(high / step) + 1)]


def short(number: float) -> str:
    """Returns a number as text of three digits, or more if they are before the point."""
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _text(x: float, y: float, content: Any, anchor: str = "middle", kind: str = "") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{kind}>{escape(str(content))}</text>'


def _svg(height: float, title: str, parts: Sequence[str]) -> str:
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg></figure>'
    )


def _span(values: Sequence[float]) -> tuple[float, float]:
    low, high = min(values), max(values)
    margin = (high - low) * 0.05 or abs(low) * 0.05 or 1.0
    return low - margin, high + margin


def interval_chart(title: str, dots: Sequence[Dot], marks: Sequence[float] = ()) -> str:
    """Returns figures as dots with their intervals, one below the other; lines mark some values."""
    ends = [end for dot in dots for end in (dot.low, dot.value, dot.high) if end is not None]
    low, high = _span([*ends, *marks])
    left = min(220.0, 14 + 7.0 * max(len(dot.label) for dot in dots))
    height = TOP + 22 * len(dots) + BOTTOM - 12

    def at(x: float) -> float:
        return left + (x - low) / (high - low) * (WIDTH - RIGHT - left)

    bottom = height - 24
    parts = [f'<path class="grid" d="M{at(x):.1f} {TOP}V{bottom:.0f}"/>' for x in ticks(low, high)]
    parts += [_text(at(x), height - 8, f"{x:g}") for x in ticks(low, high)]
    parts += [f'<path class="mark" d="M{at(x):.1f} {TOP}V{bottom:.0f}"/>' for x in marks]
    for index, dot in enumerate(dots):
        y = TOP + 22 * index + 11
        parts.append(_text(left - 8, y + 4, dot.label, "end"))
        if dot.low is not None and dot.high is not None:
            parts.append(f'<path class="line h{dot.hue % HUES}" d="M{at(dot.low):.1f} {y}H{at(dot.high):.1f}"/>')
        shown = f"{dot.value:.4g}" + ("" if dot.low is None else f" [{dot.low:.4g}, {dot.high:.4g}]")
        circle = f'<circle class="dot h{dot.hue % HUES}" cx="{at(dot.value):.1f}" cy="{y}" r="4.5">'
        parts.append(f"{circle}<title>{escape(dot.label)}: {shown}</title></circle>")
    return _svg(height, title, parts)


def line_chart(
    title: str, x_name: str, y_name: str, lines: Sequence[Series], shade: tuple[float, float] | None = None
) -> str:
    """Returns lines with bands; a range of x can be shaded."""
    xs = [x for line in lines for x in line.x]
    left, right = min(xs), max(xs)
    right = right if right > left else left + 1.0
    low, high = _span([y for line in lines for part in (line.y, line.low, line.high) for y in part])
    height, bottom = 280, 280 - BOTTOM

    def at(x: float, y: float) -> str:
        across = LEFT + (x - left) / (right - left) * (WIDTH - LEFT - RIGHT)
        return f"{across:.1f},{bottom - (y - low) / (high - low) * (bottom - TOP):.1f}"

    parts: list[str] = []
    if shade is not None:
        start, stop = (float(at(min(max(x, left), right), low).partition(",")[0]) for x in shade)
        parts.append(
            f'<rect class="shade" x="{start}" y="{TOP}" width="{max(2.0, stop - start):.1f}" height="{bottom - TOP}"/>'
        )
    for y in ticks(low, high):
        level = float(at(left, y).partition(",")[2])
        parts += [
            f'<path class="grid" d="M{LEFT} {level}H{WIDTH - RIGHT}"/>',
            _text(LEFT - 6, level + 4, f"{y:g}", "end"),
        ]
    parts += [_text(float(at(x, low).partition(",")[0]), bottom + 16, f"{x:g}") for x in ticks(left, right)]
    parts += [_text((LEFT + WIDTH) / 2, height - 6, x_name), _text(4, TOP - 2, y_name, "start")]
    for line in lines:
        hue = f"h{line.hue % HUES}"
        if len(line.low):
            around = [*zip(line.x, line.high, strict=True), *reversed([*zip(line.x, line.low, strict=True)])]
            parts.append(f'<polygon class="band {hue}" points="{" ".join(at(x, y) for x, y in around)}"/>')
        points = " ".join(at(x, y) for x, y in zip(line.x, line.y, strict=True))
        dashed = ' stroke-dasharray="5 4"' if line.dashed else ""
        parts.append(
            f'<polyline class="line {hue}" points="{points}"{dashed}><title>{escape(line.name)}</title></polyline>'
        )
    return _svg(height, title, parts)


def _colour(share: float, scale: Sequence[tuple[int, int, int]]) -> tuple[str, str]:
    """Returns a colour of a scale, and that of text on it."""
    place = min(max(share, 0.0), 1.0) * (len(scale) - 1)
    index = min(int(place), len(scale) - 2)
    rgb = [a + (b - a) * (place - index) for a, b in zip(scale[index], scale[index + 1], strict=True)]
    light = 0.299 * rgb[0] + 0.587 * rgb[1] + 0.114 * rgb[2] > 140
    return "#" + "".join(f"{round(part):02x}" for part in rgb), "#111" if light else "#fff"


def heat_map(
    title: str,
    names: tuple[str, str],
    edges: tuple[Sequence[float], Sequence[float]],
    cells: Mapping[tuple[int, int], tuple[float, int]],
    bounds: tuple[float, float],
    outlined: Collection[tuple[int, int]] = (),
    dots: Sequence[tuple[float, float]] = (),
    signed: bool = False,
) -> str:
    """Returns the cells that were measured, each with its mean and its number of episodes; others stay empty."""
    (xs, ys), height = edges, 380
    bottom = height - BOTTOM - 34
    low, high = bounds

    def across(x: float) -> float:
        return LEFT + (x - xs[0]) / (xs[-1] - xs[0]) * (WIDTH - LEFT - RIGHT)

    def up(y: float) -> float:
        return bottom - (y - ys[0]) / (ys[-1] - ys[0]) * (bottom - TOP)

    scale, parts = (_SIGNED if signed else _SCALE), list[str]()
    for (i, j), (value, count) in cells.items():
        fill, ink = _colour((value - low) / (high - low or 1.0), scale)
        x, y, width, depth = across(xs[i]), up(ys[j + 1]), across(xs[i + 1]) - across(xs[i]), up(ys[j]) - up(ys[j + 1])
        box = f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{depth:.1f}" fill="{fill}">'
        parts.append(f"{box}<title>{value:.4g}, {count} episodes</title></rect>")
        if width > 30 and depth > 13:
            parts.append(
                _text(x + width / 2, y + depth / 2 + 4, short(value), kind=f' style="fill:{ink};font-size:10px"')
            )
    for i, j in outlined:
        x, right, y, under = across(xs[i]), across(xs[i + 1]), up(ys[j + 1]), up(ys[j])
        sides = {(i - 1, j): f"M{x} {y}V{under}", (i + 1, j): f"M{right} {y}V{under}"}
        sides |= {(i, j + 1): f"M{x} {y}H{right}", (i, j - 1): f"M{x} {under}H{right}"}
        parts += [f'<path class="outline" d="{side}"/>' for next_to, side in sides.items() if next_to not in outlined]
    parts += [f'<circle class="trained" cx="{across(x):.1f}" cy="{up(y):.1f}" r="2"/>' for x, y in dots]
    parts += [_text(across(x), bottom + 16, f"{x:g}") for x in ticks(xs[0], xs[-1])]
    parts += [_text(LEFT - 6, up(y) + 4, f"{y:g}", "end") for y in ticks(ys[0], ys[-1])]
    parts += [_text((LEFT + WIDTH) / 2, bottom + 32, names[0]), _text(4, TOP - 2, names[1], "start")]
    for k in range(40):
        fill = _colour(k / 39, scale)[0]
        parts.append(f'<rect x="{LEFT + 60 + 7 * k}" y="{height - 26}" width="7.5" height="10" fill="{fill}"/>')
    parts += [
        _text(LEFT + 54, height - 17, f"{low:.4g}", "end"),
        _text(LEFT + 346, height - 17, f"{high:.4g}", "start"),
    ]
    return _svg(height, title, parts)
