"""One file, one table and one picture of what the other benchmarks have written.

    python benchmarks/summary.py build/bench [--out build/bench/summary.json] [--picture build/bench/summary.svg]

The file has the versions, the kind of machine, the date, and the contents of each benchmark's file by its name. The
table and the picture have all rows in which a benchmark compares itself with a peer: how many times faster it is.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from envoi.atomic_write import write_atomically
from envoi.integrations.cli.bench_display import machine


def draw(rows, path):
    from matplotlib.backends.backend_svg import FigureCanvasSVG
    from matplotlib.figure import Figure

    figure = Figure(figsize=(8, 1 + 0.4 * len(rows)), layout="constrained")
    FigureCanvasSVG(figure)
    axes = figure.add_subplot()
    middles = [row["ratio"][1] for row in rows]
    spread = [[row["ratio"][1] - row["ratio"][0] for row in rows], [row["ratio"][2] - row["ratio"][1] for row in rows]]
    names = [f"{row['row']}\nbeside {row['peer']}" for row in rows]
    axes.barh(names, middles, xerr=spread, color="#4c6fa8", ecolor="#333333", capsize=3)
    axes.invert_yaxis()
    axes.axvline(1, color="#333333", linewidth=0.8)
    axes.set_xlabel("times as fast as the peer (medians and quartiles of paired rounds)")
    figure.savefig(path, metadata={"Date": None})


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="where the benchmarks wrote their JSON")
    parser.add_argument("--out", type=Path, help="the JSON of all (default: summary.json in the folder)")
    parser.add_argument("--picture", type=Path, help="the picture, an SVG (default: summary.svg in the folder)")
    arguments = parser.parse_args()
    out = arguments.out or arguments.folder / "summary.json"
    files = [path for path in sorted(arguments.folder.glob("*.json")) if path != out]
    contents = {path.stem: json.loads(path.read_text()) for path in files}
    rows = [row for one in contents.values() if isinstance(one, dict) for row in one.get("rows", ())]
    rows = [row for row in rows if isinstance(row, dict) and {"row", "peer", "ratio"} <= row.keys()]
    facts = machine()
    write_atomically(out, json.dumps({**facts, "benchmarks": contents}, indent=2) + "\n")
    print(f"{facts['date']}  {facts['machine']['machine']}, {facts['machine']['cores']} cores")
    print("  ".join(f"{name} {number}" for name, number in facts["versions"].items()))
    print(f"\n{'row':<42}{'peer':<18}{'times as fast, quartiles':>26}")
    for row in rows:
        print(f"{row['row']:<42}{row['peer']:<18}{'  '.join(f'{value:.2f}' for value in row['ratio']):>26}")
    if rows:
        draw(rows, arguments.picture or arguments.folder / "summary.svg")


if __name__ == "__main__":
    main()
