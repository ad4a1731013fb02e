"""Reports on evaluations of several seeds and variants: tables and one page."""

from __future__ import annotations

import hashlib
import itertools
import math
import platform
import re
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.metadata import version
from pathlib import Path
from statistics import fmean
from typing import Any

import numpy as np

import envoi
from envoi.context.features import plain
from envoi.context.regions import REGIONS

from ..errors import check_number
from . import estimates
from .charts import HUES, STYLE, Dot, Series, heat_map, interval_chart, line_chart
from .estimates import Scores, interval, interval_of_improvement, interval_of_mean, probability_of_improvement
from .tables import OVERLAP, Row, csv_text, latex_text, read_rows, write_tables

ENOUGH_SEEDS, MOST_FEATURES = 5, 8
_NEEDED = ("env", "variant", "train_seed", "region", "context_id", "episode", "return")
_COLUMNS = {
    "regions": ("variant", "region", "iqm", "iqm_low", "iqm_high", "gap", "gap_low", "gap_high"),
    "improvement": ("region", "x", "y", "probability", "low", "high"),
    "contexts": ("variant", "region", "context_id", "mean"),
}


@dataclass(frozen=True)
class _Data:
    """Evaluations as read: scores of shape (seeds, contexts) by variant and region."""

    env: str
    scores: dict[tuple[str, str], Scores]
    seeds: dict[str, list[str]]
    contexts: dict[str, dict[Any, dict[str, Any]]]  # values by region and id
    returns: dict[tuple[str, str, str, Any], dict[str, float]]  # of episodes, by variant, seed, region and context
    success: dict[tuple[str, str], float]
    warning: str  # of contexts that are both training and evaluation contexts
    folders: dict[str, list[Path]]  # of each variant
    random_seed: int
    resamples: int

    @property
    def every(self) -> list[dict[str, Any]]:
        """The values of all contexts."""
        return [values for found in self.contexts.values() for values in found.values()]

    @property
    def features(self) -> list[str]:
        """The features that differ between contexts and are numbers."""
        names = dict.fromkeys(name for values in self.every for name in values)
        numbers = {name: {values.get(name) for values in self.every} for name in names}
        return [name for name, found in numbers.items() if len(found) > 1 and all(isinstance(v, float) for v in found)]

    @property
    def hues(self) -> dict[str, int]:
        """The colour of each variant."""
        return {variant: index for index, variant in enumerate(self.seeds)}

    @property
    def few(self) -> list[str]:
        """The variants with too few seeds for intervals."""
        return [variant for variant, found in self.seeds.items() if len(found) < ENOUGH_SEEDS]

    def ends(self, interval: Callable[..., Any], *of: Any, none: Any = None) -> tuple[Any, Any]:
        """Returns the ends of an interval; with too few seeds, both are `none`."""
        return (none, none) if self.few else interval(*of, self.random_seed, self.resamples)

    def having(self, region: str) -> dict[str, Scores]:
        """Returns the scores in a region by variant."""
        return {variant: self.scores[variant, region] for variant in self.seeds if (variant, region) in self.scores}


