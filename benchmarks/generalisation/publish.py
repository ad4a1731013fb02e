"""Shows the reports of `make generalisation` in the documentation.

python benchmarks/generalisation/publish.py [DIR]

Writes docs/figures/generalisation.json, the pictures docs/figures/generalisation-*.svg, and the tables of the page.
"""

import json
import re
import sys
from pathlib import Path

from envoi.integrations.evaluation.charts import picture, short
from envoi.integrations.evaluation.tables import read_rows

DOCS = Path(__file__).parents[2] / "docs"
DOCUMENT, PAGE = DOCS / "figures" / "generalisation.json", DOCS / "generalisation_results.md"
PICTURES = {
    "pendulum": ("pendulum-A", "IQM"),
    "heat-map": ("pendulum-A", "visible: mean return; the training region is outlined, dots are training contexts"),
    "maze": ("maze", "IQM"),
}
"""The charts of reports that the page shows, by the ends of their names."""
KINDS = {"regions": 2, "improvement": 3}
"""The tables of a report, each with the number of its columns of text."""


def gather(folder):
    """Returns the figures of all reports in a folder, with four significant digits."""
    document = {"experiments": {}, "trainings": 0, "seconds": 0.0, "settings": {}}
    for report in sorted(folder.glob("*/report")):
        name = report.parent.name
        document["experiments"][name] = {
            kind: [
                {key: cell if at < texts else rounded(cell) for at, (key, cell) in enumerate(row.items())}
                for row in read_rows(report / f"{kind}.parquet")
            ]
            for kind, texts in KINDS.items()
        }
        for file in sorted(report.parent.glob("*/run.json")):
            run = json.loads(file.read_text())
            document["seconds"] = round(document["seconds"] + run.pop("seconds"), 1)
            run.pop("training", None)
            document["settings"][name.partition("-")[0]] = run
            document["trainings"] += 1
    return document


def rounded(number):
    return None if number is None else float(f"{number:.4g}")


def shown(row, figure):
    """Returns a figure of a row with its interval."""
    value, low, high = (row[key] for key in (figure, f"{figure}_low", f"{figure}_high"))
    return f"{short(value)} [{short(low)}, {short(high)}]"


def tables_of(experiment):
    """Returns the tables of an experiment on the page."""
    rows = experiment["regions"]
    regions = [*dict.fromkeys(row["region"] for row in rows)]
    variants = [*dict.fromkeys(row["variant"] for row in rows)]
    by_place = {(row["variant"], row["region"]): row for row in rows}
    lines = []
    for figure, title, names in (("iqm", "IQM of returns", regions), ("gap", "gap", regions[1:])):
        rows_of = [[title, *(name.replace("_", " ") for name in names)], ["---"] * (len(names) + 1)]
        rows_of += [[variant, *(shown(by_place[variant, name], figure) for name in names)] for variant in variants]
        lines += ["", *(f"| {' | '.join(cells)} |" for cells in rows_of)]
    names = regions[1:]
    cells = {
        (row["x"], row["y"], row["region"]): f"{row['probability']:.2f} [{row['low']:.2f}, {row['high']:.2f}]"
        for row in experiment["improvement"]
        if row["low"] > 0.5 and row["region"] != "train"
    }
    if cells:
        lines += ["", f"| probability of improvement | {' | '.join(name.replace('_', ' ') for name in names)} |"]
        lines += ["| --- " * (len(names) + 1) + "|"]
    for x, y in dict.fromkeys((x, y) for x, y, _ in cells):
        lines.append(f"| {x} over {y} | {' | '.join(cells.get((x, y, name), '') for name in names)} |")
    return "\n".join([*lines, ""])


def page_with(text, document):
    """Returns the page with the tables of a document."""
    for name, experiment in document["experiments"].items():
        head, begin, rest = text.partition(f"<!-- {name} -->\n")
        _, end, tail = rest.partition(f"<!-- end of {name} -->")
        if not end:
            raise LookupError(f"{PAGE.name}: expected <!-- {name} --> and its end")
        text = f"{head}{begin}{tables_of(experiment)}\n{end}{tail}"
    return text


def publish(folder):
    document = gather(folder)
    DOCUMENT.write_text(json.dumps(document, indent=1) + "\n")
    for end, (name, title) in PICTURES.items():
        page = (folder / name / "report" / "report.html").read_text()
        (chart,) = re.findall(rf"<figure><figcaption>{re.escape(title)}</figcaption>.*?</figure>", page, re.DOTALL)
        (DOCS / "figures" / f"generalisation-{end}.svg").write_text(picture(chart))
    PAGE.write_text(page_with(PAGE.read_text(), document))


if __name__ == "__main__":
    publish(Path(sys.argv[1] if len(sys.argv) > 1 else "build/generalisation"))
