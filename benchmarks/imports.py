"""The cost of imports: processor time of new interpreters, user and system.

    python benchmarks/imports.py [--rounds 15] [--json imports.json]

Each row imports what its base imports, and more, and says how many milliseconds that adds. The round that warms up
leaves compiled files, whatever `PYTHONDONTWRITEBYTECODE` says: without them the same imports take twice as long.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys

from measuring.rows import Case, Group, Pair
from measuring.script import run

NUMPY = "import numpy"
ENVOI = "import numpy, envoi"
PAIRS = [
    Pair("import envoi, over numpy", ENVOI, base=NUMPY, most=20),
    Pair("import envoi.adapters, over envoi", "import numpy, envoi.adapters", base=ENVOI, most=5),
    Pair("import envoi.models, over envoi", "import numpy, envoi.models", base=ENVOI),
    Pair("from envoi import *, over envoi", "import numpy; from envoi import *", base=ENVOI),
]


def interpreter(code: str) -> Case:
    """Milliseconds of CPU time of a fresh interpreter that runs `code`."""

    def play() -> float:
        compiling = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        subprocess.run([sys.executable, "-c", code], check=True, cwd="/", env=compiling)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return 1000 * (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)

    return lambda: play


def groups(_):
    return [Group({code: interpreter(code) for code in (NUMPY, *(pair.ours for pair in PAIRS))}, PAIRS, "ms added")]


if __name__ == "__main__":
    run(__doc__, groups, clock="CPU time of the process")