def report(
    evaluations: str | Path | Iterable[Any],
    out: str | Path,
    *,
    seed: int = 0,
    resamples: int = 2000,
    bounds: tuple[float, float] | None = None,
) -> dict[str, list[Row]]:
    """Writes a report on evaluations of several seeds and variants: an HTML page, and CSV, parquet and LaTeX tables.

    A score is the mean return of one `train_seed` in one context. Statistics and intervals are as in rliable (Agarwal
    et al., 2021) over seeds and contexts. With fewer than five seeds, the report has no intervals and makes no claims.

    Args:
        evaluations: One or several of: `evaluation.csv`, `evaluation.parquet`, a folder that has one of them, such as
            a run's folder (whose curves are shown too), or the rows that `evaluate` returned.
        out: The folder for `report.html` and the tables `regions`, `improvement` and `contexts`.
        seed: Seed of the resamples.
        resamples: The number of resamples for each interval.
        bounds: The returns that count as 0 and as 1 for the optimality gap.

    Returns:
        The rows of the three tables by their names.

    Raises:
        envoi.EnvoiError: The evaluations are of different envs, incomplete or cannot be read; nothing is written then.
        OSError: A file cannot be read or written.
    """
    check_number("resamples", plain(resamples), 1)
    if not 0 <= seed < 2**32:
        raise envoi.EnvoiError(f"seed: expected 0 to 2**32 - 1, got {seed}")
    if bounds is not None and not (all(map(math.isfinite, bounds)) and bounds[0] < bounds[1]):
        raise envoi.EnvoiError(f"bounds: expected low < high, got {bounds}")
    given = [evaluations] if isinstance(evaluations, (str, Path)) else list(evaluations)
    if given and isinstance(given[0], Mapping):
        given = [given]
    data = _gather(list(map(_read, given)), seed, resamples)
    if bounds is not None:
        low, high = (float(one(list(map(one, data.scores.values())))) for one in (np.min, np.max))
        if low < bounds[0] or high > bounds[1]:
            raise envoi.EnvoiError(f"bounds: expected returns from {bounds[0]} to {bounds[1]}, got {low} to {high}")
    tables = {
        "regions": _region_table(data),
        "improvement": _improvement_table(data),
        "contexts": [
            {"variant": variant, "region": region, "context_id": key, "mean": mean}
            for (variant, region), scores in data.scores.items()
            for key, mean in zip(data.contexts[region], scores.mean(0).tolist(), strict=True)
        ],
    }
    page = _page(data, tables, bounds)
    more = {f"{name}.tex": latex_text(rows, _COLUMNS[name]) for name, rows in tables.items()}
    write_tables(Path(out), tables, {**more, "report.html": page}, _COLUMNS)
    return tables


# Reading.


def _read(given: Any) -> tuple[Path | None, str, Sequence[Mapping[str, Any]]]:
    """Returns the folder, a name for messages, and the rows."""
    if not isinstance(given, (str, Path)):
        return None, "rows", list(given)
    path = Path(given)
    if path.is_dir():
        held = [path / f"evaluation{kind}" for kind in (".csv", ".parquet")]
        path = next((file for file in held if file.exists()), held[0])
        if not path.exists():
            raise envoi.EnvoiError(
                f"{given}: expected evaluation.csv or evaluation.parquet, as envoi evaluate writes it"
            )
    return path.parent, str(path), read_rows(path)


