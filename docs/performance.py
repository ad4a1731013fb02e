"""The figures of the latest published run of the benchmarks, as tables, pictures and the README's chart.

All of them follow from `docs/figures/performance.json`, which `make bench-publish` writes; nothing is edited by hand.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Iterator
from itertools import chain, compress
from pathlib import Path
from typing import Any

DOCS = Path(__file__).parent
sys.path[:0] = [str(DOCS.parent / "benchmarks")]

from measuring.table import figure, spread, times  # noqa: E402 (found there)

from envoi.integrations.evaluation.charts import Dot, Series, interval_chart, line_chart, picture  # noqa: E402

Row = dict[str, Any]
FIGURES = DOCS / "figures" / "performance.json"
WIDE = 760
"""Pixels of the pictures."""


def published() -> dict[str, Any]:
    """Returns the published run."""
    return json.loads(FIGURES.read_text())


def rows(*benchmarks: str) -> Iterator[Row]:
    """Yields the rows of some benchmarks, those that the run has."""
    found = published()["benchmarks"]
    for name in benchmarks:
        yield from found.get(name, {"rows": ()})["rows"]


def row(benchmark: str, title: str, peer: str, lanes: int | None = None) -> Row | None:
    """Returns one row, or None if the run does not have it.

    Args:
        benchmark: The benchmark.
        title: The title of the row.
        peer: The name of the peer.
        lanes: The number of lanes.
    """
    for one in rows(benchmark):
        if one["row"] == title and one["lanes"] == lanes and one["peer"] and one["peer"]["name"] == peer:
            return one
    return None


# Tables.


def markdown(*benchmarks: str) -> str:
    """Returns the rows of some benchmarks as a table of Markdown."""
    found = list(rows(*benchmarks))
    if not found:
        return "This run does not have them.\n"
    units = {one["unit"] for one in found}
    unit = units.pop() if len(units) == 1 else ""
    has_lanes = any(one["lanes"] is not None for one in found)
    has_peers = any(one["peer"] for one in found)
    columns = [
        ("what", "---"),
        ("lanes", "---:"),
        (f"ours{f', {unit}' if unit else ''}", "---:"),
        ("compared with", "---"),
    ]
    columns += [("theirs", "---:"), ("times as fast", "---"), ("goal", "---")]
    kept = [True, has_lanes, True, has_peers, has_peers, has_peers, True]
    lines = [f"| {' | '.join(name for name, _ in compress(columns, kept))} |"]
    lines.append(f"|{'|'.join(rule for _, rule in compress(columns, kept))}|")
    before: tuple[str, ...] = ()
    for one in found:
        ours = figure(one["ours"]["median"]) + ("" if unit else f" {one['unit']}")
        named = (one["row"], "" if one["lanes"] is None else f"{one['lanes']:,}", ours)
        peer = (one["peer"]["name"], figure(one["peer"]["median"])) if one["peer"] else ("", "")
        compared = _compared(one["ratio"]) if one["ratio"] else ""
        cells = (*(("", "", "") if named == before else named), *peer, compared, _goal(one))
        lines.append("|" + "|".join(f" {cell} " for cell in compress(cells, kept)) + "|")
        before = named
    return "\n".join(lines) + "\n"


def _compared(ratio: dict[str, Any]) -> str:
    """Returns a ratio with its quartiles; one word if all of them have no bound."""
    return times(None) if {ratio["median"], *ratio["quartiles"]} == {None} else spread(ratio)


def _title(one: Row) -> str:
    return one["row"] if one["lanes"] is None else f"{one['row']}; {one['lanes']:,} lane{'s' * (one['lanes'] != 1)}"


def _goal(one: Row) -> str:
    least, most = one["goal"]["ratio"], one["goal"]["ours"]
    parts = [f"≥ {least:.3g}"] if least is not None else []
    parts += [f"ours ≤ {most:,g}"] if most is not None else []
    return f"{', '.join(parts)}: {'met' if one['met'] else '**missed**'}" if parts else ""


def measured() -> str:
    """Says when, on what and with which versions the published run was made."""
    run = published()
    machine, found = run["machine"], run["benchmarks"]
    where = (
        f"Measured on {run['date'][:10]} on a machine with {machine['cores']} cores ({machine['cpu']}, "
        f"{machine['system']} {machine['machine']}), with {_versions(run['versions'])}."
    )
    lines = [
        where,
        "",
        "| benchmark | measures | rounds | other machine or versions |",
        "|---|---|---:|---|",
    ]
    for name, one in found.items():
        other = {
            package: number
            for package, number in one.get("versions", {}).items()
            if run["versions"].get(package) != number
        }
        kind = one.get("machine", machine)["cpu"]
        differs = ", ".join(filter(None, ("" if kind == machine["cpu"] else kind, _versions(other))))
        lines.append(f"| `{name}` | {one['clock']} | {one['rounds']} | {differs} |")
    there = {name for one in rows(*found) for name in (one["row"], (one["peer"] or {}).get("name"))}
    missing = dict.fromkeys(peer for one in found.values() for peer in one["missing"] if peer not in there)
    lines += ["", f"Not installed, and so not measured: {', '.join(missing)}."] if missing else []
    return "\n".join(lines) + "\n"


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {number}" for name, number in versions.items())


def missed() -> str:
    """Lists the goals that the published run misses."""
    found = [one for name in published()["benchmarks"] for one in rows(name) if one["met"] is not None]
    late = [one for one in found if not one["met"]]
    lines = [f"{len(found) - len(late)} of {len(found)} goals are met."]
    lines += ["Missed are:\n"] if late else []
    for one in late:
        against = f" compared with {one['peer']['name']}" if one["peer"] else ""
        ratio = f"{_compared(one['ratio'])} times as fast, " if one["ratio"] else ""
        lines.append(
            f"- {_title(one)}{against}: {ratio}ours {figure(one['ours']['median'])} {one['unit']}; {_goal(one)}"
        )
    return "\n".join(lines).replace(": **missed**", "") + "\n"


PARTS = {
    "[Batches](#batches)": ("batches", "batches_envpool"),
    "[Loops and workers](#batches)": ("loop", "workers"),
    "[Conversions](#conversions)": ("conversion", "conversion_tf"),
    "[Wrappers](#wrappers)": ("wrappers",),
    "[Contexts](#contexts)": ("contexts",),
    "[RLlib](#rllib)": ("rllib_sampling", "rllib_multi_agent"),
}
"""The sections of the page that compare envoi with others, and their benchmarks."""


def overview() -> str:
    """Counts the comparisons of each section by their outcome, and shows the extreme ones."""
    lines = [
        "| part | comparisons | faster | slower | least favourable | most favourable |",
        "|---|---:|---:|---:|---|---|",
    ]
    for part, names in PARTS.items():
        found = [one for one in rows(*names) if one["ratio"]]
        faster = sum(1 for one in found if _value(one["ratio"]["quartiles"][0]) > 1)
        slower = sum(1 for one in found if _value(one["ratio"]["quartiles"][1]) < 1)
        found.sort(key=lambda one: _value(one["ratio"]["median"]))
        ends = [f"{times(one['ratio']['median'])} ({one['peer']['name']})" for one in (found[0], found[-1])]
        lines.append(f"| {part} | {len(found)} | {faster} | {slower} | {' | '.join(ends)} |")
    return "\n".join(lines) + "\n"


def _value(ratio: float | None) -> float:
    return math.inf if ratio is None else ratio


TABLES: dict[str, Callable[[], str]] = {
    "overview": overview,
    "measured": measured,
    "missed": missed,
    "speed_conversions": lambda: markdown("conversion", "conversion_tf"),
    "speed_wrappers": lambda: markdown("wrappers"),
    "speed_contexts": lambda: markdown("contexts"),
    "speed_batches": lambda: markdown("batches", "batches_envpool"),
    "speed_loops": lambda: markdown("loop", "workers"),
    "speed_rllib": lambda: markdown("rllib_sampling", "rllib_multi_agent"),
    "speed_imports": lambda: markdown("imports"),
    "memory": lambda: markdown("memory", "memory_tf"),
}


# The README's chart.

VECTOR = "gymnasium CartPoleVectorEnv"
CHARTED = [  # a title, the row, its lanes, the peer
    ("64 lanes of CartPole, compiled", "batches", "CartPole, compiled", 64, VECTOR),
    ("64 lanes of CartPole, compiled", "batches_envpool", "CartPole, compiled", 64, "envpool, 1 thread"),
    (
        "RLlib samples 64 of them",
        "rllib_sampling",
        "envoi CartPole, envoi's runner, envoi's batch",
        64,
        "RLlib's runner",
    ),
    ("gymnasium → TF-Agents", "conversion_tf", "gymnasium → TF-Agents", None, "GymWrapper"),
    ("dm_env → gymnasium", "conversion", "dm_env → gymnasium", None, "Shimmy"),
    ("PettingZoo parallel → AEC", "conversion", "PettingZoo parallel → AEC", None, "PettingZoo"),
    ("a flat observation", "wrappers", "flat observations", None, "gymnasium's FlattenObservation"),
    ("a reset to another context", "contexts", "reset of Pendulum, hidden", None, "CARL, a dict"),
]
BLOCKS = " ▏▎▍▌▋▊▉█"


def _charted() -> list[tuple[str, str, float | None]]:
    """Returns the title, the peer and the ratio of each row of `CHARTED` that the run has."""
    found = [(title, row(name, one, peer, lanes)) for title, name, one, lanes, peer in CHARTED]
    return [(title, one["peer"]["name"], one["ratio"]["median"]) for title, one in found if one and one["ratio"]]


def highlights() -> str:
    """Returns the README's chart as a table."""
    lines = [f"| {title} | {peer} | {times(ratio)} |" for title, peer, ratio in _charted()]
    return "\n".join(["| what | compared with | times as fast |", "|---|---|---:|", *lines]) + "\n"


