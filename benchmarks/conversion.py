"""The time that a conversion adds to a step, compared with other libraries, in one process.

    python benchmarks/conversion.py [--rounds 31] [--only dm_env] [--json conversion.json]

Every layer goes around an environment that does nothing for 200 steps. What it adds is nanoseconds of CPU time a step
over stepping that environment itself, in the loop of its own form, resets included.

The peers gym (for bsuite's wrappers), Acme and SuperSuit are optional: `make bench` puts them where they are found.
"""

from __future__ import annotations

import os

os.environ.setdefault("OMP_NUM_THREADS", "1")

from conversions import games, models, singles
from measuring.script import run


def groups(_):
    yield from models.groups()
    yield from singles.groups()
    yield from games.groups()


if __name__ == "__main__":
    run(__doc__, groups, rounds=31, quick=9)