def _gather(read: Sequence[tuple[Path | None, str, Sequence[Row]]], seed: int, resamples: int) -> _Data:
    """Checks the rows of all evaluations, and merges them."""
    returns: dict[tuple[str, str, str, Any], dict[str, float]] = {}
    contexts: dict[str, dict[Any, dict[str, Any]]] = {}
    seeds: dict[str, dict[str, None]] = {}
    solved: dict[tuple[str, str], list[float]] = {}
    folders: dict[str, list[Path]] = {}
    env: tuple[str, str] | None = None
    for folder, name, rows in read:
        if not rows:
            raise envoi.EnvoiError(f"{name}: expected a row for each episode, got none")
        lacking = [column for column in _NEEDED if column not in rows[0]]
        if lacking:
            raise envoi.EnvoiError(f"{name}: expected the columns of an evaluation, got none called {lacking[0]!r}")
        for line, row in enumerate(rows, 2):
            texts = [str(row[column]) if row[column] is not None else "" for column in _NEEDED[:-1]]
            of_env, variant, train_seed, region, key, episode = texts
            variant, region = variant or "policy", region or "all"
            key = int(key) if re.fullmatch("-?(0|[1-9][0-9]*)", key) else key  # of CSV, too
            env = env or (of_env, name)
            if of_env != env[0]:
                raise envoi.EnvoiError(f"a report is of one env, got {env[0]!r} in {env[1]} and {of_env!r} in {name}")
            value = _number(row["return"])
            if not isinstance(value, float) or not math.isfinite(value):
                raise envoi.EnvoiError(f"{name}: line {line}: expected a finite return, got {row['return']!r}")
            found = returns.setdefault((variant, train_seed, region, key), {})
            if episode in found:
                where = f"variant {variant!r}, train_seed {train_seed or None}, context {key!r}, episode {episode}"
                raise envoi.EnvoiError(f"{name}: line {line}: {where} occurs twice; name variants and seeds apart")
            found[episode] = value
            values = {column[8:]: _number(cell) for column, cell in row.items() if column.startswith("context.")}
            contexts.setdefault(region, {}).setdefault(key, values)
            seeds.setdefault(variant, {})[train_seed] = None
            success = _number(row.get("success"))
            if isinstance(success, float):
                solved.setdefault((variant, region), []).append(success)
            if folder is not None and folder not in (known := folders.setdefault(variant, [])):
                known.append(folder)
    if env is None:
        raise envoi.EnvoiError("evaluations: expected at least one, got none")
    order = [name for name in REGIONS if name in contexts] + [name for name in contexts if name not in REGIONS]
    scores: dict[tuple[str, str], Scores] = {}
    for variant, region in itertools.product(seeds, order):
        places = [*itertools.product(seeds[variant], contexts[region])]
        cells = [returns.get((variant, s, region, key), {}) for s, key in places]
        if not any(cells):
            continue
        for (s, key), cell in zip(places, cells, strict=True):
            if not cell:
                where = f"region {region!r}: variant {variant!r}, train_seed {s or None}"
                raise envoi.EnvoiError(f"{where} lacks the context {key!r}, which others have")
        means = [sum(cell.values()) / len(cell) for cell in cells]
        scores[variant, region] = np.reshape(means, (len(seeds[variant]), -1))
    trained = [*contexts.get("train", {}).values()]
    judged = [(key, one) for name in order if name != "train" for key, one in contexts[name].items()]
    both = [str(key) for key, one in judged if one and one in trained]
    warning = f"{OVERLAP}: {', '.join(both[:10])}" + (", …" if len(both) > 10 else "") if both else ""
    if both:
        warnings.warn(warning, stacklevel=3)
    shares = {key: sum(found) / len(found) for key, found in solved.items()}
    names = {variant: list(found) for variant, found in seeds.items()}
    ordered = {name: contexts[name] for name in order}
    return _Data(env[0], scores, names, ordered, returns, shares, warning, folders, seed, resamples)


def _number(cell: Any) -> Any:
    """Converts a cell to a float if it is a number."""
    try:
        return cell if cell is None else float(cell)
    except (TypeError, ValueError):
        return cell


# Tables.


def _region_table(data: _Data) -> list[Row]:
    rows: list[Row] = []
    for (variant, region), scores in data.scores.items():
        figure = estimates.interquartile_mean
        gap: list[Any] = [None] * 3
        if (variant, "train") in data.scores:
            gaps = data.scores[variant, "train"].mean(1) - scores.mean(1)
            gap = [float(gaps.mean()), *data.ends(interval_of_mean, gaps)]
        cells = (variant, region, float(figure(scores)), *data.ends(interval, figure, scores), *gap)
        rows.append(dict(zip(_COLUMNS["regions"], cells, strict=True)))
    return rows


def _improvement_table(data: _Data) -> list[Row]:
    rows: list[Row] = []
    for region in data.contexts:
        for (x, first), (y, second) in itertools.permutations(data.having(region).items(), 2):
            ends = data.ends(interval_of_improvement, first, second)
            cells = (region, x, y, probability_of_improvement(first, second), *ends)
            rows.append(dict(zip(_COLUMNS["improvement"], cells, strict=True)))
    return rows


# The page.