def chart() -> str:
    """Returns bars in text: how many times as fast some of envoi's parts are as those of its peers."""
    run, shown = published(), _charted()
    most = max(ratio for *_, ratio in shown if ratio is not None)
    lines = [f"{'times as fast as':>50}     ({run['machine']['cpu']}, {run['date'][:10]})"]
    for title, peer, ratio in shown:
        eighths = round(24 * 8 * (most if ratio is None else ratio) / most)
        bar = "█" * (eighths // 8) + BLOCKS[eighths % 8].strip()
        lines.append(f"{title:<31} {peer:<31} {bar} {times(ratio)}")
    return "```text\n" + "\n".join(lines) + "\n```\n"


TABLES |= {"chart": chart, "highlights": highlights}


# Pictures.


def batches() -> str:
    """The steps a second of batches of CartPole, by the number of lanes."""
    names = {"envoi, compiled": "envoi, compiled", "envoi, numpy": "envoi, numpy alone"}
    points: dict[str, dict[float, float]] = {}
    for one in rows("batches", "batches_envpool"):
        if one["ours"]["name"] in names:
            for side in (one["ours"], one["peer"]):
                points.setdefault(side["name"], {}).setdefault(one["lanes"], 1000 / side["median"])
    hues, lines = iter(range(1, len(points))), list[Series]()
    for name, found in points.items():
        hue = 0 if name in names else next(hues)
        xs = sorted(found)
        line = Series(names.get(name, name), hue, xs, [found[x] for x in xs], dashed=name == "envoi, numpy")
        lines.append(line)
    title = "CartPole in batches, through gymnasium's vector form"
    unit = "million steps of a lane per second of CPU time"
    return picture(line_chart(title, "lanes", unit, lines, is_log=True, is_named=True, width=WIDE))


def _dot(side: dict[str, Any], is_ours: bool, cost: Callable[[float], float] = lambda cost: cost) -> Dot:
    """Returns a median with its quartiles, in envoi's colour or in that of its peers."""
    low, high = sorted(map(cost, side["quartiles"]))
    return Dot(side["name"], 0 if is_ours else 5, cost(side["median"]), low, high)


def conversions() -> str:
    """The time that conversions add to a step."""
    dots: dict[str, list[Dot]] = {}
    for one in rows("conversion", "conversion_tf", "wrappers"):
        if one["peer"] is None or one["lanes"] is not None or "over none" in one["row"]:
            continue
        dots.setdefault(one["row"], [Dot(one["row"]), _dot(one["ours"], True)]).append(_dot(one["peer"], False))
    title = "Nanoseconds of CPU time that a conversion adds to a step (logarithmic): medians and quartiles"
    return picture(interval_chart(title, list(chain(*dots.values())), is_log=True, width=WIDE))


def rllib() -> str:
    """How fast env runners sample under RLlib, with 64 lanes."""
    dots: dict[str, dict[str, Dot]] = {}
    for one in rows("rllib_sampling", "rllib_multi_agent"):
        if one["lanes"] == 64:
            name = one["row"].partition(", ")[0]
            head = Dot(f"{name}, steps of {'agents' if ':' in name else 'lanes'}")
            found = dots.setdefault(name, {name: head})
            for side in (one["peer"], one["ours"]):
                dot = _dot(side, side["name"].startswith("envoi"), lambda cost: 1e6 / cost)
                found.setdefault(dot.label, dot)
    title = "Steps per second of CPU time of RLlib's env runners with 64 lanes, policies included"
    return picture(interval_chart(title, [dot for found in dots.values() for dot in found.values()], width=WIDE))


PICTURES: dict[str, Callable[[], str]] = {
    "batches.svg": batches,
    "conversions.svg": conversions,
    "rllib.svg": rllib,
}
