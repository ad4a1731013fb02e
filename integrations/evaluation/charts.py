"""Charts as SVG inside a page, or as separate pictures; their style sheet has colours for light and dark mode."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

import numpy as np

WIDTH = 480
LEFT, RIGHT, TOP, BOTTOM = 56, 12, 12, 40
HUES = 6
"""Colours for variants; more of them begin again."""
_SCALE = ((68, 1, 84), (59, 82, 139), (33, 145, 140), (94, 201, 98), (253, 231, 37))
_SIGNED = ((178, 24, 43), (244, 165, 130), (240, 240, 240), (146, 197, 222), (33, 102, 172))
STYLE = """
:root{color-scheme:light dark;--page:#fff;--ink:#1d2126;--faint:#d9dde2;--card:#f6f7f9}
:root{--h0:#3949ab;--h1:#d9620d;--h2:#14866d;--h3:#b3261e;--h4:#7b4aa8;--h5:#6b6f76}
@media(prefers-color-scheme:dark){:root{--page:#14171a;--ink:#e6e8eb;--faint:#3a4047;--card:#1d2125}
:root{--h0:#9aa7ff;--h1:#ffa566;--h2:#5fd0b4;--h3:#ff8f86;--h4:#d0a8ff;--h5:#b5bac2}}
svg text{fill:var(--ink);font-size:12px}.grid{stroke:var(--faint);fill:none}
.mark{stroke:var(--ink);stroke-dasharray:4 3}
.line{fill:none;stroke-width:2}.band{opacity:.2}.shade{fill:var(--faint);opacity:.6}
.outline{stroke:var(--h3);stroke-width:2.5;fill:none}.trained{fill:var(--h3);stroke:var(--page);stroke-width:.5}
""" + "".join(f".line.h{k}{{stroke:var(--h{k})}}.dot.h{k},.band.h{k}{{fill:var(--h{k})}}" for k in range(HUES))


class Series(NamedTuple):
    """A line of a chart, with a band if `low` and `high` are given."""

    name: str
    hue: int
    x: Sequence[float]
    y: Sequence[float]
    low: Sequence[float] = ()
    high: Sequence[float] = ()
    dashed: bool = False


class Dot(NamedTuple):
    """A row of a chart of intervals: a value with its interval; or a heading, if it has no value."""

    label: str
    hue: int = 0
    value: float | None = None
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True)
class _Axis:
    """An axis: maps numbers from `low` to `high` to positions on a chart, from `start` to `stop`."""

    low: float
    high: float
    start: float
    stop: float
    is_log: bool = False

    @classmethod
    def around(cls, values: Iterable[float], start: float, stop: float, is_log: bool = False) -> _Axis:
        """Makes an axis with a margin around values; a logarithmic axis begins at the smallest positive value."""
        found = [value for value in values if value > 0 or not is_log]
        low, high = min(found), max(found)
        margin = 0.0 if is_log else (high - low) * 0.05 or abs(low) * 0.05 or 1.0
        return cls(low - margin, high + margin, start, stop, is_log)

    def __call__(self, value: float) -> float:
        low, high = self.low, self.high
        if self.is_log:
            low, high, value = math.log(low), math.log(high), math.log(max(value, low))
        return round(self.start + (value - low) / (high - low or 1.0) * (self.stop - self.start), 1)

    @property
    def ticks(self) -> list[float]:
        """Round numbers, or powers of ten."""
        if self.is_log:
            return [10.0**k for k in range(math.ceil(math.log10(self.low)), math.floor(math.log10(self.high)) + 1)]
        step = (self.high - self.low) / 5 or 1.0
        size = 10.0 ** math.floor(math.log10(step))
        step = next(size * factor for factor in (1, 2, 5, 10) if size * factor >= step * 0.999)
        return [round(k * step, 12) for k in range(math.ceil(self.low / step), math.floor(self.high / step) + 1)]

    def below(self, y: float, name: str = "") -> list[str]:
        """Returns the tick labels and the name of an axis along the bottom."""
        named = [_text((self.start + self.stop) / 2, y + 18, name)] if name else []
        return [*(_text(self(x), y, f"{x:,g}") for x in self.ticks), *named]

    def beside(self, name: str) -> list[str]:
        """Returns the tick labels and the name of an axis along the side."""
        return [*(_text(LEFT - 6, self(y) + 4, f"{y:,g}", "end") for y in self.ticks), _text(4, TOP - 2, name, "start")]


def short(number: float) -> str:
    """Formats a number with three significant digits, or with all digits before the decimal point."""
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"


def _text(x: float, y: float, content: Any, anchor: str = "middle", kind: str = "") -> str:
    return f'<text x="{x:g}" y="{y:g}" text-anchor="{anchor}"{kind}>{escape(str(content))}</text>'


def _svg(height: float, title: str, parts: Iterable[str], width: float = WIDTH) -> str:
    return (
        f'<figure><figcaption>{escape(title)}</figcaption><svg viewBox="0 0 {width} {height:g}" role="img" '
        f'aria-label="{escape(title)}">{"".join(parts)}</svg></figure>'
    )


def picture(chart: str) -> str:
    """Returns a chart as a separate picture, with its title."""
    pattern = r'viewBox="0 0 (\S+) (\S+)".*aria-label="(.*?)">(.*)</figure>'
    ((width, height, title, rest),) = re.findall(pattern, chart, re.DOTALL)
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 -28 {width} {float(height) + 28:g}" role="img"'
    style = f"<style>{STYLE}\nsvg{{font-family:system-ui,sans-serif}}</style>"
    card = f'<rect y="-28" width="100%" height="100%" fill="var(--card)"/><text x="8" y="-10">{title}</text>'
    return f'{head} aria-label="{title}">{style}{card}{rest}\n'


def interval_chart(
    title: str, dots: Sequence[Dot], marks: Sequence[float] = (), is_log: bool = False, width: float = WIDTH
) -> str:
    """Returns a chart of values as dots with their intervals, one below the other; lines mark some values."""
    ends = [end for dot in dots for end in (dot.low, dot.value, dot.high) if end is not None]
    left = min(width * 0.46, 14 + 7.0 * max(len(dot.label) for dot in dots if dot.value is not None))
    across = _Axis.around([*ends, *marks], left, width - 56, is_log)
    height = TOP + 22 * len(dots) + BOTTOM - 12
    parts = [f'<path class="grid" d="M{across(x)} {TOP}V{height - 24}"/>' for x in across.ticks]
    parts += across.below(height - 8)
    parts += [f'<path class="mark" d="M{across(x)} {TOP}V{height - 24}"/>' for x in marks]
    for index, dot in enumerate(dots):
        y, hue = TOP + 22 * index + 11, f"h{dot.hue % HUES}"
        if dot.value is None:
            parts.append(_text(8, y + 4, dot.label, "start", ' font-weight="bold"'))
            continue
        parts += [
            _text(left - 8, y + 4, dot.label, "end"),
            _text(width - 6, y + 4, f"{float(short(dot.value)):,g}", "end"),
        ]
        shown = f"{dot.value:.4g}"
        if dot.low is not None and dot.high is not None:
            parts.append(f'<path class="line {hue}" d="M{across(dot.low)} {y}H{across(dot.high)}"/>')
            shown += f" [{dot.low:.4g}, {dot.high:.4g}]"
        circle = f'<circle class="dot {hue}" cx="{across(dot.value)}" cy="{y}" r="4.5">'
        parts.append(f"{circle}<title>{escape(dot.label)}: {shown}</title></circle>")
    return _svg(height, title, parts, width)


def line_chart(
    title: str,
    x_name: str,
    y_name: str,
    lines: Sequence[Series],
    shade: tuple[float, float] | None = None,
    is_log: bool = False,
    is_named: bool = False,
    width: float = WIDTH,
) -> str:
    """Returns a chart of lines with bands. The lines have their names at their ends; a range of x can be shaded."""
    xs = [x for line in lines for x in line.x]
    height, bottom = 280, 280 - BOTTOM
    right = width - RIGHT - (7 * max(len(line.name) for line in lines) if is_named else 0)
    across = _Axis(min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1.0, LEFT, right, is_log)
    up = _Axis.around(
        [y for line in lines for part in (line.y, line.low, line.high) for y in part], bottom, TOP, is_log
    )
    parts = [f'<path class="grid" d="M{LEFT} {up(y)}H{right}"/>' for y in up.ticks]
    if shade is not None:
        start, stop = (across(min(max(x, across.low), across.high)) for x in shade)
        size = f'width="{max(2.0, stop - start):.1f}" height="{bottom - TOP}"'
        parts.append(f'<rect class="shade" x="{start}" y="{TOP}" {size}/>')
    parts += [*across.below(bottom + 16, x_name), *up.beside(y_name)]
    lowest = 0.0
    for line in sorted(lines, key=lambda line: up(line.y[-1])) if is_named else lines:
        hue = f"h{line.hue % HUES}"
        if len(line.low):
            around = [*zip(line.x, line.high, strict=True), *reversed([*zip(line.x, line.low, strict=True)])]
            points = " ".join(f"{across(x)},{up(y)}" for x, y in around)
            parts.append(f'<polygon class="band {hue}" points="{points}"/>')
        points = " ".join(f"{across(x)},{up(y)}" for x, y in zip(line.x, line.y, strict=True))
        dashed = ' stroke-dasharray="5 4"' if line.dashed else ""
        parts.append(
            f'<polyline class="line {hue}" points="{points}"{dashed}><title>{escape(line.name)}</title></polyline>'
        )
        if is_named:
            lowest = max(up(line.y[-1]), lowest + 14)  # names do not overlap
            parts.append(_text(right + 6, lowest + 4, line.name, "start"))
    return _svg(height, title, parts, width)


def _colour(share: float, scale: Sequence[tuple[int, int, int]]) -> tuple[str, str]:
    """Returns a colour of a scale, and the colour of text on it."""
    rgb = [float(np.interp(share, np.linspace(0, 1, len(scale)), part)) for part in zip(*scale, strict=True)]
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
    """Returns a heat map: each measured cell shows its mean and number of episodes; others stay empty."""
    (xs, ys), height = edges, 380
    bottom, (low, high) = height - BOTTOM - 34, bounds
    across, up = _Axis(xs[0], xs[-1], LEFT, WIDTH - RIGHT), _Axis(ys[0], ys[-1], bottom, TOP)
    scale, parts = (_SIGNED if signed else _SCALE), list[str]()
    for (i, j), (value, count) in cells.items():
        fill, ink = _colour((value - low) / (high - low or 1.0), scale)
        x, y = across(xs[i]), up(ys[j + 1])
        wide, deep = across(xs[i + 1]) - x, up(ys[j]) - y
        box = f'<rect x="{x}" y="{y}" width="{wide:.1f}" height="{deep:.1f}" fill="{fill}">'
        parts.append(f"{box}<title>{value:.4g}, {count} episodes</title></rect>")
        if wide > 30 and deep > 13:
            parts.append(
                _text(x + wide / 2, y + deep / 2 + 4, short(value), kind=f' style="fill:{ink};font-size:10px"')
            )
    for i, j in outlined:
        x, right, y, under = across(xs[i]), across(xs[i + 1]), up(ys[j + 1]), up(ys[j])
        sides = {(i - 1, j): f"M{x} {y}V{under}", (i + 1, j): f"M{right} {y}V{under}"}
        sides |= {(i, j + 1): f"M{x} {y}H{right}", (i, j - 1): f"M{x} {under}H{right}"}
        parts += [f'<path class="outline" d="{side}"/>' for next_to, side in sides.items() if next_to not in outlined]
    parts += [f'<circle class="trained" cx="{across(x)}" cy="{up(y)}" r="2"/>' for x, y in dots]
    parts += [*across.below(bottom + 16, names[0]), *up.beside(names[1])]
    for k in range(40):
        fill = _colour(k / 39, scale)[0]
        parts.append(f'<rect x="{LEFT + 60 + 7 * k}" y="{height - 26}" width="7.5" height="10" fill="{fill}"/>')
    ends = (_text(LEFT + 54, height - 17, f"{low:.4g}", "end"), _text(LEFT + 346, height - 17, f"{high:.4g}", "start"))
    return _svg(height, title, [*parts, *ends])