def _page(data: _Data, tables: Mapping[str, list[Row]], bounds: tuple[float, float] | None) -> str:
    parts = [
        ("What was evaluated", _header(data)),
        ("Returns by region", _summary(data, tables["regions"])),
        ("Figures with their intervals", _figures(data, bounds)),
        ("Performance profiles", _profiles(data)),
        ("Probability of improvement", _improvements(data, tables["improvement"])),
        ("Over contexts", _maps(data)),
        ("Curves of the training", _curves(data)),
        ("The curriculum over time", _curricula(data)),
        ("Worst contexts", _worst(data, tables["contexts"])),
        ("How to reproduce it", _reproduction(data, tables)),
    ]
    body = "".join(f"<section><h2>{n}. {title}</h2>{text}</section>" for n, (title, text) in enumerate(parts, 1))
    legend = "".join(
        f'<span><svg viewBox="0 0 12 12" width="12"><circle class="dot h{hue % HUES}" cx="6" cy="6" r="5"/></svg> '
        f"{escape(variant)}</span>"
        for variant, hue in data.hues.items()
    )
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        f'content="width=device-width,initial-scale=1"><title>{escape(data.env)}: generalisation</title>'
        f"<style>{_STYLE}</style></head><body><h1>Generalisation on {escape(data.env)}</h1>"
        f'<p class="legend">{legend}</p>{body}</body></html>\n'
    )


def _charts(*charts: str) -> str:
    return f'<div class="charts">{"".join(charts)}</div>'


def _table(rows: Sequence[Sequence[Any]], names: Sequence[str]) -> str:
    head = "".join(f"<th>{escape(name)}</th>" for name in names)
    body = "".join("<tr>" + "".join(f"<td>{escape(str(cell))}</td>" for cell in row) + "</tr>" for row in rows)
    return f'<div class="wide"><table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>'


def _note(text: str) -> str:
    return f'<p class="note">{escape(text)}</p>'


def _header(data: _Data) -> str:
    contexts = hashlib.sha256(repr(data.contexts).encode()).hexdigest()[:16]
    sizes = ", ".join(f"{len(found)} {name}" for name, found in data.contexts.items())
    episodes = sum(map(len, data.returns.values()))
    rows = [("env", data.env), ("episodes", f"{episodes:,}"), ("contexts", f"{sizes} (SHA-256 {contexts}…)")]
    rows.append(("features that differ", ", ".join(data.features) or "none"))
    for variant, seeds in data.seeds.items():
        steps = [row["env_steps"] for row in _progress(data, variant)[-1:]]
        rows.append((variant, f"{len(seeds)} seeds" + (f", {float(steps[0]):,.0f} env steps" if steps else "")))
    notes = [data.warning] if data.warning else []
    if data.few:
        notes.append(f"fewer than five seeds: {', '.join(data.few)}. Intervals and comparisons are left out.")
    return "".join(map(_note, notes)) + _table(rows, ("what", "value"))


def _with_ends(value: Any, low: Any, high: Any) -> str:
    return ("n/a" if value is None else f"{value:.4g}") + ("" if low is None else f" [{low:.4g}, {high:.4g}]")


def _summary(data: _Data, rows: Sequence[Row]) -> str:
    shown: list[Sequence[Any]] = []
    for row in rows:
        variant, region, *cells = row.values()
        solved = data.success.get((variant, region))
        share = "n/a" if solved is None else f"{solved:.0%}"
        shown.append((variant, region, _with_ends(*cells[:3]), _with_ends(*cells[3:]), share))
    of_resamples = "" if data.few else f", with 95 % intervals from {data.resamples:,} stratified resamples"
    return (
        f"<p>The interquartile mean of returns over seeds and contexts{of_resamples}. The gap is the mean return in "
        "the training contexts less that in the region, paired by seed.</p>"
    ) + _table(shown, ("variant", "region", "IQM", "gap", "solved"))


