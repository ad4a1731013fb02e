"""Rows: what something costs in envoi, what it costs a peer in the same rounds, and how they compare.

A *case* makes something to measure, and returns a function that plays it once and returns its cost. All cases of a
group are played in turn, round after round, so that a slow moment of a shared machine hits all alike. A row compares
two cases of a group by their costs in the same round.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

Play = Callable[[], float]
"""Plays a case once, and returns its cost."""

Case = Callable[[], Play]
"""Makes a case; raises ImportError if its package is not installed."""

PATIENCE = 2.0
"""Seconds before a group shows its progress on a terminal."""


@dataclass(frozen=True)
class Pair:
    """Two cases of a group that a row compares."""

    row: str  # its title
    ours: str  # the case of envoi
    peer: str | None = None  # that of the peer; None if the row only states what ours costs
    base: str | None = None  # the case whose cost is subtracted from ours, for a row of added costs
    peer_base: str | None = None  # the case whose cost is subtracted from the peer's, if that is another one
    least: float | None = None  # goal: ours is at least so many times as cheap as the peer
    most: float | None = None  # goal: ours costs at most so much


@dataclass(frozen=True)
class Group:
    """Cases that are measured together, by name, and the rows that compare them."""

    cases: dict[str, Case]
    pairs: list[Pair]
    unit: str = "ns added a step"  # of all costs
    lanes: int | None = None  # the number of lanes, if they are of several


def layer(
    row: str,
    base: Case,
    ours: Case,
    peers: dict[str, Case] | None = None,
    *,
    peer_base: Case | None = None,
    least: float | None = None,
    most: float | None = None,
    unit: str = "ns added a step",
    lanes: int | None = None,
) -> Group:
    """Returns a group of rows: what our layer around something adds, beside the layers of peers.

    The goal `least` is for the first peer. The peers' layers go around `base` too, unless there is a `peer_base`.
    """
    cases = {"(below)": base, "envoi": ours, **(peers or {})}
    if peer_base is not None:
        cases["(below the peers)"] = peer_base
    below = "(below)" if peer_base is None else "(below the peers)"
    pairs = [
        Pair(row, "envoi", peer, "(below)", below, None if index else least, None if index else most)
        for index, peer in enumerate(peers or ())
    ]
    return Group(cases, pairs or [Pair(row, "envoi", base="(below)", most=most)], unit, lanes)


@dataclass
class Measured:
    """The rows of a group as a file has them, and why each peer that is not installed is missing."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    missing: dict[str, str] = field(default_factory=dict)


def measure(group: Group, rounds: int) -> Measured:
    """Plays all cases of a group in interleaved rounds, after one that warms up, and compares them."""
    plays, found = dict[str, Play](), Measured()
    for name, case in group.cases.items():
        try:
            plays[name] = case()
        except ImportError as error:
            found.missing[name] = str(error)
    costs = interleaved(plays, rounds, group.pairs[0].row)
    for pair in group.pairs:
        if found.missing.keys() & {pair.ours, pair.base}:
            continue
        is_alone = found.missing.keys() & {pair.peer, pair.peer_base}
        if is_alone and pair.most is None:
            continue
        row = compared(pair if not is_alone else Pair(pair.row, pair.ours, base=pair.base, most=pair.most), costs)
        found.rows.append({"row": pair.row, "lanes": group.lanes, "unit": group.unit, **row})
    return found


def interleaved(plays: dict[str, Play], rounds: int, title: str = "") -> dict[str, list[float]]:
    """Returns the cost of each case in each round."""
    costs: dict[str, list[float]] = {name: [] for name in plays}
    start, is_shown = time.monotonic(), False
    for number in range(rounds + 1):
        for name, play in plays.items():
            cost = play()
            if number:
                costs[name].append(cost)
        if sys.stderr.isatty() and time.monotonic() - start > PATIENCE:
            is_shown = True
            print(f"\r{title}: round {number} of {rounds}\033[K", end="", file=sys.stderr, flush=True)
    if is_shown:
        print("\r\033[K", end="", file=sys.stderr, flush=True)
    return costs


def quartiles(values: list[float]) -> list[float]:
    """Returns the first quartile, the median and the third quartile."""
    return statistics.quantiles(values, n=4) if len(values) > 1 else values * 3


def compared(pair: Pair, costs: dict[str, list[float]]) -> dict[str, Any]:
    """Returns the figures of a row: `ours`, `peer`, `ratio`, `goal` and `met`.

    `ratio` says how many times as cheap ours is, the median of the rounds with its quartiles. One of these numbers is
    None where ours costs nothing that can be measured; `ratio` itself is where the peer costs nothing.
    """

    def own(name: str, base: str | None) -> list[float]:
        if base is None:
            return costs[name]
        return [one - below for one, below in zip(costs[name], costs[base], strict=True)]

    ours = own(pair.ours, pair.base)
    low, middle, high = quartiles(ours)
    row: dict[str, Any] = {"ours": {"name": pair.ours, "median": middle, "quartiles": [low, high]}}
    row |= {"peer": None, "ratio": None}
    if pair.peer is not None:
        theirs = own(pair.peer, pair.peer_base or pair.base)
        low, middle, high = quartiles(theirs)
        row["peer"] = {"name": pair.peer, "median": middle, "quartiles": [low, high]}
        row["ratio"] = _ratio(ours, theirs)
    row["goal"] = {"ratio": pair.least, "ours": pair.most}
    row["met"] = _is_met(row)
    return row


def _ratio(ours: list[float], theirs: list[float]) -> dict[str, Any] | None:
    """Returns the quartiles of `theirs / ours`, from those of the inverse, which exists where ours costs nothing."""
    if quartiles(theirs)[0] <= 0:
        return None  # the peer's own cost is lost in the noise of its base
    high, middle, low = quartiles([one / other for one, other in zip(ours, theirs, strict=True) if other > 0])
    inverse = [1 / share if share > 0 else None for share in (low, middle, high)]
    return {"median": inverse[1], "quartiles": [inverse[0], inverse[2]]}


def _is_met(row: dict[str, Any]) -> bool | None:
    least, most = row["goal"]["ratio"], row["goal"]["ours"]
    if row["ratio"] is None:
        least = None
    if least is None and most is None:
        return None
    ratio = row["ratio"]["median"] if row["ratio"] else None
    is_cheap = least is None or ratio is None or ratio >= least
    return is_cheap and (most is None or row["ours"]["median"] <= most)


def rows_of(groups: Iterator[Group], only: str, peer: str) -> Iterator[Group]:
    """Yields groups with some of their rows, and with the cases that these need."""
    for group in groups:
        pairs = [
            pair
            for pair in group.pairs
            if only.lower() in pair.row.lower() and peer.lower() in (pair.peer or "").lower()
        ]
        needed = {name for pair in pairs for name in (pair.ours, pair.peer, pair.base, pair.peer_base)}
        if pairs:
            yield Group(
                {name: case for name, case in group.cases.items() if name in needed}, pairs, group.unit, group.lanes
            )
