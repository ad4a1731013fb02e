"""One file and one table of what the other benchmarks have written.

    python benchmarks/summary.py build/bench [--out build/bench/summary.json] [--publish docs/figures/performance.json]

The file has the machine, the dates and the versions, and under "benchmarks" the rows of each benchmark by its name.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from measuring.table import HEADING, lines

from envoi.atomic_write import write_atomically


def benchmarks(folder: Path, out: Path) -> dict[str, dict[str, Any]]:
    """Returns the contents of the files in a folder that benchmarks have written, by their names."""
    found = {}
    for path in sorted(folder.glob("*.json")):
        contents = json.loads(path.read_text()) if path != out else None
        if isinstance(contents, dict) and {"machine", "versions", "rows"} <= contents.keys():
            found[path.stem] = contents
    return found


def merged(found: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Returns one document: what all files have in common once, and the rest by benchmark."""
    newest = max(found.values(), key=lambda one: (len(one["versions"]), one["date"]))
    document: dict[str, Any] = {
        "date": max(one["date"] for one in found.values()),
        "machine": newest["machine"],
        "versions": newest["versions"],
        "seconds": round(sum(one["seconds"] for one in found.values()), 1),
        "benchmarks": {},
    }
    for name, one in found.items():
        own = {key: one[key] for key in ("date", "clock", "rounds", "seconds", "missing", "rows")}
        for key in ("machine", "versions"):  # one of another machine, or virtual environment
            if one[key] != document[key]:
                own[key] = one[key]
        document["benchmarks"][name] = own
    return document


def separate(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Returns the contents of the files that `merged` made a document of, by their names."""
    shared = {key: document[key] for key in ("machine", "versions")}
    return {name: {**shared, **own} for name, own in document["benchmarks"].items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="where the benchmarks wrote their JSON")
    parser.add_argument("--out", type=Path, help="the JSON of all (default: summary.json in the folder)")
    parser.add_argument(
        "--publish", type=Path, help="write it there too, for the documentation; rows that this run left out stay"
    )
    asked = parser.parse_args()
    out = asked.out or asked.folder / "summary.json"
    found = benchmarks(asked.folder, out)
    if not found:
        parser.error(f"{asked.folder}: no benchmark has written there; `make bench` runs them")
    document = merged(found)
    written = {out: document}
    if asked.publish:
        before = separate(json.loads(asked.publish.read_text())) if asked.publish.exists() else {}
        written[asked.publish] = merged({**before, **found})
    for path, contents in written.items():
        path.parent.mkdir(parents=True, exist_ok=True)
        write_atomically(path, json.dumps(contents, indent=1, ensure_ascii=False) + "\n")
    print(f"{document['date']}  {document['machine']['cpu']}, {document['machine']['cores']} cores")
    print("  ".join(f"{name} {number}" for name, number in document["versions"].items()))
    print(HEADING)
    goals = []
    for name, one in document["benchmarks"].items():
        print(f"\n{name}: {one['clock']}, {one['rounds']} rounds, {one['seconds']:.0f} s")
        print("\n".join(lines(one["rows"])))
        for peer, why in one["missing"].items():
            print(f"not measured: {peer}: {why}")
        goals += [row["met"] for row in one["rows"] if row["met"] is not None]
    print(f"\n{sum(goals)} of {len(goals)} goals met; all rows are in {out}")


if __name__ == "__main__":
    main()