def _figures(data: _Data, bounds: tuple[float, float] | None) -> str:
    figures: dict[str, Any] = {"IQM": estimates.interquartile_mean, "mean": estimates.mean, "median": estimates.median}
    note = "<p>For the optimality gap, give the returns that count as 0 and 1 (bounds).</p>"
    if bounds is not None:
        low, high = bounds
        figures["optimality gap"] = lambda scores: estimates.optimality_gap((scores - low) / (high - low))
        note = ""
    charts: list[str] = []
    for name, figure in figures.items():
        dots = [
            Dot(f"{variant}, {region}", data.hues[variant], float(figure(scores)), *data.ends(interval, figure, scores))
            for region in data.contexts
            for variant, scores in data.having(region).items()
        ]
        charts.append(interval_chart(name, dots))
    return _charts(*charts) + note


def _profiles(data: _Data) -> str:
    charts: list[str] = []
    for region in data.contexts:
        having = data.having(region)
        low, high = min(map(np.min, having.values())), max(map(np.max, having.values()))
        levels = np.linspace(low, high if high > low else low + 1, 31)
        share, lines = estimates.share_above(levels), list[Series]()
        for variant, scores in having.items():
            ends = data.ends(interval, share, scores, none=())
            lines.append(Series(variant, data.hues[variant], levels.tolist(), share(scores).tolist(), *ends))
        charts.append(line_chart(region, "return τ", "share of scores above τ", lines))
    return _charts(*charts)


def _improvements(data: _Data, rows: Sequence[Row]) -> str:
    if not rows:
        return _note("There is one variant only.")
    if data.few:
        return _note("fewer than five seeds: nothing is claimed.")
    charts: list[str] = []
    for region in data.contexts:
        dots = [
            Dot(f"{row['x']} > {row['y']}", data.hues[row["x"]], row["probability"], row["low"], row["high"])
            for row in rows
            if row["region"] == region and data.hues[row["x"]] < data.hues[row["y"]]
        ]
        charts += [interval_chart(region, dots, (0.0, 0.5, 1.0))] if dots else []
    said = "".join(
        f"<li>{escape(row['x'])} is likely better than {escape(row['y'])} in {escape(row['region'])}: "
        f"{row['probability']:.2f} [{row['low']:.2f}, {row['high']:.2f}]</li>"
        for row in rows
        if row["low"] > 0.5
    )
    return _charts(*charts) + (f"<ul>{said}</ul>" if said else "<p>No clear difference.</p>")


def _edges(values: Sequence[float]) -> list[float]:
    """Returns the edges of a heat map's cells: a cell for each value of a grid, or ten equal cells for many values."""
    known = sorted({*values})
    if len(known) > 20:
        return np.linspace(known[0], known[-1], 11).tolist()
    between = [(a + b) / 2 for a, b in itertools.pairwise(known)]
    return [2 * known[0] - between[0], *between, 2 * known[-1] - between[-1]]


def _place(edges: Sequence[float], value: float) -> int:
    return int(min(max(np.searchsorted(edges, value, "right") - 1, 0), len(edges) - 2))


def _points(data: _Data, variant: str) -> list[tuple[dict[str, float], Any, str, str]]:
    """Returns for each context of a variant its values, its scores over seeds, its region and its id."""
    return [
        (data.contexts[region][key], scores[:, place], region, key)
        for (one, region), scores in data.scores.items()
        if one == variant
        for place, key in enumerate(data.contexts[region])
    ]


