"""Rows as lines of text, those of one title together."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import groupby
from typing import Any

Row = dict[str, Any]


def lines(rows: Iterable[Row]) -> Iterator[str]:
    """Yields what ours costs, under it what each peer costs and how many times as cheap ours is."""
    for (title, lanes, _), each in groupby(rows, lambda row: (row["row"], row["lanes"], row["ours"]["name"])):
        found = list(each)
        ours = found[0]["ours"]["median"]
        shown = title if lanes is None else f"{title}; {lanes:,} lane{'' if lanes == 1 else 's'}"
        alone = "" if found[0]["ratio"] else f"  {goal(found[0])}"
        yield f"{shown:<58}{figure(ours):>9} {found[0]['unit']}{alone}".rstrip()
        for row in found:
            if row["peer"] is not None:
                compared = f"{spread(row['ratio']):<26}{goal(row)}" if row["ratio"] else ""
                yield f"    {row['peer']['name']:<54}{figure(row['peer']['median']):>9}  {compared}".rstrip()


def figure(value: float) -> str:
    """Returns a cost with as many digits as mean something."""
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def times(value: float | None) -> str:
    """Returns a ratio; None is one without a bound."""
    return "free" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def spread(ratio: Row) -> str:
    """Returns a ratio with its quartiles."""
    low, high = ratio["quartiles"]
    return f"{times(ratio['median'])} ({times(low)} to {times(high)})"


def goal(row: Row) -> str:
    """Returns the goal of a row, and if it is met; nothing for a row without one."""
    least, most = row["goal"]["ratio"], row["goal"]["ours"]
    parts = [f"at least {least:.3g}"] if least is not None else []
    parts += [f"ours at most {most:,g}"] if most is not None else []
    return f"goal {' and '.join(parts)}: {'met' if row['met'] else 'missed'}" if parts else ""


HEADING = "costs of envoi, of each peer, and how many times as cheap envoi is (median and quartiles)"
