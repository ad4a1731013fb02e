"""The cost of imports: processor time of new interpreters, user and system.

    python benchmarks/imports.py [--rounds 15] [--json imports.json]

Each row imports what its base imports, and more; "added" is what the quickest of its interpreters took over the
quickest of its base's. Rows are interleaved, so that a slow moment of a shared machine hits all alike. One round
before, which does not count, leaves compiled files, whatever `PYTHONDONTWRITEBYTECODE` says: without them the same
imports take twice as long.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Row:
    """Something to import.

    Args:
        code: What the interpreter runs.
        base: The code that its time is counted from; None for the first.
        goal: The most milliseconds that it may add.
    """

    code: str
    base: str | None = None
    goal: float | None = None


ROWS = (
    Row("import numpy"),
    Row("import numpy, envoi", "import numpy", 20),
    Row("import numpy, envoi.adapters", "import numpy, envoi", 5),
    Row("import numpy, envoi.models", "import numpy, envoi"),
    Row("import numpy; from envoi import *", "import numpy, envoi"),
)


def milliseconds(code: str) -> float:
    """Processor time of a fresh interpreter that runs `code`."""
    compiling = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], check=True, cwd="/", env=compiling)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=15, help="interleaved rounds (default 15)")
    parser.add_argument("--json", type=Path, help="write the figures there too")
    arguments = parser.parse_args()

    for row in ROWS:
        milliseconds(row.code)
    times = {row.code: [] for row in ROWS}
    for _ in range(arguments.rounds):
        for row in ROWS:
            times[row.code].append(milliseconds(row.code))

    print(f"{'ms of processor time':<36}{'best':>8}{'q1':>8}{'median':>8}{'q3':>8}{'added':>8}{'goal':>6}")
    for row in ROWS:
        found = times[row.code]
        quartiles = statistics.quantiles(found, n=4) if len(found) > 1 else found * 3
        line = f"{row.code:<36}{min(found):8.1f}" + "".join(f"{value:8.1f}" for value in quartiles)
        if row.base is not None:
            line += f"{min(found) - min(times[row.base]):8.1f}"
        print(line + ("" if row.goal is None else f"{row.goal:6g}"))
    if arguments.json:
        figures = [{"code": row.code, "base": row.base, "goal": row.goal, "ms": times[row.code]} for row in ROWS]
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()