def _maps(data: _Data) -> str:
    features = data.features
    if not features:
        return _note("All contexts are alike, or they differ in no number.")
    if len(features) > MOST_FEATURES:
        return _note(f"The contexts differ in {len(features)} numbers, too many for maps.")
    trained = [*data.contexts.get("train", {}).values()]
    charts = _heat_maps(data, features[0], features[1], trained) if len(features) > 1 else []
    for feature in features:
        lines, edges = list[Series](), _edges([values[feature] for values in data.every])
        for variant in data.seeds:
            bins: dict[int, list[tuple[float, Any]]] = {}
            for values, scores, *_ in _points(data, variant):
                bins.setdefault(_place(edges, values[feature]), []).append((values[feature], scores))
            columns = [bins[at] for at in sorted(bins)]
            xs = [sum(x for x, _ in column) / len(column) for column in columns]
            per_seed = [np.mean([scores for _, scores in column], axis=0) for column in columns]
            ends = [] if data.few else [data.ends(interval_of_mean, one) for one in per_seed]
            band = [low for low, _ in ends], [high for _, high in ends]
            lines.append(Series(variant, data.hues[variant], xs, [float(one.mean()) for one in per_seed], *band))
        known = [values[feature] for values in trained]
        shade = (min(known), max(known)) if known else None
        title = f"Return over {feature}; the training range is shaded"
        charts.append(line_chart(title, feature, "return", lines, shade))
    return _charts(*charts)


def _heat_maps(data: _Data, one: str, other: str, trained: Sequence[Mapping[str, float]]) -> list[str]:
    """Returns the mean returns of each variant over two features, and the difference of the first two variants."""
    edges = _edges([values[one] for values in data.every]), _edges([values[other] for values in data.every])

    def cell(values: Mapping[str, float]) -> tuple[int, int]:
        return _place(edges[0], values[one]), _place(edges[1], values[other])

    grids: dict[str, dict[tuple[int, int], tuple[float, int]]] = {}
    for variant, seeds in data.seeds.items():
        found: dict[tuple[int, int], list[tuple[float, int]]] = {}
        for values, scores, region, key in _points(data, variant):
            episodes = sum(len(data.returns[variant, seed, region, key]) for seed in seeds)
            found.setdefault(cell(values), []).append((float(scores.mean()), episodes))
        grids[variant] = {at: (sum(m for m, _ in ms) / len(ms), sum(n for _, n in ms)) for at, ms in found.items()}
    means = [mean for grid in grids.values() for mean, _ in grid.values()]
    outlined, dots = {cell(values) for values in trained}, [(values[one], values[other]) for values in trained]
    charts: list[str] = []
    for variant, grid in grids.items():
        title = f"{variant}: mean return; the training region is outlined, dots are training contexts"
        charts.append(heat_map(title, (one, other), edges, grid, (min(means), max(means)), outlined, dots))
    if len(grids) > 1:
        (x, first), (y, second) = list(grids.items())[:2]
        both = {at: (first[at][0] - second[at][0], first[at][1] + second[at][1]) for at in first if at in second}
        most = max((abs(mean) for mean, _ in both.values()), default=0.0) or 1.0
        charts.append(heat_map(f"{x} less {y}", (one, other), edges, both, (-most, most), outlined, signed=True))
    return charts


def _progress(data: _Data, variant: str) -> list[dict[str, Any]]:
    """Returns the rows of `progress.csv` of a variant's run folders."""
    files = [folder / "progress.csv" for folder in data.folders.get(variant, [])]
    return [row for file in files if file.exists() for row in read_rows(file) if "env_steps" in row]


def _over(
    name: str, hue: int, values: Iterable[tuple[Any, Any]], of: Callable[..., float], **more: Any
) -> list[Series]:
    """Returns a line through `of(values at x)` for each x; no line if there are no values."""
    by_x: dict[float, list[float]] = {}
    for x, value in values:
        by_x.setdefault(float(x), []).append(float(value))
    xs = sorted(by_x)
    return [Series(name, hue, xs, [of(by_x[x]) for x in xs], **more)] if xs else []


def _curves(data: _Data) -> str:
    lines: list[Series] = []
    for variant, hue in data.hues.items():
        rows = _progress(data, variant)
        for column, dashed in (("return_mean", False), ("evaluation_return_mean", True)):
            values = [(row["env_steps"], row[column]) for row in rows if row.get(column) is not None]
            lines += _over(f"{variant}, {column}", hue, values, fmean, dashed=dashed)
    if not lines:
        return _note("No evaluation is in the folder of a run, so there is no progress.csv to show.")
    text = "<p>Mean return of training episodes, and dashed that of evaluations during the training.</p>"
    return text + _charts(line_chart("Return over env steps", "env steps", "return", lines))


def _curricula(data: _Data) -> str:
    """Plots the entropy of the contexts' shares over the iterations of runs with a curriculum."""
    lines: list[Series] = []
    for variant, folders in data.folders.items():
        shares: list[tuple[Any, Any]] = []
        for file in (file for folder in folders for file in sorted(folder.glob("*.parquet"))):
            rows = [] if file.stem == "evaluation" else read_rows(file)
            if rows and {"iteration", "context_id", "share"} <= {*rows[0]}:
                shares += [(row["iteration"], row["share"] or 0.0) for row in rows]
        lines += _over(variant, data.hues[variant], shares, _entropy)
    if not lines:
        return _note("No evaluation is in the folder of a run with a curriculum.")
    text = "<p>The number of contexts that would have this entropy if they had equal shares: few where it is low.</p>"
    return text + _charts(line_chart("Contexts in use", "iteration", "contexts", lines))


def _entropy(shares: Sequence[float]) -> float:
    total = sum(shares) or 1.0
    return math.exp(-sum(one / total * math.log(one / total) for one in shares if one > 0))


def _worst(data: _Data, rows: Sequence[Row]) -> str:
    worst = sorted(rows, key=lambda row: row["mean"])[:10]
    features = data.features if len(data.features) <= MOST_FEATURES else []
    shown = [
        (
            *(row[name] for name in ("variant", "region", "context_id")),
            f"{row['mean']:.4g}",
            *(f"{data.contexts[row['region']][row['context_id']].get(name):.4g}" for name in features),
        )
        for row in worst
    ]
    more = "<p>All contexts are in <code>contexts.csv</code>, <code>.parquet</code> and <code>.tex</code>.</p>"
    return _table(shown, ("variant", "region", "context", "mean return", *features)) + more


def _reproduction(data: _Data, tables: Mapping[str, list[Row]]) -> str:
    folders = list(dict.fromkeys(str(folder) for found in data.folders.values() for folder in found))
    versions = {"envoi": version("envoi"), "numpy": np.__version__, "Python": platform.python_version()}
    digest = hashlib.sha256(csv_text(tables["contexts"], _COLUMNS["contexts"]).encode()).hexdigest()[:16]
    lines = [f"envoi report {' '.join(folders) or 'EVALUATION…'} --out DIR --seed {data.random_seed} "]
    lines[0] += f"--resamples {data.resamples}"
    lines += [", ".join(f"{name} {number}" for name, number in versions.items()), f"contexts.csv: SHA-256 {digest}…"]
    text = "<p><code>env.reset(seed=…, options={'context_id': …})</code> plays a row of an evaluation again.</p>"
    return text + "".join(f"<pre>{escape(line)}</pre>" for line in lines)


_STYLE = (
    STYLE
    + """
:root{--warn:#fff3d6}@media(prefers-color-scheme:dark){:root{--warn:#4a3a12}}
body{margin:0 auto;max-width:1180px;padding:16px;background:var(--page);color:var(--ink)}
body{font:16px/1.5 system-ui,sans-serif}
h1{font-size:1.6rem;overflow-wrap:anywhere}h2{font-size:1.2rem;margin-top:2rem}
.legend span{margin-right:16px;white-space:nowrap}.note{background:var(--warn);padding:8px 12px;border-radius:6px}
.wide{overflow-x:auto}table{border-collapse:collapse}th,td{padding:4px 12px 4px 0;text-align:left;white-space:nowrap}
th,td{border-bottom:1px solid var(--faint)}
td{font-variant-numeric:tabular-nums}
.charts{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,480px),1fr));gap:16px}
figure{margin:0;background:var(--card);border-radius:8px;padding:12px}figcaption{font-weight:600;margin-bottom:4px}
pre{overflow-x:auto;background:var(--card);padding:8px 12px;border-radius:6px}
"""
)
